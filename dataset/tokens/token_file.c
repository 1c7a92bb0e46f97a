/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises the format of a file of tokens. The layouts are those of llm.c (commit f1e2ace,
 * dev/data/data_common.py) and nanoGPT (3adf61e).
 */
#include "dataset/tokens/token_file.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/regular_file.h"
#include "dataset/remote/object.h"
#include "dataset/remote/url.h"
#include "dataset/tokens/megatron_index.h"

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
    if (wanted == MR_DTYPE_DEFAULT || wanted == has)
        return MR_OK;
    return mr_error_set(error, MR_ERR_INVALID, "%.*s has tokens of %s, but dtype is %s",
                        mr_url_path_len(path), path, mr_dtype_name(has), mr_dtype_name(wanted));
}

static mr_status check_size(const char *shown, uint64_t size, const struct mr_token_file *file,
                            mr_error *error)
{
    uint64_t needed = file->offset + file->n_tokens * mr_dtype_size(file->dtype);
    if (size == needed)
        return MR_OK;
    return mr_error_set(error, MR_ERR_DAMAGED,
                        "%s has %" PRIu64 " bytes; its header says %" PRIu64 " tokens of %s, which "
                        "need %" PRIu64,
                        shown, size, file->n_tokens, mr_dtype_name(file->dtype), needed);
}

static mr_status open_llmc(const char *shown, const uint32_t words[N_WORDS], size_t i,
                           uint64_t size, struct mr_token_file *file, mr_error *error)
{
    if (words[1] != llmc[i].version)
        return mr_error_set(error, MR_ERR_UNSUPPORTED,
                            "%s: version %" PRIu32 " of llm.c's %s; version %" PRIu32 " is read",
                            shown, words[1], llmc[i].what, llmc[i].version);
    if (llmc[i].dtype == MR_DTYPE_DEFAULT)
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "%s has llm.c's %s, not rows of tokens",
                            shown, llmc[i].what);
    *file =
        (struct mr_token_file){.dtype = llmc[i].dtype, .offset = LLMC_HEADER, .n_tokens = words[2]};
    return check_size(shown, size, file, error);
}

static mr_status open_raw(const char *shown, uint64_t size, mr_dtype dtype,
                          struct mr_token_file *file, mr_error *error)
{
    if (dtype == MR_DTYPE_DEFAULT)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%s has no header, and no .idx is beside it: it needs dtype=, such as "
                            "dtype=u16",
                            shown);
    if (size % mr_dtype_size(dtype) != 0)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "%s has %" PRIu64 " bytes: not whole tokens of %s", shown, size,
                            mr_dtype_name(dtype));
    *file = (struct mr_token_file){.dtype = dtype, .n_tokens = size / mr_dtype_size(dtype)};
    return MR_OK;
}

union head {
    char bytes[N_WORDS * sizeof(uint32_t)];
    uint32_t words[N_WORDS];
};

/* n: bytes of the head that the file has. */
static mr_status open_by_head(const char *shown, union head *head, size_t n, uint64_t size,
                              mr_dtype dtype, struct mr_token_file *file, mr_error *error)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (dtype == MR_DTYPE_DEFAULT && n >= refused[i].len &&
            memcmp(head->bytes, refused[i].bytes, refused[i].len) == 0)
            return mr_error_set(error, MR_ERR_UNSUPPORTED, "%s %s", shown, refused[i].what);
    for (size_t i = 0; i < N_WORDS; i++)
        head->words[i] = le32toh(head->words[i]);
    for (size_t i = 0; n == sizeof *head && i < sizeof llmc / sizeof *llmc; i++)
        if (head->words[0] == llmc[i].magic)
            return open_llmc(shown, head->words, i, size, file, error);
    return open_raw(shown, size, dtype, file, error);
}

static mr_status open_remote(const char *url, const struct mr_object_version *version,
                             const char *shown, mr_dtype dtype, struct mr_token_file *file,
                             mr_error *error)
{
    union head head = {{0}};
    struct mr_object *object;
    size_t n = version->size < sizeof head ? (size_t)version->size : sizeof head;
    mr_status status = mr_object_open(url, version, &object, error);
    if (status != MR_OK)
        return status;
    status = mr_object_read(object, 0, &head, n, error);
    mr_object_close(object);
    return status == MR_OK ? open_by_head(shown, &head, n, version->size, dtype, file, error)
                           : status;
}

static mr_status open_local(int root, const char *path, mr_dtype dtype, struct mr_token_file *file,
                            mr_error *error)
{
    struct stat st;
    struct mr_megatron_index index;
    union head head = {{0}};
    int fd = mr_regular_file_open(root, path, O_RDONLY, &st);
    if (fd < 0)
        return mr_regular_file_fail(error, -fd, "%s", path);
    mr_status status = mr_megatron_index_open(root, path, path, &index, error);
    if (status == MR_OK) {
        status = mr_megatron_index_check(&index, path, (uint64_t)st.st_size, error);
        *file = (struct mr_token_file){.dtype = index.dtype, .n_tokens = index.n_tokens};
        mr_megatron_index_close(&index);
    } else if (status == MR_PENDING) {
        ssize_t n = pread(fd, &head, sizeof head, 0);
        status =
            n < 0 ? mr_error_os(error, MR_ERR_IO, errno, "%s", path)
                  : open_by_head(path, &head, (size_t)n, (uint64_t)st.st_size, dtype, file, error);
    }
    close(fd);
    return status;
}

mr_status mr_token_file_open(int root, const char *path, const struct mr_object_version *version,
                             mr_dtype dtype, struct mr_token_file *file_out, mr_error *error)
{
    char shown[MR_CATALOG_PATH];
    snprintf(shown, sizeof shown, "%.*s", mr_url_path_len(path), path);
    *file_out = (struct mr_token_file){0};
    mr_status status = mr_url_is(path) ? open_remote(path, version, shown, dtype, file_out, error)
                                       : open_local(root, path, dtype, file_out, error);
    if (status == MR_OK)
        status = mr_token_file_dtype(path, dtype, file_out->dtype, error);
    if (status == MR_OK && file_out->n_tokens == 0)
        status = mr_error_set(error, MR_ERR_DAMAGED, "%s has no token", shown);
    return status;
}
