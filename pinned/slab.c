/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slab's memory. Its pages are reserved before a loader's creation returns, so that a full machine is an error at
 * the start and not a SIGBUS in the middle of an epoch.
 */
#include "pinned/slab.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/shared_memory.h"
#include "pinned/memory_limit.h"

static mr_status map(int fd, uint64_t len_bytes, struct mr_slab *slab_out, mr_error *error)
{
    void *base = mmap(NULL, len_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return mr_error_os(error, MR_ERR_NO_MEMORY, errno, "cannot map the slab of %.1f MB", (double)len_bytes / 1e6);
    *slab_out = (struct mr_slab){.fd = fd, .base = base, .len_bytes = len_bytes};
    return MR_OK;
}

mr_status mr_slab_reserve(const struct mr_slab *slab, uint64_t off, uint64_t len_bytes, mr_error *error)
{
    int rc;
    do
        rc = fallocate(slab->fd, 0, (off_t)off, (off_t)len_bytes);
    while (rc != 0 && errno == EINTR);
    if (rc != 0)
        return mr_error_os(error, MR_ERR_NO_MEMORY, errno, "cannot reserve the slab's %.1f MB, from byte %llu on",
                           (double)slab->len_bytes / 1e6, (unsigned long long)off);
    return MR_OK;
}

mr_status mr_slab_create(uint64_t len_bytes, struct mr_slab *slab_out, mr_error *error)
{
    int fd;
    mr_status status = mr_memory_limit_check(len_bytes, error);
    if (status != MR_OK)
        return status;
    status = mr_shared_memory_create("millrace-slab", len_bytes, &fd, error);
    if (status != MR_OK)
        return status;
    status = map(fd, len_bytes, slab_out, error);
    if (status == MR_OK) {
        int rc = mr_shared_memory_seal(fd);
        if (rc != 0) {
            status = mr_error_os(error, MR_ERR_IO, -rc, "cannot seal the slab");
            munmap(slab_out->base, len_bytes);
            *slab_out = (struct mr_slab){.fd = -1};
        }
    }
    if (status != MR_OK)
        close(fd);
    return status;
}

mr_status mr_slab_attach(int fd, struct mr_slab *slab_out, mr_error *error)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return mr_error_os(error, MR_ERR_IO, errno, "the slab's descriptor %d", fd);
    mr_status status = map(fd, (uint64_t)st.st_size, slab_out, error);
    if (status == MR_OK)
        slab_out->fd = -1;
    return status;
}

void mr_slab_destroy(struct mr_slab *slab)
{
    if (slab->base)
        munmap(slab->base, slab->len_bytes);
    if (slab->fd >= 0)
        close(slab->fd);
    *slab = (struct mr_slab){.fd = -1};
}
