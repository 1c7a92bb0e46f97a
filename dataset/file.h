/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads one file of a dataset outside of a loader, for labels and for `millrace list`; writes the
 * files of packs.
 */
#ifndef DATASET_FILE_H
#define DATASET_FILE_H

#include <stddef.h>

#include "dataset/catalog.h"

/* Open a sample's file for reading; only regular files. MR_ERR_IO names it. */
mr_status mr_file_open_sample(const struct mr_catalog *catalog, int64_t index, uint64_t file,
                              int *fd_out, mr_error *error);
/*
 * Read up to len bytes. Returns 0 with the number in *n_out (fewer at the end of the file), or a
 * negative errno.
 */
int mr_file_read_at(int fd, uint64_t offset, void *out, size_t len, size_t *n_out);
/* Write all of it. Returns 0 or a negative errno; a part may then have been written. */
int mr_file_write_at(int fd, const void *bytes, size_t len, uint64_t offset);
/* What an error of opening means here, if that is not what the system says of it; else NULL. */
const char *mr_file_words(int os_error);
/* MR_ERR_IO with the sample's name. */
mr_status mr_file_error(const struct mr_catalog *catalog, int64_t index, int os_error,
                        mr_error *error);

#endif
