/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads with ordinary calls, one part after the other. It also writes the message of every error
 * that a read can end with.
 *
 * Invariant: a short read is not the end of a file. The end is shown by a read of zero bytes, or by
 * a short read that ends exactly at the size that the file reported. A lack of descriptors is not a
 * fault of the sample: the reader waits for them and never reports damage.
 */
#include "dataset/reader/reader_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "dataset/file.h"

/* Smaller extents are not worth the system call that announces them to the kernel. */
#define ADVISE_BYTES 65536

static bool is_shortage(int err)
{
    return err == EMFILE || err == ENFILE || err == ENOMEM || err == EAGAIN || err == EINTR;
}

/*
 * Wait for a resource that is short: 1, 1, 2, 4 ... ms. True: try the call that failed with err
 * again.
 */
static bool wait_for_resource(struct mr_reader *reader, int err, uint32_t *waited_ms)
{
    if (!is_shortage(err) || *waited_ms >= reader->options.patience_ms)
        return false;
    if (err != EINTR && !((err == EMFILE || err == ENFILE) && mr_file_cache_shed(reader->cache))) {
        uint32_t ms = *waited_ms > 0 ? *waited_ms : 1;
        struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
        nanosleep(&time, NULL);
        *waited_ms += ms;
    }
    return true;
}

const char *mr_reader_describe(struct mr_reader *reader, const struct mr_reader_part *part,
                               char name[MR_CATALOG_DESCRIPTION])
{
    uint64_t file = part->want->extent.file;
    int64_t index = reader->requests[part->request].index;
    if (mr_reader_is_other(reader, part))
        mr_catalog_describe(reader->catalog, index, name);
    else
        mr_catalog_describe_file(reader->catalog, index, file, name);
    return name;
}

/* The error of a system call on a sample's file. */
static mr_status fail_os(struct mr_reader *reader, struct mr_reader_part *part, int err)
{
    char name[MR_CATALOG_DESCRIPTION];
    mr_reader_describe(reader, part, name);
    if (mr_file_words(err)) {
        mr_error_set(&part->error, MR_ERR_DAMAGED, "%s: %s", name, mr_file_words(err));
        part->error.os_error = err;
        return MR_ERR_DAMAGED;
    }
    mr_status status = MR_ERR_DAMAGED;
    if (err == ENOMEM)
        status = MR_ERR_NO_MEMORY;
    else if (is_shortage(err) || err == EBADF)
        status = MR_ERR_IO;
    return mr_error_os(&part->error, status, err, "%s", name);
}

mr_status mr_reader_fail_large(struct mr_reader *reader, struct mr_reader_part *part,
                               uint64_t n_bytes)
{
    char name[MR_CATALOG_DESCRIPTION];
    return mr_error_set(&part->error, MR_ERR_DAMAGED, "%s: %llu bytes are above the limit of %llu",
                        mr_reader_describe(reader, part, name), (unsigned long long)n_bytes,
                        (unsigned long long)part->want->max_bytes);
}

static mr_status fail_short(struct mr_reader *reader, struct mr_reader_part *part, int fd,
                            uint64_t needs)
{
    char name[MR_CATALOG_DESCRIPTION];
    struct stat st;
    if (fstat(fd, &st) != 0)
        return fail_os(reader, part, errno);
    return mr_error_set(&part->error, MR_ERR_DAMAGED, "%s: file ends at byte %lld, needs %llu",
                        mr_reader_describe(reader, part, name), (long long)st.st_size,
                        (unsigned long long)needs);
}

mr_status mr_reader_fail_memory(struct mr_reader *reader, struct mr_reader_part *part, size_t len)
{
    char name[MR_CATALOG_DESCRIPTION];
    return mr_error_set(&part->error, MR_ERR_NO_MEMORY, "%s: cannot allocate %zu bytes",
                        mr_reader_describe(reader, part, name), len);
}

/*
 * Read up to len bytes at offset; fewer only at the end of the file. A short read with `expected`
 * bytes in total has seen the end; with expected 0 only a read of zero bytes shows it. Returns the
 * number of bytes or a negative errno.
 */
static int64_t read_at(struct mr_reader *reader, int fd, uint8_t *bytes, size_t len,
                       uint64_t offset, size_t expected)
{
    size_t done = 0;
    uint32_t waited_ms = 0;
    while (done < len) {
        size_t call = len - done < MR_READER_MAX_CALL ? len - done : MR_READER_MAX_CALL;
        ssize_t n = pread(fd, bytes + done, call, (off_t)(offset + done));
        if (n < 0 && !wait_for_resource(reader, errno, &waited_ms))
            return -errno;
        if (n == 0)
            break;
        if (n > 0)
            done += (size_t)n;
        if (n > 0 && (size_t)n < call && done == expected)
            break;
    }
    return (int64_t)done;
}

/* Open a file outside the cache. Returns the descriptor or a negative errno. */
static int open_uncached(struct mr_reader *reader, uint64_t file, uint64_t *size_out)
{
    uint32_t waited_ms = 0;
    int fd;
    do
        fd = mr_file_cache_open_apart(reader->cache, file, size_out);
    while (fd < 0 && wait_for_resource(reader, -fd, &waited_ms));
    return fd;
}

/* The next guess for a file that reports no size (as in /proc) or grows while it is read. */
static uint64_t grow_guess(uint64_t room, uint64_t limit)
{
    uint64_t more = room * 2 + 4096;
    return more < limit ? more : limit;
}

/*
 * Read a file from offset to its end. size is what fstat reported after opening; the real end is
 * where reading ends. Each read asks for one byte more than expected, so a short read has seen the
 * end.
 */
static mr_status read_rest(struct mr_reader *reader, struct mr_reader_part *part, int fd,
                           uint64_t size)
{
    uint64_t offset = part->want->extent.offset, limit = part->want->max_bytes;
    uint64_t expected = size > offset ? size - offset : 0;
    uint64_t room = expected;
    if (room > limit)
        return mr_reader_fail_large(reader, part, room);
    for (;;) {
        size_t wanted = (size_t)room + 1;
        if (mr_reader_reserve(part, wanted) != 0)
            return mr_reader_fail_memory(reader, part, wanted);
        int64_t n = read_at(reader, fd, part->bytes, wanted, offset, (size_t)expected);
        if (n < 0)
            return fail_os(reader, part, (int)-n);
        part->len = (size_t)n;
        if ((uint64_t)n <= room)
            return MR_OK;
        if (room == limit)
            return mr_reader_fail_large(reader, part, limit + 1);
        room = grow_guess(room, limit);
    }
}

static mr_status read_exactly(struct mr_reader *reader, struct mr_reader_part *part, int fd)
{
    const struct mr_extent *extent = &part->want->extent;
    uint64_t end;
    if (!mr_checked_add_u64(extent->offset, extent->len, &end) || end > INT64_MAX)
        return fail_short(reader, part, fd, UINT64_MAX);
    if (mr_reader_reserve(part, (size_t)extent->len) != 0)
        return mr_reader_fail_memory(reader, part, (size_t)extent->len);
    int64_t n = read_at(reader, fd, part->bytes, (size_t)extent->len, extent->offset, 0);
    if (n < 0)
        return fail_os(reader, part, (int)-n);
    if ((uint64_t)n < extent->len)
        return fail_short(reader, part, fd, end);
    part->len = (size_t)n;
    return MR_OK;
}

/*
 * Returns a descriptor from the cache if samples share the file and the cache has room; otherwise a
 * descriptor for this read alone. size_out may be NULL.
 */
static int open_file(struct mr_reader *reader, uint64_t file, bool *cached_out, uint64_t *size_out)
{
    struct stat st;
    uint32_t waited_ms = 0;
    int fd = -EBUSY;
    if (file >= reader->n_loose) {
        do
            fd = mr_file_cache_acquire(reader->cache, file);
        while (fd < 0 && wait_for_resource(reader, -fd, &waited_ms));
    }
    *cached_out = fd >= 0;
    if (fd == -EBUSY)
        return open_uncached(reader, file, size_out);
    if (fd >= 0 && size_out)
        *size_out = fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    return fd;
}

static void close_file(struct mr_reader *reader, uint64_t file, bool cached, int fd)
{
    if (cached)
        mr_file_cache_release(reader->cache, file);
    else
        close(fd);
}

static void begin_pieces(const struct mr_reader *reader, const struct mr_reader_part *part,
                         struct mr_piece_walk *walk_out)
{
    const struct mr_reader_request *request = &reader->requests[part->request];
    mr_catalog_begin_pieces(reader->catalog, request->index, walk_out);
    walk_out->pieces = request->list.pieces;
    walk_out->n_pieces = request->list.n_pieces;
}

/* Read the pieces of a sample, one after the other, into one buffer. */
static mr_status read_pieces(struct mr_reader *reader, struct mr_reader_part *part)
{
    struct mr_piece_walk walk;
    struct mr_extent piece;
    const int64_t index = reader->requests[part->request].index;
    if (mr_reader_reserve(part, (size_t)part->want->extent.len) != 0)
        return mr_reader_fail_memory(reader, part, (size_t)part->want->extent.len);
    mr_status status = mr_catalog_check(reader->catalog, index, &part->error);
    if (status == MR_OK)
        begin_pieces(reader, part, &walk);
    while (status == MR_OK && mr_catalog_next_piece(reader->catalog, &walk, &piece)) {
        bool cached;
        if (piece.len > part->want->extent.len - part->len)
            return mr_reader_fail_large(reader, part, part->len + piece.len);
        if (mr_reader_copy(reader, &piece, part->bytes + part->len)) {
            part->len += (size_t)piece.len;
            continue;
        }
        int fd = open_file(reader, piece.file, &cached, NULL);
        if (fd < 0)
            return fail_os(reader, part, -fd);
        int64_t n =
            read_at(reader, fd, part->bytes + part->len, (size_t)piece.len, piece.offset, 0);
        if (n < 0)
            status = fail_os(reader, part, (int)-n);
        else if ((uint64_t)n < piece.len)
            status = fail_short(reader, part, fd, piece.offset + piece.len);
        else
            part->len += (size_t)n;
        close_file(reader, piece.file, cached, fd);
    }
    return status;
}

static mr_status copy_part(struct mr_reader *reader, struct mr_reader_part *part,
                           const uint8_t *bytes)
{
    size_t len = (size_t)part->want->extent.len;
    if (mr_reader_reserve(part, len) != 0)
        return mr_reader_fail_memory(reader, part, len);
    memcpy(part->bytes, bytes, len);
    part->len = len;
    return MR_OK;
}

static mr_status read_part(struct mr_reader *reader, struct mr_reader_part *part)
{
    const struct mr_extent *extent = &part->want->extent;
    bool cached, to_end = extent->len == MR_LEN_UNKNOWN;
    uint64_t size = 0;
    part->len = 0;
    if (mr_reader_reserve(part, 0) != 0)
        return mr_reader_fail_memory(reader, part, 0);
    if (!to_end && extent->len > part->want->max_bytes)
        return mr_reader_fail_large(reader, part, extent->len);
    if (extent->len == 0)
        return MR_OK;
    if (extent->file == MR_FILE_PIECES)
        return read_pieces(reader, part);
    const uint8_t *memory = mr_catalog_memory(reader->catalog, extent);
    if (memory)
        return copy_part(reader, part, memory);
    int fd = open_file(reader, extent->file, &cached, to_end ? &size : NULL);
    if (fd == -ENOENT && mr_reader_may_lack(reader, part))
        return MR_OK;
    if (fd < 0)
        return fail_os(reader, part, -fd);
    mr_status status = to_end ? read_rest(reader, part, fd, size) : read_exactly(reader, part, fd);
    close_file(reader, extent->file, cached, fd);
    return status;
}

void mr_reader_pread_now(struct mr_reader *reader, struct mr_reader_part *part)
{
    mr_status status = read_part(reader, part);
    mr_reader_finish(reader, part, status, part->len);
}

/* Tell the kernel that an extent will be read. Errors are ignored: the read itself reports them. */
static void advise_extent(struct mr_reader *reader, const struct mr_extent *extent)
{
    int fd = mr_file_cache_acquire(reader->cache, extent->file);
    if (fd < 0)
        return;
    (void)posix_fadvise(fd, (off_t)extent->offset, (off_t)extent->len, POSIX_FADV_WILLNEED);
    mr_file_cache_release(reader->cache, extent->file);
}

/*
 * Announce large extents of shards, marks, and what a cache has of a sample, so the disk fetches
 * all parts of a sample at the same time, and several samples.
 */
void mr_reader_pread_later(struct mr_reader *reader, struct mr_reader_part *part)
{
    const struct mr_extent *extent = &part->want->extent;
    if (extent->file == MR_FILE_PIECES) {
        struct mr_piece_walk walk;
        struct mr_extent piece;
        begin_pieces(reader, part, &walk);
        while (!mr_reader_is_mapped(reader) &&
               mr_catalog_next_piece(reader->catalog, &walk, &piece))
            advise_extent(reader, &piece);
        mr_reader_push_slow(reader, part);
        return;
    }
    bool counts = extent->len >= ADVISE_BYTES || part->want->purpose == MR_FOR_MARKS ||
                  mr_reader_is_other(reader, part);
    if (!mr_reader_is_loose(reader, part) && extent->len != MR_LEN_UNKNOWN && counts)
        advise_extent(reader, extent);
    mr_reader_push_slow(reader, part);
}

/* Finish one sample. */
static void advance_pread(struct mr_reader *reader, bool wait)
{
    struct mr_reader_part *part;
    (void)wait;
    while (!reader->ended.head && (part = mr_reader_pop_slow(reader)))
        mr_reader_pread_now(reader, part);
}

const struct mr_reader_ops mr_reader_pread_ops = {
    .name = "pread",
    .begin = mr_reader_pread_later,
    .advance = advance_pread,
};
