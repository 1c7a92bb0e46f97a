/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common part of mr_dataset_pack(), mr_dataset_check() and mr_pack_unpack().
 *
 * A sample's error may already begin with the sample's name. A notice passes the name separately,
 * so the name is removed from its text. A returned error gets the name if it is missing.
 */
#include "packs/pack_job.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/options.h"
#include "base/public_struct.h"
#include "transforms/packed.h"

enum { MAX_WORKERS = 256, MAX_SIDE = 65500 /* of a JPEG */, MAX_QUALITY = 100 };
#define MIN_SHARD_BYTES (UINT64_C(1) << 20)
#define DEFAULT_SHARD_BYTES (UINT64_C(1) << 30)

static mr_status check_below(const char *name, uint64_t value, uint64_t limit, mr_error *error)
{
    if (value <= limit)
        return MR_OK;
    return mr_error_set(error, MR_ERR_INVALID, "%s %llu is above the limit of %llu", name,
                        (unsigned long long)value, (unsigned long long)limit);
}

static mr_status check_together(const mr_pack_options *o, mr_error *error)
{
    if (o->max_side > 0 && o->resize > 0)
        return mr_error_set(error, MR_ERR_INVALID, "max_side and resize exclude each other");
    if (o->no_index && o->encoding != MR_PACK_JPEG)
        return mr_error_set(error, MR_ERR_INVALID, "no_index applies to the encoding jpeg only");
    if (o->quality > 0 && o->encoding == MR_PACK_RAW)
        return mr_error_set(error, MR_ERR_INVALID, "quality applies to JPEGs, not to raw pixels");
    if (o->shard_size < MIN_SHARD_BYTES)
        return mr_error_set(error, MR_ERR_INVALID, "shard_size %llu is below %llu",
                            (unsigned long long)o->shard_size, (unsigned long long)MIN_SHARD_BYTES);
    return MR_OK;
}

static mr_status resolve_options(mr_pack_options *o, const mr_pack_options *options,
                                 mr_error *error)
{
    mr_status status = mr_options_copy(o, sizeof *o, options, "mr_pack_options", error);
    if (status == MR_OK)
        status =
            mr_options_check_reserved(o->reserved, sizeof o->reserved, "mr_pack_options", error);
    if (status == MR_OK)
        status = check_below("encoding", o->encoding, MR_PACK_DCT, error);
    if (status == MR_OK)
        status = check_below("max_side", o->max_side, MAX_SIDE, error);
    if (status == MR_OK)
        status = check_below("resize", o->resize, MAX_SIDE, error);
    if (status == MR_OK)
        status = check_below("quality", o->quality, MAX_QUALITY, error);
    if (status == MR_OK)
        status = check_below("num_workers", o->num_workers, MAX_WORKERS, error);
    if (status == MR_OK)
        status = check_below("jpeg_decoder", o->jpeg_decoder, MR_JPEG_STOCK, error);
    if (status != MR_OK)
        return status;
    if (o->encoding == MR_PACK_DEFAULT)
        o->encoding = MR_PACK_DCT;
    if (o->shard_size == 0)
        o->shard_size = DEFAULT_SHARD_BYTES;
    if (o->num_workers == 0)
        o->num_workers = mr_cpu_count() < MAX_WORKERS ? mr_cpu_count() : MAX_WORKERS;
    if (o->max_pixels == 0)
        o->max_pixels = MR_CODEC_MAX_PIXELS;
    return check_together(o, error);
}

mr_status mr_pack_job_begin(struct mr_pack_job *job, const mr_dataset *dataset,
                            const mr_pack_options *options, const mr_pack_report *report_out,
                            mr_error *error)
{
    *job = (struct mr_pack_job){.start_ns = mr_clock_now_ns(), .progress = MR_PACK_PROGRESS_INIT};
    mr_status status = mr_out_struct_check(report_out, sizeof *report_out, "mr_pack_report", error);
    if (status != MR_OK)
        return status;
    if (!dataset)
        return mr_error_set(error, MR_ERR_INVALID, "the dataset is NULL");
    status = resolve_options(&job->options, options, error);
    if (status != MR_OK)
        return status;
    if (mr_dataset_callbacks(dataset))
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "a dataset of callbacks has no files");
    job->catalog = mr_dataset_catalog(dataset);
    job->kind = mr_dataset_kind(dataset);
    if (mr_catalog_count(job->catalog) == 0)
        return mr_error_set(error, MR_ERR_INVALID, "the dataset is empty");
    job->progress.n_samples = (uint64_t)mr_catalog_count(job->catalog);
    return MR_OK;
}

static void update_seconds(struct mr_pack_job *job)
{
    job->progress.seconds = (double)(mr_clock_now_ns() - job->start_ns) * 1e-9;
}

static bool report_progress(void *user)
{
    struct mr_pack_job *job = user;
    if (!job->options.progress)
        return false;
    update_seconds(job);
    return job->options.progress(job->options.user, &job->progress);
}

mr_status mr_pack_job_run(struct mr_pack_job *job, struct mr_pipeline_work *work, mr_error *error)
{
    assert(work->user == job);
    work->catalog = job->catalog;
    work->n_workers = job->options.num_workers;
    work->first = job->progress.n_done;
    work->end = job->progress.n_samples;
    work->tick = report_progress;
    mr_status status = report_progress(job) ? mr_error_set(error, MR_ERR_CANCELED, "canceled")
                                            : mr_pipeline_run(work, error);
    if (status == MR_OK)
        report_progress(job); /* the final progress; its return value is too late to cancel */
    return status;
}

void mr_pack_job_end(struct mr_pack_job *job, mr_pack_report *report_out)
{
    update_seconds(job);
    job->report.n_samples = job->progress.n_samples;
    job->report.n_resumed = job->progress.n_resumed;
    job->report.bytes_read = job->progress.bytes_read;
    job->report.bytes_written = job->progress.bytes_written;
    job->report.seconds = job->progress.seconds;
    mr_out_struct_write(report_out, &job->report, sizeof job->report);
}

void mr_pack_job_count_image(mr_pack_report *report, const struct mr_packed_image *image)
{
    bool marked = image->encoding == MR_PACKED_MARKED;
    uint32_t encoding = marked ? MR_PACKED_JPEG : image->encoding;
    if (encoding < MR_PACK_MAX_ENCODINGS)
        report->n_by_encoding[encoding]++;
    report->n_marked += marked;
}

void mr_pack_job_count(struct mr_pack_job *job, const struct mr_pipeline_item *item)
{
    job->progress.n_done++;
    job->progress.bytes_read += item->read_bytes;
}

/* The text without "which: " at its start. */
static const char *skip_name(const char *which, const char *text)
{
    size_t len = strlen(which);
    return strncmp(text, which, len) == 0 && strncmp(text + len, ": ", 2) == 0 ? text + len + 2
                                                                               : text;
}

void mr_pack_job_notice(const struct mr_pack_job *job, int64_t index, const char *text)
{
    char which[MR_CATALOG_DESCRIPTION];
    if (!job->options.notice)
        return;
    mr_catalog_describe(job->catalog, index, which);
    mr_error_keep_one_line(which); /* as in the text */
    job->options.notice(job->options.user, index, which, skip_name(which, text));
}

void mr_pack_job_damage(struct mr_pack_job *job, int64_t index, const char *text)
{
    job->report.n_damaged++;
    mr_pack_job_notice(job, index, text);
}

void mr_pack_job_name(const struct mr_catalog *catalog, int64_t index, mr_error *error)
{
    char which[MR_CATALOG_DESCRIPTION];
    mr_error bare = *error;
    mr_catalog_describe(catalog, index, which);
    mr_error_keep_one_line(which);
    if (skip_name(which, bare.text) == bare.text)
        mr_error_set(error, bare.status, "%s: %s", which, bare.text);
    error->os_error = bare.os_error;
    error->index = index;
}

mr_status mr_pack_job_packer(const struct mr_pack_job *job, struct mr_packer **packer_out,
                             mr_error *error)
{
    const struct mr_packer_options options = {.encoding = MR_PACKED_JPEG,
                                              .limits = {.max_pixels = job->options.max_pixels},
                                              .stock_jpeg =
                                                  job->options.jpeg_decoder == MR_JPEG_STOCK};
    return mr_packer_create(&options, packer_out, error);
}

mr_status mr_pack_job_verify(const struct mr_pack_job *job, const struct mr_read *read,
                             struct mr_packed_image *image_out, mr_error *error)
{
    const struct mr_codec_limits limits =
        mr_codec_limits_resolve(&(struct mr_codec_limits){.max_pixels = job->options.max_pixels});
    mr_status status = mr_catalog_packed(job->catalog, read->index, image_out, error);
    if (status == MR_OK)
        status = mr_packed_check(image_out, &limits, error);
    if (status == MR_OK)
        status = mr_read_verify(job->catalog, read, error);
    return status;
}

mr_status mr_pack_job_restore(struct mr_packer *packer, const struct mr_packed_image *image,
                              const struct mr_read *read, const uint8_t **file_out, size_t *len_out,
                              mr_error *error)
{
    return mr_packer_restore(packer, image, read->part[0].bytes, file_out, len_out, error);
}
