/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings in use, in memory that the program's process shares with its workers. One process
 * writes them, any number reads them meanwhile, and neither waits for the other. Core dumps leave
 * the memory out.
 */
#ifndef DATASET_REMOTE_STORES_SETTINGS_CELL_H
#define DATASET_REMOTE_STORES_SETTINGS_CELL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { MR_SETTINGS_CELL_BYTES = 12288 };

/*
 * Replace the bytes, in this process and its workers; len is a multiple of 8. The first call makes
 * the memory; so does the first one in a forked child, whose parent and workers keep theirs.
 * MR_ERR_NO_MEMORY, MR_ERR_IO. Threads: one at a time.
 */
mr_status mr_settings_cell_write(const void *bytes, size_t len, mr_error *error);

/* Read the newest bytes. Returns their version, which grows; 0: there are none. Threads: any. */
uint64_t mr_settings_cell_read(void *out, size_t len);
uint64_t mr_settings_cell_version(void);

/* For a worker: the descriptor, borrowed, -1 for none; and in the worker, to use it. */
int mr_settings_cell_fd(void);
mr_status mr_settings_cell_attach(int fd, mr_error *error);

#endif
