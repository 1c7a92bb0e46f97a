/* SPDX-License-Identifier: Apache-2.0 */
/* Which of a transform's last steps the device does. */
#ifndef LOADER_PLAN_SPLIT_H
#define LOADER_PLAN_SPLIT_H

#include "loader/host.h"

/*
 * Compile the transform for this loader: *plan_out is the workers' part, host->finish the device's,
 * host->image what is lent. On a device pixels cross the bus as u8, interleaved, and become floats
 * and planes there.
 */
mr_status mr_plan_split_compile(struct mr_host *host, mr_dataset *dataset,
                                const mr_transform *transform, struct mr_plan *plan_out,
                                struct mr_plan *mixed_out, mr_error *error);

#endif
