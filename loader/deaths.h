/* SPDX-License-Identifier: Apache-2.0 */
/* What the supervisor does when a worker has ended. */
#ifndef LOADER_DEATHS_H
#define LOADER_DEATHS_H

#include "loader/supervisor_state.h"

/* Worker i has ended: collect its status, return its samples, and decide when to restart it. */
void mr_deaths_take(struct mr_supervisor *s, uint32_t i);

#endif
