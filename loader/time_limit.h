/* SPDX-License-Identifier: Apache-2.0 */
/* The time limit for one sample. */
#ifndef LOADER_TIME_LIMIT_H
#define LOADER_TIME_LIMIT_H

#include "loader/supervisor_state.h"

/* Called after tick_ms: kill the workers that have made no progress for longer than the limit. */
void mr_time_limit_tick(struct mr_supervisor *s, uint64_t tick_ms);

#endif
