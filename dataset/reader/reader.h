/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a list of parts to their bytes, several samples at a time: submit and reap. There are three
 * readers: io_uring and pread for local files, and one for remote files. All give the same bytes;
 * the first two also the same errors. Each worker has its own reader.
 *
 * The contract: up to depth samples are in flight; they finish in any order, and so do the parts of
 * one. A reap without waiting that returns false means "not yet", which is no error. If a part
 * fails for a while (for lack of a descriptor or of memory for the call), the reader tries it
 * again, as often as it decides, until it succeeds or patience_ms have passed; io_uring and pread
 * sleep meanwhile, even in a reap without waiting. For a remote file the time is retry_ms.
 * MR_ERR_DAMAGED is a fault of the sample, which the policy for damaged
 * samples is for; all other errors are faults of this machine.
 */
#ifndef DATASET_READER_H
#define DATASET_READER_H

#include "dataset/catalog.h"

#include <millrace/loader.h>

struct mr_reader;
struct mr_other_files; /* dataset/reader/file_cache.h */

#define MR_READER_RETRY_MS 30000u

struct mr_reader_options {
    mr_reader_kind kind; /* MR_READER_AUTO probes io_uring and falls back */
    uint32_t depth;      /* samples in flight: 1 to 128 */
    bool measures_depth; /* of remote files, as many as hide the measured delay, at most depth */
    uint32_t
        max_files; /* limit on open shards; 0, or a value above mr_file_cache_limit(): that limit */
    uint32_t patience_ms;   /* how long a part that fails for a while is tried again; 0: a second */
    uint32_t n_connections; /* of a remote reader; 0: one for each sample in flight */
    uint32_t retry_ms;      /* how long a remote part is tried again; 0: MR_READER_RETRY_MS */
    const char *root_url;   /* read all files of the catalog below this URL, as if the absolute path
                               of its root were there; for tests. NULL: from where they are */
    bool plain_descriptors; /* use io_uring without fixed-file slots, as on kernels before 5.19; for
                               tests */
    bool maps_files; /* small parts are copied from mapped files while these are in memory; only in
                        a process of one thread, whose handler of SIGBUS calls
                        mr_reader_leave_copy() */
    const struct mr_other_files *other_files; /* NULL: there are none */
};

struct mr_read_part {
    const uint8_t *bytes; /* 64 more are readable; NULL: the read has failed */
    size_t len;
    const struct mr_object_version *version; /* as the answer of a server states it; else NULL */
};

/* A finished read. Its bytes stay valid until mr_reader_recycle(). */
struct mr_read {
    uint64_t tag;
    int64_t index;
    const struct mr_part_list *list; /* as submitted */
    struct mr_read_part part[MR_MAX_PARTS];
    mr_status status;      /* MR_OK; MR_ERR_DAMAGED: a file is missing, unreadable, a directory, too
                              short or too large; MR_ERR_NO_MEMORY; MR_ERR_IO: no descriptor was
                              available for patience_ms */
    const mr_error *error; /* set when status is negative; names the file, the index and the cause
                              of the first part that failed; valid until recycle */
    uint32_t buffer;       /* private to the reader */
};

/*
 * Returns MR_OK; MR_ERR_UNSUPPORTED if MR_READER_URING was requested and the kernel refuses it;
 * MR_ERR_NO_MEMORY.
 */
mr_status mr_reader_create(const struct mr_catalog *catalog,
                           const struct mr_reader_options *options, struct mr_reader **reader_out,
                           mr_error *error);
void mr_reader_destroy(struct mr_reader *reader);

/*
 * For a handler of SIGBUS: if the process was copying from a mapped file, it does not return, and
 * the part is read with system calls. Else it returns.
 */
void mr_reader_leave_copy(void);

/* "io_uring", "pread" or "http". */
const char *mr_reader_name(const struct mr_reader *reader);

/* Samples submitted and not yet recycled. Submit is allowed while this is below depth. */
uint32_t mr_reader_n_busy(const struct mr_reader *reader);
/* Samples that should be in flight now: depth, or fewer with measures_depth. */
uint32_t mr_reader_depth(const struct mr_reader *reader);
/* Samples submitted and not yet reaped. */
uint32_t mr_reader_n_pending(const struct mr_reader *reader);

/*
 * Start reading the parts of a sample; index is for messages. It cannot fail: errors are reported
 * by reap. A part with len 0, or with its
 * bytes in the catalog, opens no file.
 */
void mr_reader_submit(struct mr_reader *reader, uint64_t tag, int64_t index,
                      const struct mr_part_list *list);

/*
 * Take one finished read, in any order. wait: sleep until one is finished, if any is pending.
 * Returns true with *read_out; false if no read is finished or none is pending.
 */
bool mr_reader_reap(struct mr_reader *reader, bool wait, struct mr_read *read_out);
void mr_reader_recycle(struct mr_reader *reader, const struct mr_read *read);

/*
 * The first part of this purpose, or NULL if the list has none. The members follow each other, and
 * so do the versions.
 */
const struct mr_read_part *mr_read_find(const struct mr_read *read, enum mr_purpose purpose);
/* mr_catalog_split() of a read that succeeded. */
mr_status mr_read_split(const struct mr_catalog *catalog, const struct mr_read *read,
                        const uint8_t **data_out, size_t *data_len_out, void *label_out,
                        mr_error *error);
/* mr_catalog_verify() of the image of a read that succeeded, and of its members. */
mr_status mr_read_verify(const struct mr_catalog *catalog, const struct mr_read *read,
                         mr_error *error);
/* Bytes of all parts. */
uint64_t mr_read_bytes(const struct mr_read *read);

#endif
