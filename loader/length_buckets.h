/* SPDX-License-Identifier: Apache-2.0 */
/* The lengths of a dataset's samples, for batches by length. */
#ifndef LOADER_LENGTH_BUCKETS_H
#define LOADER_LENGTH_BUCKETS_H

#include "sampler/buckets.h"

#include <millrace/loader.h>

/* The options exclude each other, or need others: MR_ERR_INVALID. */
mr_status mr_length_buckets_check(const mr_loader_options *options, bool is_mixture,
                                  mr_error *error);
/*
 * Make the buckets of the options, with the lengths of the dataset or of the file `lengths`.
 * *buckets_out is NULL if the options have none. MR_ERR_INVALID, MR_ERR_IO, MR_ERR_NO_MEMORY.
 */
mr_status mr_length_buckets_make(const mr_dataset *dataset, const mr_loader_options *options,
                                 struct mr_buckets **buckets_out, mr_error *error);

#endif
