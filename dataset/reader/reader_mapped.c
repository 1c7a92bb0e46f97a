/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies rows of tokens from mapped files: a system call takes longer than the copy. But a page
 * that is not in memory would stop the worker for a disk's delay, with no other read in flight. So
 * one part of PROBE_EVERY is first read without waiting. Files are mapped after n_needed of these
 * in a row were in memory, until one is not; then four times as many are needed, so that a file
 * which is read in order, ahead of which the kernel reads, does not change between the two all the
 * time.
 *
 * Invariant: the bytes are those that a read returns. After the end of a file that has shrunk,
 * whole pages raise SIGBUS, which ends the copy, and the rest of the last page is zero. So a copy
 * that ends with a zero is good only if the file is still long enough. In either case the part is
 * read again, with system calls, and that writes the message.
 */
#include "dataset/reader/reader_impl.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

#define MAX_BYTES 32768 /* for more, a system call is a small part of the time */
#define PROBE_EVERY 16
#define MAX_PROBES 2048

static sigjmp_buf after_copy;
static volatile sig_atomic_t is_copying;

void mr_reader_leave_copy(void)
{
    if (is_copying)
        siglongjmp(after_copy, 1);
}

static bool copy(uint8_t *out, const uint8_t *bytes, size_t len)
{
    bool is_good = false;
    if (sigsetjmp(after_copy, 0) == 0) {
        is_copying = 1;
        atomic_signal_fence(memory_order_seq_cst);
        memcpy(out, bytes, len);
        atomic_signal_fence(memory_order_seq_cst);
        is_good = true;
    }
    is_copying = 0;
    return is_good;
}

static bool reaches(int fd, uint64_t end)
{
    struct stat st;
    return fstat(fd, &st) == 0 && (uint64_t)st.st_size >= end;
}

bool mr_reader_is_mapped(const struct mr_reader *reader)
{
    return reader->mapped.n_needed > 0 && reader->mapped.n_cached >= reader->mapped.n_needed;
}

/* Is the byte in memory? Where the file system cannot tell, no file is mapped. */
static void probe(struct mr_reader *reader, int fd, uint64_t offset)
{
    struct mr_reader_mapped *mapped = &reader->mapped;
    uint8_t byte;
    struct iovec place = {.iov_base = &byte, .iov_len = 1};
    mapped->n_parts = 0;
    ssize_t n = preadv2(fd, &place, 1, (off_t)offset, RWF_NOWAIT);
    if (n == 1) {
        mapped->n_cached += !mr_reader_is_mapped(reader);
        return;
    }
    if (mr_reader_is_mapped(reader) && mapped->n_needed < MAX_PROBES)
        mapped->n_needed *= 4;
    mapped->n_cached = 0;
    if (n < 0 && errno == EOPNOTSUPP)
        mapped->n_needed = 0;
}

bool mr_reader_copy(struct mr_reader *reader, const struct mr_extent *extent, uint8_t *out)
{
    struct mr_file_map map;
    if (reader->mapped.n_needed == 0 || extent->len > MAX_BYTES || extent->len == 0 ||
        extent->file < reader->n_loose || extent->file >= mr_catalog_n_files(reader->catalog))
        return false;
    bool is_probed = ++reader->mapped.n_parts >= PROBE_EVERY;
    if ((!is_probed && !mr_reader_is_mapped(reader)) ||
        !mr_file_cache_map(reader->cache, extent->file, &map) || extent->offset > map.len ||
        extent->len > map.len - extent->offset)
        return false;
    if (is_probed)
        probe(reader, map.fd, extent->offset + extent->len - 1);
    return mr_reader_is_mapped(reader) &&
           copy(out, map.bytes + extent->offset, (size_t)extent->len) &&
           (out[extent->len - 1] != 0 || reaches(map.fd, extent->offset + extent->len));
}
