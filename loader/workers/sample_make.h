/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the sample of a place: chooses the candidate, gets its bytes and pixels, and applies the
 * policy for damaged samples.
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

/* Set the job's candidate, which follows from its place. False if the place needs no read. */
bool mr_sample_make_choose(const struct mr_sample_maker *maker, struct mr_sample_job *job);

/* Files beside those of the catalog that the reader must be able to open, or NULL. */
const struct mr_other_files *mr_sample_make_files(const struct mr_sample_maker *maker);

/*
 * Begin to read the candidate, before the place is held. False: no read, because the pack's index
 * entry makes no sense; mr_sample_make_run() reports it.
 */
bool mr_sample_make_submit(struct mr_sample_maker *maker, struct mr_sample_job *job,
                           struct mr_reader *reader);

/*
 * Fill the held place: sample, label, index, mask, geometry, outcome. The candidate is chosen
 * again; read may be that of another candidate, or NULL. Blame belongs to a candidate, so job->word
 * changes when a candidate is skipped. Returns false if the place had no candidate.
 */
bool mr_sample_make_run(struct mr_sample_maker *maker, struct mr_sample_job *job,
                        const struct mr_read *read);

/*
 * Pack samples for the cache: a share after worked_ns of work, or one when there is no work, then
 * true if one was packed. Both do nothing without a cache.
 */
void mr_sample_make_fill(struct mr_sample_maker *maker, uint64_t worked_ns);
bool mr_sample_make_fill_idle(struct mr_sample_maker *maker);

#endif
