/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicators: how they are made, how they end, and queries about them. A handle is not an
 * address but an index into a table and the number of times that this entry was used, so a use
 * after the end is always detected.
 *
 * Invariant: an abort may come from any thread while another one is in a call. So a thread in a
 * call holds a reference, and the last reference frees the memory.
 */
#include "tests/double/double_nccl.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { PLACES = 64 };

static struct {
    pthread_mutex_t lock;
    struct double_nccl_comm *comms[PLACES];
    uint32_t taken[PLACES];
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* States that a call accepts besides a ready communicator. */
enum { MAY_HAVE_FAILED = 1, MAY_BE_FINALIZED = 2 };

void double_nccl_misuse(const char *format, ...)
{
    char text[DOUBLE_NCCL_TEXT];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    double_report_add(DOUBLE_MISUSE, "misuse: %s", text);
}

/* ---- handles ---- */

static ncclComm_t handle_at(uint32_t place)
{
    uintptr_t word = ((uintptr_t)table.taken[place] * PLACES + place + 1) << 4;
    return (ncclComm_t)word; /* NOLINT: never dereferenced */
}

static ncclComm_t add(struct double_nccl_comm *comm)
{
    ncclComm_t handle = NULL;
    pthread_mutex_lock(&table.lock);
    for (uint32_t place = 0; place < PLACES && !handle; place++) {
        if (table.comms[place])
            continue;
        table.comms[place] = comm;
        table.taken[place]++;
        handle = handle_at(place);
    }
    pthread_mutex_unlock(&table.lock);
    return handle;
}

/* A reference; NULL for a communicator that has ended. take: end the handle. */
static struct double_nccl_comm *find(ncclComm_t handle, bool take)
{
    struct double_nccl_comm *comm = NULL;
    pthread_mutex_lock(&table.lock);
    for (uint32_t place = 0; place < PLACES && handle; place++) {
        if (!table.comms[place] || handle_at(place) != handle)
            continue;
        comm = table.comms[place];
        if (take)
            table.comms[place] = NULL;
        else
            double_nccl_comm_ref(comm);
    }
    pthread_mutex_unlock(&table.lock);
    return comm;
}

uint32_t double_nccl_n_comms(void)
{
    uint32_t n = 0;
    pthread_mutex_lock(&table.lock);
    for (uint32_t place = 0; place < PLACES; place++)
        n += table.comms[place] != NULL;
    pthread_mutex_unlock(&table.lock);
    return n;
}

void double_nccl_comm_ref(struct double_nccl_comm *comm)
{
    atomic_fetch_add(&comm->refs, 1);
}

void double_nccl_comm_unref(struct double_nccl_comm *comm)
{
    if (atomic_fetch_sub(&comm->refs, 1) > 1)
        return;
    if (comm->wake_fd >= 0)
        close(comm->wake_fd);
    if (comm->stop_fd >= 0)
        close(comm->stop_fd);
    pthread_mutex_destroy(&comm->lock);
    pthread_cond_destroy(&comm->changed);
    free(comm);
}

void double_nccl_comm_fail(struct double_nccl_comm *comm, ncclResult_t error, const char *format,
                           ...)
{
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&comm->lock);
    if (comm->error == ncclSuccess) {
        comm->error = error;
        (void)vsnprintf(comm->text, sizeof comm->text, format, args);
    }
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->lock);
    va_end(args);
}

/* The lock is held. */
static bool is_busy(const struct double_nccl_comm *comm)
{
    return comm->state == DOUBLE_NCCL_STARTING || comm->state == DOUBLE_NCCL_FINALIZING ||
           comm->pending || comm->progress_ns > double_nccl_now_ns();
}

static ncclResult_t check_state(struct double_nccl_comm *comm, const char *function, unsigned may)
{
    pthread_mutex_lock(&comm->lock);
    ncclResult_t error = comm->error;
    bool busy = is_busy(comm);
    bool over = comm->state == DOUBLE_NCCL_FINALIZED;
    pthread_mutex_unlock(&comm->lock);
    if (error != ncclSuccess)
        return may & MAY_HAVE_FAILED ? ncclSuccess : error;
    if (busy)
        double_nccl_misuse("%s while an earlier call is in progress", function);
    else if (over && !(may & MAY_BE_FINALIZED))
        double_nccl_misuse("%s on a communicator that was finalised", function);
    else
        return ncclSuccess;
    return ncclInvalidArgument;
}

static ncclResult_t enter(ncclComm_t handle, const char *function, unsigned may,
                          struct double_nccl_comm **comm_out)
{
    struct double_nccl_comm *comm = find(handle, false);
    *comm_out = NULL;
    if (!comm) {
        double_nccl_misuse("%s on a communicator that has ended", function);
        return ncclInvalidArgument;
    }
    ncclResult_t result = double_nccl_call_error(function, (int)comm->rank);
    if (atomic_exchange(&comm->inside, true)) {
        double_nccl_misuse("%s while another thread is in the communicator", function);
        double_nccl_comm_unref(comm);
        return ncclInvalidUsage;
    }
    if (result == ncclSuccess)
        result = check_state(comm, function, may);
    if (result == ncclSuccess)
        *comm_out = comm;
    else
        double_nccl_exit(comm);
    return result;
}

ncclResult_t double_nccl_enter(ncclComm_t handle, const char *function,
                               struct double_nccl_comm **comm_out)
{
    return enter(handle, function, 0, comm_out);
}

void double_nccl_exit(struct double_nccl_comm *comm)
{
    atomic_store(&comm->inside, false);
    double_nccl_comm_unref(comm);
}

/* ---- creation ---- */

static void report_left_over(void)
{
    uint32_t n = double_nccl_n_comms();
    if (n > 0)
        double_report_add(DOUBLE_LEFT_OVER, "left over: %u communicators of NCCL", (unsigned)n);
}

/*
 * Called after the double of CUDA has registered its exit handler, so that this one runs before it.
 */
static void register_exit_check(void)
{
    (void)atexit(report_left_over);
}

ncclResult_t ncclGetVersion(int *version)
{
    if (!version)
        return ncclInvalidArgument;
    *version = NCCL_VERSION_CODE;
    return double_nccl_call_error("ncclGetVersion", INT_MIN);
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    uint64_t random[2];
    ncclResult_t result = double_nccl_call_error("ncclGetUniqueId", INT_MIN);
    if (!id || result != ncclSuccess)
        return id ? result : ncclInvalidArgument;
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return ncclSystemError;
    memset(id, 0, sizeof *id);
    (void)snprintf(id->internal, sizeof id->internal, "millrace-double-of-nccl-%016llx%016llx",
                   (unsigned long long)random[0], (unsigned long long)random[1]);
    return ncclSuccess;
}

static struct double_nccl_comm *alloc(const ncclUniqueId *id, int n_ranks, int rank, int device,
                                      bool blocking)
{
    struct double_nccl_comm *comm = double_machine_alloc(sizeof *comm);
    atomic_init(&comm->refs, 1);
    comm->id = *id;
    comm->rank = (uint32_t)rank;
    comm->n_ranks = (uint32_t)n_ranks;
    comm->device = device;
    comm->blocking = blocking;
    comm->options = double_nccl_options();
    comm->random = comm->options.seed * 1000003 + (uint64_t)rank;
    comm->wake_fd = comm->stop_fd = -1;
    pthread_mutex_init(&comm->lock, NULL);
    pthread_cond_init(&comm->changed, NULL);
    return comm;
}

static bool start(struct double_nccl_comm *comm)
{
    comm->hub = comm->rank == 0 ? double_nccl_hub_start(&comm->id, comm->n_ranks) : NULL;
    if (comm->rank == 0 && !comm->hub)
        return false;
    if (!comm->blocking)
        comm->progress_ns =
            double_nccl_now_ns() +
            double_nccl_random(&comm->random, comm->options.progress_us * UINT64_C(1000));
    if (double_nccl_peer_start(comm))
        return true;
    if (comm->hub)
        double_nccl_hub_leave(comm->hub, true);
    return false;
}

static void end(struct double_nccl_comm *comm, bool at_once)
{
    double_nccl_peer_stop(comm);
    if (comm->hub)
        double_nccl_hub_leave(comm->hub, at_once);
    double_nccl_comm_unref(comm);
}

static ncclResult_t wait_until_ready(struct double_nccl_comm *comm)
{
    pthread_mutex_lock(&comm->lock);
    while (comm->state == DOUBLE_NCCL_STARTING && comm->error == ncclSuccess)
        pthread_cond_wait(&comm->changed, &comm->lock);
    ncclResult_t error = comm->error;
    pthread_mutex_unlock(&comm->lock);
    return error;
}

static pthread_once_t looks = PTHREAD_ONCE_INIT;

static ncclResult_t create(ncclComm_t *handle_out, const char *function, int n_ranks,
                           const ncclUniqueId *id, int rank, bool blocking)
{
    int device;
    if (!handle_out || n_ranks < 1 || n_ranks > DOUBLE_NCCL_RANKS || rank < 0 || rank >= n_ranks)
        return ncclInvalidArgument;
    *handle_out = NULL;
    ncclResult_t result = double_nccl_call_error(function, rank);
    if (result != ncclSuccess)
        return result;
    if (cudaGetDevice(&device) != cudaSuccess)
        return ncclUnhandledCudaError;
    pthread_once(&looks, register_exit_check);
    struct double_nccl_comm *comm = alloc(id, n_ranks, rank, device, blocking);
    if (!start(comm)) {
        double_nccl_comm_unref(comm);
        return ncclSystemError;
    }
    result = blocking ? wait_until_ready(comm) : ncclInProgress;
    ncclComm_t handle = result == ncclSuccess || result == ncclInProgress ? add(comm) : NULL;
    if (!handle) {
        end(comm, true);
        return result == ncclSuccess || result == ncclInProgress ? ncclInternalError : result;
    }
    *handle_out = handle;
    return result;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int n_ranks, ncclUniqueId id, int rank)
{
    return create(comm, "ncclCommInitRank", n_ranks, &id, rank, true);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int n_ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    bool blocking = !config || config->blocking != 0; /* undefined is blocking */
    if (config && (config->magic != 0xcafebeef ||
                   config->size < offsetof(ncclConfig_t, blocking) + sizeof(int))) {
        double_nccl_misuse("ncclCommInitRankConfig with a configuration that was not initialised");
        return ncclInvalidArgument;
    }
    return create(comm, "ncclCommInitRankConfig", n_ranks, &id, rank, blocking);
}

/* ---- the end ---- */

/* The lock is held. */
static void begin_end(struct double_nccl_comm *comm)
{
    if (comm->state != DOUBLE_NCCL_READY)
        return;
    comm->state = DOUBLE_NCCL_FINALIZING;
    if (!comm->blocking)
        comm->progress_ns =
            double_nccl_now_ns() +
            double_nccl_random(&comm->random, comm->options.progress_us * UINT64_C(1000));
    double_nccl_poke(comm->wake_fd);
}

/* The lock is held. */
static void wait_for_end(struct double_nccl_comm *comm)
{
    while (comm->state != DOUBLE_NCCL_FINALIZED && comm->error == ncclSuccess)
        pthread_cond_wait(&comm->changed, &comm->lock);
}

ncclResult_t ncclCommFinalize(ncclComm_t handle)
{
    struct double_nccl_comm *comm;
    ncclResult_t result = enter(handle, "ncclCommFinalize", 0, &comm);
    if (result != ncclSuccess)
        return result;
    pthread_mutex_lock(&comm->lock);
    begin_end(comm);
    if (comm->blocking)
        wait_for_end(comm);
    result = comm->blocking ? comm->error : ncclInProgress;
    pthread_mutex_unlock(&comm->lock);
    double_nccl_exit(comm);
    return result;
}

/* Waits for operations in progress, as NCCL does; a communicator that has failed ends at once. */
ncclResult_t ncclCommDestroy(ncclComm_t handle)
{
    struct double_nccl_comm *comm;
    ncclResult_t result =
        enter(handle, "ncclCommDestroy", MAY_HAVE_FAILED | MAY_BE_FINALIZED, &comm);
    if (result != ncclSuccess)
        return result;
    pthread_mutex_lock(&comm->lock);
    begin_end(comm);
    wait_for_end(comm);
    bool failed = comm->error != ncclSuccess;
    pthread_mutex_unlock(&comm->lock);
    struct double_nccl_comm *taken = find(handle, true);
    if (taken)
        end(taken, failed);
    double_nccl_exit(comm);
    return ncclSuccess;
}

/*
 * NCCL frees its memory before it returns. That may wait for everything on the device, even for
 * streams that have nothing to do with the communicator. No caller may rely on it, so it orders
 * nothing.
 */
ncclResult_t ncclCommAbort(ncclComm_t handle)
{
    struct double_nccl_comm *comm = find(handle, true);
    if (!comm) {
        double_nccl_misuse("ncclCommAbort on a communicator that has ended");
        return ncclInvalidArgument;
    }
    (void)double_nccl_call_error("ncclCommAbort", INT_MIN);
    double_nccl_comm_fail(comm, ncclInternalError, "aborted");
    int device = comm->device;
    end(comm, true);
    double_machine_lock();
    double_schedule_finish_device(device);
    double_machine_unlock();
    return ncclSuccess;
}

/* ---- queries ---- */

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t *error)
{
    struct double_nccl_comm *comm = find(handle, false);
    if (!comm || !error) {
        double_nccl_misuse("ncclCommGetAsyncError of a communicator that has ended");
        if (comm)
            double_nccl_comm_unref(comm);
        return ncclInvalidArgument;
    }
    pthread_mutex_lock(&comm->lock);
    bool busy = is_busy(comm);
    *error = comm->error != ncclSuccess ? comm->error : busy ? ncclInProgress : ncclSuccess;
    pthread_mutex_unlock(&comm->lock);
    ncclResult_t result = double_nccl_call_error("ncclCommGetAsyncError", (int)comm->rank);
    double_nccl_comm_unref(comm);
    return result;
}

static ncclResult_t ask(ncclComm_t handle, const char *function, int *answer_out)
{
    struct double_nccl_comm *comm;
    ncclResult_t result = enter(handle, function, 0, &comm);
    if (result != ncclSuccess)
        return result;
    if (strcmp(function, "ncclCommCount") == 0)
        *answer_out = (int)comm->n_ranks;
    else
        *answer_out = strcmp(function, "ncclCommUserRank") == 0 ? (int)comm->rank : comm->device;
    double_nccl_exit(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
    return ask(comm, "ncclCommCount", count);
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
    return ask(comm, "ncclCommUserRank", rank);
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device)
{
    return ask(comm, "ncclCommCuDevice", device);
}

#define DOUBLE_NCCL_TEXT_CASE(name, value, text)                                                   \
    case value: return text;

const char *ncclGetErrorString(ncclResult_t result)
{
    switch ((int)result) {
        DOUBLE_NCCL_RESULTS(DOUBLE_NCCL_TEXT_CASE)
    default: return "unknown result code";
    }
}

/* Valid until the thread's next call. */
const char *ncclGetLastError(ncclComm_t handle)
{
    static _Thread_local char text[DOUBLE_NCCL_TEXT];
    struct double_nccl_comm *comm = find(handle, false);
    text[0] = '\0';
    if (!comm)
        return text;
    pthread_mutex_lock(&comm->lock);
    memcpy(text, comm->text, sizeof text);
    pthread_mutex_unlock(&comm->lock);
    double_nccl_comm_unref(comm);
    return text;
}
