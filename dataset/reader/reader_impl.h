/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the readers share. reader.c owns requests, buffers and queues. A request is a
 * sample; a table of functions (reader_uring.c, reader_pread.c, remote/reader_remote.c) takes each
 * of its parts from begin to mr_reader_finish().
 *
 * Invariant: all readers give the same bytes and the same errors. So io_uring puts every part that
 * is not a plain success on the slow queue, and reader_pread.c repeats it with ordinary calls.
 */
#ifndef DATASET_READER_IMPL_H
#define DATASET_READER_IMPL_H

#include "dataset/reader/file_cache.h"
#include "dataset/reader/reader.h"

#define MR_READER_MAX_DEPTH 128
#define MR_READER_PROBES 8 /* of the page cache, before files are mapped for the first time */
#define MR_READER_SLACK 64 /* bytes after a part that are readable and zero */
/* Limit of one read() call; the kernel cuts longer ones. */
#define MR_READER_MAX_CALL (1u << 30)

/* A part of a request, with its buffer. */
struct mr_reader_part {
    const struct mr_part *want;
    uint32_t request; /* its number */
    mr_status status;
    uint8_t *bytes;
    size_t len;
    const struct mr_object_version *version; /* as in struct mr_read_part */
    size_t mapped;               /* bytes of the mapping, at least capacity + MR_READER_SLACK */
    struct mr_reader_part *next; /* the next part in its queue */
    mr_error error;
};

enum mr_reader_state { MR_READER_FREE, MR_READER_PENDING, MR_READER_ENDED, MR_READER_LENT };

struct mr_reader_request {
    uint64_t tag;
    int64_t index;
    enum mr_reader_state state;
    uint32_t n_left; /* parts that have not ended */
    struct mr_part_list list;
    struct mr_reader_part *parts;   /* reader.max_parts of them */
    struct mr_reader_request *next; /* the next request that has ended */
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
    void (*begin)(struct mr_reader *reader, struct mr_reader_part *part);
    /*
     * Make progress. wait: sleep until a request is in the queue `ended`; at least one is pending.
     */
    void (*advance)(struct mr_reader *reader, bool wait);
};

/* Whether small parts are copied from mapped files: reader_mapped.c. */
struct mr_reader_mapped {
    uint32_t n_parts;  /* since the last probe */
    uint32_t n_cached; /* probes in a row that found a part in memory */
    uint32_t n_needed; /* so many are needed; 0: no part is mapped */
};

struct mr_reader {
    const struct mr_catalog *catalog;
    const struct mr_reader_ops *ops;
    void *state; /* private to the reader whose ops these are */
    struct mr_file_cache *cache;
    struct mr_reader_options options;
    uint64_t n_loose;   /* files with lower numbers are opened for each read */
    uint32_t max_parts; /* of a sample */
    uint32_t n_busy;
    uint32_t n_pending;
    uint32_t cursor;   /* the next request whose buffers may shrink */
    size_t recent_len; /* the longest recent part; decays */
    /* Only with measures_depth. Means of recent samples: from a request to its answer, and from
       reap to recycle */
    uint64_t delay_ns, work_ns;
    uint64_t lent_ns; /* the last reap */
    struct {
        struct mr_reader_part *head, *tail;
    } slow; /* to be read with ordinary calls */
    struct {
        struct mr_reader_request *head, *tail;
    } ended; /* to be reaped */
    struct mr_reader_mapped mapped;
    struct mr_reader_request *requests; /* array of options.depth requests */
    struct mr_reader_part *parts;       /* of all requests */
};

extern const struct mr_reader_ops mr_reader_pread_ops;
extern const struct mr_reader_ops mr_reader_uring_ops;
extern const struct mr_reader_ops mr_reader_remote_ops;

/* Move a mean towards a new value; 0: there is none yet. */
void mr_reader_average(uint64_t *mean, uint64_t value);

/* The queue of parts to be read with ordinary calls. */
void mr_reader_push_slow(struct mr_reader *reader, struct mr_reader_part *part);
struct mr_reader_part *mr_reader_pop_slow(struct mr_reader *reader);

/* The number of a part among those of all requests. */
static inline uint32_t mr_reader_number(const struct mr_reader *reader,
                                        const struct mr_reader_part *part)
{
    return (uint32_t)(part - reader->parts);
}

/* True if the file of the part is opened for this read alone. */
static inline bool mr_reader_is_loose(const struct mr_reader *reader,
                                      const struct mr_reader_part *part)
{
    return part->want->extent.file < reader->n_loose;
}

/* True if the sample may lack this part, whose file does not exist. */
static inline bool mr_reader_may_lack(const struct mr_reader *reader,
                                      const struct mr_reader_part *part)
{
    return (part->want->purpose == MR_FOR_MEMBER || part->want->purpose == MR_FOR_VERSION) &&
           mr_reader_is_loose(reader, part) &&
           mr_catalog_may_lack(reader->catalog, part->want->extent.file);
}

/* True if the file of the part is not in the catalog: it is one of options.other_files. */
static inline bool mr_reader_is_other(const struct mr_reader *reader,
                                      const struct mr_reader_part *part)
{
    return part->want->extent.file >= mr_catalog_n_files(reader->catalog);
}

/* Bytes that the buffer of the part can hold. */
size_t mr_reader_capacity(const struct mr_reader_part *part);
/* Make room for len bytes; its content stays. Returns 0 or -ENOMEM. */
int mr_reader_reserve(struct mr_reader_part *part, size_t len);

/* Finish a part. On failure the caller has already written part->error. */
void mr_reader_finish(struct mr_reader *reader, struct mr_reader_part *part, mr_status status,
                      size_t len);

/* Write and return the name of the part's file; parts of other files are named by their sample. */
const char *mr_reader_describe(struct mr_reader *reader, const struct mr_reader_part *part,
                               char name[MR_CATALOG_DESCRIPTION]);
/* Write part->error and return its status: the part is longer than its limit; no memory. */
mr_status mr_reader_fail_large(struct mr_reader *reader, struct mr_reader_part *part,
                               uint64_t n_bytes);
mr_status mr_reader_fail_memory(struct mr_reader *reader, struct mr_reader_part *part, size_t len);

/* True if the part has a known length that its limit and one call allow. */
bool mr_reader_fits_call(const struct mr_reader_part *part);

/* True if small parts are copied from mapped files now. */
bool mr_reader_is_mapped(const struct mr_reader *reader);
/* Copy a range of an open shard from its mapping. False if it must be read with system calls. */
bool mr_reader_copy(struct mr_reader *reader, const struct mr_extent *extent, uint8_t *out);

/* Announce a part to the kernel, and put it into the queue of parts to read with ordinary calls. */
void mr_reader_pread_later(struct mr_reader *reader, struct mr_reader_part *part);
/* Read a part with ordinary calls, and finish it. */
void mr_reader_pread_now(struct mr_reader *reader, struct mr_reader_part *part);

#endif
