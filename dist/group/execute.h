/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one collective on a host engine, and writes the error of a failure on any engine. */
#ifndef DIST_GROUP_EXECUTE_H
#define DIST_GROUP_EXECUTE_H

#include "dist/group/group.h"

/*
 * Run one collective; blocks. The error names it, and the lost rank if that is known.
 * *is_verdict_out: the status is MR_ERR_PEER from collective_check.c, equal on all ranks, and
 * nothing has begun.
 */
mr_status mr_execute_collective(struct mr_group *group, const struct mr_collective *collective,
                                uint64_t deadline_ns, bool *is_verdict_out, mr_error *error);
/*
 * Combine the engine's error, the store's lost ranks and the collective in one line. Without the
 * lock. Asks the store, for less than a second.
 */
mr_status mr_execute_explain(struct mr_group *group, const struct mr_collective *collective,
                             mr_status status, mr_error *error);

#endif
