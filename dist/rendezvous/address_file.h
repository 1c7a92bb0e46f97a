/* SPDX-License-Identifier: Apache-2.0 */
/* The file of file:///PATH. It holds one line, the address of rank 0's store. */
#ifndef DIST_RENDEZVOUS_ADDRESS_FILE_H
#define DIST_RENDEZVOUS_ADDRESS_FILE_H

#include "base/error.h"

#include <stdbool.h>

struct mr_address_file {
    char host[72];
    uint16_t port;
    uint64_t run;  /* run id for the greeting; a random number if the run has no id */
    char boot[40]; /* boot id of rank 0's machine */
};

/*
 * Write a temporary file and rename it, so that a reader never sees half a line. MR_ERR_INVALID if
 * path is a file that does not hold a store's address, which is not changed; MR_ERR_IO.
 */
mr_status mr_address_file_write(const char *path, const struct mr_address_file *file,
                                mr_error *error);

/* MR_PENDING if there is no file yet, or it does not hold a store's address; error says which. */
mr_status mr_address_file_read(const char *path, struct mr_address_file *file_out, mr_error *error);

/* Remove the file if it still holds *file, and not the address of a later run. */
void mr_address_file_remove(const char *path, const struct mr_address_file *file);

#endif
