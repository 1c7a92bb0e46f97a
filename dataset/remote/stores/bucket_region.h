/* SPDX-License-Identifier: Apache-2.0 */
/* The regions of buckets that answers have stated, for the life of the process. */
#ifndef DATASET_REMOTE_STORES_BUCKET_REGION_H
#define DATASET_REMOTE_STORES_BUCKET_REGION_H

#include <stdbool.h>

#include "dataset/remote/stores/settings.h"

/* Write the region of a bucket. False: no answer has stated it, and region_out stays. */
bool mr_bucket_region_find(const char *bucket, char region_out[MR_STORE_REGION]);

/* Remember one. It is forgotten only if the names are long or there are too many. */
void mr_bucket_region_keep(const char *bucket, const char *region);

#endif
