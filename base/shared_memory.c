/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates and resizes memfd regions. RLIMIT_FSIZE applies to them too, and exceeding it raises
 * SIGXFSZ, which ends the program. The limit is therefore checked before every change of size.
 */
#include "base/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U /* Linux 6.3: required where vm.memfd_noexec is 2 */
#endif

uint64_t mr_shared_memory_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    return limit.rlim_cur;
}

mr_status mr_shared_memory_resize(int fd, const char *name, uint64_t len_bytes, mr_error *error)
{
    uint64_t limit = mr_shared_memory_limit();
    if (len_bytes > limit)
        return mr_error_set(error, MR_ERR_NO_MEMORY,
                            "%s needs %" PRIu64
                            " bytes of shared memory, but RLIMIT_FSIZE allows %" PRIu64,
                            name, len_bytes, limit);
    if (len_bytes > INT64_MAX)
        return mr_error_memory(error, len_bytes);
    int rc;
    do
        rc = ftruncate(fd, (off_t)len_bytes);
    while (rc != 0 && errno == EINTR);
    if (rc != 0)
        return mr_error_os(error, errno == ENOMEM || errno == EFBIG ? MR_ERR_NO_MEMORY : MR_ERR_IO,
                           errno, "cannot make %s of %" PRIu64 " bytes of shared memory", name,
                           len_bytes);
    return MR_OK;
}

mr_status mr_shared_memory_create(const char *name, uint64_t len_bytes, int *fd_out,
                                  mr_error *error)
{
    *fd_out = -1;
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) /* a kernel before 6.3 */
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return mr_error_os(error, MR_ERR_IO, errno, "memfd_create for %s", name);
    mr_status status = mr_shared_memory_resize(fd, name, len_bytes, error);
    if (status < 0) {
        close(fd);
        return status;
    }
    *fd_out = fd;
    return MR_OK;
}

static int add_seals(int fd, int seals)
{
    return fcntl(fd, F_ADD_SEALS, seals) == 0 ? 0 : -errno;
}

int mr_shared_memory_seal(int fd)
{
    return add_seals(fd, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

int mr_shared_memory_seal_content(int fd)
{
    return add_seals(fd, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
}
