/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetches one sample, from the list of its parts to its pixels: a file, a record, or the bytes of a
 * packed sample that one crop needs. For a packed sample the crop is drawn before the read, to know
 * those bytes, and again after it. Draws are counter-based, so both give the same crop.
 */
#ifndef LOADER_WORKERS_SAMPLE_FETCH_H
#define LOADER_WORKERS_SAMPLE_FETCH_H

#include "base/packed_image.h"
#include "dataset/reader/reader.h"
#include "loader/workers/packed_rows.h"
#include "transforms/plan_runner.h"

/* Where a worker's samples come from and how they are read; constant. */
struct mr_sample_source {
    const struct mr_catalog *catalog; /* NULL with callbacks, which bring their own bytes */
    struct mr_plan_runner *runner;
    uint64_t max_bytes; /* limit for the image of a sample */
    bool verifies;      /* packed samples are read whole and compared with their checksum */
    struct mr_packed_rows *rows; /* NULL: rows are not packed */
    bool no_index;               /* marks are not read, because libjpeg needs whole files */
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
 * List the parts of the candidate that its draws need, and note in the job what they are. no_index:
 * without its marks, so that a sample that has some is read whole and decoded like a file. whole:
 * all of the sample.
 *
 * Returns MR_OK; otherwise error names the sample: the pack's index entry makes no sense
 * (MR_ERR_DAMAGED), or this machine cannot decode it.
 */
mr_status mr_sample_fetch_list(const struct mr_sample_source *source, struct mr_sample_job *job,
                               bool no_index, bool whole, struct mr_part_list *list_out,
                               mr_error *error);

/* Called after the read. fetched_out points into its bytes. error names the sample. */
mr_status mr_sample_fetch_take(const struct mr_sample_source *source,
                               const struct mr_sample_job *job, const struct mr_read *read,
                               void *label_out, struct mr_fetched *fetched_out, mr_error *error);

/* Make the candidate's pixels. error lacks the sample's name. report_out is always set. */
mr_status mr_sample_fetch_run(const struct mr_sample_source *source,
                              const struct mr_sample_job *job, const struct mr_fetched *fetched,
                              void *out, struct mr_plan_runner_report *report_out, mr_error *error);

/*
 * Put "path (index 7): " before an error's text, and set its index. With callbacks, catalog is
 * NULL.
 */
void mr_sample_fetch_name(const struct mr_catalog *catalog, int64_t index, mr_error *error);

/* Store the source of an index of a mixture in the job's row. column: MR_NO_COLUMN does nothing. */
void mr_sample_fetch_source(const struct mr_catalog *catalog, const struct mr_sample_job *job,
                            uint32_t column, int64_t index);

#endif
