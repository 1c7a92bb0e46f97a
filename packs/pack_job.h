/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What mr_dataset_pack(), mr_dataset_check() and mr_pack_unpack() share: options, progress, report,
 * and messages about samples.
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
 * Begin with a dataset that has files and at least one sample. report_out is checked only.
 * MR_ERR_INVALID, MR_ERR_UNSUPPORTED.
 */
mr_status mr_pack_job_begin(struct mr_pack_job *job, const mr_dataset *dataset,
                            const mr_pack_options *options, const mr_pack_report *report_out,
                            mr_error *error);
/*
 * Work on positions from progress.n_done on: catalog, n_workers, positions and tick of work are set
 * here; work->user must begin with a struct mr_pack_job.
 */
mr_status mr_pack_job_run(struct mr_pack_job *job, struct mr_pipeline_work *work, mr_error *error);
/* The report, unless report_out is NULL. */
void mr_pack_job_end(struct mr_pack_job *job, mr_pack_report *report_out);

/* A sample of a pack, by its encoding. */
void mr_pack_job_count_image(mr_pack_report *report, const struct mr_packed_image *image);
/* An item was taken: count it. */
void mr_pack_job_count(struct mr_pack_job *job, const struct mr_pipeline_item *item);
/*
 * Report a message about a sample, if the caller asked for notices. If text begins with the
 * sample's name, as errors do, that name is left out.
 */
void mr_pack_job_notice(const struct mr_pack_job *job, int64_t index, const char *text);
/* The same for a damaged sample, which is counted. */
void mr_pack_job_damage(struct mr_pack_job *job, int64_t index, const char *text);
/* Make an error about a sample begin with its name: "photos/a.jpg (index 7): words". */
void mr_pack_job_name(const struct mr_catalog *catalog, int64_t index, mr_error *error);

/* A packer with only the limits of the options, for decoding and not for packing. */
mr_status mr_pack_job_packer(const struct mr_pack_job *job, struct mr_packer **packer_out,
                             mr_error *error);

/*
 * Check a sample of a pack that was read whole: its description, and its bytes against the
 * checksum. MR_ERR_DAMAGED, also if there are fewer bytes than image_out->len.
 */
mr_status mr_pack_job_verify(const struct mr_pack_job *job, const struct mr_read *read,
                             struct mr_packed_image *image_out, mr_error *error);
/*
 * The file from which a sample was packed, after mr_pack_job_verify(). Valid until the packer's
 * next call.
 */
mr_status mr_pack_job_restore(struct mr_packer *packer, const struct mr_packed_image *image,
                              const struct mr_read *read, const uint8_t **file_out, size_t *len_out,
                              mr_error *error);

#endif
