/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MPI of this process; there is only one. The first engine initialises it. It is finalised when
 * the process exits, if this library initialised it, all engines were destroyed and no call was
 * given up.
 *
 * If one rank hangs, MPI_Init, MPI_Comm_create_group, MPI_Comm_free and MPI_Finalize hang on all
 * other ranks too, and cannot be ended. So a separate thread makes these calls, and the caller
 * waits for it with a deadline. If the deadline passes, no further MPI call is made, and the
 * process exits without joining the thread.
 */
#include "dist/mpi/mpi_process.h"

#include "base/clock.h"
#include "base/thread.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ull
#define SECOND (1000 * MS)
#define PAUSE_NS 20000 /* between two tries to enter MPI */

typedef int32_t fail_function(mr_error *error, int32_t status, const char *format, ...);

/* MPI itself is global, so its state is too. All fields but turn are under mutex. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t posted; /* a job for MPI's thread */
    pthread_cond_t ended;  /* a job has ended, or MPI was given up */
    struct mr_mpi_job *job;
    bool has_thread;
    bool is_ready; /* initialised, and level is set */
    bool is_ours;  /* this library initialised it, and finalises it */
    bool is_given_up;
    int level;
    uint32_t n_engines;
    uint32_t timeout_ms; /* of the last engine; the limit for MPI_Finalize at exit */
    pid_t pid;           /* a forked child does not have the thread, and must not finalise */
    pthread_mutex_t turn;
} process = {
    .mutex = PTHREAD_MUTEX_INITIALIZER,
    .posted = PTHREAD_COND_INITIALIZER,
    .ended = PTHREAD_COND_INITIALIZER,
    .turn = PTHREAD_MUTEX_INITIALIZER,
};

struct mr_mpi_job *mr_mpi_process_job(const char *name, int (*call)(struct mr_mpi_job *job),
                                      MPI_Comm comm, int n_numbers)
{
    struct mr_mpi_job *job = calloc(1, sizeof *job);
    int *numbers = calloc((size_t)n_numbers + 1, sizeof *numbers);
    if (!job || !numbers) {
        free(job);
        free(numbers);
        return NULL;
    }
    *job = (struct mr_mpi_job){.call = call,
                               .name = name,
                               .comm = comm,
                               .made = MPI_COMM_NULL,
                               .numbers = numbers,
                               .n_numbers = n_numbers};
    return job;
}

void mr_mpi_process_free(struct mr_mpi_job *job)
{
    if (job)
        free(job->numbers);
    free(job);
}

/*
 * Threads take turns only under MPI_THREAD_SERIALIZED. The level is constant once an engine exists.
 */
bool mr_mpi_process_try(void)
{
    return process.level == MPI_THREAD_MULTIPLE || pthread_mutex_trylock(&process.turn) == 0;
}

bool mr_mpi_process_lock(uint64_t deadline_ns)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    while (!mr_mpi_process_try()) {
        if (mr_clock_now_ns() >= deadline_ns || !mr_mpi_process_is_usable())
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

void mr_mpi_process_unlock(void)
{
    if (process.level != MPI_THREAD_MULTIPLE)
        pthread_mutex_unlock(&process.turn);
}

void mr_mpi_process_give_up(void)
{
    pthread_mutex_lock(&process.mutex);
    process.is_given_up = true;
    pthread_cond_broadcast(&process.ended);
    pthread_mutex_unlock(&process.mutex);
}

bool mr_mpi_process_is_usable(void)
{
    int finalized = 0;
    pthread_mutex_lock(&process.mutex);
    bool usable = process.is_ready && !process.is_given_up;
    pthread_mutex_unlock(&process.mutex);
    return usable && MPI_Finalized(&finalized) == MPI_SUCCESS && !finalized;
}

/* MPI's thread: runs one job after the other until the process ends. */
static void *run_jobs(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&process.mutex);
    for (;;) {
        while (!process.job || process.job->is_done)
            pthread_cond_wait(&process.posted, &process.mutex);
        struct mr_mpi_job *job = process.job;
        bool locks = process.is_ready && process.level != MPI_THREAD_MULTIPLE;
        pthread_mutex_unlock(&process.mutex);
        if (locks)
            pthread_mutex_lock(&process.turn);
        int code = job->call(job);
        if (locks)
            pthread_mutex_unlock(&process.turn);
        pthread_mutex_lock(&process.mutex);
        job->code = code;
        job->is_done = true;
        pthread_cond_broadcast(&process.ended);
    }
    return NULL;
}

/* Under mutex. False: the deadline has passed, or MPI was given up. */
static bool wait_ended(uint64_t deadline_ns)
{
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / SECOND),
                             .tv_nsec = (long)(deadline_ns % SECOND)};
    return !process.is_given_up &&
           pthread_cond_clockwait(&process.ended, &process.mutex, CLOCK_MONOTONIC, &until) == 0;
}

/* Under mutex: wait until MPI's thread is free, then have it do the job. */
static bool post_and_wait(struct mr_mpi_job *job, uint64_t deadline_ns)
{
    while (process.job || process.is_given_up)
        if (!wait_ended(deadline_ns))
            return false;
    process.job = job;
    pthread_cond_signal(&process.posted);
    while (!job->is_done)
        if (!wait_ended(deadline_ns) && !job->is_done)
            return false;
    process.job = NULL;
    pthread_cond_broadcast(&process.ended);
    return true;
}

static int32_t set_mpi_error(const struct mr_mpi_job *job, fail_function *fail, mr_error *error)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len = 0;
    if (!fail)
        return MR_ERR_PEER;
    if (MPI_Error_string(job->code, text, &len) != MPI_SUCCESS)
        return fail(error, MR_ERR_PEER, "%s: error %d", job->name, job->code);
    return fail(error, MR_ERR_PEER, "%s: %s", job->name, text);
}

int32_t mr_mpi_process_do(struct mr_mpi_job *job, uint64_t deadline_ns, fail_function *fail,
                          mr_error *error)
{
    pthread_mutex_lock(&process.mutex);
    bool is_done = post_and_wait(job, deadline_ns);
    bool is_posted = process.job == job;
    if (!is_done) {
        process.is_given_up = true;
        pthread_cond_broadcast(&process.ended);
    }
    pthread_mutex_unlock(&process.mutex);
    if (is_done)
        return job->code == MPI_SUCCESS ? MR_OK : set_mpi_error(job, fail, error);
    int32_t status = fail ? fail(error, MR_ERR_TIMEOUT, "%s did not end by the deadline", job->name)
                          : MR_ERR_TIMEOUT;
    if (!is_posted) /* otherwise MPI's thread still reads it */
        mr_mpi_process_free(job);
    return status;
}

/*
 * Open MPI's nonblocking all_reduce sends whole messages along a tree by default, and takes three
 * times as long for a million doubles as its blocking one. A control variable chooses another
 * algorithm. What the user has set stays; other MPIs do not have this variable.
 */
static void choose_all_reduce(void)
{
    int level;
    int index;
    int count;
    int which = 0;
    const int rabenseifner = 3;
    MPI_T_cvar_handle handle;
    if (MPI_T_init_thread(MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS)
        return;
    if (MPI_T_cvar_get_index("coll_libnbc_iallreduce_algorithm", &index) == MPI_SUCCESS &&
        MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) == MPI_SUCCESS) {
        if (count == 1 && MPI_T_cvar_read(handle, &which) == MPI_SUCCESS && which == 0)
            (void)MPI_T_cvar_write(handle, &rabenseifner);
        MPI_T_cvar_handle_free(&handle);
    }
    MPI_T_finalize();
}

static int call_init(struct mr_mpi_job *job)
{
    (void)job;
    int level = 0;
    int initialized = 0;
    /* another thread's job has initialised it */
    if (MPI_Initialized(&initialized) == MPI_SUCCESS && initialized)
        return MPI_SUCCESS;
    int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    if (code != MPI_SUCCESS)
        return code;
    choose_all_reduce();
    return MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

static int call_finalize(struct mr_mpi_job *job)
{
    (void)job;
    return MPI_Finalize();
}

/* Should this process finalise MPI? Never in a forked child, which does not have the thread. */
static bool is_to_be_finalized(void)
{
    int finalized = 0;
    pthread_mutex_lock(&process.mutex);
    bool wanted = process.is_ours && !process.is_given_up && process.n_engines == 0 &&
                  process.pid == getpid();
    pthread_mutex_unlock(&process.mutex);
    return wanted && MPI_Finalized(&finalized) == MPI_SUCCESS && !finalized;
}

static int32_t finalize_mpi(uint64_t deadline_ns, fail_function *fail, mr_error *error)
{
    struct mr_mpi_job *job = mr_mpi_process_job("MPI_Finalize", call_finalize, MPI_COMM_NULL, 0);
    if (!job)
        return fail ? fail(error, MR_ERR_NO_MEMORY, "cannot allocate %zu bytes", sizeof *job)
                    : MR_ERR_NO_MEMORY;
    int32_t status = mr_mpi_process_do(job, deadline_ns, fail, error);
    if (status != MR_ERR_TIMEOUT)
        mr_mpi_process_free(job);
    return status;
}

int32_t mr_mpi_process_finalize(const struct mr_engine_setup *setup, mr_error *error)
{
    return is_to_be_finalized() ? finalize_mpi(setup->deadline_ns, setup->fail, error) : MR_OK;
}

/*
 * At exit: wait for the other ranks as long as a collective would. After that the process ends
 * without MPI_Finalize, and mpirun reports that.
 */
static void finish_at_exit(void)
{
    if (is_to_be_finalized() &&
        finalize_mpi(mr_clock_now_ns() + process.timeout_ms * MS, NULL, NULL) == MR_ERR_TIMEOUT)
        fprintf(stderr, "millrace: MPI_Finalize did not end within %u ms; exiting without it\n",
                process.timeout_ms);
}

static int32_t start_thread(const struct mr_engine_setup *setup, mr_error *error)
{
    pthread_t thread;
    pthread_mutex_lock(&process.mutex);
    int rc = process.has_thread ? 0 : mr_thread_start(&thread, run_jobs, NULL);
    if (rc == 0 && !process.has_thread) {
        pthread_detach(thread);
        process.has_thread = true;
        process.pid = getpid();
    }
    bool is_child = rc == 0 && process.pid != getpid();
    pthread_mutex_unlock(&process.mutex);
    if (rc != 0)
        return setup->fail(error, MR_ERR_IO, "cannot start a thread: %s", strerrordesc_np(rc));
    if (is_child)
        return setup->fail(error, MR_ERR_STATE,
                           "MPI cannot be used in a child of the process that initialised it");
    return MR_OK;
}

static int32_t initialise_mpi(const struct mr_engine_setup *setup, mr_error *error)
{
    struct mr_mpi_job *job = mr_mpi_process_job("MPI_Init_thread", call_init, MPI_COMM_NULL, 0);
    if (!job)
        return setup->fail(error, MR_ERR_NO_MEMORY, "cannot allocate %zu bytes", sizeof *job);
    int32_t status = mr_mpi_process_do(job, setup->deadline_ns, setup->fail, error);
    if (status != MR_ERR_TIMEOUT)
        mr_mpi_process_free(job);
    if (status != MR_OK)
        return status;
    pthread_mutex_lock(&process.mutex);
    process.is_ours = true;
    pthread_mutex_unlock(&process.mutex);
    if (atexit(finish_at_exit) != 0)
        return setup->fail(error, MR_ERR_NO_MEMORY, "cannot register an exit handler for MPI");
    return MR_OK;
}

static const char *level_name(int level)
{
    return level == MPI_THREAD_SINGLE ? "MPI_THREAD_SINGLE" : "MPI_THREAD_FUNNELED";
}

static int32_t learn_level(const struct mr_engine_setup *setup, mr_error *error)
{
    int level = MPI_THREAD_SINGLE;
    if (MPI_Query_thread(&level) != MPI_SUCCESS)
        return setup->fail(error, MR_ERR_UNSUPPORTED, "MPI_Query_thread failed");
    if (level < MPI_THREAD_SERIALIZED)
        return setup->fail(error, MR_ERR_UNSUPPORTED,
                           "MPI was initialised with %s, but a group calls it from another thread: "
                           "call MPI_Init_thread with MPI_THREAD_MULTIPLE or MPI_THREAD_SERIALIZED",
                           level_name(level));
    pthread_mutex_lock(&process.mutex);
    if (!process.is_ready) /* other threads read it without the lock */
        process.level = level;
    process.is_ready = true;
    pthread_mutex_unlock(&process.mutex);
    return MR_OK;
}

static int32_t become_ready(const struct mr_engine_setup *setup, mr_error *error)
{
    int initialized = 0;
    int finalized = 0;
    if (MPI_Initialized(&initialized) != MPI_SUCCESS || MPI_Finalized(&finalized) != MPI_SUCCESS)
        return setup->fail(error, MR_ERR_UNSUPPORTED, "MPI_Initialized failed");
    if (finalized)
        return setup->fail(error, MR_ERR_STATE,
                           "MPI was finalised before, and cannot be initialised again");
    if (!initialized && setup->adopt)
        return setup->fail(error, MR_ERR_INVALID, "mpi_comm is given, but MPI is not initialised");
    int32_t status = start_thread(setup, error);
    if (status == MR_OK && !initialized)
        status = initialise_mpi(setup, error);
    return status == MR_OK ? learn_level(setup, error) : status;
}

int32_t mr_mpi_process_enter(const struct mr_engine_setup *setup, mr_error *error)
{
    pthread_mutex_lock(&process.mutex);
    bool is_given_up = process.is_given_up;
    pthread_mutex_unlock(&process.mutex);
    if (is_given_up)
        return setup->fail(error, MR_ERR_STATE,
                           "MPI was given up in this process after a call that did not end");
    int32_t status = become_ready(setup, error);
    if (status != MR_OK)
        return status;
    pthread_mutex_lock(&process.mutex);
    process.n_engines++;
    process.timeout_ms = setup->timeout_ms;
    pthread_mutex_unlock(&process.mutex);
    return MR_OK;
}

void mr_mpi_process_leave(bool healthy)
{
    pthread_mutex_lock(&process.mutex);
    process.n_engines--;
    process.is_given_up |= !healthy;
    pthread_cond_broadcast(&process.ended);
    pthread_mutex_unlock(&process.mutex);
}
