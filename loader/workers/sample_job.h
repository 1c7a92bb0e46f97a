/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One sample in progress: a place of a batch, and the candidate to fill it with. worker.c finds the
 * place and holds it; sample_make.c chooses the candidate. Until the place is held, the candidate
 * is only a guess.
 */
#ifndef LOADER_WORKERS_SAMPLE_JOB_H
#define LOADER_WORKERS_SAMPLE_JOB_H

#include "base/packed_image.h"
#include "base/rng.h"
#include "cache/cache_use.h"
#include "loader/control.h"
#include "pinned/slot.h"

/* Tags of the reads in flight in a worker, and one for a sample that was not read ahead. */
enum { MR_SPARE_TAG = MR_MAX_AHEAD, MR_N_TAGS };

struct mr_sample_job {
    struct mr_slot_view view; /* of the batch's slot */
    uint32_t place;
    uint32_t tag;      /* of its read, among those in flight in this worker */
    uint64_t word;     /* the place's word: as it was when seen OPEN, then BUSY while held */
    uint64_t begin_ns; /* of the read, for the trace */
    int64_t index;     /* the candidate's dataset index; -1: there is no candidate */
    /* the candidate's draws in the batch's epoch; only copies of it are drawn from */
    struct mr_rng draws;
    /* What was found when the parts of the candidate were listed: */
    bool is_packed;     /* it is described by hit.image; its read begins at byte offset of that */
    bool is_from_cache; /* so all of hit is set */
    bool has_marks;     /* they are read too */
    uint64_t offset;
    struct mr_cache_hit hit;
};

#endif
