/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that may never return. NCCL's abort and destroy wait for NCCL's threads and kernels, and
 * have been seen to hang. So they run in a thread that the caller can stop waiting for. Engines are
 * also created in a separate thread: in a thread without a chosen device, any CUDA call creates a
 * context on device 0, and the caller's thread may be one.
 *
 * Invariant: the waiter may time out first; the last user frees the shared state.
 */
#include "dist/nccl/nccl_detached.h"

#include "base/clock.h"
#include "base/thread.h"
#include "dist/nccl/nccl_call.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define MS 1000000ull /* ns */
#define SECOND (1000 * MS)

struct call {
    void (*job)(void *arg);
    void *arg;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_done; /* under the lock */
    bool is_left; /* under the lock: the waiter has timed out */
};

static void free_call(struct call *call)
{
    pthread_cond_destroy(&call->changed);
    pthread_mutex_destroy(&call->lock);
    free(call);
}

static void *run_call(void *arg)
{
    struct call *call = arg;
    call->job(call->arg);
    pthread_mutex_lock(&call->lock);
    bool is_left = call->is_left;
    call->is_done = true;
    pthread_cond_signal(&call->changed);
    pthread_mutex_unlock(&call->lock);
    if (is_left)
        free_call(call);
    return NULL;
}

static bool wait_done(struct call *call, uint64_t timeout_ms)
{
    uint64_t ns = mr_clock_now_ns() + timeout_ms * MS;
    struct timespec until = {.tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND)};
    int rc = 0;
    pthread_mutex_lock(&call->lock);
    while (!call->is_done && rc != ETIMEDOUT)
        rc = pthread_cond_clockwait(&call->changed, &call->lock, CLOCK_MONOTONIC, &until);
    bool is_done = call->is_done;
    call->is_left = !is_done;
    pthread_mutex_unlock(&call->lock);
    return is_done;
}

/* Run the job in this thread. Used if no thread can be created. */
static void run_here(void (*job)(void *arg), void *arg)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    int device = 0;
    bool has_mode = cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess;
    bool has_device = cudaGetDevice(&device) == cudaSuccess;
    job(arg);
    if (has_device)
        (void)cudaSetDevice(device);
    if (has_mode)
        (void)cudaThreadExchangeStreamCaptureMode(&mode);
}

int32_t mr_nccl_detached_enter(const struct mr_nccl_engine *engine, mr_error *error)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    int32_t status =
        mr_nccl_call_cuda(engine, cudaSetDevice(engine->device), "cudaSetDevice", error);
    if (status == MR_OK)
        status = mr_nccl_call_cuda(engine, cudaThreadExchangeStreamCaptureMode(&mode),
                                   "cudaThreadExchangeStreamCaptureMode", error);
    return status;
}

bool mr_nccl_detached_do(void (*job)(void *arg), void *arg, uint64_t timeout_ms)
{
    pthread_t thread;
    struct call *call = calloc(1, sizeof *call);
    if (!call) {
        run_here(job, arg);
        return true;
    }
    call->job = job;
    call->arg = arg;
    pthread_mutex_init(&call->lock, NULL);
    pthread_cond_init(&call->changed, NULL);
    if (mr_thread_start(&thread, run_call, call) != 0) {
        free_call(call);
        run_here(job, arg);
        return true;
    }
    bool is_done = wait_done(call, timeout_ms);
    if (!is_done) {
        pthread_detach(thread);
        return false;
    }
    pthread_join(thread, NULL); /* the job is done: the thread ends at once */
    free_call(call);
    return true;
}
