/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A double of NCCL over the double of CUDA: linked instead of libnccl (target mr_nccl_double), with
 * the same entry points. Ranks are processes of one machine, or threads of one process. They
 * exchange bytes over a Unix socket in the abstract namespace, named by the unique id, so a killed
 * process leaves nothing behind. This header has the functions that tests call besides those entry
 * points.
 *
 * A collective is an operation of its stream: it reads its input when the stream reaches it, later
 * work of the stream waits, and the host does not. Results are sums in the order of ranks in the
 * arithmetic of the type; 16-bit floats are added in f32. Ranks that differ in operation, count,
 * type or root hang, as with NCCL.
 *
 * Calls in a wrong state (on a communicator that has ended, while an earlier call is in progress,
 * two threads at once, a captured stream, memory of another device) are reports of the double of
 * CUDA: DOUBLE_MISUSE.
 *
 * Invariant: while a call of a nonblocking communicator is in progress, its operation is not in the
 * stream yet.
 */
#ifndef TESTS_DOUBLE_NCCL_DOUBLE_H
#define TESTS_DOUBLE_NCCL_DOUBLE_H

#include <stdbool.h>
#include <stdint.h>

#include <nccl.h>

/* Faults of the communicators of this process. Zero means the value in brackets. */
struct double_nccl_options {
    uint64_t seed;
    uint32_t delay_us; /* largest delay of a result (0) */
    /*
     * A nonblocking communicator's calls are in progress for up to this time (0: only its creation
     * and finalisation are, for as long as they take).
     */
    uint32_t progress_us;
    /* The death of a rank is not noticed: operations that need it hang until the abort. */
    bool silent;
    /*
     * The end of a rank is noticed by every operation that has not ended, even if its result has
     * arrived (otherwise only by operations that still need the rank).
     */
    bool strict;
    bool crash;             /* if ranks differ, the process aborts instead of hanging */
    bool together;          /* ncclCommFinalize ends when all ranks have called it */
    int only_rank;          /* 1 + the rank that has the faults below (0: all ranks) */
    const char *fail;       /* (none) the nth call of this function from now on, "AllReduce", ... */
    uint32_t fail_at;       /* fails */
    ncclResult_t fail_with; /* (ncclInternalError) with this */
    uint32_t async_after;   /* (never) after this many operations, communicators get the error */
    ncclResult_t async;     /* (ncclRemoteError) and their later operations hang */
    /* (none) The nth of these operations of a communicator, "all_reduce", ... */
    const char *hang;
    uint32_t hang_at; /* hangs on this rank, and so on all ranks */
};

/*
 * Without a call, options come from the environment, parts in any order:
 *   MR_NCCL_DOUBLE="seed=3,delay=5ms,progress=200us,death=silent,mismatch=crash,leave=together,
 *                   rank=2,fail=AllReduce:3,fail=AllReduce:3:system,async=17:remote,
 *                   hang=all_reduce:5"
 * and death=strict. Errors are cuda, system, internal, argument, usage and remote. Strings passed
 * to a call must stay valid. Threads: no communicator is in use.
 */
void double_nccl_set(const struct double_nccl_options *options);

/* Calls of one function, such as "ncclAllReduce", since double_nccl_set() or the start. */
uint64_t double_nccl_calls(const char *function);
/* Communicators that were made and neither destroyed nor aborted. */
uint32_t double_nccl_n_comms(void);
/* The number of errors returned because of fail or async. */
uint32_t double_nccl_n_failed(void);

#endif
