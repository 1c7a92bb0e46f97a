/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps and checks an index of Megatron-Core. It is mapped, not copied: that of 10^8 documents has
 * 2 GB.
 */
#include "dataset/tokens/megatron_index.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/regular_file.h"
#include "dataset/extent.h"

static const mr_dtype dtypes[] = {[1] = MR_U8, MR_I8,  MR_I16, MR_I32,
                                  MR_I64,      MR_F64, MR_F32, MR_U16};
static const char MAGIC[] = "MMIDIDX\0"; /* 9 bytes */

static uint64_t read_u64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* PREFIX.bin -> PREFIX.idx; false: another ending, or too long. */
static bool name_index(const char *path, char out[MR_CATALOG_PATH])
{
    size_t len = strlen(path);
    if (len < 5 || len >= MR_CATALOG_PATH || strcmp(path + len - 4, ".bin") != 0)
        return false;
    memcpy(out, path, len - 3);
    memcpy(out + len - 3, "idx", 4);
    return true;
}

static mr_status check_header(const char *name, struct mr_megatron_index *index, mr_error *error)
{
    const uint8_t *map = index->map;
    if (index->map_len < MR_MEGATRON_HEADER || memcmp(map, MAGIC, sizeof MAGIC) != 0)
        return mr_error_set(error, MR_ERR_DAMAGED, "%s is not an index of Megatron-Core", name);
    if (read_u64(map + 9) != 1)
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "%s: version %" PRIu64 "; version 1 is read",
                            name, read_u64(map + 9));
    uint8_t code = map[17];
    if (code == 0 || code >= sizeof dtypes / sizeof *dtypes)
        return mr_error_set(error, MR_ERR_DAMAGED, "%s: unknown dtype %u", name, code);
    index->dtype = dtypes[code];
    if (index->dtype == MR_F64 || index->dtype == MR_F32)
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "%s: tokens of %s", name,
                            mr_dtype_name(index->dtype));
    index->n_sequences = read_u64(map + 18);
    uint64_t n = index->n_sequences, n_documents = read_u64(map + 26);
    uint64_t room = index->map_len - MR_MEGATRON_HEADER;
    bool fits = n <= room / 12 && n_documents > 0 && n_documents <= (room - 12 * n) / 8;
    uint64_t left = fits ? room - 12 * n - 8 * n_documents : 0;
    if (!fits || (left != 0 && left != n)) /* n: modes */
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "%s has %zu bytes, which do not fit %" PRIu64 " sequences and %" PRIu64
                            " documents",
                            name, index->map_len, n, n_documents);
    const uint8_t *documents = map + MR_MEGATRON_HEADER + 12 * n;
    if (read_u64(documents) != 0 || read_u64(documents + 8 * (n_documents - 1)) != n)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "%s: its documents do not begin with sequence 0 and end with %" PRIu64,
                            name, n);
    return MR_OK;
}

static mr_status fail_sequence(const char *name, uint64_t i, const char *what, mr_error *error)
{
    return mr_error_set(error, MR_ERR_DAMAGED, "%s: sequence %" PRIu64 " %s", name, i, what);
}

mr_status mr_megatron_index_open(int root, const char *path, const char *shown,
                                 struct mr_megatron_index *index_out, mr_error *error)
{
    char idx[MR_CATALOG_PATH], name[MR_CATALOG_PATH];
    struct stat st;
    *index_out = (struct mr_megatron_index){.fd = -1};
    if (!name_index(path, idx) || !name_index(shown, name))
        return MR_PENDING;
    int fd = mr_regular_file_open(root, idx, O_RDONLY, &st);
    if (fd == -ENOENT)
        return MR_PENDING;
    if (fd < 0)
        return mr_regular_file_fail(error, -fd, "%s", name);
    index_out->map_len = (size_t)st.st_size;
    void *map =
        st.st_size > 0 ? mmap(NULL, index_out->map_len, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    if (map == MAP_FAILED) {
        mr_error_os(error, MR_ERR_IO, errno, "cannot map %s", name);
        close(fd);
        return MR_ERR_IO;
    }
    index_out->fd = fd;
    index_out->map = map;
    if (!map)
        index_out->map_len = 0;
    mr_status status = check_header(name, index_out, error);
    if (status != MR_OK)
        mr_megatron_index_close(index_out);
    return status;
}

/* Sequences follow each other in the .bin without gaps, as all of Megatron's tools write them. */
mr_status mr_megatron_index_check(struct mr_megatron_index *index, const char *shown,
                                  uint64_t bin_bytes, mr_error *error)
{
    char name[MR_CATALOG_PATH];
    name_index(shown, name);
    const uint64_t size = mr_dtype_size(index->dtype);
    uint64_t end = 0;
    for (uint64_t i = 0; i < index->n_sequences; i++) {
        uint64_t length = mr_megatron_length(index, i), pointer = mr_megatron_pointer(index, i);
        if (length > INT32_MAX)
            return fail_sequence(name, i, "has a negative length", error);
        if (pointer != end)
            return fail_sequence(name, i, "does not begin where the one before ends", error);
        if (length * size > bin_bytes - pointer)
            return fail_sequence(name, i, "ends after the end of the .bin", error);
        end = pointer + length * size;
    }
    index->n_tokens = end / size;
    return MR_OK;
}

void mr_megatron_index_close(struct mr_megatron_index *index)
{
    if (index->map)
        munmap((void *)index->map, index->map_len);
    index->map = NULL;
    if (index->fd >= 0)
        close(index->fd);
    index->fd = -1;
}
