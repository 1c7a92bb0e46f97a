/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that watches how much memory this process and a loader's workers use together. */
#ifndef TOOLS_MEMORY_WATCH_H
#define TOOLS_MEMORY_WATCH_H

#include <pthread.h>
#include <stdbool.h>

#include <millrace/loader.h>

struct mr_memory_watch {
    mr_loader *loader;
    pthread_t thread;
    bool running;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t wake;
    bool stop;
    uint64_t peak_bytes; /* largest sum of PSS: each page counts once over all processes */
    double cpu_s;        /* CPU time of the thread itself; the caller subtracts it */
};

/*
 * Start the thread; the struct must not move. If the thread cannot be started, the peak is what
 * mr_memory_watch_stop() reads.
 */
void mr_memory_watch_start(struct mr_memory_watch *watch, mr_loader *loader);
double mr_memory_watch_cpu(struct mr_memory_watch *watch);
/*
 * End the thread and read once more. Call this before the loader is destroyed. Returns the peak in
 * bytes.
 */
uint64_t mr_memory_watch_stop(struct mr_memory_watch *watch);

#endif
