/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes NumPy's .npy files (version 1.0) batch by batch; the number of rows is known at the end.
 */
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
    int64_t end;         /* of offsets: the last one */
};

/*
 * Make the file under a temporary name. Functions that return bool print a message before they
 * return false.
 */
bool mr_npy_open(struct mr_npy *npy, const char *path);
/*
 * Append an array's rows. The first array, even one without rows, sets the dtype and the shape of a
 * row. Rows that differ in length are appended as one dimension of values.
 */
bool mr_npy_append(struct mr_npy *npy, const mr_array *array);
/*
 * Append offsets where the rows of the array before them begin and end. Those of all batches are
 * one array, of a row more than there are samples: it begins with 0.
 */
bool mr_npy_append_offsets(struct mr_npy *npy, const mr_array *offsets);
/* Write the header with the number of rows and make the file durable. An array was appended. */
bool mr_npy_finish(struct mr_npy *npy);
/* End with mr_temporary_file_rename() and mr_temporary_file_close() of npy->file. */

#endif
