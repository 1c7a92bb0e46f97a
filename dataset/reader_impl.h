/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the readers share. reader.c owns requests, buffers and queues. A table of
 * functions (reader_uring.c, reader_pread.c) takes a request from begin to mr_reader_finish().
 *
 * Invariant: both readers give the same bytes and the same errors. So io_uring puts every read that
 * is not a plain success on the slow queue, and reader_pread.c repeats it with ordinary calls.
 */
#ifndef DATASET_READER_IMPL_H
#define DATASET_READER_IMPL_H

#include "dataset/file_cache.h"
#include "dataset/reader.h"

#define MR_READER_MAX_DEPTH 64
#define MR_READER_SLACK 64 /* bytes after a read that are readable and zero */
/* Limit of one read() call; the kernel cuts longer ones. */
#define MR_READER_MAX_CALL (1u << 30)

enum mr_reader_state { MR_READER_FREE, MR_READER_PENDING, MR_READER_ENDED, MR_READER_LENT };

struct mr_reader_request {
    uint64_t tag;
    int64_t index;
    uint64_t offset; /* as submitted */
    enum mr_reader_state state;
    mr_status status;
    uint8_t *bytes;
    size_t len;
    size_t mapped;    /* bytes of the mapping, at least capacity + MR_READER_SLACK */
    size_t marks_len; /* length of the first extent if it is marks, else 0 */
    size_t extra_len; /* length of all extents but the last if they are byte arrays, else 0;
                         marks_len is 0 then */
    uint32_t n_extents;
    uint32_t reading; /* the extent that pread is reading, for the name of its file */
    struct mr_extent extents[MR_CATALOG_MAX_EXTENTS];
    struct mr_reader_request *next; /* the next request in its queue */
    mr_error error;
};

struct mr_reader_queue {
    struct mr_reader_request *head;
    struct mr_reader_request *tail;
};

struct mr_reader_ops {
    const char *name;
    /* Returns MR_OK; MR_ERR_UNSUPPORTED, MR_ERR_NO_MEMORY. NULL: nothing to do. */
    mr_status (*create)(struct mr_reader *reader, mr_error *error);
    /*
     * After it has returned, nothing writes to a buffer. Also called after create has failed. NULL:
     * nothing to do.
     */
    void (*destroy)(struct mr_reader *reader);
    void (*begin)(struct mr_reader *reader, struct mr_reader_request *request);
    /*
     * Make progress. wait: sleep until a request is in the queue `ended`; at least one is pending.
     */
    void (*advance)(struct mr_reader *reader, bool wait);
};

struct mr_reader {
    const struct mr_catalog *catalog;
    const struct mr_reader_ops *ops;
    void *state; /* private to the reader whose ops these are */
    struct mr_file_cache *cache;
    struct mr_reader_options options;
    bool loose_files;
    uint32_t n_busy;
    uint32_t n_pending;
    uint32_t cursor;                    /* where the search for a free request begins */
    size_t recent_len;                  /* the longest recent read; decays */
    struct mr_reader_queue slow;        /* to be read with ordinary calls */
    struct mr_reader_queue ended;       /* to be reaped */
    struct mr_reader_request *requests; /* array of options.depth requests */
};

extern const struct mr_reader_ops mr_reader_pread_ops;
extern const struct mr_reader_ops mr_reader_uring_ops;

void mr_reader_push(struct mr_reader_queue *queue, struct mr_reader_request *request);
struct mr_reader_request *mr_reader_pop(struct mr_reader_queue *queue);

/* Bytes that the buffer of the request can hold. */
size_t mr_reader_capacity(const struct mr_reader_request *request);
/* Make room for len bytes; its content stays. Returns 0 or -ENOMEM. */
int mr_reader_reserve(struct mr_reader_request *request, size_t len);

/* Finish a request. On failure the caller has already written request->error. */
void mr_reader_finish(struct mr_reader *reader, struct mr_reader_request *request, mr_status status,
                      size_t len);

/* The most bytes that the request may read: max_bytes, plus marks and byte arrays. */
uint64_t mr_reader_limit(const struct mr_reader *reader, const struct mr_reader_request *request);
/*
 * Sum of the lengths of all extents. MR_LEN_UNKNOWN if one is unknown; one less than that if the
 * sum overflows.
 */
uint64_t mr_reader_total(const struct mr_reader_request *request);

/* True if one call can read each extent. */
bool mr_reader_fits_calls(const struct mr_reader_request *request);
/* Open the files of all extents through the cache. False: one failed, and none stays acquired. */
bool mr_reader_acquire(struct mr_reader *reader, const struct mr_reader_request *request,
                       int fds_out[MR_CATALOG_MAX_EXTENTS]);
/* Release the files of the first n extents. */
void mr_reader_release(struct mr_reader *reader, const struct mr_reader_request *request,
                       uint32_t n);

/* Read a request with ordinary calls, and finish it. */
void mr_reader_pread_now(struct mr_reader *reader, struct mr_reader_request *request);

#endif
