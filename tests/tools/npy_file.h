/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads .npy files in tests, by the format's description and not by our writer. A wrong file fails
 * the test.
 */
#ifndef TESTS_TOOLS_NPY_FILE_H
#define TESTS_TOOLS_NPY_FILE_H

#include <stddef.h>
#include <stdint.h>

struct mr_npy_file {
    char descr[8];
    unsigned ndim;
    int64_t shape[8];
    size_t data_len;     /* bytes after the header, checked against dtype and shape */
    unsigned char *data; /* into bytes */
    char *bytes;
};

void mr_npy_file_read(struct mr_npy_file *npy, const char *path);
void mr_npy_file_free(struct mr_npy_file *npy);
/* Element i of an <i8 array. */
int64_t mr_npy_file_i64(const struct mr_npy_file *npy, size_t i);

#endif
