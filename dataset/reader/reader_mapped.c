/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies rows of tokens from mapped files: a system call takes longer than the copy. But a page
 * that is not in memory would stop the worker for a disk's delay, with no other read in flight. So
 * one part of PROBE_EVERY is read by a call that does not wait. Files are mapped after n_needed of
 * these in a row were in memory, until one is not; then four times as many are needed, so that a
 * file which is read in order, ahead of which the kernel reads, does not change between the two all
 * the time.
 *
 * Invariant: the bytes are those that a read returns. After the end of a file that has shrunk,
 * whole pages raise SIGBUS, which ends the copy, and the rest of the last page is zero. So if the
 * last byte is zero after the copy (of an i32 it always is), a byte of a later page is read too: it
 * raises SIGBUS if the file now ends in the copy. In the last pages of the file, its length is
 * asked for. What is not good is read again, with system calls, and that writes the message. As
 * with a read, a file that shrinks during the copy itself may have zeros, where the file system
 * writes them before it changes the size (XFS).
 */
#include "dataset/reader/reader_impl.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "base/checked.h"

/* With the last label; for more, a system call is a small part of the time. */
#define MAX_BYTES (32768 + 8)
#define PAGE 65536 /* a multiple of the size of any kernel's pages */
#define PROBE_EVERY 16
#define MAX_PROBES 2048

static sigjmp_buf after_copy;
static volatile sig_atomic_t is_copying;

void mr_reader_leave_copy(void)
{
    if (is_copying)
        siglongjmp(after_copy, 1);
}

static bool reaches(int fd, uint64_t end)
{
    struct stat st;
    return fstat(fd, &st) == 0 && (uint64_t)st.st_size >= end;
}

/* Does the file still have the byte before end? Raises SIGBUS if not. */
static bool is_whole(const struct mr_file_map *map, uint64_t end)
{
    uint64_t next = mr_align_up((size_t)end, PAGE);
    const volatile uint8_t *bytes = map->bytes;
    if (bytes[end - 1] != 0)
        return true;
    if (next >= map->len)
        return reaches(map->fd, end);
    (void)bytes[next];
    return true;
}

static bool copy(uint8_t *out, const struct mr_file_map *map, const struct mr_extent *extent)
{
    bool is_good = false;
    if (sigsetjmp(after_copy, 0) == 0) {
        is_copying = 1;
        atomic_signal_fence(memory_order_seq_cst);
        memcpy(out, map->bytes + extent->offset, (size_t)extent->len);
        atomic_thread_fence(memory_order_seq_cst);
        is_good = is_whole(map, extent->offset + extent->len);
        atomic_signal_fence(memory_order_seq_cst);
    }
    is_copying = 0;
    return is_good;
}

bool mr_reader_is_mapped(const struct mr_reader *reader)
{
    return reader->mapped.n_needed > 0 && reader->mapped.n_cached >= reader->mapped.n_needed;
}

/*
 * Read a part if it is in memory; if not, the call begins to read it. Where the system cannot tell,
 * no file is mapped.
 */
static bool probe(struct mr_reader *reader, int fd, const struct mr_extent *extent, uint8_t *out)
{
    struct mr_reader_mapped *mapped = &reader->mapped;
    struct iovec place = {.iov_base = out, .iov_len = (size_t)extent->len};
    mapped->n_parts = 0;
    ssize_t n = preadv2(fd, &place, 1, (off_t)extent->offset, RWF_NOWAIT);
    if (n == (ssize_t)extent->len) {
        mapped->n_cached += !mr_reader_is_mapped(reader);
        return true;
    }
    if (mr_reader_is_mapped(reader) && mapped->n_needed < MAX_PROBES)
        mapped->n_needed *= 4;
    mapped->n_cached = 0;
    if (n < 0 && errno != EAGAIN)
        mapped->n_needed = 0;
    return false;
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
    return is_probed ? probe(reader, map.fd, extent, out) : copy(out, &map, extent);
}
