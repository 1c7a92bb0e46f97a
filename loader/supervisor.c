/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's thread. A worker is dead when its pidfd says so, never by a clock; only then are its samples given
 * back. The time limit counts ticks of this thread, so a stopped program does not time its workers out.
 */
#include "loader/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/futex.h"
#include "dataset/dataset.h"
#include "loader/starter.h"
#include "loader/verdicts.h"

enum {
    MAX_TICK_MS = 500,
    MIN_TICK_MS = 10,
    END_WAIT_MS = 10000, /* a killed worker that lives longer than that cannot be killed */
    MAX_RESTART_DELAY_MS = 1000,
    MAX_START_FAILURES = 10,
    MAX_EARLY_DEATHS = 3,
};

/* One worker as the supervisor sees it. */
struct ward {
    struct mr_process process;
    bool alive;
    bool limit_kill;      /* we have killed it for the time limit */
    uint64_t killed_ns;   /* when, 0: not */
    uint32_t beat;        /* as last seen */
    uint64_t stuck_ms;    /* since the beat changed */
    uint64_t done_before; /* its n_done when it was started */
    uint32_t idle_deaths; /* in a row, without a sample between */
    uint64_t restart_ns;  /* start it then */
};

struct mr_supervisor {
    struct mr_core *core;
    mr_dataset *dataset;
    const struct mr_starter_table *table;
    struct mr_starter *starter;
    struct ward *wards;
    struct pollfd *polls; /* [0] is wake, [1 + i] worker i */
    uint32_t n_workers;
    int wake; /* eventfd: come and look at `ending` */
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows, and alive and pid of the wards */
    pthread_cond_t ready_changed;
    bool ready; /* every worker was started once, or failed says why not */
    bool ending;
    uint64_t n_deaths;
    mr_error failed;
    uint32_t early_deaths;   /* thread only */
    uint32_t start_failures; /* thread only; in a row */
};

static struct mr_worker_record *record_of(const struct mr_supervisor *s, uint32_t i)
{
    return &s->core->shared.records[i];
}

static mr_status start_worker(struct mr_supervisor *s, uint32_t i, mr_error *error)
{
    struct ward *ward = &s->wards[i];
    struct mr_worker_record *record = record_of(s, i);
    struct mr_process process;
    atomic_store(&record->cause, 0);
    atomic_store(&record->failed, 0);
    atomic_store(&record->asleep, 0);
    atomic_store(&record->doing, MR_DOING_NOTHING);
    mr_status status = s->table->start(s->starter, i, &process, error);
    if (status != MR_OK)
        return status;
    pthread_mutex_lock(&s->lock);
    ward->process = process;
    ward->alive = true;
    pthread_mutex_unlock(&s->lock);
    ward->limit_kill = false;
    ward->killed_ns = 0;
    ward->stuck_ms = 0;
    ward->beat = atomic_load(&record->beat);
    ward->done_before = atomic_load(&record->n_done);
    ward->restart_ns = 0;
    s->polls[1 + i] = (struct pollfd){.fd = process.pidfd, .events = POLLIN};
    return MR_OK;
}

static uint64_t samples_done(const struct mr_supervisor *s)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->n_workers; i++)
        sum += atomic_load_explicit(&record_of(s, i)->n_done, memory_order_relaxed);
    return sum;
}

/* Words for a sample that is given up because of its workers' deaths. */
struct describe_job {
    const struct mr_supervisor *supervisor;
    const struct mr_verdict *verdict;
};

static void describe(void *user, int64_t index, mr_error *error_out)
{
    const struct describe_job *job = user;
    char which[MR_TABLE_WHICH];
    mr_table_which(mr_dataset_table(job->supervisor->dataset), index, which);
    mr_error_set(error_out, MR_ERR_DAMAGED, "%s: %s", which, job->verdict->words);
    error_out->index = index;
}

/* Give the dead worker's samples back, then let everybody look. */
static void recover(struct mr_supervisor *s, uint32_t i, const struct mr_verdict *verdict)
{
    struct mr_core *core = s->core;
    struct describe_job job = {s, verdict};
    struct mr_death death = {.worker = i,
                             .blame = verdict->blame,
                             .n_samples = core->shared.control->n_samples,
                             .describe = describe,
                             .user = &job};
    pthread_mutex_lock(&core->lock);
    for (uint32_t k = 0; k < core->options.n_slots; k++) {
        struct mr_slot_view view = mr_core_slot(core, k);
        mr_slot_recover(&view, core->options.batch_size, &death);
    }
    mr_core_publish(core);
    pthread_mutex_unlock(&core->lock);
    atomic_fetch_add_explicit(&core->shared.control->n_deaths, 1, memory_order_release);
    mr_control_wake_workers(&core->shared);
    mr_control_wake_host(&core->shared);
}

static void count_early_death(struct mr_supervisor *s, uint32_t i, const struct mr_verdict *verdict)
{
    if (!verdict->our_fault || samples_done(s) > 0 || ++s->early_deaths < MAX_EARLY_DEATHS)
        return;
    mr_error error;
    struct mr_worker_record *record = record_of(s, i);
    if (atomic_load(&record->failed))
        mr_error_set(&error, MR_ERR_WORKER, "workers cannot start: %s", record->error.text);
    else
        mr_error_set(&error, MR_ERR_WORKER, "%u workers died before any sample was finished; the last one: %s",
                     s->early_deaths, verdict->words);
    mr_core_fail(s->core, &error);
}

/* A worker that keeps dying without a sample is started ever later, up to a second. */
static void plan_restart(struct mr_supervisor *s, uint32_t i)
{
    struct ward *ward = &s->wards[i];
    bool worked = atomic_load(&record_of(s, i)->n_done) > ward->done_before;
    ward->idle_deaths = worked ? 0 : ward->idle_deaths + 1;
    uint64_t delay_ms = 0;
    if (ward->idle_deaths > 2) {
        uint32_t doublings = ward->idle_deaths - 3 < 7 ? ward->idle_deaths - 3 : 7;
        delay_ms = UINT64_C(10) << doublings;
    }
    if (delay_ms > MAX_RESTART_DELAY_MS)
        delay_ms = MAX_RESTART_DELAY_MS;
    ward->restart_ns = mr_clock_now_ns() + delay_ms * 1000000;
}

static void on_death(struct mr_supervisor *s, uint32_t i)
{
    struct ward *ward = &s->wards[i];
    struct mr_exit end = s->table->reap(s->starter, &ward->process);
    s->polls[1 + i].fd = -1;
    pthread_mutex_lock(&s->lock);
    ward->alive = false;
    s->n_deaths++;
    pthread_mutex_unlock(&s->lock);
    struct mr_verdict verdict;
    mr_verdict_reach(&end, record_of(s, i), ward->limit_kill, s->core->options.time_limit_ms, &verdict);
    recover(s, i, &verdict);
    count_early_death(s, i, &verdict);
    plan_restart(s, i);
}

/* A loader at its end needs no workers; a restart that stayed due would keep the supervisor from sleeping. */
static void forget_restarts(struct mr_supervisor *s)
{
    for (uint32_t i = 0; i < s->n_workers; i++)
        s->wards[i].restart_ns = 0;
}

static void restart_due(struct mr_supervisor *s)
{
    uint64_t now = mr_clock_now_ns();
    for (uint32_t i = 0; i < s->n_workers; i++) {
        struct ward *ward = &s->wards[i];
        mr_error error;
        if (ward->alive || ward->restart_ns == 0 || now < ward->restart_ns)
            continue;
        if (start_worker(s, i, &error) == MR_OK) {
            s->start_failures = 0;
            continue;
        }
        ward->restart_ns = now + UINT64_C(1000000) * MAX_RESTART_DELAY_MS;
        if (++s->start_failures >= MAX_START_FAILURES)
            mr_core_fail(s->core, &error);
    }
}

static bool work_waits(const struct mr_supervisor *s)
{
    const struct mr_core *core = s->core;
    const struct mr_control *control = core->shared.control;
    if (atomic_load(&control->ticket) < atomic_load(&control->limit))
        return true;
    for (uint32_t k = 0; k < core->options.n_slots; k++) {
        struct mr_slot_view view = mr_core_slot(core, k);
        if (mr_slot_state(view.slot) == MR_SLOT_FILLING && !mr_slot_is_filled(&view))
            return true;
    }
    return false;
}

static void end_for_limit(struct mr_supervisor *s, uint32_t i)
{
    struct ward *ward = &s->wards[i];
    mr_error error;
    if (s->table->kill(&ward->process)) {
        ward->limit_kill = true;
        ward->killed_ns = mr_clock_now_ns();
        return;
    }
    char which[MR_TABLE_WHICH];
    int64_t index = atomic_load(&record_of(s, i)->index);
    mr_table_which(mr_dataset_table(s->dataset), index, which);
    mr_error_set(&error, MR_ERR_WORKER, "%s: stuck for more than %u ms in a worker thread", which,
                 s->core->options.time_limit_ms);
    error.index = index;
    mr_core_fail(s->core, &error);
}

/* One tick for one worker: has it got on since the last one? */
static void watch_worker(struct mr_supervisor *s, uint32_t i, uint64_t tick_ms, bool work)
{
    struct ward *ward = &s->wards[i];
    struct mr_worker_record *record = record_of(s, i);
    uint32_t beat = atomic_load(&record->beat);
    bool idle = atomic_load(&record->doing) == MR_DOING_NOTHING && !work;
    if (ward->killed_ns != 0) {
        if (mr_clock_now_ns() - ward->killed_ns > UINT64_C(1000000) * END_WAIT_MS) {
            mr_error error;
            mr_error_set(&error, MR_ERR_WORKER, "worker process %d cannot be killed", (int)ward->process.pid);
            mr_core_fail(s->core, &error);
        }
        return;
    }
    if (beat != ward->beat || idle) {
        ward->beat = beat;
        ward->stuck_ms = 0;
        return;
    }
    uint64_t before = ward->stuck_ms;
    uint32_t limit_ms = s->core->options.time_limit_ms;
    ward->stuck_ms += tick_ms;
    if (before < limit_ms / 2 && ward->stuck_ms >= limit_ms / 2) {
        /* Asleep while others do the work? Then it answers to this with a beat. */
        atomic_fetch_add(&s->core->shared.control->work_word, 1);
        mr_futex_wake(&s->core->shared.control->work_word, UINT32_MAX);
    }
    if (ward->stuck_ms >= limit_ms)
        end_for_limit(s, i);
}

static void watch(struct mr_supervisor *s, uint64_t tick_ms)
{
    bool work = work_waits(s);
    for (uint32_t i = 0; i < s->n_workers; i++)
        if (s->wards[i].alive)
            watch_worker(s, i, tick_ms, work);
}

static int next_timeout_ms(const struct mr_supervisor *s, int tick_ms)
{
    uint64_t now = mr_clock_now_ns();
    int timeout = tick_ms;
    for (uint32_t i = 0; i < s->n_workers; i++) {
        const struct ward *ward = &s->wards[i];
        if (ward->alive || ward->restart_ns == 0)
            continue;
        uint64_t wait_ms = ward->restart_ns > now ? (ward->restart_ns - now) / 1000000 + 1 : 0;
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
    pthread_mutex_lock(&s->core->lock);
    bool failed = s->core->fatal.status != 0;
    pthread_mutex_unlock(&s->core->lock);
    return failed;
}

static void supervise(struct mr_supervisor *s)
{
    int tick_ms = (int)(s->core->options.time_limit_ms / 8);
    tick_ms = tick_ms < MIN_TICK_MS ? MIN_TICK_MS : tick_ms > MAX_TICK_MS ? MAX_TICK_MS : tick_ms;
    uint64_t last = mr_clock_now_ns();
    while (!is_ending(s)) {
        poll(s->polls, 1 + s->n_workers, next_timeout_ms(s, tick_ms));
        for (uint32_t i = 0; i < s->n_workers; i++)
            if (s->wards[i].alive && s->polls[1 + i].revents)
                on_death(s, i);
        if (has_failed(s))
            forget_restarts(s);
        else
            restart_due(s);
        uint64_t passed_ms = (mr_clock_now_ns() - last) / 1000000;
        if (passed_ms < (uint64_t)tick_ms)
            continue;
        last = mr_clock_now_ns();
        watch(s, passed_ms < 2 * (uint64_t)tick_ms ? passed_ms : 2 * (uint64_t)tick_ms);
    }
}

static void keep_alive(struct mr_supervisor *s)
{
    pthread_mutex_lock(&s->core->lock);
    mr_core_retain(s->core);
    pthread_mutex_unlock(&s->core->lock);
    mr_dataset_retain(s->dataset);
}

/* Wait for the worker's end until then. One that does not end keeps what it works on alive for good. */
static void see_off(struct mr_supervisor *s, uint32_t i, uint64_t until_ns)
{
    struct ward *ward = &s->wards[i];
    struct pollfd ended = {.fd = ward->process.pidfd, .events = POLLIN};
    int rc;
    do {
        uint64_t now = mr_clock_now_ns();
        rc = poll(&ended, 1, now < until_ns ? (int)((until_ns - now) / 1000000) : 0);
    } while (rc < 0 && errno == EINTR);
    if (rc > 0)
        s->table->reap(s->starter, &ward->process);
    else
        keep_alive(s);
    pthread_mutex_lock(&s->lock);
    ward->alive = false;
    pthread_mutex_unlock(&s->lock);
}

static void end_workers(struct mr_supervisor *s)
{
    atomic_store(&s->core->shared.control->stop, 1);
    atomic_fetch_add(&s->core->shared.control->work_word, 1);
    mr_futex_wake(&s->core->shared.control->work_word, UINT32_MAX);
    for (uint32_t i = 0; i < s->n_workers; i++)
        if (s->wards[i].alive)
            s->table->kill(&s->wards[i].process);
    uint64_t until_ns = mr_clock_now_ns() + UINT64_C(1000000) * END_WAIT_MS; /* of all of them together */
    for (uint32_t i = 0; i < s->n_workers; i++)
        if (s->wards[i].alive)
            see_off(s, i, until_ns);
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
    mr_status status = s->table->create(s->core, s->dataset, &s->starter, &error);
    for (uint32_t i = 0; status == MR_OK && i < s->n_workers; i++)
        status = start_worker(s, i, &error);
    report_ready(s, status == MR_OK ? NULL : &error);
    if (status == MR_OK)
        supervise(s);
    end_workers(s);
    if (s->starter)
        s->table->destroy(s->starter);
    return NULL;
}

static mr_status allocate(struct mr_core *core, mr_dataset *dataset, struct mr_supervisor **supervisor_out,
                          mr_error *error)
{
    uint32_t n = core->shared.control->n_workers;
    struct mr_supervisor *s = calloc(1, sizeof *s);
    if (!s)
        return mr_error_memory(error, sizeof *s);
    s->wards = calloc(n, sizeof *s->wards);
    s->polls = calloc(1 + n, sizeof *s->polls);
    s->wake = eventfd(0, EFD_CLOEXEC);
    if (!s->wards || !s->polls || s->wake < 0) {
        mr_status status = s->wake < 0 ? mr_error_os(error, MR_ERR_IO, errno, "eventfd for the supervisor")
                                       : mr_error_memory(error, n * sizeof *s->wards);
        if (s->wake >= 0)
            close(s->wake);
        free(s->wards);
        free(s->polls);
        free(s);
        return status;
    }
    static const struct mr_starter_table *const tables[] = {
        [MR_START_EXEC] = &mr_starter_exec, [MR_START_FORK] = &mr_starter_fork, [MR_START_THREAD] = &mr_starter_thread};
    s->core = core;
    s->dataset = dataset;
    s->table = tables[core->options.start];
    s->n_workers = n;
    s->polls[0] = (struct pollfd){.fd = s->wake, .events = POLLIN};
    for (uint32_t i = 0; i < n; i++)
        s->polls[1 + i].fd = -1;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->ready_changed, NULL);
    *supervisor_out = s;
    return MR_OK;
}

static void deallocate(struct mr_supervisor *s)
{
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->ready_changed);
    close(s->wake);
    free(s->wards);
    free(s->polls);
    free(s);
}

mr_status mr_supervisor_create(struct mr_core *core, mr_dataset *dataset, struct mr_supervisor **supervisor_out,
                               mr_error *error)
{
    struct mr_supervisor *s = NULL;
    mr_status status = allocate(core, dataset, &s, error);
    if (status != MR_OK)
        return status;
    int failed = mr_thread_start(&s->thread, supervisor_main, s);
    if (failed != 0) {
        deallocate(s);
        return mr_error_os(error, MR_ERR_WORKER, failed, "cannot start the supervisor's thread");
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
    pthread_join(s->thread, NULL);
    deallocate(s);
}

uint32_t mr_supervisor_n_alive(struct mr_supervisor *s)
{
    return mr_supervisor_pids(s, NULL, 0);
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
    uint32_t n_alive = 0;
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->n_workers; i++) {
        if (!s->wards[i].alive)
            continue;
        if (n_alive < n)
            pids_out[n_alive] = s->wards[i].process.pid;
        n_alive++;
    }
    pthread_mutex_unlock(&s->lock);
    return n_alive;
}
