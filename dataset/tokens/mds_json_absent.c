/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces mds_json.c in a build without libyajl. */
#include "dataset/tokens/mds_json.h"

static mr_status fail(const char *shown, mr_error *error)
{
    return mr_error_set(error, MR_ERR_UNSUPPORTED, "%s cannot be parsed: this build has no libyajl",
                        shown);
}

mr_status mr_mds_index_parse(const char *json, const char *shown, mr_mds_entry_fn *fn, void *user,
                             mr_error *error)
{
    (void)json, (void)fn, (void)user;
    return fail(shown, error);
}

mr_status mr_mds_config_parse(const char *json, const char *shown,
                              char encoding_out[MR_MDS_ENCODING], mr_error *error)
{
    (void)json, (void)encoding_out;
    return fail(shown, error);
}
