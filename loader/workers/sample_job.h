/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One sample under way: a place of a batch, and the candidate that is to fill it. worker.c finds
 * the place and holds it, sample_make.c chooses the candidate, which is only a guess until the
 * place is held.
 */
#ifndef LOADER_WORKERS_SAMPLE_JOB_H
#define LOADER_WORKERS_SAMPLE_JOB_H

#include "base/rng.h"
#include "pinned/slot.h"

struct mr_sample_job {
    struct mr_slot_view view; /* of the batch's slot */
    uint32_t place;
    uint32_t tag;        /* of its read, among those that the worker has in flight */
    uint64_t word;       /* the place's: as it was seen OPEN, then BUSY while it is held */
    uint64_t begin_ns;   /* of the read, for the trace */
    int64_t index;       /* the candidate's in the dataset; -1: there is none */
    struct mr_rng draws; /* the candidate's in the batch's epoch; nothing is drawn from it,
                            copies are */
    bool is_part;        /* its read is a range of its file, found by marks that the cache has of
                            this version, or the byte arrays of a sample that is in the cache: */
    uint64_t file_bytes;
    int64_t mtime_ns;
};

#endif
