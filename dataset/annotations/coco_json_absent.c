/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces coco_json.c in a build without libyajl. */
#include "dataset/annotations/coco_json.h"

mr_status mr_coco_json_parse(int fd, const char *path, struct mr_coco_table *table_out,
                             mr_error *error)
{
    (void)fd, (void)table_out;
    return mr_error_set(error, MR_ERR_UNSUPPORTED, "%s cannot be parsed: this build has no libyajl",
                        path);
}
