/* SPDX-License-Identifier: Apache-2.0 */
/* CPU seconds used by this process and by a loader's workers. */
#ifndef TOOLS_CPU_TIME_H
#define TOOLS_CPU_TIME_H

#include <millrace/loader.h>

struct mr_cpu_time {
    double host_s;       /* this process, all threads */
    double workers_s;    /* living workers, and children that have ended */
    double host_queue_s; /* living threads ready to run, without a CPU */
    double workers_queue_s;
};

/*
 * Counted since each process began; differences of two readings say what the time between them
 * cost.
 */
struct mr_cpu_time mr_cpu_time_read(mr_loader *loader);
/*
 * Ids of the worker processes; threads of this process are left out. Returns how many were written,
 * at most n.
 */
size_t mr_cpu_time_workers(mr_loader *loader, int64_t *pids_out, size_t n);

#endif
