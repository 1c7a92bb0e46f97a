/* SPDX-License-Identifier: Apache-2.0 */
/* Writes NumPy's .npy files (version 1.0) row by row; the number of rows is known at the end. */
#ifndef TOOLS_NPY_H
#define TOOLS_NPY_H

#include <millrace/batch.h>

#include "tools/temporary_file.h"

struct mr_npy {
    struct mr_temporary_file file;
    mr_dtype dtype;
    uint32_t ndim;
    int64_t shape[MR_MAX_NDIM]; /* shape[0] counts the rows written so far */
    size_t row_bytes;
    size_t header_bytes; /* fixed when the first row is known */
};

/*
 * Make the file under a temporary name. Functions that return bool have printed a message when they
 * return false.
 */
bool mr_npy_open(struct mr_npy *npy, const char *path);
/*
 * Append an array's rows; the first one decides dtype and the shape of a row, also when it has no
 * rows.
 */
bool mr_npy_append(struct mr_npy *npy, const mr_array *array);
/*
 * Write the header with the number of rows and make the file durable. Without any append: no rows
 * of dtype.
 */
bool mr_npy_finish(struct mr_npy *npy, mr_dtype dtype);
/* mr_temporary_file_rename() and mr_temporary_file_close() of the file end it. */

#endif
