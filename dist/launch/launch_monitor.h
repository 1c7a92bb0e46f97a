/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process between the launcher and its ranks. It starts them, watches them, and ends every
 * process that they leave.
 */
#ifndef DIST_LAUNCH_LAUNCH_MONITOR_H
#define DIST_LAUNCH_LAUNCH_MONITOR_H

#include "dist/launch/launch_plan.h"

#include <millrace/launch.h>

struct mr_launch_monitor_verdict {
    bool is_notice; /* not a verdict: the launcher logs the error's text and waits on */
    int32_t status; /* an mr_status */
    int32_t output_errno[MR_RANK_STREAMS];
    mr_launch_result result;
    mr_error error; /* with MR_OK: which rank failed first and how; empty if none did */
};

/* Runs in a fork of the launcher. A rank that is a function leaves it by exit(). */
_Noreturn void mr_launch_monitor_run(const struct mr_launch_plan *plan);

#endif
