/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which of a transform's last steps the device does. */
#ifndef LOADER_PLAN_SPLIT_H
#define LOADER_PLAN_SPLIT_H

#include "loader/host.h"

/*
 * Compile the transform for this loader. *plan_out is the workers' part, *mixed_out the plan of
 * mixed rows, host->finish the device's part, host->image the form of the lent array,
 * views_out the plans of further views, as many as the transform has. If a device
 * finishes, pixels are copied as u8, interleaved, and become floats and planes there.
 */
mr_status mr_plan_split_compile(struct mr_host *host, mr_dataset *dataset,
                                const mr_transform *transform, struct mr_plan *plan_out,
                                struct mr_plan *mixed_out, struct mr_plan *views_out,
                                mr_error *error);

#endif
