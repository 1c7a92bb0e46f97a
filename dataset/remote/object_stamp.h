/* SPDX-License-Identifier: Apache-2.0 */
/* The version of an object as one number, for what is kept about the object from run to run. */
#ifndef DATASET_REMOTE_OBJECT_STAMP_H
#define DATASET_REMOTE_OBJECT_STAMP_H

#include "dataset/extent.h"

/*
 * A hash of the ETag, or of Last-Modified if there is none; the size of the object is compared
 * beside it. 0: versions cannot be told apart. The query of a URL, which may be a signature, does
 * not identify an object for what is kept, so with a query only an ETag counts: Last-Modified and
 * size of two such objects may be the same.
 */
uint64_t mr_object_stamp_make(const char *url, const struct mr_object_version *version);

#endif
