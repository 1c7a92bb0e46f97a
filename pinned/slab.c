/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slab's memory. Its pages are reserved before a loader's creation returns, so on a full
 * machine creation fails; otherwise an epoch would end with SIGBUS.
 *
 * Invariant: a mapping has huge pages only where its address and its offset in the file are
 * multiples of their size. fallocate() takes no huge pages for a mapping; only a touch through the
 * mapping does.
 */
#include "pinned/slab.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/shared_memory.h"
#include "pinned/huge_pages.h"
#include "pinned/memory_limit.h"

#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21U << 26)
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/*
 * Map at a multiple of the huge page size: reserve a larger piece of address space, then unmap its
 * ends.
 */
static void *map_aligned(int fd, uint64_t len_bytes)
{
    const uint64_t step = MR_HUGE_PAGES_BYTES;
    uint64_t room = len_bytes + step;
    uint8_t *free_room =
        mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (free_room == MAP_FAILED)
        return MAP_FAILED;
    uint64_t before = (step - (uintptr_t)free_room % step) % step;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t used = (len_bytes + page - 1) / page * page;
    void *base =
        mmap(free_room + before, len_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    if (base == MAP_FAILED) {
        munmap(free_room, room);
        return MAP_FAILED;
    }
    if (before > 0)
        munmap(free_room, before);
    if (before + used < room)
        munmap(free_room + before + used, room - before - used);
    return base;
}

static mr_status map_slab(int fd, uint64_t len_bytes, struct mr_slab *slab_out, mr_error *error)
{
    void *base = len_bytes < MR_HUGE_PAGES_BYTES ? MAP_FAILED : map_aligned(fd, len_bytes);
    if (base == MAP_FAILED)
        base = mmap(NULL, len_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return mr_error_os(error, MR_ERR_NO_MEMORY, errno, "cannot map the slab of %.1f MB",
                           (double)len_bytes / 1e6);
    *slab_out = (struct mr_slab){.fd = fd, .base = base, .len_bytes = len_bytes};
    return MR_OK;
}

static int allocate_pages(int fd, uint64_t off, uint64_t len_bytes)
{
    int rc;
    do
        rc = fallocate(fd, 0, (off_t)off, (off_t)len_bytes);
    while (rc != 0 && errno == EINTR);
    return rc;
}

mr_status mr_slab_reserve(const struct mr_slab *slab, uint64_t off, uint64_t len_bytes,
                          mr_error *error)
{
    if (slab->pages == MR_SLAB_PAGES_POOL)
        return MR_OK;
    /*
     * The result is ignored: fallocate() below reserves what is missing, and its errno says why it
     * fails.
     */
    if (slab->pages == MR_SLAB_PAGES_ASKED)
        (void)madvise(slab->base + off, len_bytes, MADV_POPULATE_WRITE);
    if (allocate_pages(slab->fd, off, len_bytes) != 0)
        return mr_error_os(error, MR_ERR_NO_MEMORY, errno,
                           "cannot reserve the slab's %.1f MB, from byte %llu on",
                           (double)slab->len_bytes / 1e6, (unsigned long long)off);
    return MR_OK;
}

mr_status mr_slab_populate(const struct mr_slab *slab, uint64_t off, uint64_t len_bytes,
                           mr_error *error)
{
    if (madvise(slab->base + off, len_bytes, MADV_POPULATE_WRITE) == 0)
        return MR_OK;
    return mr_slab_reserve(slab, off, len_bytes, error);
}

/* Fix the slab's size for good. On failure the slab is destroyed and its descriptor closed. */
static mr_status seal_slab(struct mr_slab *slab, mr_error *error)
{
    int rc = mr_shared_memory_seal(slab->fd);
    if (rc == 0)
        return MR_OK;
    mr_slab_destroy(slab);
    return mr_error_os(error, MR_ERR_IO, -rc, "cannot seal the slab");
}

/*
 * Create the slab from the pool of huge pages. Taking all its pages at once shows whether the pool
 * has enough; false means that it has not, which is no failure.
 */
static bool create_from_pool(uint64_t len_bytes, struct mr_slab *slab_out)
{
    uint64_t rounded =
        (len_bytes + MR_HUGE_PAGES_BYTES - 1) / MR_HUGE_PAGES_BYTES * MR_HUGE_PAGES_BYTES;
    if (len_bytes < MR_HUGE_PAGES_BYTES || len_bytes > INT64_MAX ||
        mr_huge_pages_free("") < rounded)
        return false;
    int fd =
        memfd_create("millrace-slab", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB | MFD_HUGE_2MB);
    if (fd < 0)
        return false;
    if (mr_shared_memory_resize(fd, "millrace-slab", rounded, NULL) != MR_OK ||
        allocate_pages(fd, 0, rounded) != 0 || map_slab(fd, rounded, slab_out, NULL) != MR_OK) {
        close(fd);
        return false;
    }
    slab_out->pages = MR_SLAB_PAGES_POOL;
    return seal_slab(slab_out, NULL) == MR_OK;
}

void mr_slab_ask(struct mr_slab *slab)
{
    if (madvise(slab->base, slab->len_bytes, MADV_HUGEPAGE) == 0)
        slab->pages = MR_SLAB_PAGES_ASKED;
}

mr_status mr_slab_create(uint64_t len_bytes, enum mr_slab_pages most, struct mr_slab *slab_out,
                         mr_error *error)
{
    int fd;
    if (most == MR_SLAB_PAGES_POOL && create_from_pool(len_bytes, slab_out))
        return MR_OK;
    mr_status status = mr_memory_limit_check(len_bytes, error);
    if (status != MR_OK)
        return status;
    status = mr_shared_memory_create("millrace-slab", len_bytes, &fd, error);
    if (status != MR_OK)
        return status;
    status = map_slab(fd, len_bytes, slab_out, error);
    if (status != MR_OK) {
        close(fd);
        return status;
    }
    if (most != MR_SLAB_PAGES_SMALL && len_bytes >= MR_HUGE_PAGES_BYTES &&
        mr_huge_pages_on_request(""))
        mr_slab_ask(slab_out);
    return seal_slab(slab_out, error);
}

mr_status mr_slab_attach(int fd, struct mr_slab *slab_out, mr_error *error)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return mr_error_os(error, MR_ERR_IO, errno, "the slab's descriptor %d", fd);
    mr_status status = map_slab(fd, (uint64_t)st.st_size, slab_out, error);
    if (status == MR_OK)
        slab_out->fd = -1;
    return status;
}

/*
 * Frees the pages even if a process forked since the creation still maps the slab or holds its
 * descriptor.
 */
static void free_pages(const struct mr_slab *slab)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t len = (slab->len_bytes + page - 1) / page * page;
    (void)fallocate(slab->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)len);
}

void mr_slab_destroy(struct mr_slab *slab)
{
    if (slab->base)
        munmap(slab->base, slab->len_bytes);
    if (slab->fd >= 0) {
        free_pages(slab);
        close(slab->fd);
    }
    *slab = (struct mr_slab){.fd = -1};
}
