/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running ranks of either kind, on the launcher's side: what mr_launch() and mr_launch_spawn()
 * share.
 */
#ifndef DIST_LAUNCH_LAUNCH_H
#define DIST_LAUNCH_LAUNCH_H

#include "dist/launch/launch_plan.h"

/*
 * Check the options, start the ranks, pass signals on, and wait until all have ended. If a rank
 * failed, one line about it is logged.
 */
mr_status mr_launch_run(const mr_launch_options *options, const struct mr_rank_job *job,
                        mr_launch_result *result_out, mr_error *error);

#endif
