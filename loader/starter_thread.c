/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts workers as threads of the program, for callbacks that need its memory. A crash in a worker
 * ends the program. A sample that is stuck cannot be stopped; the error names it.
 */
#include "loader/starter.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "dataset/dataset.h"
#include "loader/workers/worker.h"
#include "loader/workers/worker_setup.h"

struct mr_starter {
    struct mr_worker_job job;
};

struct thread_job {
    struct mr_worker_job job;
    int ended; /* eventfd, written when the thread ends; the supervisor closes it after the join */
};

static void *thread_main(void *arg)
{
    struct thread_job job = *(struct thread_job *)arg;
    free(arg);
    mr_worker_setup_process(&job.job);
    mr_worker_main(&job.job);
    eventfd_write(job.ended, 1);
    return NULL;
}

static mr_status thread_create(struct mr_host *host, mr_dataset *dataset,
                               struct mr_starter **starter_out, mr_error *error)
{
    struct mr_starter *s = calloc(1, sizeof *s);
    if (!s)
        return mr_error_memory(error, sizeof *s);
    s->job = (struct mr_worker_job){.shared = host->shared,
                                    .catalog = mr_dataset_catalog(dataset),
                                    .callbacks = mr_dataset_callbacks(dataset)};
    *starter_out = s;
    return MR_OK;
}

static void thread_destroy(struct mr_starter *s)
{
    free(s);
}

static mr_status thread_start(struct mr_starter *s, uint32_t id, struct mr_process *process_out,
                              mr_error *error)
{
    struct thread_job *job = malloc(sizeof *job);
    if (!job)
        return mr_error_memory(error, sizeof *job);
    int ended = eventfd(0, EFD_CLOEXEC);
    if (ended < 0) {
        int failed = errno;
        free(job);
        return mr_error_os(error, MR_ERR_WORKER, failed, "eventfd for worker %u", id);
    }
    *job = (struct thread_job){.job = s->job, .ended = ended};
    job->job.id = id;
    *process_out = (struct mr_process){.pidfd = ended};
    int failed = pthread_create(&process_out->thread, NULL, thread_main, job);
    if (failed != 0) {
        close(ended);
        free(job);
        return mr_error_os(error, MR_ERR_WORKER, failed, "cannot start worker thread %u", id);
    }
    return MR_OK;
}

static bool thread_kill(struct mr_process *process)
{
    (void)process;
    return false;
}

static struct mr_exit thread_reap(struct mr_starter *s, struct mr_process *process)
{
    (void)s;
    pthread_join(process->thread, NULL);
    close(process->pidfd);
    return (struct mr_exit){.known = true};
}

const struct mr_starter_ops mr_starter_thread = {
    .name = "thread",
    .create = thread_create,
    .destroy = thread_destroy,
    .start = thread_start,
    .kill = thread_kill,
    .reap = thread_reap,
};
