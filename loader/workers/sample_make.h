/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the sample of a place: chooses the candidate, gets its bytes and pixels, and applies the
 * policy if it is damaged.
 */
#ifndef LOADER_WORKERS_SAMPLE_MAKE_H
#define LOADER_WORKERS_SAMPLE_MAKE_H

#include "loader/workers/sample_fetch.h"
#include "loader/workers/sample_job.h"
#include "loader/workers/worker_setup.h"

struct mr_sample_maker;

mr_status mr_sample_make_create(const struct mr_worker_job *job, struct mr_sample_maker **maker_out,
                                mr_error *error);
void mr_sample_make_destroy(struct mr_sample_maker *maker);

/* Set the job's candidate, which follows from its place. False when the place needs no reading. */
bool mr_sample_make_choose(const struct mr_sample_maker *maker, struct mr_sample_job *job);

enum mr_submitted {
    MR_SUBMITTED_NOTHING, /* there is nothing to read, because the index of a pack makes no sense
                             there: mr_sample_make_run() finds that out again, and says so */
    MR_SUBMITTED_READ,    /* the reader has it, or the range of its file that marks in the cache
                             lead to */
    MR_SUBMITTED_CACHED,  /* mr_sample_make_run() takes it from the cache; the system reads ahead */
};

/* Begin to read the candidate, before the place is held. */
enum mr_submitted mr_sample_make_submit(struct mr_sample_maker *maker, struct mr_sample_job *job,
                                        struct mr_reader *reader);

/*
 * Fill the held place: sample, label, index, mask, geometry, outcome. The candidate is chosen
 * again; read may be of another one, or NULL. job->word changes when a candidate is skipped,
 * because blame belongs to a candidate. Returns false when the place had no candidate.
 */
bool mr_sample_make_run(struct mr_sample_maker *maker, struct mr_sample_job *job,
                        const struct mr_read *read);

/*
 * A share in filling the cache, after worked_ns of work; and when there is no work, true when
 * something was done. Both do nothing without a cache.
 */
void mr_sample_make_fill(struct mr_sample_maker *maker, uint64_t worked_ns);
bool mr_sample_make_fill_idle(struct mr_sample_maker *maker);

#endif
