/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program as ranks. Easy to get wrong: its name is looked up by each rank, in the PATH of this process, so a program
 * that is not there is a rank that ends with 127, and the line about it names the program.
 */
#include <millrace/launch.h>

#include "dist/launch/launch.h"

mr_status mr_launch(const mr_launch_options *options, char *const *argv, mr_launch_result *result_out, mr_error *error)
{
    if (!options || !result_out)
        return mr_error_set(error, MR_ERR_INVALID, "%s is NULL", options ? "result_out" : "options");
    if (!argv || !argv[0] || argv[0][0] == '\0')
        return mr_error_set(error, MR_ERR_INVALID, "argv names no program");
    if (options->struct_size < offsetof(mr_launch_options, nnodes))
        return mr_error_set(error, MR_ERR_INVALID, "struct_size %zu is none of mr_launch_options",
                            options->struct_size);
    const struct mr_rank_job job = {.argv = argv};
    return mr_ranks_run(options, options->nproc, &job, result_out, error);
}
