/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of a group, and what they share with a caller that runs the engine in its own thread.
 */
#ifndef DIST_GROUP_WORK_THREADS_H
#define DIST_GROUP_WORK_THREADS_H

#include "dist/group/group.h"

/* Of a group with any engine; a device's has a watch only. */
mr_status mr_work_threads_start(struct mr_group *group, mr_error *error);
/* End what is under way, and the engine. Bounded, also when the engine does not come back. */
void mr_work_threads_stop(struct mr_group *group);

/* The deadline of a collective that begins now. */
uint64_t mr_work_threads_deadline(const struct mr_group *group);
/* With the lock: the engine is free; wakes the runner and callers that wait for it. */
void mr_work_threads_release(struct mr_group *group);
/*
 * With the lock: what a collective came to. is_verdict: all ranks return it, and the engine is
 * sound.
 */
void mr_work_threads_note(struct mr_group *group, mr_status status, bool is_verdict,
                          const mr_error *error);

#endif
