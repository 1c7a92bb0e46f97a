/* SPDX-License-Identifier: Apache-2.0 */
/* CPU seconds used by this process and by a loader's workers. */
#ifndef TOOLS_CPU_TIME_H
#define TOOLS_CPU_TIME_H

#include <millrace/loader.h>

struct mr_cpu_time {
    double host_s;       /* this process, all threads */
    double workers_s;    /* living workers and ended children */
    double host_queue_s; /* living threads, ready to run and waiting for a CPU */
    double workers_queue_s;
};

/*
 * Read the times since each process began. The difference of two readings is the cost of the time
 * between them.
 */
struct mr_cpu_time mr_cpu_time_read(mr_loader *loader);
/*
 * Write the ids of the worker processes, without workers that are threads of this process. Returns
 * how many were written, at most n.
 */
size_t mr_cpu_time_workers(mr_loader *loader, int64_t *pids_out, size_t n);

#endif
