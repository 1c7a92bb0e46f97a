/* SPDX-License-Identifier: Apache-2.0 */
/* Starting the ranks of one machine: what torchrun and torch.multiprocessing.spawn do. */
#ifndef MILLRACE_LAUNCH_H
#define MILLRACE_LAUNCH_H

#include <millrace/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MR_MAX_PROCS 256

typedef struct mr_launch_options {
    size_t struct_size;
    uint32_t nproc;     /* ranks on this machine, 1 to MR_MAX_PROCS; needed */
    uint32_t nnodes;    /* machines; 0 means 1 */
    uint32_t node_rank; /* of this one */
    const char
        *rendezvous;     /* "HOST:PORT" of rank 0's machine; needed with several; default 127.0.0.1 and a free port */
    const char *log_dir; /* one log per rank, DIR/rank-N.log; default: prefixed lines on stdout and stderr */
    bool no_prefix;      /* lines as the ranks write them */
    uint32_t grace_ms;   /* between SIGTERM and SIGKILL for the others when one rank has failed; 0 means 500 */
} mr_launch_options;

#define MR_LAUNCH_OPTIONS_INIT MR_STRUCT_INIT(mr_launch_options)

/** How a launch ended. */
typedef struct mr_launch_result {
    int32_t exit_status; /* 0; that of the rank that failed first; 128 + signal where it was killed */
    int32_t rank;        /* that rank; -1 when none failed */
    int32_t pid;
} mr_launch_result;

/**
 * Run a program as nproc ranks with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR,
 * MASTER_PORT and MR_RUN_ID in their environments. SIGINT, SIGTERM, SIGHUP and SIGUSR1/2 of the caller are passed on
 * while it waits. When one rank fails, the others are ended within a second. No rank outlives the caller, however he
 * ends.
 *
 * Signals that the caller ignores or blocks are left alone. Which rank failed first, and how, is a log line. What ranks
 * leave running is ended too.
 *
 * argv  of the program, ends with NULL; found in PATH.
 * Returns MR_OK with *result_out when all ranks have ended; MR_ERR_INVALID, MR_ERR_IO.
 * Blocks: until then.
 */
MR_API mr_status mr_launch(const mr_launch_options *options, char *const *argv, mr_launch_result *result_out,
                           mr_error *error);

/**
 * Run fn(local_rank, arg) in nproc forked processes with the same variables; its return is their exit status. options
 * may be NULL; its nproc is not looked at. Refused with MR_ERR_STATE when the process has a second thread: fork would
 * copy locks that nobody opens.
 */
MR_API mr_status mr_spawn(int (*fn)(uint32_t local_rank, void *arg), uint32_t nproc, void *arg,
                          const mr_launch_options *options, mr_launch_result *result_out, mr_error *error);

#ifdef __cplusplus
}
#endif

#endif
