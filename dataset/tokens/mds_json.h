/* SPDX-License-Identifier: Apache-2.0 */
/* Takes from the JSON of MosaicML's datasets what rows of tokens need. */
#ifndef DATASET_TOKENS_MDS_JSON_H
#define DATASET_TOKENS_MDS_JSON_H

#include <stdint.h>

#include "base/error.h"

enum { MR_MDS_ENCODING = 64 };

/* A shard of an index. */
struct mr_mds_entry {
    const char *name; /* relative to the folder of the index */
    uint64_t bytes;
    const char *compression; /* NULL: none */
};
typedef mr_status mr_mds_entry_fn(void *user, const struct mr_mds_entry *entry, mr_error *error);

/*
 * Give each shard of an index to the function, which may end that by an error. shown: the name of
 * the file in messages. MR_ERR_DAMAGED: not such an index. MR_ERR_UNSUPPORTED: another format or
 * version; this build has no JSON parser.
 */
mr_status mr_mds_index_parse(const char *json, const char *shown, mr_mds_entry_fn *fn, void *user,
                             mr_error *error);
/*
 * Take the encoding of the only column from the configuration of a shard. Errors as above, and
 * MR_ERR_UNSUPPORTED: there are several columns.
 */
mr_status mr_mds_config_parse(const char *json, const char *shown,
                              char encoding_out[MR_MDS_ENCODING], mr_error *error);

#endif
