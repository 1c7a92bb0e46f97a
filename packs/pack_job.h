/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common part of mr_dataset_pack(), mr_dataset_check() and mr_pack_unpack(): options, progress,
 * report, and messages about samples.
 */
#ifndef PACKS_PACK_JOB_H
#define PACKS_PACK_JOB_H

#include "dataset/dataset.h"
#include "packs/pipeline.h"
#include "packs/packer.h"

#include <millrace/pack.h>

struct mr_pack_job {
    const struct mr_catalog *catalog;
    const struct mr_sample_kind *kind;
    mr_pack_options options; /* resolved */
    mr_pack_progress progress;
    mr_pack_report report;
    uint64_t start_ns;
};

/*
 * Begin a job on a dataset that has files and at least one sample. report_out is only checked, not
 * written. MR_ERR_INVALID, MR_ERR_UNSUPPORTED.
 */
mr_status mr_pack_job_begin(struct mr_pack_job *job, const mr_dataset *dataset,
                            const mr_pack_options *options, const mr_pack_report *report_out,
                            mr_error *error);
/*
 * Process the positions from progress.n_done to the end. Sets catalog, n_workers, positions and
 * tick of work. work->user must begin with a struct mr_pack_job.
 */
mr_status mr_pack_job_run(struct mr_pack_job *job, struct mr_pipeline_work *work, mr_error *error);
/* Write the report, unless report_out is NULL. */
void mr_pack_job_end(struct mr_pack_job *job, mr_pack_report *report_out);

/* Count a sample of a pack by its encoding. */
void mr_pack_job_count_image(mr_pack_report *report, const struct mr_packed_image *image);
/* Count an item that was taken. */
void mr_pack_job_count(struct mr_pack_job *job, const struct mr_pipeline_item *item);
/*
 * Report a message about a sample, if the caller asked for notices. If text begins with the
 * sample's name, as errors do, that name is left out.
 */
void mr_pack_job_notice(const struct mr_pack_job *job, int64_t index, const char *text);
/* Count a damaged sample and report the message. */
void mr_pack_job_damage(struct mr_pack_job *job, int64_t index, const char *text);
/* Make an error about a sample begin with its name: "photos/a.jpg (index 7): text". */
void mr_pack_job_name(const struct mr_catalog *catalog, int64_t index, mr_error *error);

/*
 * Create a packer that is used only for decoding: it has only the limits and the decoder of the
 * options.
 */
mr_status mr_pack_job_packer(const struct mr_pack_job *job, struct mr_packer **packer_out,
                             mr_error *error);

/*
 * Check a whole sample of a pack: its description, and its bytes and those of its members against
 * their checksums. MR_ERR_DAMAGED, also if there are fewer bytes than image_out->len.
 */
mr_status mr_pack_job_verify(const struct mr_pack_job *job, const struct mr_read *read,
                             struct mr_packed_image *image_out, mr_error *error);
/*
 * Restore the file of a sample that mr_pack_job_verify() accepted. Valid until the packer's next
 * call.
 */
mr_status mr_pack_job_restore(struct mr_packer *packer, const struct mr_packed_image *image,
                              const struct mr_read *read, const uint8_t **file_out, size_t *len_out,
                              mr_error *error);

#endif
