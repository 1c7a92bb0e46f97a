/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of a group, and the functions that they share with a caller that runs the engine in
 * its own thread.
 */
#ifndef DIST_GROUP_WORK_THREADS_H
#define DIST_GROUP_WORK_THREADS_H

#include "dist/group/group.h"

/* For any engine. A device group gets only a watch. */
mr_status mr_work_threads_start(struct mr_group *group, mr_error *error);
/* End the collectives under way, and the engine. Bounded, even if the engine does not return. */
void mr_work_threads_stop(struct mr_group *group);

/* The deadline of a collective that begins now. */
uint64_t mr_work_threads_deadline(const struct mr_group *group);
/* With the lock: mark the engine as free. Wakes the runner and callers that wait for it. */
void mr_work_threads_release(struct mr_group *group);
/*
 * With the lock: record the outcome of a collective. is_verdict: all ranks return the same error,
 * and the engine is sound.
 */
void mr_work_threads_note(struct mr_group *group, mr_status status, bool is_verdict,
                          const mr_error *error);

#endif
