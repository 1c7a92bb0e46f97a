/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a place that a worker holds to the finished sample: which candidate, its bytes, its pixels, and what to do when
 * it is damaged.
 */
#ifndef LOADER_SAMPLE_MAKE_H
#define LOADER_SAMPLE_MAKE_H

#include "dataset/reader.h"
#include "loader/worker_job.h"

struct mr_sample_maker;

mr_status mr_sample_make_create(const struct mr_worker_job *job, struct mr_sample_maker **maker_out, mr_error *error);
void mr_sample_make_destroy(struct mr_sample_maker *maker);

/*
 * The dataset index that stands next for a place, or -1 when the place needs no reading. Only a guess until the place
 * is held.
 */
int64_t mr_sample_make_candidate(const struct mr_sample_maker *maker, const struct mr_slot_view *view, uint32_t place);

enum mr_submitted {
    MR_SUBMITTED_NOTHING, /* there is nothing to read, because the index of a pack makes no sense there:
                             mr_sample_make_run() finds that out again, and says so */
    MR_SUBMITTED_READ,    /* the reader has it */
    MR_SUBMITTED_CACHED,  /* mr_sample_make_run() takes it from the cache; the system reads ahead */
};

/* Begin to read a candidate for a place that is not held yet. */
enum mr_submitted mr_sample_make_submit(struct mr_sample_maker *maker, const struct mr_slot_view *view, int64_t index,
                                        struct mr_reader *reader, uint64_t tag);

/*
 * Fill a held place: sample, label, index, mask, geometry, outcome. read may be of another candidate, or NULL.
 * *held is the place's word; it changes when a candidate is skipped, because blame is a candidate's.
 */
void mr_sample_make_run(struct mr_sample_maker *maker, const struct mr_slot_view *view, uint32_t place, uint64_t *held,
                        const struct mr_read *read);

/*
 * A share in filling the cache, after worked_ns of work; and when there is no work, true when something was done. Both
 * do nothing without a cache.
 */
void mr_sample_make_fill(struct mr_sample_maker *maker, uint64_t worked_ns);
bool mr_sample_make_fill_idle(struct mr_sample_maker *maker);

#endif
