/* SPDX-License-Identifier: Apache-2.0 */
/* Stands for key_json.c in a build without libyajl. */
#include "dataset/remote/stores/key_text.h"

mr_status mr_key_json_parse(const char *json, struct mr_key_set *out, mr_error *error)
{
    (void)json, (void)out;
    return mr_error_set(error, MR_ERR_UNSUPPORTED,
                        "its answer is JSON, which needs a build with libyajl (libyajl-dev)");
}
