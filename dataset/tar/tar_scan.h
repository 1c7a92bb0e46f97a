/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass over the headers of a tar file. It finds the regular members, and the places where the
 * file is broken.
 */
#ifndef DATASET_TAR_SCAN_H
#define DATASET_TAR_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define MR_TAR_WINDOW 4096
/* A request takes as long as reading about as many bytes. */
#define MR_TAR_REMOTE_STEP ((size_t)1 << 20)
/* The most bytes that are read at once where headers are close to each other. */
#define MR_TAR_REMOTE_WINDOW ((size_t)8 << 20)

struct mr_object;

/* An open shard with a window of its bytes, for small reads that mostly move forwards. */
struct mr_tar_file {
    int fd;
    struct mr_object *object; /* NULL: the shard is the file of fd */
    const char *shown;        /* its path, for messages */
    uint64_t size;
    uint64_t window_at;
    size_t window_len;
    size_t window_size; /* at least MR_TAR_WINDOW */
    size_t step;        /* bytes of the last read */
    uint8_t *window;
};

/* Read up to len bytes at offset `at`, fewer at the end of the file. */
mr_status mr_tar_file_read(struct mr_tar_file *file, uint64_t at, void *out, size_t len,
                           size_t *n_out, mr_error *error);

/*
 * Returns len bytes at offset `at`; they are valid until the next call. len is at most
 * MR_TAR_WINDOW, and the bytes are inside the file. NULL: the read failed, and error is set.
 */
const uint8_t *mr_tar_file_look(struct mr_tar_file *file, uint64_t at, size_t len, mr_error *error);

struct mr_tar_member {
    const char *name; /* not empty */
    uint64_t offset;  /* of its data */
    uint64_t len;
    bool is_cut; /* the file ends before the data do */
};

/* A range of bytes that are not members. */
struct mr_tar_gap {
    uint64_t from;
    uint64_t to; /* the next header, or the end of the file */
    const char *why;
};

/* Both return MR_OK, or an error that ends the pass. */
struct mr_tar_events {
    mr_status (*member)(void *user, const struct mr_tar_member *member, mr_error *error);
    mr_status (*gap)(void *user, const struct mr_tar_gap *gap, mr_error *error);
    void *user;
};

/*
 * Report the regular members in order. After a block that is not a header, the pass continues at
 * the next header with a correct checksum. Returns MR_OK; MR_ERR_IO; MR_ERR_UNSUPPORTED (a
 * compressed shard, or a sparse member, which is named); MR_ERR_NO_MEMORY; or the error of an
 * event.
 */
mr_status mr_tar_scan(struct mr_tar_file *file, const struct mr_tar_events *events,
                      mr_error *error);

#endif
