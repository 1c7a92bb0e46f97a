/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which of a transform's last steps the device does. */
#ifndef LOADER_PLAN_SPLIT_H
#define LOADER_PLAN_SPLIT_H

#include "loader/host.h"

/*
 * Compile the transform for this loader: for each view plans_out has the workers' part, mixed_out
 * the plan of finished rows. host->finish is the device's part, host->image the form of the first
 * lent array. If a device finishes, pixels are copied as u8, interleaved, and become floats and
 * planes there.
 */
mr_status mr_plan_split_compile(struct mr_host *host, mr_dataset *dataset,
                                const mr_transform *transform, struct mr_plan *plans_out,
                                struct mr_plan *mixed_out, mr_error *error);

#endif
