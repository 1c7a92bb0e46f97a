/* SPDX-License-Identifier: Apache-2.0 */
/* Which of a transform's last steps the device does. */
#ifndef LOADER_FINISHING_H
#define LOADER_FINISHING_H

#include "loader/core.h"

/*
 * Compile the transform for this loader: *plan_out is the workers' part, core->finish the device's, core->image what is
 * lent. On a device pixels cross the bus as u8, interleaved, and become floats and planes there.
 */
mr_status mr_finishing_compile(struct mr_core *core, mr_dataset *dataset, const mr_transform *transform,
                               struct mr_plan *plan_out, struct mr_plan *mixed_out, mr_error *error);

#endif
