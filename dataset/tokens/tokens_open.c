/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens tokens:FILE,...?window=T. A sample is T + 1 tokens in a row of one file: T inputs, and the
 * same shifted by one. The catalog has the scheme of tokens (catalog_tokens.c).
 */
#include "dataset/tokens/tokens_open.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "dataset/catalog_build.h"
#include "dataset/spec.h"
#include "dataset/tokens/token_file.h"

#define KNOWN_KEYS "window, stride, dtype, vocab"
enum { MAX_WINDOW = 1 << 24 };

struct keys {
    int64_t window, stride, vocab;
    mr_dtype dtype;
};

static mr_status take_keys(struct mr_spec *spec, struct keys *keys, mr_error *error)
{
    const char *dtype = mr_spec_take(spec, "dtype");
    if (mr_spec_take_int(spec, "window", 1, MAX_WINDOW, &keys->window, error) < 0 ||
        mr_spec_take_int(spec, "stride", 1, INT64_MAX / 16, &keys->stride, error) < 0 ||
        mr_spec_take_int(spec, "vocab", 1, INT32_MAX, &keys->vocab, error) < 0 ||
        mr_spec_finish(spec, KNOWN_KEYS, error) < 0)
        return MR_ERR_INVALID;
    if (keys->window == 0)
        return mr_error_set(error, MR_ERR_INVALID,
                            "tokens need window=, the number of tokens of a row");
    if (keys->stride == 0)
        keys->stride = keys->window;
    if (!dtype)
        return MR_OK;
    if (mr_dtype_parse(dtype, &keys->dtype) != MR_OK || !mr_kind_may_be_token(keys->dtype))
        return mr_error_set(error, MR_ERR_INVALID,
                            "dtype '%s' is none of u8, i8, u16, i16, u32, i32, i64", dtype);
    return MR_OK;
}

/* Number of windows of a file; each has one token more than its row, the last label. */
static uint64_t count_windows(const struct keys *keys, uint64_t n_tokens)
{
    uint64_t needed = (uint64_t)keys->window + 1;
    return n_tokens < needed ? 0 : 1 + (n_tokens - needed) / (uint64_t)keys->stride;
}

static mr_status add_file(struct mr_catalog_builder *builder, const struct keys *keys,
                          const char *path, const struct mr_token_file *file, mr_error *error)
{
    struct mr_catalog_header *header = &builder->header;
    struct mr_bytes *sections = builder->sections;
    mr_status status = mr_bytes_append_u64(&sections[MR_SECTION_STARTS], header->n_samples, error);
    if (status == MR_OK)
        status = mr_bytes_append_u64(&sections[MR_SECTION_OFFSETS], file->offset, error);
    if (status == MR_OK)
        status = mr_catalog_builder_name(builder, path, error);
    if (status == MR_OK &&
        (!mr_checked_add_u64(header->n_samples, count_windows(keys, file->n_tokens),
                             &header->n_samples) ||
         header->n_samples > INT64_MAX))
        status = mr_error_set(error, MR_ERR_DAMAGED, "the files up to %s have more than 2^63 rows",
                              path);
    header->n_files++;
    return status;
}

static mr_status add_files(const struct mr_spec *spec, struct keys *keys, int root,
                           struct mr_catalog_builder *builder, mr_error *error)
{
    uint64_t most = 0;
    for (size_t i = 0; i < spec->n_paths; i++) {
        const char *path = spec->paths[i];
        struct mr_token_file file;
        mr_status status = mr_token_file_open(root, path, path, keys->dtype, &file, error);
        if (status == MR_OK)
            status = add_file(builder, keys, path, &file, error);
        if (status != MR_OK)
            return status;
        keys->dtype = file.dtype; /* all files have the dtype of the first */
        most = file.n_tokens > most ? file.n_tokens : most;
    }
    if (builder->header.n_samples > 0)
        return mr_bytes_append_u64(&builder->sections[MR_SECTION_STARTS], builder->header.n_samples,
                                   error);
    return mr_error_set(error, MR_ERR_DAMAGED,
                        "%s: no file has the %" PRId64 " tokens of a row and its last label; the "
                        "longest has %" PRIu64,
                        spec->paths[0], keys->window + 1, most);
}

static mr_status build(const struct mr_spec *spec, struct keys *keys, int fds[MR_CATALOG_N_FDS],
                       struct mr_catalog_builder *builder, mr_error *error)
{
    char absolute[PATH_MAX];
    mr_status status = mr_kind_open_root(".", &fds[MR_CATALOG_FD_ROOT], absolute, error);
    if (status == MR_OK)
        status = mr_catalog_builder_root(builder, "", absolute, error);
    if (status == MR_OK)
        status = add_files(spec, keys, fds[MR_CATALOG_FD_ROOT], builder, error);
    if (status != MR_OK)
        return status;
    const int64_t shape = keys->window + 1;
    struct mr_sample_kind *kind = &builder->header.kind;
    mr_kind_set_raw(kind, keys->dtype, 1, &shape, MR_NCHW);
    kind->tokens = 1;
    kind->vocab = (uint32_t)keys->vocab;
    builder->header.record.stride = (uint64_t)keys->stride * mr_dtype_size(keys->dtype);
    return mr_catalog_builder_finish(builder, &fds[MR_CATALOG_FD_REGION], error);
}

mr_status mr_tokens_open(struct mr_spec *spec, const mr_dataset_options *options,
                         int fds_out[MR_CATALOG_N_FDS], mr_error *error)
{
    (void)options;
    struct keys keys = {0};
    struct mr_catalog_builder builder;
    mr_status status = take_keys(spec, &keys, error);
    if (status < 0)
        return status;
    status = mr_catalog_builder_init(&builder, MR_SCHEME_TOKENS, error);
    if (status == MR_OK)
        status = build(spec, &keys, fds_out, &builder, error);
    mr_catalog_builder_fini(&builder);
    return status;
}
