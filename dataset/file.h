/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads one file of a dataset outside a loader, for labels and for `millrace list`. Writes the
 * files of packs.
 */
#ifndef DATASET_FILE_H
#define DATASET_FILE_H

#include <stddef.h>

#include "dataset/catalog.h"

/*
 * Open the file of a sample for reading; only regular files. MR_ERR_IO with the name of the file.
 */
mr_status mr_file_open_sample(const struct mr_catalog *catalog, int64_t index, uint64_t file,
                              int *fd_out, mr_error *error);
/*
 * Read up to len bytes, fewer at the end of the file. Returns 0 with the number in *n_out, or a
 * negative errno.
 */
int mr_file_read_at(int fd, uint64_t offset, void *out, size_t len, size_t *n_out);
/*
 * Write all bytes. Returns 0 or a negative errno; after an error, some bytes may have been written.
 */
int mr_file_write_at(int fd, const void *bytes, size_t len, uint64_t offset);
/* Our words for an error of mr_file_cache_open() whose system message would mislead; else NULL. */
const char *mr_file_words(int os_error);
/* Sets MR_ERR_IO with the name of the sample. */
mr_status mr_file_error(const struct mr_catalog *catalog, int64_t index, int os_error,
                        mr_error *error);

#endif
