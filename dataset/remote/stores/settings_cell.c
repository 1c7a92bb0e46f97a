/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two copies and a version, whose lowest bit says which copy is valid. The writer fills the other
 * copy and then raises the version, so a writer that dies leaves the old settings valid. A reader
 * that was overtaken by two versions reads again.
 */
#include "dataset/remote/stores/settings_cell.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/shared_memory.h"

enum { N_WORDS = MR_SETTINGS_CELL_BYTES / 8 };

struct cell {
    _Atomic uint64_t version; /* 0: no copy is valid yet */
    /*
     * Words are written with release and read with acquire order: a reader that sees a word of a
     * later version also sees that the version before it was published.
     */
    _Atomic uint64_t words[2][N_WORDS];
};

static _Atomic(struct cell *) in_use;
static int cell_fd = -1;
static pid_t writer;

static mr_status map_cell(int fd, int protection, mr_error *error)
{
    struct cell *cell = mmap(NULL, sizeof *cell, protection, MAP_SHARED, fd, 0);
    if (cell == MAP_FAILED)
        return mr_error_memory(error, sizeof *cell);
    madvise(cell, sizeof *cell, MADV_DONTDUMP);
    cell_fd = fd;
    atomic_store_explicit(&in_use, cell, memory_order_release);
    return MR_OK;
}

static mr_status make_cell(mr_error *error)
{
    int fd;
    mr_status status =
        mr_shared_memory_create("millrace-settings", sizeof(struct cell), &fd, error);
    if (status != MR_OK)
        return status;
    status = map_cell(fd, PROT_READ | PROT_WRITE, error);
    if (status != MR_OK)
        close(fd);
    else
        writer = getpid();
    return status;
}

mr_status mr_settings_cell_write(const void *bytes, size_t len, mr_error *error)
{
    mr_status status = writer == getpid() ? MR_OK : make_cell(error);
    if (status != MR_OK)
        return status;
    struct cell *cell = atomic_load_explicit(&in_use, memory_order_relaxed);
    uint64_t version = atomic_load_explicit(&cell->version, memory_order_relaxed) + 1;
    for (size_t i = 0; i < len / 8; i++) {
        uint64_t word;
        memcpy(&word, (const char *)bytes + 8 * i, 8);
        atomic_store_explicit(&cell->words[version & 1][i], word, memory_order_release);
    }
    atomic_store_explicit(&cell->version, version, memory_order_release);
    return MR_OK;
}

uint64_t mr_settings_cell_read(void *out, size_t len)
{
    uint64_t version;
    struct cell *cell = atomic_load_explicit(&in_use, memory_order_acquire);
    if (!cell)
        return 0;
    do {
        version = atomic_load_explicit(&cell->version, memory_order_acquire);
        for (size_t i = 0; i < len / 8; i++) {
            uint64_t word =
                atomic_load_explicit(&cell->words[version & 1][i], memory_order_acquire);
            memcpy((char *)out + 8 * i, &word, 8);
        }
    } while (atomic_load_explicit(&cell->version, memory_order_relaxed) != version);
    return version;
}

uint64_t mr_settings_cell_version(void)
{
    struct cell *cell = atomic_load_explicit(&in_use, memory_order_acquire);
    return cell ? atomic_load_explicit(&cell->version, memory_order_acquire) : 0;
}

int mr_settings_cell_fd(void)
{
    return cell_fd;
}

mr_status mr_settings_cell_attach(int fd, mr_error *error)
{
    return map_cell(fd, PROT_READ, error);
}
