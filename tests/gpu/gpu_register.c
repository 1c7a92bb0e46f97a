/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_register [--device cuda:0] [--brief] [--tiny]: how long page-locking shared memory takes, by
 * the kind of its pages, in seconds per GB. The memory is a memfd, like the loader's slab.
 * Populating and registering are timed separately, except for the kind whose pages cudaHostRegister
 * itself has to make.
 */
#include "tests/gpu/gpu_check.h"
#include "tests/gpu/gpu_cuda.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

enum { MAX_ROUNDS = 3 };
#define HUGE_BYTES (UINT64_C(2) << 20)

struct kind {
    const char *name;
    unsigned int memfd_flags;
    int advice;      /* for madvise(), or -1 */
    bool is_touched; /* pages are mapped before they are registered */
    double aim;      /* seconds per GB of the registration; 0: none */
};

static const struct kind kinds[] = {
    {"small pages, made by the call", 0, MADV_NOHUGEPAGE, false, 0},
    {"small pages, prefaulted", 0, MADV_NOHUGEPAGE, true, 0.2},
    {"transparent huge pages, prefaulted", 0, MADV_HUGEPAGE, true, 0},
    {"hugetlb pages, prefaulted", MFD_HUGETLB, -1, true, 0},
};

struct locking {
    struct gpu_setup *setup;
    struct gpu_cuda cuda;
    uint64_t len;
};

/*
 * Bytes from a line of a file in /proc that counts in kB, for the last mapping that has this line;
 * -1 without one.
 */
static int64_t read_kb(const char *path, const char *word, const void *from)
{
    char line[512];
    char begin[32];
    int64_t bytes = -1;
    bool is_inside = from == NULL;
    FILE *file = fopen(path, "re");
    snprintf(begin, sizeof begin, "%lx-", (unsigned long)(uintptr_t)from);
    while (file && bytes < 0 && fgets(line, sizeof line, file)) {
        is_inside = is_inside || strncmp(line, begin, strlen(begin)) == 0;
        if (is_inside && strncmp(line, word, strlen(word)) == 0)
            bytes = strtoll(line + strlen(word), NULL, 10) * 1024;
    }
    if (file)
        fclose(file);
    return bytes;
}

/* NULL if this machine has no such pages; then the case is skipped. */
static void *map_pages(struct locking *l, const struct kind *kind)
{
    struct gpu_report *report = &l->setup->report;
    int fd = memfd_create("gpu_register", MFD_CLOEXEC | kind->memfd_flags);
    void *memory = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, (off_t)l->len) == 0)
        memory = mmap(NULL, l->len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int error = errno;
    if (fd >= 0)
        close(fd);
    if (memory == MAP_FAILED) {
        gpu_report_skip(report, "%llu bytes of such memory: %s", (unsigned long long)l->len,
                        strerror(error));
        return NULL;
    }
    if (kind->advice >= 0 && madvise(memory, l->len, kind->advice) != 0)
        gpu_report_fact(kind->name, "madvise: %s", strerror(errno));
    return memory;
}

/* If a system has too few huge pages nothing is written: writing would end the program. */
static bool populate_pages(struct locking *l, void *memory)
{
    if (madvise(memory, l->len, MADV_POPULATE_WRITE) == 0)
        return true;
    if (errno == EINVAL) {
        memset(memory, 1, l->len);
        return true;
    }
    gpu_report_skip(&l->setup->report, "populating %llu bytes: %s", (unsigned long long)l->len,
                    strerror(errno));
    return false;
}

static double seconds_per_gb(struct locking *l, int64_t begin_ns)
{
    return (double)(gpu_report_now_ns() - begin_ns) / (double)l->len;
}

/*
 * False if the system refuses to page-lock memory; then the case is skipped. A loader would copy
 * from pageable memory.
 */
static bool register_pages(struct locking *l, void *memory)
{
    cudaError_t code = cudaHostRegister(memory, l->len, cudaHostRegisterPortable);
    if (code == cudaErrorNotSupported || code == cudaErrorNotPermitted) {
        (void)cudaGetLastError();
        gpu_report_skip(&l->setup->report, "cudaHostRegister: %s", cudaGetErrorString(code));
        return false;
    }
    gpu_cuda_ok(&l->cuda, code, "cudaHostRegister");
    return true;
}

struct round {
    double populating, registering, unregistering; /* seconds per GB */
};

static bool run_round(struct locking *l, const struct kind *kind, struct round *round_out)
{
    void *memory = map_pages(l, kind);
    if (!memory)
        return false;
    int64_t begin_ns = gpu_report_now_ns();
    bool is_fine = !kind->is_touched || populate_pages(l, memory);
    round_out->populating = seconds_per_gb(l, begin_ns);
    if (is_fine && kind->advice == MADV_HUGEPAGE)
        gpu_report_fact(kind->name, "%lld of %llu bytes are in huge pages",
                        (long long)read_kb("/proc/self/smaps", "ShmemPmdMapped:", memory),
                        (unsigned long long)l->len);
    if (is_fine) {
        begin_ns = gpu_report_now_ns();
        is_fine = register_pages(l, memory);
        round_out->registering = seconds_per_gb(l, begin_ns);
    }
    if (is_fine) {
        begin_ns = gpu_report_now_ns();
        gpu_cuda_ok(&l->cuda, cudaHostUnregister(memory), "cudaHostUnregister");
        round_out->unregistering = seconds_per_gb(l, begin_ns);
    }
    munmap(memory, l->len);
    return is_fine;
}

static void report_times(const char *what, const struct kind *kind, double *values, uint32_t n,
                         double aim)
{
    char *name = gpu_setup_text("%s, %s, s/GB", what, kind->name);
    gpu_report_figure(name, values, n, false, aim);
    free(name);
}

static void measure_kind(struct locking *l, const struct kind *kind)
{
    double populating[MAX_ROUNDS], registering[MAX_ROUNDS], unregistering[MAX_ROUNDS];
    uint32_t n = 0;
    struct round round;
    for (uint32_t i = 0; i < (l->setup->brief ? 1 : MAX_ROUNDS) && run_round(l, kind, &round);
         i++, n++) {
        populating[n] = round.populating;
        registering[n] = round.registering;
        unregistering[n] = round.unregistering;
    }
    if (kind->is_touched)
        report_times("populating", kind, populating, n, 0);
    report_times("registering", kind, registering, n, kind->aim);
    report_times("unregistering", kind, unregistering, n, 0);
}

int gpu_register_main(int argc, char **argv)
{
    struct gpu_setup setup;
    gpu_setup_init(&setup, argc, argv);
    struct locking l = {.setup = &setup, .cuda = gpu_cuda_open(&setup)};
    int64_t available = read_kb("/proc/meminfo", "MemAvailable:", NULL);
    l.len = setup.tiny ? 2 * HUGE_BYTES : UINT64_C(1) << 30;
    while (available > 0 && l.len > (uint64_t)available / 4 && l.len > HUGE_BYTES)
        l.len /= 2;
    gpu_report_fact("registered at a time", "%llu MiB", (unsigned long long)(l.len >> 20));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!gpu_report_begin(&setup.report, kinds[i].name))
            continue;
        measure_kind(&l, &kinds[i]);
        gpu_report_end(&setup.report);
    }
    gpu_cuda_close(&l.cuda);
    return gpu_setup_end(&setup);
}
