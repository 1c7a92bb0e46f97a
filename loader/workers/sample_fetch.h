/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One sample under way, from the read to its pixels: of a file, a record, or as much of a pack's
 * sample as one crop needs. Of a pack the crop is drawn before the read, to know those bytes, and
 * again after it. Draws are counter-based, so both give the same crop.
 */
#ifndef LOADER_WORKERS_SAMPLE_FETCH_H
#define LOADER_WORKERS_SAMPLE_FETCH_H

#include "base/packed_image.h"
#include "dataset/reader.h"
#include "loader/workers/sample_job.h"
#include "transforms/plan_runner.h"

/* Where a worker's samples come from and how they are read; constant. */
struct mr_sample_source {
    const struct mr_catalog *catalog; /* NULL with callbacks, which bring their own */
    struct mr_plan_runner *runner;
    uint64_t max_bytes; /* of a pack's sample; a reader looks after files itself */
    bool verifies;      /* samples of a pack are read whole and held against their checksum */
};

/* The bytes of a sample. */
struct mr_fetched {
    const uint8_t *bytes;
    size_t len;
    bool encoded;
    bool is_packed; /* then bytes are [offset, offset + len) of packed: */
    uint64_t offset;
    struct mr_packed_image packed;
};

/*
 * Begin to read the candidate. no_index: the reader leaves out marks, so that a sample that has
 * some is read whole and decoded as the file that it is.
 *
 * Returns MR_OK when the reader has it; otherwise nothing was submitted, and error names the
 * sample: what the index of a pack says makes no sense (MR_ERR_DAMAGED), or this machine cannot
 * decode it.
 */
mr_status mr_sample_fetch_submit(const struct mr_sample_source *source,
                                 const struct mr_sample_job *job, bool no_index,
                                 struct mr_reader *reader, mr_error *error);

/* After the read: fetched_out points into its bytes. error names the sample. */
mr_status mr_sample_fetch_take(const struct mr_sample_source *source, const struct mr_read *read,
                               void *label_out, struct mr_fetched *fetched_out, mr_error *error);

/* Has the sample of a pack marks that lead into its bytes? */
bool mr_sample_fetch_has_marks(const struct mr_sample_source *source, int64_t index);

/* Make the candidate's pixels. error lacks the sample's name. report_out is set in any case. */
mr_status mr_sample_fetch_run(const struct mr_sample_source *source,
                              const struct mr_sample_job *job, const struct mr_fetched *fetched,
                              void *out, struct mr_plan_runner_report *report_out, mr_error *error);

/*
 * Put "path (index 7): " before an error's words, and the index into its record. catalog NULL: a
 * sample of callbacks. /
 */
void mr_sample_fetch_name(const struct mr_catalog *catalog, int64_t index, mr_error *error);

#endif
