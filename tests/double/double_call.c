/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every entry point begins and ends with: the lock, the counts, injected errors, broken
 * devices, the last error.
 *
 * Invariant: a call that gives something back does so even if it returns an error, because callers
 * do not try it twice.
 */
#include "tests/double/double_machine.h"

#include <string.h>

enum { MAX_FAILURES = 16, MAX_FUNCTIONS = 64 };

struct failure {
    const char *function; /* NULL: any */
    uint64_t calls_left;  /* 1: the next one fails; 0: over */
    bool from;            /* also all later calls */
    cudaError_t error;
};

struct tally {
    const char *function;
    uint64_t n;
};

static struct {
    struct failure failures[MAX_FAILURES];
    uint32_t n_failures;
    uint32_t n_failed;
    const char *failed_in;
    struct tally tallies[MAX_FUNCTIONS];
    uint32_t n_tallies;
} calls;

static pid_t initialised_in; /* 0: not yet */

void double_call_reset(void)
{
    memset(&calls, 0, sizeof calls);
    initialised_in = 0;
}

bool double_is_initialised(void)
{
    double_machine_lock();
    bool is = initialised_in != 0;
    double_machine_unlock();
    return is;
}

static void add_failure(const char *function, uint64_t nth, cudaError_t error, bool from)
{
    double_machine_lock();
    if (calls.n_failures < MAX_FAILURES)
        calls.failures[calls.n_failures++] = (struct failure){function, nth, from, error};
    double_machine_unlock();
}

void double_fail_at(const char *function, uint64_t nth, cudaError_t error)
{
    add_failure(function, nth, error, false);
}

void double_fail_from(const char *function, uint64_t nth, cudaError_t error)
{
    add_failure(function, nth, error, true);
}

void double_fail_never(void)
{
    double_machine_lock();
    calls.n_failures = 0;
    double_machine_unlock();
}

uint32_t double_n_failed(void)
{
    double_machine_lock();
    uint32_t n = calls.n_failed;
    double_machine_unlock();
    return n;
}

const char *double_failed_in(void)
{
    double_machine_lock();
    const char *function = calls.failed_in;
    double_machine_unlock();
    return function;
}

bool double_is_sticky(cudaError_t error)
{
    switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure: return true;
    default: return false;
    }
}

/*
 * Every injected failure counts this call; the first that is due decides. Only calls that reach a
 * device report a broken one.
 */
static cudaError_t find_injected_error(const char *function, bool reaches_device)
{
    cudaError_t error = cudaSuccess;
    bool runs = strcmp(function, DOUBLE_RUN) == 0;
    for (uint32_t i = 0; i < calls.n_failures; i++) {
        struct failure *failure = &calls.failures[i];
        bool meant = failure->function ? strcmp(failure->function, function) == 0 : !runs;
        if (!meant || failure->calls_left == 0 ||
            (double_is_sticky(failure->error) && !reaches_device))
            continue;
        bool due = failure->calls_left == 1;
        if (!due || !failure->from)
            failure->calls_left--;
        if (due && error == cudaSuccess)
            error = failure->error;
    }
    if (error != cudaSuccess) {
        calls.n_failed++;
        calls.failed_in = function;
    }
    return error;
}

cudaError_t double_call_run_error(void)
{
    return find_injected_error(DOUBLE_RUN, true);
}

static struct tally *find_tally(const char *function)
{
    for (uint32_t i = 0; i < calls.n_tallies; i++)
        if (strcmp(calls.tallies[i].function, function) == 0)
            return &calls.tallies[i];
    if (calls.n_tallies == MAX_FUNCTIONS)
        return NULL;
    calls.tallies[calls.n_tallies].function = function;
    return &calls.tallies[calls.n_tallies++];
}

static void count_call(const struct double_call *call, unsigned is)
{
    struct double_counts *counts = &call->thread->counts;
    counts->calls++;
    counts->blocking += (is & DOUBLE_BLOCKS) != 0;
    counts->allocations += (is & DOUBLE_ALLOCATES) != 0;
    struct tally *tally = find_tally(call->function);
    if (tally)
        tally->n++;
}

/* An error of the whole machine. */
static cudaError_t driver_error(unsigned is)
{
    const struct double_options *options = &double_machine()->options;
    if (is & DOUBLE_NO_DRIVER)
        return cudaSuccess;
    if (options->driver_version < CUDART_VERSION)
        return cudaErrorInsufficientDriver;
    if (initialised_in == 0)
        initialised_in = double_machine_process();
    if (initialised_in != double_machine_process())
        return cudaErrorInitializationError;
    return options->no_device ? cudaErrorNoDevice : cudaSuccess;
}

static int find_device(const void *handle, const struct double_call *call)
{
    struct double_region *region = handle ? double_memory_find(handle) : NULL;
    if (region && region->device != DOUBLE_HOST)
        return region->device;
    int device = handle ? double_queue_device(handle) : -1;
    if (device < 0 && handle)
        device = double_event_device(handle);
    return device >= 0 ? device : call->thread->device;
}

static cudaError_t device_error(const struct double_call *call, const void *handle, unsigned is)
{
    int device = find_device(handle, call);
    cudaError_t ordered = is & DOUBLE_OF_TEST
                              ? cudaSuccess
                              : find_injected_error(call->function, is & DOUBLE_CONTEXT);
    if (ordered != cudaSuccess && double_is_sticky(ordered))
        double_machine_break(device, ordered);
    if (ordered != cudaSuccess)
        return ordered;
    return is & DOUBLE_CONTEXT ? double_machine()->devices[device].broken : cudaSuccess;
}

bool double_call_begin(struct double_call *call, const char *function, const void *handle,
                       unsigned is)
{
    double_machine_lock();
    *call = (struct double_call){.function = function, .thread = double_machine_thread()};
    call->thread->now_ns += double_machine()->options.call_ns;
    if (!(is & DOUBLE_OF_TEST))
        count_call(call, is);
    call->error = driver_error(is);
    if (call->error != cudaSuccess)
        return false;
    double_schedule_pump();
    if (is & DOUBLE_UNSAFE)
        call->error = double_capture_check_unsafe();
    if (call->error != cudaSuccess)
        return false;
    if (is & (DOUBLE_CONTEXT | DOUBLE_MAKES_CONTEXT))
        double_driver_need_context(call->thread);
    call->error = device_error(call, handle, is);
    return call->error == cudaSuccess || (is & DOUBLE_RELEASES);
}

cudaError_t double_call_end(struct double_call *call, cudaError_t error)
{
    if (call->error != cudaSuccess)
        error = call->error;
    if (error != cudaSuccess)
        call->thread->last_error = error;
    double_machine_unlock();
    return error;
}

cudaError_t cudaGetLastError(void)
{
    double_machine_lock();
    struct double_thread_state *thread = double_machine_thread();
    cudaError_t error = thread->last_error;
    if (!double_is_sticky(error))
        thread->last_error = cudaSuccess;
    double_machine_unlock();
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    double_machine_lock();
    cudaError_t error = double_machine_thread()->last_error;
    double_machine_unlock();
    return error;
}

static void add_counts(struct double_counts *sum, const struct double_counts *more)
{
    sum->calls += more->calls;
    sum->blocking += more->blocking;
    sum->pageable += more->pageable;
    sum->absent_pages += more->absent_pages;
    sum->allocations += more->allocations;
    sum->copies += more->copies;
    sum->bytes_h2d += more->bytes_h2d;
    sum->bytes_d2h += more->bytes_d2h;
    sum->bytes_d2d += more->bytes_d2d;
    sum->kernels += more->kernels;
}

struct double_counts double_count(uint32_t number)
{
    struct double_counts sum = {0};
    double_machine_lock();
    for (uint32_t i = 0; i < DOUBLE_MAX_THREADS; i++)
        if (number == DOUBLE_ALL_THREADS || number == i)
            add_counts(&sum, &double_machine()->threads[i].counts);
    double_machine_unlock();
    return sum;
}

void double_mark(void)
{
    double_machine_lock();
    for (uint32_t i = 0; i < DOUBLE_MAX_THREADS; i++)
        double_machine()->threads[i].counts = (struct double_counts){0};
    calls.n_tallies = 0;
    memset(calls.tallies, 0, sizeof calls.tallies);
    double_machine_unlock();
}

uint64_t double_calls(const char *function)
{
    double_machine_lock();
    const struct tally *tally = find_tally(function);
    uint64_t n = tally ? tally->n : 0;
    double_machine_unlock();
    return n;
}
