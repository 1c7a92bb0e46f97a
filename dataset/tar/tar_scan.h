/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass over the headers of a tar file: its regular members, and the places where it is broken.
 */
#ifndef DATASET_TAR_SCAN_H
#define DATASET_TAR_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define MR_TAR_WINDOW 4096

/* A shard that is open for looking at small places of it, mostly forwards. */
struct mr_tar_file {
    int fd;
    const char *shown; /* its path, for messages */
    uint64_t size;
    uint64_t window_at;
    size_t window_len;
    uint8_t window[MR_TAR_WINDOW];
};

/*
 * len bytes at a place, up to MR_TAR_WINDOW and all before the end of the file; valid until the
 * next call. NULL: it cannot be read, and error says so.
 */
const uint8_t *mr_tar_file_look(struct mr_tar_file *file, uint64_t at, size_t len, mr_error *error);

struct mr_tar_member {
    const char *name; /* not empty */
    uint64_t offset;  /* of its data */
    uint64_t len;
    bool is_cut; /* the file ends before the data do */
};

/* Bytes that are no members. */
struct mr_tar_gap {
    uint64_t from;
    uint64_t to; /* the next header, or the end of the file */
    const char *why;
};

/* Both return MR_OK, or a failure that ends the pass. */
struct mr_tar_events {
    mr_status (*member)(void *user, const struct mr_tar_member *member, mr_error *error);
    mr_status (*gap)(void *user, const struct mr_tar_gap *gap, mr_error *error);
    void *user;
};

/*
 * Regular members, in their order. After a block that is no header the pass goes on at the next
 * header with a right checksum. MR_ERR_IO; MR_ERR_UNSUPPORTED (a compressed shard, a sparse member,
 * by name); MR_ERR_NO_MEMORY; what an event returned.
 */
mr_status mr_tar_scan(struct mr_tar_file *file, const struct mr_tar_events *events,
                      mr_error *error);

#endif
