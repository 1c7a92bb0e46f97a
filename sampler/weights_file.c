/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a .npy file of one dimension. Its header is the text of a Python dict, which numpy always
 * writes in the same form: three keys with their values. The file may be damaged or of another
 * form, so everything in it is checked before use.
 */
#include "sampler/weights_file.h"

#include "base/error.h"
#include "base/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PREFIX = 8, MAX_HEADER = 2048, BLOCK = 1024 };

enum dtype { F8, F4, I8, I4, N_DTYPES };
static const char *const dtypes[] = {"<f8'", "<f4'", "<i8'", "<i4'"};

static mr_status refuse_file(const char *path, const char *why, mr_error *error)
{
    return mr_error_set(error, MR_ERR_INVALID, "%s: %s", path, why);
}

/* Read the header's text, with a final NUL. */
static bool read_header(FILE *file, char text_out[MAX_HEADER + 1])
{
    unsigned char prefix[PREFIX], len_bytes[4] = {0};
    if (fread(prefix, 1, sizeof prefix, file) != sizeof prefix ||
        memcmp(prefix, "\x93NUMPY", 6) != 0 || prefix[6] < 1 || prefix[6] > 3)
        return false;
    size_t n = prefix[6] == 1 ? 2 : 4;
    if (fread(len_bytes, 1, n, file) != n)
        return false;
    uint32_t len = (uint32_t)len_bytes[0] | (uint32_t)len_bytes[1] << 8 |
                   (uint32_t)len_bytes[2] << 16 | (uint32_t)len_bytes[3] << 24;
    if (len > MAX_HEADER || fread(text_out, 1, len, file) != len)
        return false;
    text_out[len] = '\0';
    return true;
}

/* The text after a key, or NULL. */
static const char *find_value(const char *header, const char *key)
{
    const char *at = strstr(header, key);
    return at ? at + strlen(key) : NULL;
}

static mr_status parse_header(const char *path, const char *what, const char *header, uint64_t n,
                              enum dtype *dtype_out, mr_error *error)
{
    const char *descr = find_value(header, "'descr': '"), *shape = find_value(header, "'shape': (");
    if (!descr || !shape)
        return refuse_file(path, "the header of this .npy file has no 'descr' or no 'shape'",
                           error);
    for (*dtype_out = 0; *dtype_out < N_DTYPES; ++*dtype_out)
        if (strncmp(descr, dtypes[*dtype_out], strlen(dtypes[0])) == 0)
            break;
    if (*dtype_out == N_DTYPES)
        return mr_error_set(error, MR_ERR_INVALID, "%s: %s must be of dtype <f8, <f4, <i8 or <i4",
                            path, what);
    if (*shape == '-')
        return mr_error_set(error, MR_ERR_INVALID, "%s: the number of %s in the header is negative",
                            path, what);
    char *end;
    errno = 0;
    uint64_t count = strtoull(shape, &end, 10);
    if (errno != 0 || end == shape || strncmp(end, ",)", 2) != 0)
        return mr_error_set(error, MR_ERR_INVALID, "%s: %s must have one dimension", path, what);
    if (count != n)
        return mr_error_set(error, MR_ERR_INVALID, "%s: %llu %s for %llu samples", path,
                            (unsigned long long)count, what, (unsigned long long)n);
    return MR_OK;
}

static bool read_values(FILE *file, double *values_out, uint64_t n, enum dtype dtype)
{
    union {
        double f8[BLOCK];
        float f4[BLOCK];
        int64_t i8[BLOCK];
        int32_t i4[BLOCK];
    } block;
    for (uint64_t i = 0; i < n;) {
        size_t wanted = n - i < BLOCK ? (size_t)(n - i) : BLOCK;
        if (fread(&block, dtype == F8 || dtype == I8 ? 8 : 4, wanted, file) != wanted)
            return false;
        for (size_t k = 0; k < wanted; k++)
            values_out[i++] = dtype == F8   ? block.f8[k]
                              : dtype == F4 ? (double)block.f4[k]
                              : dtype == I8 ? (double)block.i8[k]
                                            : (double)block.i4[k];
    }
    return true;
}

mr_status mr_weights_file_read(const char *path, const char *what, double *values_out, uint64_t n,
                               mr_error *error)
{
    char header[MAX_HEADER + 1];
    enum dtype dtype = F8;
    int fd = mr_regular_file_open(AT_FDCWD, path, O_RDONLY, NULL);
    if (fd < 0)
        return mr_regular_file_fail(error, -fd, "%s", path);
    FILE *file = fdopen(fd, "rb");
    if (!file) {
        close(fd);
        return mr_error_memory(error, sizeof *file);
    }
    mr_status status = read_header(file, header)
                           ? parse_header(path, what, header, n, &dtype, error)
                           : refuse_file(path, "not a .npy file", error);
    if (status == MR_OK && !read_values(file, values_out, n, dtype))
        status = mr_error_set(error, MR_ERR_IO, "%s: the file ends before its %llu %s", path,
                              (unsigned long long)n, what);
    fclose(file);
    return status;
}
