/* SPDX-License-Identifier: Apache-2.0 */
/* Start the ranks of one machine, as torchrun and torch.multiprocessing.spawn do. */
#ifndef MILLRACE_LAUNCH_H
#define MILLRACE_LAUNCH_H

#include <millrace/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MR_MAX_PROCS 256

/** Options of mr_launch() and mr_launch_spawn(). */
typedef struct mr_launch_options {
    size_t struct_size;
    uint32_t nproc;         /* ranks on this machine, 1 to MR_MAX_PROCS; required */
    uint32_t nnodes;        /* number of machines; 0 means 1 */
    uint32_t node_rank;     /* number of this machine, 0 to nnodes - 1 */
    uint32_t grace_ms;      /* after one rank has failed: time between SIGTERM and SIGKILL for the
                               other ranks; 0 means 500 */
    const char *rendezvous; /* "HOST:PORT" of rank 0's machine; required if nnodes > 1; default:
                               127.0.0.1 and a free port */
    const char *log_dir;    /* directory for one log per rank, rank-N.log; default: lines go to
                               stdout and stderr with the rank's number */
    bool no_prefix;         /* print lines without the rank's number */
    uint8_t reserved[7];    /* 0 */
} mr_launch_options;

#define MR_LAUNCH_OPTIONS_INIT MR_STRUCT_INIT(mr_launch_options)

/** Do as MR_LAUNCH_OPTIONS_INIT, for languages without macros; see "Structs" in status.h. Threads:
 * any. */
MR_API void mr_launch_options_init(mr_launch_options *options, size_t size);

/** Result of a launch. */
typedef struct mr_launch_result {
    size_t struct_size;
    int32_t exit_status; /* 0, or the status of the rank that failed first; 128 + signal if a signal
                            killed it */
    int32_t rank;        /* the rank that failed first; -1 if none failed */
    int64_t pid;         /* of that rank */
} mr_launch_result;

#define MR_LAUNCH_RESULT_INIT MR_STRUCT_INIT(mr_launch_result)

/** Do as MR_LAUNCH_RESULT_INIT, for languages without macros; see "Structs" in status.h. Threads:
 * any. */
MR_API void mr_launch_result_init(mr_launch_result *result, size_t size);

/**
 * Run a program as nproc ranks of this machine, and wait until all have ended.
 *
 * Their environments have RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR,
 * MASTER_PORT and MR_RUN_ID. The caller's SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are passed
 * to the ranks, unless the caller ignores or blocks them. A second SIGINT or SIGTERM, 0.2 s after
 * the first or later, kills the ranks.
 *
 * If one rank fails, the others are ended within a second. A log line says which rank failed first,
 * and how. Ranks are killed when the caller dies, for whatever reason. Processes that ranks leave
 * running are ended too.
 *
 * A rank that exits with 0 without joining a group counts as failed with status 1 once another rank
 * has waited for it for a second. A rank that is still running and has not joined after 10 s is
 * named in a log line, but not ended. Each rank reports over an inherited socket (MR_LAUNCH_NOTES
 * is its number) that it has joined. If a rank closes the socket, as sudo and some scripts do,
 * nothing is known about that rank, and it never counts as failed for this reason.
 *
 * argv  the program and its arguments, ending with NULL; argv[0] is searched for in PATH
 * Returns MR_OK with *result_out when all ranks have ended; MR_ERR_INVALID; MR_ERR_IO.
 * Blocks: until all ranks have ended.
 */
MR_API mr_status mr_launch(const mr_launch_options *options, char *const *argv,
                           mr_launch_result *result_out, mr_error *error);

/**
 * Run fn(user, local_rank) in nproc forked processes, with the environment of mr_launch(). The
 * return value of fn is the exit status of its process.
 * Returns as mr_launch(); also MR_ERR_STATE if the process has a second thread, because a forked
 * child would inherit locks that no thread releases. Blocks: until all ranks have ended.
 */
MR_API mr_status mr_launch_spawn(const mr_launch_options *options,
                                 int (*fn)(void *user, uint32_t local_rank), void *user,
                                 mr_launch_result *result_out, mr_error *error);

#ifdef __cplusplus
}
#endif

#endif
