/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the JSON of MosaicML's datasets by libyajl. */
#include "dataset/tokens/mds_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <yajl_tree.h>

enum { MAX_DEPTH = 64, MDS_VERSION = 2 };

/* libyajl frees a tree by recursion. */
static bool is_deep(const char *json)
{
    int depth = 0;
    for (; *json && depth <= MAX_DEPTH; json++) {
        depth += *json == '[' || *json == '{';
        depth -= *json == ']' || *json == '}';
    }
    return depth > MAX_DEPTH;
}

static mr_status parse(const char *json, const char *shown, yajl_val *tree_out, mr_error *error)
{
    char why[128] = "it is nested too deeply";
    *tree_out = is_deep(json) ? NULL : yajl_tree_parse(json, why, sizeof why);
    why[strcspn(why, "\n")] = '\0';
    return *tree_out ? MR_OK : mr_error_set(error, MR_ERR_DAMAGED, "%s: no JSON: %s", shown, why);
}

static yajl_val find(yajl_val value, const char *name, yajl_type type)
{
    return yajl_tree_get(value, (const char *[]){name, NULL}, type);
}

static mr_status check_format(yajl_val value, const char *shown, const char *what, mr_error *error)
{
    const char *format = YAJL_GET_STRING(find(value, "format", yajl_t_string));
    yajl_val version = find(value, "version", yajl_t_number);
    if (!format || !YAJL_IS_INTEGER(version))
        return mr_error_set(error, MR_ERR_DAMAGED, "%s: %s has no format or version", shown, what);
    if (strcmp(format, "mds") != 0 || YAJL_GET_INTEGER(version) != MDS_VERSION)
        return mr_error_set(error, MR_ERR_UNSUPPORTED,
                            "%s: %s has version %lld of the format %s; version %d of mds is read",
                            shown, what, YAJL_GET_INTEGER(version), format, MDS_VERSION);
    return MR_OK;
}

static mr_status take_entry(yajl_val shard, size_t i, const char *shown, mr_mds_entry_fn *fn,
                            void *user, mr_error *error)
{
    char what[32];
    snprintf(what, sizeof what, "shard %zu", i);
    yajl_val raw = find(shard, "raw_data", yajl_t_object);
    yajl_val bytes = find(raw, "bytes", yajl_t_number);
    const struct mr_mds_entry entry = {
        .name = YAJL_GET_STRING(find(raw, "basename", yajl_t_string)),
        .bytes = YAJL_IS_INTEGER(bytes) ? (uint64_t)YAJL_GET_INTEGER(bytes) : 0,
        .compression = YAJL_GET_STRING(find(shard, "compression", yajl_t_string))};
    mr_status status = check_format(shard, shown, what, error);
    if (status != MR_OK)
        return status;
    if (!entry.name || !*entry.name || entry.bytes == 0)
        return mr_error_set(error, MR_ERR_DAMAGED, "%s: %s has no raw_data with basename and bytes",
                            shown, what);
    return fn(user, &entry, error);
}

mr_status mr_mds_index_parse(const char *json, const char *shown, mr_mds_entry_fn *fn, void *user,
                             mr_error *error)
{
    yajl_val tree;
    mr_status status = parse(json, shown, &tree, error);
    if (status != MR_OK)
        return status;
    yajl_val shards = find(tree, "shards", yajl_t_array);
    if (!shards || YAJL_GET_ARRAY(shards)->len == 0)
        status = mr_error_set(error, MR_ERR_DAMAGED, "%s has no shards", shown);
    for (size_t i = 0; status == MR_OK && i < YAJL_GET_ARRAY(shards)->len; i++)
        status = take_entry(YAJL_GET_ARRAY(shards)->values[i], i, shown, fn, user, error);
    yajl_tree_free(tree);
    return status;
}

static mr_status take_column(yajl_val config, const char *shown, char encoding_out[MR_MDS_ENCODING],
                             mr_error *error)
{
    yajl_val encodings = find(config, "column_encodings", yajl_t_array);
    size_t n = encodings ? YAJL_GET_ARRAY(encodings)->len : 0;
    if (n > 1)
        return mr_error_set(error, MR_ERR_UNSUPPORTED,
                            "%s has %zu columns: write the column of tokens alone, with MDSWriter",
                            shown, n);
    const char *encoding = n == 1 ? YAJL_GET_STRING(YAJL_GET_ARRAY(encodings)->values[0]) : NULL;
    if (!encoding || strlen(encoding) >= MR_MDS_ENCODING)
        return mr_error_set(error, MR_ERR_DAMAGED, "%s has no column with an encoding", shown);
    strcpy(encoding_out, encoding);
    return MR_OK;
}

mr_status mr_mds_config_parse(const char *json, const char *shown,
                              char encoding_out[MR_MDS_ENCODING], mr_error *error)
{
    yajl_val tree;
    mr_status status = parse(json, shown, &tree, error);
    if (status != MR_OK)
        return status;
    status = check_format(tree, shown, "the shard", error);
    if (status == MR_OK)
        status = take_column(tree, shown, encoding_out, error);
    yajl_tree_free(tree);
    return status;
}
