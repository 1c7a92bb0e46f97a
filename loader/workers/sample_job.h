/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One sample in progress: a place of a batch, and the candidate to fill it with. worker.c finds the
 * place and holds it; sample_make.c chooses the candidate. Until the place is held, the candidate
 * is only a guess.
 */
#ifndef LOADER_WORKERS_SAMPLE_JOB_H
#define LOADER_WORKERS_SAMPLE_JOB_H

#include "base/rng.h"
#include "pinned/slot.h"

struct mr_sample_job {
    struct mr_slot_view view; /* of the batch's slot */
    uint32_t place;
    uint32_t tag;      /* of its read, among those in flight in this worker */
    uint64_t word;     /* the place's word: as it was when seen OPEN, then BUSY while held */
    uint64_t begin_ns; /* of the read, for the trace */
    int64_t index;     /* the candidate's dataset index; -1: there is no candidate */
    /* the candidate's draws in the batch's epoch; only copies of it are drawn from */
    struct mr_rng draws;
    /*
     * The read is a range of the file, found by the cache's marks of this version of the file, or
     * only the byte arrays of a cached sample:
     */
    bool is_part;
    uint64_t file_bytes;
    int64_t mtime_ns;
};

#endif
