/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One collective by an engine of the host's memory, and the words for one that failed on any
 * engine.
 */
#ifndef DIST_GROUP_EXECUTE_H
#define DIST_GROUP_EXECUTE_H

#include "dist/group/group.h"

/*
 * Do one collective; blocks. The error names it, and the rank that is lost where that is known.
 * *is_verdict_out: MR_ERR_PEER is what collective_check.c reports on all ranks alike, and nothing
 * has begun.
 */
mr_status mr_execute_collective(struct mr_group *group, const struct mr_collective *collective,
                                uint64_t deadline_ns, bool *is_verdict_out, mr_error *error);
/*
 * What the engine said, what the store knows, and which collective it was, in one line. Without the
 * lock; asks the store, for less than a second.
 */
mr_status mr_execute_explain(struct mr_group *group, const struct mr_collective *collective,
                             mr_status status, mr_error *error);

#endif
