/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the peak memory of several processes: the sum of their proportional set sizes (PSS), in
 * which a page that k of them share counts 1/k in each. For each reading the kernel walks every
 * page table. This costs more for a larger slab, so the pause grows with the cost of a reading.
 */
#include "tools/measure/memory_watch.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "tools/measure/cpu_time.h"

#define PAUSE_S 0.25
/* Readings take at most this share of the time. */
#define SHARE 0.02

static uint64_t pss_bytes(const char *path)
{
    char line[256];
    uint64_t kib = 0;
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return 0;
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "Pss: %" SCNu64 " kB", &kib) == 1)
            break;
    fclose(file);
    return kib * 1024;
}

static double thread_seconds(void)
{
    struct timespec now;

    return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0
               ? (double)now.tv_sec + (double)now.tv_nsec * 1e-9
               : 0;
}

static uint64_t sum_memory(mr_loader *loader)
{
    int64_t pids[MR_MAX_WORKERS];
    size_t n = mr_cpu_time_workers(loader, pids, MR_MAX_WORKERS);
    uint64_t sum = pss_bytes("/proc/self/smaps_rollup");

    for (size_t i = 0; i < n; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%" PRId64 "/smaps_rollup", pids[i]);
        sum += pss_bytes(path);
    }
    return sum;
}

static void add_seconds(struct timespec *time, double seconds)
{
    int64_t ns = time->tv_nsec + (int64_t)(seconds * 1e9);

    time->tv_sec += ns / 1000000000;
    time->tv_nsec = ns % 1000000000;
}

static void *watch_memory(void *user)
{
    struct mr_memory_watch *watch = user;
    struct timespec due;

    pthread_mutex_lock(&watch->mutex);
    while (!watch->stop) {
        pthread_mutex_unlock(&watch->mutex);
        double before = thread_seconds();
        uint64_t bytes = sum_memory(watch->loader);
        double after = thread_seconds();
        pthread_mutex_lock(&watch->mutex);
        watch->cpu_s = after;
        if (bytes > watch->peak_bytes)
            watch->peak_bytes = bytes;
        double pause = (after - before) / SHARE;
        clock_gettime(CLOCK_MONOTONIC, &due);
        add_seconds(&due, pause > PAUSE_S ? pause : PAUSE_S);
        while (!watch->stop && pthread_cond_timedwait(&watch->wake, &watch->mutex, &due) == 0)
            continue;
    }
    pthread_mutex_unlock(&watch->mutex);
    return NULL;
}

void mr_memory_watch_start(struct mr_memory_watch *watch, mr_loader *loader)
{
    pthread_condattr_t clock;
    sigset_t all, before;

    *watch = (struct mr_memory_watch){.loader = loader};
    pthread_mutex_init(&watch->mutex, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->wake, &clock);
    pthread_condattr_destroy(&clock);
    sigfillset(&all); /* the main thread handles signals */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    watch->running = pthread_create(&watch->thread, NULL, watch_memory, watch) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

double mr_memory_watch_cpu(struct mr_memory_watch *watch)
{
    pthread_mutex_lock(&watch->mutex);
    double cpu_s = watch->cpu_s;
    pthread_mutex_unlock(&watch->mutex);
    return cpu_s;
}

uint64_t mr_memory_watch_stop(struct mr_memory_watch *watch)
{
    pthread_mutex_lock(&watch->mutex);
    watch->stop = true;
    pthread_cond_signal(&watch->wake);
    pthread_mutex_unlock(&watch->mutex);
    if (watch->running)
        pthread_join(watch->thread, NULL);
    uint64_t last = sum_memory(watch->loader);
    pthread_cond_destroy(&watch->wake);
    pthread_mutex_destroy(&watch->mutex);
    return last > watch->peak_bytes ? last : watch->peak_bytes;
}
