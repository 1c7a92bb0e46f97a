/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that watches how much memory this process and a loader's workers hold together. */
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
    double cpu_s;        /* of the thread itself; the caller subtracts it */
};

/*
 * Begin; the struct must not move. Without a thread (no memory) the peak stays that of the call to
 * stop.
 */
void mr_memory_watch_start(struct mr_memory_watch *watch, mr_loader *loader);
double mr_memory_watch_cpu(struct mr_memory_watch *watch);
/*
 * Read once more and end the thread. Call before the loader is destroyed. Returns the peak in
 * bytes.
 */
uint64_t mr_memory_watch_stop(struct mr_memory_watch *watch);

#endif
