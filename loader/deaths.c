/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles a worker's death: returns its samples, blames the sample that it was decoding if there
 * was one, plans the restart, and fails the loader if restarts are pointless. Only the delay before
 * a restart uses a clock.
 */
#include "loader/deaths.h"

#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/os_words.h"
#include "dataset/dataset.h"

enum { MAX_EARLY_DEATHS = 3, MAX_VAIN_DEATHS = 20, MAX_LOGGED = 10, MAX_RESTART_DELAY_MS = 1000 };

/* What a worker's death means. */
struct death_cause {
    uint32_t blame;  /* counted against the sample that was being decoded */
    bool our_fault;  /* counts towards MAX_EARLY_DEATHS */
    char words[200]; /* for the sample's error: "the worker that decoded it ..." */
    char cause[200]; /* for errors and log lines about the worker: "died by SIGSEGV" */
};

static const char *signal_name(int signal)
{
    const char *name = mr_os_words_signal(signal);
    return name ? name : "?";
}

/*
 * Decide the cause and the blame. A crash or the time limit counts 10 of 20. A SIGKILL from outside
 * (an operator, the out-of-memory killer) counts 1 of 20. If another part of the program has reaped
 * the status, the cause that the fault handler recorded decides.
 */
static void find_cause(const struct mr_supervisor *s, uint32_t i, const struct mr_exit *end,
                       struct death_cause *cause_out)
{
    uint32_t time_limit_ms = s->host->options.time_limit_ms;
    int fault = (int)atomic_load(&mr_supervised_record(s, i)->cause);
    int signal = end->known && end->signal ? end->signal : fault;
    *cause_out = (struct death_cause){.blame = MR_BLAME_CRASH, .our_fault = true};
    char *words = cause_out->words;
    char *cause = cause_out->cause;
    size_t size = sizeof cause_out->words;
    if (s->workers[i].limit_kill) { /* by the supervisor itself */
        snprintf(words, size, "decoding took longer than %u ms, twice", time_limit_ms);
        snprintf(cause, size, "made no progress for %u ms and was killed", time_limit_ms);
    } else if (signal == SIGKILL || (signal == 0 && !end->known)) {
        cause_out->blame = MR_BLAME_KILL;
        cause_out->our_fault = false;
        snprintf(words, size, "its workers were killed %u times", MR_BLAME_LIMIT / MR_BLAME_KILL);
        snprintf(cause, size, "was killed by another process, or because memory ran out");
    } else if (signal != 0) {
        snprintf(words, size, "the worker that decoded it died by SIG%s", signal_name(signal));
        snprintf(cause, size, "died by SIG%s", signal_name(signal));
    } else {
        snprintf(words, size, "the worker that decoded it exited with status %d", end->code);
        snprintf(cause, size, "exited with status %d", end->code);
    }
}

static uint64_t samples_done(const struct mr_supervisor *s)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->n_workers; i++)
        sum += atomic_load_explicit(&mr_supervised_record(s, i)->n_done, memory_order_relaxed);
    return sum;
}

/*
 * For the error of a sample that is given up because its workers died. It is marked as damaged, so
 * that no other place loses workers to it.
 */
struct describe_job {
    const struct mr_supervisor *supervisor;
    const struct death_cause *cause;
    struct mr_damage_map known; /* of the slot's epoch */
};

static void describe_death(void *user, int64_t index, mr_error *error_out)
{
    const struct describe_job *job = user;
    char which[MR_CATALOG_DESCRIPTION];
    mr_catalog_describe(mr_dataset_catalog(job->supervisor->dataset), index, which);
    mr_error_set(error_out, MR_ERR_DAMAGED, "%s: %s", which, job->cause->words);
    error_out->index = index;
    /* a sample whose workers were killed from outside may be good */
    if (job->cause->blame == MR_BLAME_CRASH)
        mr_damage_map_set(&job->known, index);
}

/*
 * Return the dead worker's samples, then wake all workers and the host. Returns how many it held.
 */
static uint32_t recover_samples(struct mr_supervisor *s, uint32_t i,
                                const struct death_cause *cause)
{
    struct mr_host *host = s->host;
    struct describe_job job = {.supervisor = s, .cause = cause};
    struct mr_death death = {.worker = i,
                             .blame = cause->blame,
                             .n_samples = host->shared.control->n_samples,
                             .describe = describe_death,
                             .user = &job};
    uint32_t n_held = 0;
    pthread_mutex_lock(&host->lock);
    for (uint32_t k = 0; k < host->options.n_slots; k++) {
        struct mr_slot_view view = mr_host_slot(host, k);
        job.known = mr_control_damage(
            &host->shared, atomic_load_explicit(&view.slot->epoch, memory_order_relaxed));
        n_held += mr_slot_recover(&view, host->options.batch_size, &death);
    }
    mr_host_publish(host);
    pthread_mutex_unlock(&host->lock);
    atomic_fetch_add_explicit(&host->shared.control->n_deaths, 1, memory_order_release);
    mr_control_wake_workers(&host->shared);
    mr_control_wake_host(&host->shared);
    return n_held;
}

static void count_early_death(struct mr_supervisor *s, uint32_t i, const struct death_cause *cause)
{
    if (!cause->our_fault || samples_done(s) > 0 || ++s->early_deaths < MAX_EARLY_DEATHS)
        return;
    mr_error error;
    struct mr_worker_record *record = mr_supervised_record(s, i);
    if (atomic_load(&record->failed))
        mr_error_set(&error, MR_ERR_WORKER, "workers cannot start: %s", record->error.text);
    else
        mr_error_set(&error, MR_ERR_WORKER,
                     "%u workers died before any sample was finished; the last one %s",
                     s->early_deaths, cause->cause);
    mr_host_fail(s->host, &error);
}

/*
 * Fail the loader if a worker has died MAX_VAIN_DEATHS times in a row without a sample to blame,
 * either by itself or before it made any progress. A death while packing for the cache does not
 * count: the worker made samples before, and the cache gives up on a sample after some attempts.
 */
static void count_vain_death(struct mr_supervisor *s, uint32_t i, const struct death_cause *cause,
                             uint32_t n_held)
{
    struct mr_supervised *worker = &s->workers[i];
    struct mr_worker_record *record = mr_supervised_record(s, i);
    bool progressed = atomic_load(&record->beat) != worker->beat_before;
    bool packed = atomic_load(&record->doing) == MR_DOING_PACKING;
    bool vain = n_held == 0 && ((cause->our_fault && !packed) || !progressed);
    worker->vain_deaths = vain ? worker->vain_deaths + 1 : 0;
    if (worker->vain_deaths < MAX_VAIN_DEATHS)
        return;
    mr_error error;
    mr_error_set(&error, MR_ERR_WORKER,
                 "worker %u died %u times in a row before it took a sample; the last time: %s", i,
                 worker->vain_deaths,
                 atomic_load(&record->failed) ? record->error.text : cause->cause);
    mr_host_fail(s->host, &error);
}

/*
 * If a worker keeps dying without finishing a sample, the delay before each restart grows, up to a
 * second.
 */
static void plan_restart(struct mr_supervisor *s, uint32_t i)
{
    struct mr_supervised *worker = &s->workers[i];
    bool worked = atomic_load(&mr_supervised_record(s, i)->n_done) > worker->done_before;
    worker->idle_deaths = worked ? 0 : worker->idle_deaths + 1;
    uint64_t delay_ms = 0;
    if (worker->idle_deaths > 2) {
        uint32_t doublings = worker->idle_deaths - 3 < 7 ? worker->idle_deaths - 3 : 7;
        delay_ms = UINT64_C(10) << doublings;
    }
    if (delay_ms > MAX_RESTART_DELAY_MS)
        delay_ms = MAX_RESTART_DELAY_MS;
    worker->restart_ns = mr_clock_now_ns() + delay_ms * 1000000;
}

/*
 * Log the first deaths, one line each. A sample that crashes its workers in every epoch must not
 * fill the log.
 */
static void log_death(struct mr_supervisor *s, uint32_t i, const struct death_cause *cause)
{
    const struct mr_worker_record *record = mr_supervised_record(s, i);
    bool failed = atomic_load(&record->failed) != 0;
    if (s->n_logged >= MAX_LOGGED)
        return;
    s->n_logged++;
    bool packed = atomic_load(&record->doing) == MR_DOING_PACKING;
    mr_log_line(MR_LOG_WARNING, "worker %u (process %d) %s%s%s%s%s", i,
                (int)s->workers[i].process.pid, cause->cause,
                packed ? " while it packed a sample for the cache" : "", failed ? ": " : "",
                failed ? record->error.text : "",
                s->n_logged == MAX_LOGGED ? "; further deaths are counted, not logged" : "");
}

void mr_deaths_take(struct mr_supervisor *s, uint32_t i)
{
    struct mr_supervised *worker = &s->workers[i];
    struct mr_exit end = s->ops->reap(s->starter, &worker->process);
    s->polls[1 + i].fd = -1;
    pthread_mutex_lock(&s->lock);
    worker->alive = false;
    s->n_deaths++;
    pthread_mutex_unlock(&s->lock);
    struct death_cause cause;
    find_cause(s, i, &end, &cause);
    log_death(s, i, &cause);
    uint32_t n_held = recover_samples(s, i, &cause);
    count_early_death(s, i, &cause);
    count_vain_death(s, i, &cause, n_held);
    plan_restart(s, i);
}
