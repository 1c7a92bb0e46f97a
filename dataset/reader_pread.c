/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads with ordinary calls, one sample after the other. It also writes the message of every error
 * that a read can end with.
 *
 * Invariant: a short read is not the end of a file. The end is shown by a read of zero bytes, or by
 * a short read that ends exactly at the size that the file reported. A lack of descriptors is not a
 * fault of the sample: the reader waits for them and never reports damage.
 */
#include "dataset/reader_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "dataset/file.h"

/* Waits of 1, 2, 4 ... 512 ms: one second in all. */
#define N_TRIES 11
/* Smaller extents are not worth the system call that announces them to the kernel. */
#define ADVISE_BYTES 65536

static bool is_shortage(int err)
{
    return err == EMFILE || err == ENFILE || err == ENOMEM || err == EAGAIN || err == EINTR;
}

/* Wait for a resource that is short. True: try the call that failed with err again. */
static bool wait_for_resource(struct mr_reader *reader, int err, uint32_t *n_tries)
{
    if (!is_shortage(err) || *n_tries + 1 >= N_TRIES)
        return false;
    if (err != EINTR && !((err == EMFILE || err == ENFILE) && mr_file_cache_shed(reader->cache))) {
        long ms = 1L << *n_tries;
        nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
        ++*n_tries;
    }
    return true;
}

static const char *describe_file(struct mr_reader *reader, const struct mr_reader_request *request,
                                 char name[MR_CATALOG_DESCRIPTION])
{
    mr_catalog_describe_file(reader->catalog, request->index,
                             request->extents[request->reading].file, name);
    return name;
}

/* The error of a system call on a sample's file. */
static mr_status fail_os(struct mr_reader *reader, struct mr_reader_request *request, int err)
{
    char name[MR_CATALOG_DESCRIPTION];
    describe_file(reader, request, name);
    if (mr_file_words(err)) {
        mr_error_set(&request->error, MR_ERR_DAMAGED, "%s: %s", name, mr_file_words(err));
        request->error.os_error = err;
        return MR_ERR_DAMAGED;
    }
    mr_status status = MR_ERR_DAMAGED;
    if (err == ENOMEM)
        status = MR_ERR_NO_MEMORY;
    else if (is_shortage(err) || err == EBADF)
        status = MR_ERR_IO;
    return mr_error_os(&request->error, status, err, "%s", name);
}

static mr_status fail_large(struct mr_reader *reader, struct mr_reader_request *request,
                            uint64_t n_bytes)
{
    char name[MR_CATALOG_DESCRIPTION];
    return mr_error_set(&request->error, MR_ERR_DAMAGED,
                        "%s: %llu bytes are above the limit of %llu",
                        describe_file(reader, request, name),
                        (unsigned long long)(n_bytes - request->marks_len - request->extra_len),
                        (unsigned long long)reader->options.max_bytes);
}

static mr_status fail_short(struct mr_reader *reader, struct mr_reader_request *request, int fd,
                            uint64_t needs)
{
    char name[MR_CATALOG_DESCRIPTION];
    struct stat st;
    if (fstat(fd, &st) != 0)
        return fail_os(reader, request, errno);
    return mr_error_set(&request->error, MR_ERR_DAMAGED, "%s: file ends at byte %lld, needs %llu",
                        describe_file(reader, request, name), (long long)st.st_size,
                        (unsigned long long)needs);
}

static mr_status fail_memory(struct mr_reader *reader, struct mr_reader_request *request,
                             size_t len)
{
    char name[MR_CATALOG_DESCRIPTION];
    return mr_error_set(&request->error, MR_ERR_NO_MEMORY, "%s: cannot allocate %zu bytes",
                        describe_file(reader, request, name), len);
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
    uint32_t n_tries = 0;
    while (done < len) {
        size_t call = len - done < MR_READER_MAX_CALL ? len - done : MR_READER_MAX_CALL;
        ssize_t n = pread(fd, bytes + done, call, (off_t)(offset + done));
        if (n < 0 && !wait_for_resource(reader, errno, &n_tries))
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
    uint32_t n_tries = 0;
    int fd;
    do
        fd = mr_file_cache_open(reader->catalog, file, size_out);
    while (fd < 0 && wait_for_resource(reader, -fd, &n_tries));
    return fd;
}

/* The next guess for a file that reports no size (as in /proc) or grows while it is read. */
static uint64_t grow_guess(uint64_t room, uint64_t limit)
{
    uint64_t more = room * 2 + 4096;
    return more < limit ? more : limit;
}

/*
 * Read a file from offset to its end, and append it to the *len bytes in the buffer. size is what
 * fstat reported after opening; the real end is where reading ends. Each read asks for one byte
 * more than expected, so a short read has seen the end.
 */
static mr_status read_rest(struct mr_reader *reader, struct mr_reader_request *request, int fd,
                           uint64_t offset, uint64_t size, size_t *len)
{
    uint64_t limit = reader->options.max_bytes - *len;
    uint64_t expected = size > offset ? size - offset : 0;
    uint64_t room = expected;
    if (room > limit)
        return fail_large(reader, request, *len + room);
    for (;;) {
        size_t wanted = (size_t)room + 1;
        if (mr_reader_reserve(request, *len + wanted) != 0)
            return fail_memory(reader, request, *len + wanted);
        int64_t n = read_at(reader, fd, request->bytes + *len, wanted, offset, (size_t)expected);
        if (n < 0)
            return fail_os(reader, request, (int)-n);
        if ((uint64_t)n <= room) {
            *len += (size_t)n;
            return MR_OK;
        }
        if (room == limit)
            return fail_large(reader, request, reader->options.max_bytes + 1);
        room = grow_guess(room, limit);
    }
}

static mr_status read_exactly(struct mr_reader *reader, struct mr_reader_request *request, int fd,
                              const struct mr_extent *extent, size_t *len)
{
    uint64_t end;
    if (!mr_checked_add_u64(extent->offset, extent->len, &end) || end > INT64_MAX)
        return fail_short(reader, request, fd, UINT64_MAX);
    if (extent->len > mr_reader_limit(reader, request) - *len)
        return fail_large(reader, request, *len + extent->len);
    if (mr_reader_reserve(request, *len + (size_t)extent->len) != 0)
        return fail_memory(reader, request, *len + (size_t)extent->len);
    int64_t n = read_at(reader, fd, request->bytes + *len, (size_t)extent->len, extent->offset, 0);
    if (n < 0)
        return fail_os(reader, request, (int)-n);
    if ((uint64_t)n < extent->len)
        return fail_short(reader, request, fd, end);
    *len += (size_t)n;
    return MR_OK;
}

/*
 * Returns a descriptor from the cache if samples share files and the cache has room; otherwise a
 * descriptor for this read alone. size_out may be NULL.
 */
static int open_extent(struct mr_reader *reader, uint64_t file, bool *cached_out,
                       uint64_t *size_out)
{
    struct stat st;
    uint32_t n_tries = 0;
    int fd = -EBUSY;
    if (!reader->loose_files) {
        do
            fd = mr_file_cache_acquire(reader->cache, file);
        while (fd < 0 && wait_for_resource(reader, -fd, &n_tries));
    }
    *cached_out = fd >= 0;
    if (fd == -EBUSY)
        return open_uncached(reader, file, size_out);
    if (fd >= 0 && size_out)
        *size_out = fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    return fd;
}

static mr_status read_extent(struct mr_reader *reader, struct mr_reader_request *request,
                             const struct mr_extent *extent, size_t *len)
{
    bool cached, to_end = extent->len == MR_LEN_UNKNOWN;
    uint64_t size = 0;
    int fd = open_extent(reader, extent->file, &cached, to_end ? &size : NULL);
    if (fd < 0)
        return fail_os(reader, request, -fd);
    mr_status status = to_end ? read_rest(reader, request, fd, extent->offset, size, len)
                              : read_exactly(reader, request, fd, extent, len);
    if (cached)
        mr_file_cache_release(reader->cache, extent->file);
    else
        close(fd);
    return status;
}

void mr_reader_pread_now(struct mr_reader *reader, struct mr_reader_request *request)
{
    size_t len = 0;
    mr_status status = MR_OK;
    uint64_t total = mr_reader_total(request);
    if (total != MR_LEN_UNKNOWN && total > mr_reader_limit(reader, request)) {
        request->reading = request->n_extents - 1;
        status = fail_large(reader, request, total);
    }
    for (uint32_t i = 0; i < request->n_extents && status == MR_OK; i++) {
        request->reading = i;
        status = read_extent(reader, request, &request->extents[i], &len);
    }
    mr_reader_finish(reader, request, status, len);
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
 * Announce large extents of shards, and marks, so the disk fetches all extents of a sample at the
 * same time.
 */
static void begin_pread(struct mr_reader *reader, struct mr_reader_request *request)
{
    for (uint32_t i = 0; !reader->loose_files && i < request->n_extents; i++) {
        const struct mr_extent *extent = &request->extents[i];
        bool is_marks = i == 0 && request->marks_len > 0;
        if (extent->len != MR_LEN_UNKNOWN && (extent->len >= ADVISE_BYTES || is_marks))
            advise_extent(reader, extent);
    }
    mr_reader_push(&reader->slow, request);
}

static void advance_pread(struct mr_reader *reader, bool wait)
{
    (void)wait;
    struct mr_reader_request *request = mr_reader_pop(&reader->slow);
    if (request)
        mr_reader_pread_now(reader, request);
}

const struct mr_reader_ops mr_reader_pread_ops = {
    .name = "pread",
    .begin = begin_pread,
    .advance = advance_pread,
};
