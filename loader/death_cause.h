/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker's death means. */
#ifndef LOADER_DEATH_CAUSE_H
#define LOADER_DEATH_CAUSE_H

#include "loader/starter.h"

struct mr_death_cause {
    uint32_t blame;  /* for the sample that was being decoded */
    bool our_fault;  /* counts towards the end of a loader whose workers all die early */
    char words[200]; /* for the sample's error: "the worker that decodes it ..." */
    char cause[200]; /* of the death itself: "died by SIGSEGV" */
};

/* limit_kill: the supervisor itself has killed the worker for the time limit. */
void mr_death_cause_find(const struct mr_exit *end, const struct mr_worker_record *record, bool limit_kill,
                         uint32_t time_limit_ms, struct mr_death_cause *cause_out);

#endif
