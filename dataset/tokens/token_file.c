/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises the format of a file of tokens. The layouts are those of llm.c (commit f1e2ace,
 * dev/data/data_common.py) and nanoGPT (3adf61e).
 */
#include "dataset/tokens/token_file.h"

#include <endian.h>
#include <inttypes.h>
#include <string.h>

#include "dataset/remote/url.h"
#include "dataset/tokens/mds_shard.h"
#include "dataset/tokens/megatron_index.h"
#include "dataset/tokens/token_source.h"

enum { LLMC_HEADER = 1024, N_WORDS = 3 };

static const struct {
    uint32_t magic;
    uint32_t version;
    mr_dtype dtype; /* MR_DTYPE_DEFAULT: not a file of text to train on */
    const char *what;
} llmc[] = {{20240520, 1, MR_U16, "tokens of GPT-2"},
            {20240801, 7, MR_U32, "tokens of Llama 3"},
            {20240522, 1, MR_DTYPE_DEFAULT, "questions with several answers (HellaSwag)"}};

/* The first bytes of formats that are not read, and what makes one that is. */
static const struct {
    const char *bytes;
    size_t len;
    const char *what;
} refused[] = {
    {"\x93NUMPY", 6, "is a NumPy file: write its elements with tofile()"},
    {"PAR1", 4, "is a Parquet file: tokenize it, for example with Megatron's preprocess_data.py"},
    {"\x28\xb5\x2f\xfd", 4, "is compressed (zstd): decompress it"},
    {"\x1f\x8b", 2, "is compressed (gzip): decompress it"},
    {"{\"", 2, "is JSON: tokenize it, for example with Megatron's preprocess_data.py"}};

mr_status mr_token_file_dtype(const char *path, mr_dtype wanted, mr_dtype has, mr_error *error)
{
    if (wanted == MR_DTYPE_DEFAULT || has == MR_DTYPE_DEFAULT || wanted == has)
        return MR_OK;
    return mr_error_set(error, MR_ERR_INVALID, "%.*s has tokens of %s, but dtype is %s",
                        mr_url_path_len(path), path, mr_dtype_name(has), mr_dtype_name(wanted));
}

/* The whole file has tokens, after a header. */
static mr_status set_run(struct mr_token_file *file, mr_dtype dtype, uint64_t offset,
                         uint64_t n_tokens, const char *shown, mr_error *error)
{
    const struct mr_token_run run = {.offset = offset, .n_tokens = n_tokens, .n = 1};
    file->dtype = dtype;
    return n_tokens > 0 ? mr_bytes_append(&file->runs, &run, sizeof run, error)
                        : mr_error_set(error, MR_ERR_DAMAGED, "%s has no token", shown);
}

static mr_status open_llmc(const struct mr_token_source *source, const uint32_t words[N_WORDS],
                           size_t i, struct mr_token_file *file, mr_error *error)
{
    if (words[1] != llmc[i].version)
        return mr_error_set(error, MR_ERR_UNSUPPORTED,
                            "%s: version %" PRIu32 " of llm.c's %s; version %" PRIu32 " is read",
                            source->shown, words[1], llmc[i].what, llmc[i].version);
    if (llmc[i].dtype == MR_DTYPE_DEFAULT)
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "%s has llm.c's %s, not rows of tokens",
                            source->shown, llmc[i].what);
    const uint64_t n = words[2], needed = LLMC_HEADER + n * mr_dtype_size(llmc[i].dtype);
    if (source->size != needed)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "%s has %" PRIu64 " bytes; its header says %" PRIu64
                            " tokens of %s, which need %" PRIu64,
                            source->shown, source->size, n, mr_dtype_name(llmc[i].dtype), needed);
    return set_run(file, llmc[i].dtype, LLMC_HEADER, n, source->shown, error);
}

static mr_status open_raw(const struct mr_token_source *source, mr_dtype dtype,
                          struct mr_token_file *file, mr_error *error)
{
    if (dtype == MR_DTYPE_DEFAULT)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%s has no header, and no .idx is beside it: it needs dtype=, such as "
                            "dtype=u16",
                            source->shown);
    if (source->size % mr_dtype_size(dtype) != 0)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "%s has %" PRIu64 " bytes: not whole tokens of %s", source->shown,
                            source->size, mr_dtype_name(dtype));
    return set_run(file, dtype, 0, source->size / mr_dtype_size(dtype), source->shown, error);
}

static mr_status open_by_head(const struct mr_token_source *source, mr_dtype dtype,
                              struct mr_token_file *file, mr_error *error)
{
    union {
        char bytes[N_WORDS * sizeof(uint32_t)];
        uint32_t words[N_WORDS];
    } head = {{0}};
    size_t n = source->size < sizeof head ? (size_t)source->size : sizeof head;
    mr_status status = mr_token_source_read(source, 0, &head, n, error);
    if (status != MR_OK)
        return status;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (dtype == MR_DTYPE_DEFAULT && n >= refused[i].len &&
            memcmp(head.bytes, refused[i].bytes, refused[i].len) == 0)
            return mr_error_set(error, MR_ERR_UNSUPPORTED, "%s %s", source->shown, refused[i].what);
    for (size_t i = 0; i < N_WORDS; i++)
        head.words[i] = le32toh(head.words[i]);
    for (size_t i = 0; n == sizeof head && i < sizeof llmc / sizeof *llmc; i++)
        if (head.words[0] == llmc[i].magic)
            return open_llmc(source, head.words, i, file, error);
    return open_raw(source, dtype, file, error);
}

static mr_status open_source(int root, const struct mr_token_source *source, mr_dtype dtype,
                             struct mr_token_file *file, mr_error *error)
{
    struct mr_megatron_index index;
    if (mr_mds_is_shard(source->shown))
        return mr_mds_shard_open(source, dtype, &file->dtype, &file->runs, error);
    mr_status status =
        source->object ? MR_PENDING
                       : mr_megatron_index_open(root, source->shown, source->shown, &index, error);
    if (status != MR_OK)
        return status == MR_PENDING ? open_by_head(source, dtype, file, error) : status;
    status = mr_megatron_index_check(&index, source->shown, source->size, error);
    if (status == MR_OK)
        status = set_run(file, index.dtype, 0, index.n_tokens, source->shown, error);
    mr_megatron_index_close(&index);
    return status;
}

mr_status mr_token_file_open(int root, const char *path, const struct mr_object_version *version,
                             mr_dtype dtype, struct mr_token_file *file_out, mr_error *error)
{
    struct mr_token_source source;
    *file_out = (struct mr_token_file){0};
    mr_status status = mr_token_source_open(root, path, version, &source, error);
    if (status != MR_OK)
        return status;
    status = open_source(root, &source, dtype, file_out, error);
    if (status == MR_OK)
        status = mr_token_file_dtype(path, dtype, file_out->dtype, error);
    mr_token_source_close(&source);
    return status;
}
