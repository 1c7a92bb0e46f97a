/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetches one sample, from the read to its pixels: a file, a record, or the bytes of a packed
 * sample that one crop needs. For a packed sample the crop is drawn before the read, to know those
 * bytes, and again after it. Draws are counter-based, so both give the same crop.
 */
#ifndef LOADER_WORKERS_SAMPLE_FETCH_H
#define LOADER_WORKERS_SAMPLE_FETCH_H

#include "base/packed_image.h"
#include "dataset/reader.h"
#include "loader/workers/sample_job.h"
#include "transforms/plan_runner.h"

/* Where a worker's samples come from and how they are read; constant. */
struct mr_sample_source {
    const struct mr_catalog *catalog; /* NULL with callbacks, which bring their own bytes */
    struct mr_plan_runner *runner;
    uint64_t max_bytes; /* limit for a packed sample; for files the reader checks it */
    bool verifies;      /* packed samples are read whole and compared with their checksum */
};

/* The bytes of a sample. */
struct mr_fetched {
    const uint8_t *bytes;
    size_t len;
    bool encoded;
    bool is_packed; /* the bytes are [offset, offset + len) of packed: */
    uint64_t offset;
    struct mr_packed_image packed;
};

/*
 * Begin to read the candidate. With no_index the reader does not read marks, so a sample that has
 * some is read whole and decoded like a file.
 *
 * Returns MR_OK if the reader has the read. Otherwise nothing was submitted, and error names the
 * sample: the pack's index entry makes no sense (MR_ERR_DAMAGED), or this machine cannot decode it.
 */
mr_status mr_sample_fetch_submit(const struct mr_sample_source *source,
                                 const struct mr_sample_job *job, bool no_index,
                                 struct mr_reader *reader, mr_error *error);

/* Called after the read. fetched_out points into its bytes. error names the sample. */
mr_status mr_sample_fetch_take(const struct mr_sample_source *source, const struct mr_read *read,
                               void *label_out, struct mr_fetched *fetched_out, mr_error *error);

/* Is this a packed sample that has marks? */
bool mr_sample_fetch_has_marks(const struct mr_sample_source *source, int64_t index);

/* Make the candidate's pixels. error lacks the sample's name. report_out is always set. */
mr_status mr_sample_fetch_run(const struct mr_sample_source *source,
                              const struct mr_sample_job *job, const struct mr_fetched *fetched,
                              void *out, struct mr_plan_runner_report *report_out, mr_error *error);

/*
 * Put "path (index 7): " before an error's text, and set its index. With callbacks, catalog is
 * NULL.
 */
void mr_sample_fetch_name(const struct mr_catalog *catalog, int64_t index, mr_error *error);

#endif
