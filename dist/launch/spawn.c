/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a function as ranks. stdio is flushed before the fork, because otherwise each rank would
 * write the same buffered bytes again. A process with a second thread is refused: that thread may
 * hold a lock at the fork, which would never be released in a rank.
 */
#include <millrace/launch.h>

#include "dist/launch/launch.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>

static mr_status count_threads(uint32_t *n_out, mr_error *error)
{
    DIR *tasks = opendir("/proc/self/task");
    if (!tasks)
        return mr_error_os(error, MR_ERR_IO, errno, "cannot count threads in /proc/self/task");
    uint32_t n = 0;
    for (const struct dirent *entry; (entry = readdir(tasks)) != NULL;)
        n += entry->d_name[0] != '.';
    closedir(tasks);
    *n_out = n;
    return MR_OK;
}

mr_status mr_launch_spawn(const mr_launch_options *options,
                          int (*fn)(void *user, uint32_t local_rank), void *user,
                          mr_launch_result *result_out, mr_error *error)
{
    if (!options || !fn || !result_out)
        return mr_error_set(error, MR_ERR_INVALID, "%s is NULL",
                            !options ? "options"
                            : fn     ? "result_out"
                                     : "fn");
    uint32_t n_threads = 0;
    mr_status status = count_threads(&n_threads, error);
    if (status != MR_OK)
        return status;
    if (n_threads != 1)
        return mr_error_set(error, MR_ERR_STATE,
                            "this process has %u threads; mr_launch_spawn needs a single one",
                            n_threads);
    if (fflush(NULL) != 0)
        return mr_error_os(error, MR_ERR_IO, errno, "cannot flush stdio before the fork");
    const struct mr_rank_job job = {.fn = fn, .user = user};
    return mr_launch_run(options, &job, result_out, error);
}
