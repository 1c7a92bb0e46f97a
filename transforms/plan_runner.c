/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes one sample from bytes to tensor: the header, which way its rows come, then its pictures
 * (views/).
 *
 * Invariant: a codec that was opened is closed on every path.
 */
#include "transforms/plan_runner.h"

#include "transforms/views/view_run.h"

#include <stdlib.h>
#include <string.h>

mr_status mr_plan_runner_create(const struct mr_plan *plan, const struct mr_codec_limits *limits,
                                bool with_timing, struct mr_plan_runner **runner_out,
                                mr_error *error)
{
    mr_status status = MR_OK;
    *runner_out = NULL;
    struct mr_plan_runner *runner = calloc(1, sizeof *runner);
    if (!runner)
        return mr_error_memory(error, sizeof *runner);
    runner->plan = runner->first_plan = plan;
    runner->has_pictures = plan->view.name[0] || plan->view.n_crops > 0;
    runner->limits = mr_codec_limits_resolve(limits);
    runner->with_timing = with_timing;
    runner->resample.kernels = mr_kernels_best();
    if (plan->dtype == MR_F16 || plan->dtype == MR_BF16)
        mr_tensor_write_half_init(&runner->half[0], plan);
    if (plan->kind.encoded)
        status = mr_codec_create(limits, &runner->codec, error);
    if (status == MR_OK)
        *runner_out = runner;
    else
        free(runner);
    return status;
}

void mr_plan_runner_destroy(struct mr_plan_runner *runner)
{
    if (!runner)
        return;
    if (runner->codec)
        mr_codec_destroy(runner->codec);
    mr_resample_fini(&runner->resample);
    mr_mask_run_fini(&runner->mask);
    mr_scratch_fini(&runner->upright);
    mr_scratch_fini(&runner->image[0]);
    mr_scratch_fini(&runner->image[1]);
    mr_scratch_fini(&runner->shared);
    mr_scratch_fini(&runner->row);
    mr_scratch_fini(&runner->planes);
    free(runner);
}

void mr_plan_runner_set_views(struct mr_plan_runner *runner, const struct mr_plan *plans,
                              uint32_t n)
{
    runner->more_plans = plans;
    runner->n_more = n;
    for (uint32_t i = 0; i < n; i++)
        if (plans[i].dtype == MR_F16 || plans[i].dtype == MR_BF16)
            mr_tensor_write_half_init(&runner->half[i + 1], &plans[i]);
}

void mr_plan_runner_set_outs(struct mr_plan_runner *runner, const struct mr_view_out *outs)
{
    runner->outs = outs;
}

void mr_plan_runner_use_stock_jpeg(struct mr_plan_runner *runner)
{
    if (runner->codec)
        mr_codec_use_stock_jpeg(runner->codec);
}

void mr_plan_runner_set_mask(struct mr_plan_runner *runner, const uint8_t *bytes, size_t len,
                             void *out)
{
    mr_mask_run_set(&runner->mask, bytes, len);
    runner->mask_out = out;
}

void mr_plan_runner_set_boxes(struct mr_plan_runner *runner, struct mr_box_list *boxes)
{
    runner->boxes = boxes;
}

bool mr_plan_runner_is_other_size(const mr_error *error)
{
    return error->status == MR_ERR_DAMAGED && strstr(error->text, MR_PICTURE_EQUAL_SIZES);
}

static mr_status run_image(struct mr_plan_runner *runner, struct mr_picture_run *run)
{
    run->mask = runner->mask_out;
    return runner->has_pictures ? mr_view_run(runner, run) : mr_picture_run(runner, run);
}

static bool needs_turning(const struct mr_plan *plan, uint32_t orientation)
{
    return plan->use_exif && orientation >= 2 && orientation <= 8;
}

/* The source is the image as stored, before EXIF turns it. */
static mr_status run_stored(struct mr_plan_runner *runner, struct mr_picture_run *run,
                            uint32_t width, uint32_t height, uint32_t orientation)
{
    run->width = width;
    run->height = height;
    run->channels = runner->plan->source_channels;
    mr_status status = MR_OK;
    if (needs_turning(runner->plan, orientation))
        status = mr_picture_run_turn(runner, run, orientation);
    return status == MR_OK ? run_image(runner, run) : status;
}

static mr_status run_encoded(struct mr_plan_runner *runner, struct mr_picture_run *run)
{
    struct mr_codec *codec = runner->codec;
    struct mr_image_head head;
    uint64_t start = mr_picture_run_clock(runner);
    mr_status status = run->packed ? mr_codec_open_packed(codec, run->packed, run->bytes, run->len,
                                                          run->offset, &head, run->error)
                                   : mr_codec_open(codec, run->bytes, run->len, &head, run->error);
    run->report->decode_ns += mr_picture_run_clock(runner) - start;
    if (status != MR_OK)
        return status;
    mr_row_source_init_codec(&run->source, codec);
    status = run_stored(runner, run, head.width, head.height, head.orientation);
    run->report->n_warnings = mr_codec_close(codec);
    return status;
}

static mr_status run_raw(struct mr_plan_runner *runner, struct mr_picture_run *run)
{
    const struct mr_plan *plan = runner->plan;
    const int64_t *shape = plan->kind.shape;
    if (run->len != plan->kind.data_bytes)
        return mr_error_set(run->error, MR_ERR_DAMAGED, "sample has %zu bytes instead of %llu",
                            run->len, (unsigned long long)plan->kind.data_bytes);
    if (plan->kind.picture) {
        bool planes = plan->kind.layout == MR_NCHW;
        run->width = (uint32_t)shape[planes ? 2 : 1];
        run->height = (uint32_t)shape[planes ? 1 : 0];
        const int32_t report[MR_GEOMETRY_FIELDS] = {(int32_t)run->width, (int32_t)run->height, 0, 0,
                                                    (int32_t)run->width, (int32_t)run->height};
        memcpy(run->report->geometry, report, sizeof report);
    }
    if (plan->copy) {
        memcpy(run->out, run->bytes, run->len);
        return MR_OK;
    }
    run->channels = plan->source_channels;
    mr_status status = mr_scratch_reserve(&runner->planes, run->width, run->channels, run->error);
    if (status != MR_OK)
        return status;
    mr_row_source_init_pixels(&run->source, run->bytes, run->width, run->height, run->channels,
                              plan->kind.layout, runner->planes.memory);
    return run_image(runner, run);
}

static mr_status run_timed(struct mr_plan_runner *runner, struct mr_picture_run *run,
                           mr_status (*way)(struct mr_plan_runner *runner,
                                            struct mr_picture_run *run))
{
    uint64_t start = mr_picture_run_clock(runner);
    mr_status status = way(runner, run);
    uint64_t total = mr_picture_run_clock(runner) - start;
    run->report->transform_ns = total - run->report->decode_ns;
    return status;
}

/* encoded: the sample is an encoded image. The plan says what the dataset's samples are. */
static mr_status check_kind(const struct mr_plan_runner *runner, bool encoded, mr_error *error)
{
    if (encoded == (runner->plan->kind.encoded != 0))
        return MR_OK;
    return mr_error_set(error, MR_ERR_DAMAGED, "sample is %s, the dataset's samples are %s",
                        encoded ? "an encoded image" : "raw", encoded ? "raw" : "encoded images");
}

mr_status mr_plan_runner_run(struct mr_plan_runner *runner, const uint8_t *bytes, size_t len,
                             bool encoded, struct mr_rng *rng, void *out,
                             struct mr_plan_runner_report *report_out, mr_error *error)
{
    struct mr_picture_run run = {
        .bytes = bytes, .len = len, .rng = rng, .out = out, .report = report_out, .error = error};
    memset(report_out, 0, sizeof *report_out);
    mr_status status = check_kind(runner, encoded, error);
    return status == MR_OK ? run_timed(runner, &run, encoded ? run_encoded : run_raw) : status;
}

/* Samples of packs. */

/* *image becomes a copy, so what is checked is what is used. */
static mr_status check_packed_copy(struct mr_plan_runner *runner,
                                   const struct mr_packed_image **image, mr_error *error)
{
    *image = mr_packed_copy(&runner->packed, *image);
    mr_status status = check_kind(runner, true, error);
    return status == MR_OK ? mr_packed_check(*image, &runner->limits, error) : status;
}

static bool needs_whole(const struct mr_plan_runner *runner, const struct mr_packed_image *image)
{
    return image->encoding == MR_PACKED_JPEG || runner->plan->draws_for_boxes ||
           needs_turning(runner->plan, image->orientation) ||
           (image->encoding == MR_PACKED_MARKED && !mr_codec_reads_marks(runner->codec));
}

mr_status mr_plan_runner_range(struct mr_plan_runner *runner, const struct mr_packed_image *image,
                               const struct mr_rng *rng, uint64_t *offset_out, uint64_t *len_out,
                               mr_error *error)
{
    mr_status status = check_packed_copy(runner, &image, error);
    if (status != MR_OK)
        return status;
    bool whole = needs_whole(runner, image);
    struct mr_box need = {0};
    if (!whole)
        status = mr_view_run_draw(runner, image->width, image->height, rng, &need, error);
    if (status != MR_OK)
        return status;
    *offset_out = 0;
    *len_out = whole ? image->len : 0;
    if (need.width > 0)
        mr_packed_range(image, need, offset_out, len_out);
    return MR_OK;
}

static mr_status run_pixels(struct mr_plan_runner *runner, struct mr_picture_run *run)
{
    const struct mr_packed_image *image = run->packed;
    mr_row_source_init_part(&run->source, run->bytes, run->len, run->offset, image->width, 3);
    return run_stored(runner, run, image->width, image->height, image->orientation);
}

mr_status mr_plan_runner_run_packed(struct mr_plan_runner *runner,
                                    const struct mr_packed_image *image, const uint8_t *bytes,
                                    size_t len, uint64_t offset, struct mr_rng *rng, void *out,
                                    struct mr_plan_runner_report *report_out, mr_error *error)
{
    memset(report_out, 0, sizeof *report_out);
    mr_status status = check_packed_copy(runner, &image, error);
    struct mr_picture_run run = {.bytes = bytes,
                                 .len = len,
                                 .packed = image,
                                 .offset = offset,
                                 .rng = rng,
                                 .out = out,
                                 .report = report_out,
                                 .error = error};
    return status == MR_OK ? run_timed(runner, &run,
                                       image->encoding == MR_PACKED_RAW ? run_pixels : run_encoded)
                           : status;
}
