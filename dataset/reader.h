/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From extents to bytes, several at a time: submit and reap. There are two readers, io_uring and
 * pread, with the same bytes and the same errors. One reader belongs to one worker.
 */
#ifndef DATASET_READER_H
#define DATASET_READER_H

#include "dataset/catalog.h"

#include <millrace/loader.h>

struct mr_reader;

struct mr_reader_options {
    mr_reader_kind kind;    /* MR_READER_AUTO probes io_uring and falls back */
    uint32_t depth;         /* reads in flight, 1 to 64 */
    uint64_t max_bytes;     /* a sample with more is MR_ERR_DAMAGED; its marks and byte arrays do
                               not count */
    uint32_t max_files;     /* shards kept open; 0, or more than mr_file_cache_limit(): that many */
    bool plain_descriptors; /* io_uring without fixed-file slots, as on kernels before 5.19; for
                               tests */
    bool no_index;          /* leave out the marks of described samples */
};

/*
 * One read that has ended. bytes stay valid until mr_reader_recycle(); 64 bytes after len are
 * readable.
 */
struct mr_read {
    uint64_t tag;
    int64_t index;
    uint8_t *bytes; /* the extents one after the other, without marks */
    size_t len;
    uint64_t offset;       /* as it was submitted, else 0 */
    mr_status status;      /* MR_OK; MR_ERR_DAMAGED: missing, unreadable, a directory, shorter than
                              asked, too large; MR_ERR_NO_MEMORY; MR_ERR_IO: no descriptor was
                              available for a second */
    const mr_error *error; /* set when status is negative; names the file, the index and the cause;
                              valid until recycle */
    uint32_t buffer;       /* the reader's own */
    const uint8_t *marks;  /* of a described sample that has some, whatever part of it was asked
                              for; else NULL */
    size_t marks_len;
    const uint8_t *extra; /* the sample's byte arrays (mr_catalog_extra_lengths()), one after the
                             other */
    size_t extra_len;
};

/*
 * Returns MR_OK; MR_ERR_UNSUPPORTED when MR_READER_URING was asked for and the kernel refuses;
 * MR_ERR_NO_MEMORY.
 */
mr_status mr_reader_create(const struct mr_catalog *catalog,
                           const struct mr_reader_options *options, struct mr_reader **reader_out,
                           mr_error *error);
void mr_reader_destroy(struct mr_reader *reader);

/* "io_uring" or "pread". */
const char *mr_reader_name(const struct mr_reader *reader);

/* Reads submitted and not yet recycled; submit is allowed while it is below depth. */
uint32_t mr_reader_n_busy(const struct mr_reader *reader);
/* Reads submitted and not yet reaped. */
uint32_t mr_reader_n_pending(const struct mr_reader *reader);

/* Begin to read a sample. Never fails: errors come back through reap. */
void mr_reader_submit(struct mr_reader *reader, uint64_t tag, int64_t index);

/*
 * The same for a part: [offset, offset + len) of a described sample and of what stands beside it,
 * of a sample's own file, or of an image in a tar shard, whose byte arrays are read as well. The
 * read has this offset too. len 0 is MR_OK; a part that lies outside, or behind the end of the
 * file, is MR_ERR_DAMAGED. max_bytes is compared with len. Of a file of its own, only a caller that
 * looks at it after the read knows whether it is the file that was meant: another one, or a device,
 * may have taken its place.
 */
void mr_reader_submit_range(struct mr_reader *reader, uint64_t tag, int64_t index, uint64_t offset,
                            uint64_t len);

/*
 * Take one ended read, in any order. wait: sleep until there is one (when anything is pending).
 * Returns true with *read_out, false when nothing has ended or nothing is pending.
 */
bool mr_reader_reap(struct mr_reader *reader, bool wait, struct mr_read *read_out);
void mr_reader_recycle(struct mr_reader *reader, const struct mr_read *read);

#endif
