/* SPDX-License-Identifier: Apache-2.0 */
/* The file of file:///PATH: one line that says where rank 0's store is. */
#ifndef DIST_RENDEZVOUS_ADDRESS_FILE_H
#define DIST_RENDEZVOUS_ADDRESS_FILE_H

#include "base/error.h"

#include <stdbool.h>

struct mr_address_file {
    char host[72];
    uint16_t port;
    uint64_t run;  /* of the greeting: a number of its own where the run has no id */
    char boot[40]; /* of rank 0's machine */
};

/*
 * Write a temporary file and rename it, so that nobody reads half a line. MR_ERR_INVALID where path
 * is a file that is no store's address, which stays as it is; MR_ERR_IO.
 */
mr_status mr_address_file_write(const char *path, const struct mr_address_file *file,
                                mr_error *error);

/* MR_PENDING when there is no file yet, or one that is no store's address: error says which. */
mr_status mr_address_file_read(const char *path, struct mr_address_file *file_out, mr_error *error);

/* Where it still holds what was written, and not the address of a later run. */
void mr_address_file_remove(const char *path, const struct mr_address_file *file);

#endif
