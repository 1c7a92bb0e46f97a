/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From extents to bytes, several reads at a time: submit and reap. There are two readers, io_uring
 * and pread. Both give the same bytes and the same errors. Each worker has its own reader.
 */
#ifndef DATASET_READER_H
#define DATASET_READER_H

#include "dataset/catalog.h"

#include <millrace/loader.h>

struct mr_reader;

struct mr_reader_options {
    mr_reader_kind kind; /* MR_READER_AUTO probes io_uring and falls back */
    uint32_t depth;      /* reads in flight: 1 to 64 */
    uint64_t max_bytes;  /* a sample with more bytes is MR_ERR_DAMAGED; marks and byte arrays do not
                            count */
    uint32_t
        max_files; /* limit on open shards; 0, or a value above mr_file_cache_limit(): that limit */
    bool plain_descriptors; /* use io_uring without fixed-file slots, as on kernels before 5.19; for
                               tests */
    bool no_index;          /* do not read the marks of described samples */
};

/* A finished read. bytes stay valid until mr_reader_recycle(); 64 bytes after len are readable. */
struct mr_read {
    uint64_t tag;
    int64_t index;
    uint8_t *bytes; /* the extents one after the other, without marks */
    size_t len;
    uint64_t offset;  /* as submitted; 0 for a whole sample */
    mr_status status; /* MR_OK; MR_ERR_DAMAGED: the file is missing, unreadable, a directory, too
                         short or too large; MR_ERR_NO_MEMORY; MR_ERR_IO: no descriptor was
                         available for a second */
    const mr_error *error; /* set when status is negative; names the file, the index and the cause;
                              valid until recycle */
    uint32_t buffer;       /* private to the reader */
    const uint8_t *marks; /* the marks of a described sample, whichever part of it was read; NULL if
                             it has none */
    size_t marks_len;
    const uint8_t *extra; /* the sample's byte arrays (mr_catalog_extra_lengths()), one after the
                             other */
    size_t extra_len;
};

/*
 * Returns MR_OK; MR_ERR_UNSUPPORTED if MR_READER_URING was requested and the kernel refuses it;
 * MR_ERR_NO_MEMORY.
 */
mr_status mr_reader_create(const struct mr_catalog *catalog,
                           const struct mr_reader_options *options, struct mr_reader **reader_out,
                           mr_error *error);
void mr_reader_destroy(struct mr_reader *reader);

/* "io_uring" or "pread". */
const char *mr_reader_name(const struct mr_reader *reader);

/* Reads submitted and not yet recycled. Submit is allowed while this is below depth. */
uint32_t mr_reader_n_busy(const struct mr_reader *reader);
/* Reads submitted and not yet reaped. */
uint32_t mr_reader_n_pending(const struct mr_reader *reader);

/* Start reading a sample. It cannot fail: errors are reported by reap. */
void mr_reader_submit(struct mr_reader *reader, uint64_t tag, int64_t index);

/*
 * The same for a range: [offset, offset + len) of a described sample (including the bytes that only
 * unpacking needs), of a loose file, or of an image in a tar shard, whose byte arrays are read too.
 * The finished read has the same offset. len 0 gives MR_OK. A range outside the sample, or beyond
 * the end of the file, gives MR_ERR_DAMAGED. max_bytes limits len.
 *
 * A loose file may have been replaced by another file or a device. The reader cannot notice that
 * when it reads a range, so the caller checks the file after the read.
 */
void mr_reader_submit_range(struct mr_reader *reader, uint64_t tag, int64_t index, uint64_t offset,
                            uint64_t len);

/*
 * Take one finished read, in any order. wait: sleep until one is finished, if any is pending.
 * Returns true with *read_out; false if no read is finished or none is pending.
 */
bool mr_reader_reap(struct mr_reader *reader, bool wait, struct mr_read *read_out);
void mr_reader_recycle(struct mr_reader *reader, const struct mr_read *read);

#endif
