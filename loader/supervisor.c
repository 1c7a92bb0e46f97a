/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's thread: starts the workers, waits for deaths and ticks, and ends the workers.
 *
 * Invariant: a worker is dead when its pidfd says so, never by a clock. Only then are its samples
 * returned (deaths.c).
 */
#include "loader/supervisor.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "dataset/dataset.h"
#include "loader/deaths.h"
#include "loader/supervisor_state.h"
#include "loader/time_limit.h"

enum { MIN_TICK_MS = 10, MAX_TICK_MS = 500, RETRY_MS = 1000, MAX_START_FAILURES = 10 };

static mr_status start_worker(struct mr_supervisor *s, uint32_t i, mr_error *error)
{
    struct mr_supervised *worker = &s->workers[i];
    struct mr_worker_record *record = mr_supervised_record(s, i);
    struct mr_process process;
    atomic_store(&record->cause, 0);
    atomic_store(&record->failed, 0);
    atomic_store(&record->asleep, 0);
    atomic_store(&record->doing, MR_DOING_NOTHING);
    mr_status status = s->ops->start(s->starter, i, &process, error);
    if (status != MR_OK)
        return status;
    pthread_mutex_lock(&s->lock);
    worker->process = process;
    worker->alive = true;
    pthread_mutex_unlock(&s->lock);
    worker->limit_kill = false;
    worker->killed_ns = 0;
    worker->stuck_ms = 0;
    worker->beat = atomic_load(&record->beat);
    worker->beat_before = worker->beat;
    worker->done_before = atomic_load(&record->n_done);
    worker->restart_ns = 0;
    s->polls[1 + i] = (struct pollfd){.fd = process.pidfd, .events = POLLIN};
    return MR_OK;
}

/*
 * A loader that has failed needs no workers. A restart that stays due would keep the supervisor
 * awake.
 */
static void forget_restarts(struct mr_supervisor *s)
{
    for (uint32_t i = 0; i < s->n_workers; i++)
        s->workers[i].restart_ns = 0;
}

static void restart_due(struct mr_supervisor *s)
{
    uint64_t now = mr_clock_now_ns();
    mr_error error;
    bool tried = false;
    bool refused = false;
    for (uint32_t i = 0; i < s->n_workers; i++) {
        struct mr_supervised *worker = &s->workers[i];
        if (worker->alive || worker->restart_ns == 0 || now < worker->restart_ns)
            continue;
        tried = true;
        if (start_worker(s, i, &error) == MR_OK)
            continue;
        refused = true;
        worker->restart_ns = now + UINT64_C(1000000) * RETRY_MS;
    }
    if (tried)
        s->start_failures = refused ? s->start_failures + 1 : 0;
    if (s->start_failures >= MAX_START_FAILURES)
        mr_host_fail(s->host, &error);
}

static int next_timeout_ms(const struct mr_supervisor *s, int tick_ms)
{
    uint64_t now = mr_clock_now_ns();
    int timeout = tick_ms;
    for (uint32_t i = 0; i < s->n_workers; i++) {
        const struct mr_supervised *worker = &s->workers[i];
        if (worker->alive || worker->restart_ns == 0)
            continue;
        uint64_t wait_ms = worker->restart_ns > now ? (worker->restart_ns - now) / 1000000 + 1 : 0;
        if (wait_ms < (uint64_t)timeout)
            timeout = (int)wait_ms;
    }
    return timeout;
}

static bool is_ending(struct mr_supervisor *s)
{
    pthread_mutex_lock(&s->lock);
    bool ending = s->ending;
    pthread_mutex_unlock(&s->lock);
    return ending;
}

static bool has_failed(struct mr_supervisor *s)
{
    pthread_mutex_lock(&s->host->lock);
    bool failed = s->host->fatal.status != 0;
    pthread_mutex_unlock(&s->host->lock);
    return failed;
}

/*
 * Sleep until a worker ends, the supervisor must end, or the time-out; then handle the deaths. The
 * loader fails if the program has closed a descriptor or lowered its limit on them: deaths could
 * not be seen any more.
 */
static void await_deaths(struct mr_supervisor *s, int timeout_ms)
{
    mr_error error;
    if (poll(s->polls, 1 + s->n_workers, timeout_ms) < 0) {
        if (errno == EINTR)
            return;
        mr_error_os(&error, MR_ERR_WORKER, errno, "cannot poll the descriptors of %u workers",
                    s->n_workers);
        mr_host_fail(s->host, &error);
        mr_clock_sleep_ms((uint32_t)timeout_ms);
        return;
    }
    for (uint32_t i = 0; i < s->n_workers; i++) {
        if (!s->workers[i].alive || !s->polls[1 + i].revents)
            continue;
        if (s->polls[1 + i].revents & POLLIN) {
            mr_deaths_take(s, i);
            continue;
        }
        mr_error_set(&error, MR_ERR_WORKER, "the descriptor of worker %u was closed by the program",
                     i);
        mr_host_fail(s->host, &error);
        s->polls[1 + i].fd = -1;
    }
}

/* True if no worker will ever be started again; then the loader has failed. */
static bool is_at_end(struct mr_supervisor *s)
{
    mr_error error;
    if (s->ops->is_lost && s->ops->is_lost(s->starter, &error))
        mr_host_fail(s->host, &error);
    return has_failed(s);
}

static void watch_workers(struct mr_supervisor *s)
{
    int tick_ms = (int)(s->host->options.time_limit_ms / 8);
    tick_ms = tick_ms < MIN_TICK_MS ? MIN_TICK_MS : tick_ms > MAX_TICK_MS ? MAX_TICK_MS : tick_ms;
    uint64_t last = mr_clock_now_ns();
    while (!is_ending(s)) {
        await_deaths(s, next_timeout_ms(s, tick_ms));
        if (is_at_end(s))
            forget_restarts(s);
        else
            restart_due(s);
        uint64_t passed_ms = (mr_clock_now_ns() - last) / 1000000;
        if (passed_ms < (uint64_t)tick_ms)
            continue;
        last = mr_clock_now_ns();
        mr_time_limit_tick(s,
                           passed_ms < 2 * (uint64_t)tick_ms ? passed_ms : 2 * (uint64_t)tick_ms);
    }
}

static void keep_alive(struct mr_supervisor *s)
{
    pthread_mutex_lock(&s->host->lock);
    mr_host_retain(s->host);
    pthread_mutex_unlock(&s->host->lock);
    mr_dataset_retain(s->dataset);
}

/*
 * Wait until then for the worker's end. For a worker that does not end, keep the host and the
 * dataset allocated for good.
 */
static void await_end(struct mr_supervisor *s, uint32_t i, uint64_t until_ns)
{
    struct mr_supervised *worker = &s->workers[i];
    struct pollfd ended = {.fd = worker->process.pidfd, .events = POLLIN};
    int rc;
    do {
        uint64_t now = mr_clock_now_ns();
        rc = poll(&ended, 1, now < until_ns ? (int)((until_ns - now) / 1000000) : 0);
    } while (rc < 0 && errno == EINTR);
    if (rc > 0)
        s->ops->reap(s->starter, &worker->process);
    else
        keep_alive(s);
    pthread_mutex_lock(&s->lock);
    worker->alive = false;
    pthread_mutex_unlock(&s->lock);
}

static void end_workers(struct mr_supervisor *s)
{
    atomic_store(&s->host->shared.control->stop, 1);
    mr_control_wake_workers(&s->host->shared);
    for (uint32_t i = 0; i < s->n_workers; i++)
        if (s->workers[i].alive)
            s->ops->kill(&s->workers[i].process);
    /* one deadline for all of them */
    uint64_t until_ns = mr_clock_now_ns() + UINT64_C(1000000) * MR_SUPERVISED_END_MS;
    for (uint32_t i = 0; i < s->n_workers; i++)
        if (s->workers[i].alive)
            await_end(s, i, until_ns);
}

static void report_ready(struct mr_supervisor *s, const mr_error *failed)
{
    pthread_mutex_lock(&s->lock);
    if (failed)
        s->failed = *failed;
    s->ready = true;
    pthread_cond_broadcast(&s->ready_changed);
    pthread_mutex_unlock(&s->lock);
}

static void *supervisor_main(void *arg)
{
    struct mr_supervisor *s = arg;
    mr_error error = {0};
    mr_status status = s->ops->create(s->host, s->dataset, &s->starter, &error);
    for (uint32_t i = 0; status == MR_OK && i < s->n_workers; i++)
        status = start_worker(s, i, &error);
    report_ready(s, status == MR_OK ? NULL : &error);
    if (status == MR_OK)
        watch_workers(s);
    end_workers(s);
    if (s->starter)
        s->ops->destroy(s->starter);
    return NULL;
}

static void free_supervisor(struct mr_supervisor *s)
{
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->ready_changed);
    if (s->wake >= 0)
        close(s->wake);
    free(s->workers);
    free(s->polls);
    free(s);
}

static mr_status alloc_supervisor(struct mr_host *host, mr_dataset *dataset,
                                  struct mr_supervisor **supervisor_out, mr_error *error)
{
    static const struct mr_starter_ops *const tables[] = {[MR_START_EXEC] = &mr_starter_exec,
                                                          [MR_START_FORK] = &mr_starter_fork,
                                                          [MR_START_THREAD] = &mr_starter_thread};
    uint32_t n = host->shared.control->n_workers;
    struct mr_supervisor *s = calloc(1, sizeof *s);
    if (!s)
        return mr_error_memory(error, sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->ready_changed, NULL);
    s->workers = calloc(n, sizeof *s->workers);
    s->polls = calloc(1 + n, sizeof *s->polls);
    s->wake = eventfd(0, EFD_CLOEXEC);
    if (!s->workers || !s->polls || s->wake < 0) {
        mr_status status = s->wake < 0
                               ? mr_error_os(error, MR_ERR_IO, errno, "eventfd for the supervisor")
                               : mr_error_memory(error, n * sizeof *s->workers);
        free_supervisor(s);
        return status;
    }
    s->host = host;
    s->dataset = dataset;
    s->ops = tables[host->options.start];
    s->n_workers = n;
    s->polls[0] = (struct pollfd){.fd = s->wake, .events = POLLIN};
    for (uint32_t i = 0; i < n; i++)
        s->polls[1 + i].fd = -1;
    *supervisor_out = s;
    return MR_OK;
}

mr_status mr_supervisor_create(struct mr_host *host, mr_dataset *dataset,
                               struct mr_supervisor **supervisor_out, mr_error *error)
{
    struct mr_supervisor *s = NULL;
    mr_status status = alloc_supervisor(host, dataset, &s, error);
    if (status != MR_OK)
        return status;
    status = mr_thread_run(&s->thread, "the supervisor's thread", supervisor_main, s, error);
    if (status != MR_OK) {
        free_supervisor(s);
        return status;
    }
    pthread_mutex_lock(&s->lock);
    while (!s->ready)
        pthread_cond_wait(&s->ready_changed, &s->lock);
    mr_error why = s->failed;
    pthread_mutex_unlock(&s->lock);
    if (why.status != 0) {
        mr_supervisor_destroy(s);
        mr_error_copy(error, &why);
        return (mr_status)why.status;
    }
    *supervisor_out = s;
    return MR_OK;
}

void mr_supervisor_destroy(struct mr_supervisor *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->ending = true;
    pthread_mutex_unlock(&s->lock);
    eventfd_write(s->wake, 1);
    mr_thread_join(&s->thread);
    free_supervisor(s);
}

uint32_t mr_supervisor_n_alive(struct mr_supervisor *s)
{
    uint32_t n = 0;
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->n_workers; i++)
        n += s->workers[i].alive;
    pthread_mutex_unlock(&s->lock);
    return n;
}

uint64_t mr_supervisor_n_deaths(struct mr_supervisor *s)
{
    pthread_mutex_lock(&s->lock);
    uint64_t n = s->n_deaths;
    pthread_mutex_unlock(&s->lock);
    return n;
}

uint32_t mr_supervisor_pids(struct mr_supervisor *s, int64_t *pids_out, uint32_t n)
{
    uint32_t n_found = 0;
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->n_workers; i++) {
        if (!s->workers[i].alive ||
            s->workers[i].process.pid ==
                0) /* a thread has none, and kill(0) would signal the whole group */
            continue;
        if (n_found < n)
            pids_out[n_found] = s->workers[i].process.pid;
        n_found++;
    }
    pthread_mutex_unlock(&s->lock);
    return n_found;
}
