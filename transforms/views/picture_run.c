/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes one picture of a sample: the geometry, then the rows of each stage, resampled into the next
 * stage's image or into the slot.
 */
#include "transforms/views/picture_run.h"

#include "transforms/erase.h"
#include "transforms/image_ops/image_call.h"

#include <assert.h>
#include <string.h>

static_assert(MR_GEOMETRY_FIELDS == 8, "mr_geometry_report() writes eight fields");

/* Start reading the rows of a box. If a codec makes them, the time counts as decoding. */
static mr_status begin_rows(struct mr_plan_runner *runner, struct mr_picture_run *run,
                            struct mr_row_source *source, struct mr_box box)
{
    uint64_t start = mr_picture_run_clock(runner);
    mr_status status = mr_row_source_begin(source, box, run->error);
    if (source->codec)
        run->report->decode_ns += mr_picture_run_clock(runner) - start;
    return status;
}

static mr_status next_rows(struct mr_plan_runner *runner, struct mr_picture_run *run,
                           struct mr_row_source *source, const uint8_t *rows[MR_ROW_SOURCE_MAX],
                           uint32_t *n_out)
{
    uint64_t start = mr_picture_run_clock(runner);
    mr_status status = mr_row_source_rows(source, rows, n_out, run->error);
    if (source->codec)
        run->report->decode_ns += mr_picture_run_clock(runner) - start;
    return status;
}

static mr_status run_stage(struct mr_plan_runner *runner, struct mr_picture_run *run,
                           const struct mr_stage *stage, struct mr_row_source *source,
                           struct mr_tensor_writer *writer)
{
    const uint8_t *rows[MR_ROW_SOURCE_MAX];
    mr_status status =
        mr_resample_begin(&runner->resample, stage, run->channels, writer, run->error);
    if (status != MR_OK || stage->need.width == 0)
        return status;
    status = begin_rows(runner, run, source, stage->need);
    for (int64_t y = 0; status == MR_OK && y < stage->need.height;) {
        uint32_t n = 0;
        status = next_rows(runner, run, source, rows, &n);
        if (status == MR_OK)
            mr_resample_push(&runner->resample, rows, n);
        y += n;
    }
    return status;
}

/* Of a stage's output before and after its calls, whichever has more. */
static uint64_t count_pixels(const struct mr_stage *stage)
{
    uint64_t before = (uint64_t)stage->window.width * (uint64_t)stage->window.height;
    uint64_t after = (uint64_t)stage->called_width * (uint64_t)stage->called_height;
    return after > before ? after : before;
}

/* Run the calls on a stage's output. */
static mr_status run_calls(struct mr_plan_runner *runner, struct mr_picture_run *run,
                           const struct mr_stage *stage, struct mr_image *image)
{
    const struct mr_image_call *calls = &runner->geometry.calls.calls[stage->first_call];
    struct mr_scratch *spare = &runner->image[run->free_image];
    const uint8_t *made = image->pixels;
    mr_status status = MR_OK;
    uint32_t n_spares = mr_image_call_count_spares(calls, stage->n_calls);
    if (n_spares)
        status = mr_scratch_reserve(spare, count_pixels(stage),
                                    (size_t)image->n_channels * n_spares, run->error);
    if (status == MR_OK)
        status = mr_image_call_run(calls, stage->n_calls, image, n_spares ? spare->memory : NULL,
                                   runner->resample.kernels, run->error);
    if (image->pixels != made)
        run->free_image ^= 1;
    run->channels = image->n_channels;
    return status;
}

/*
 * An inner stage makes an image in memory. It holds only what the next stage reads, or the whole
 * output if calls change it.
 */
static mr_status run_inner_stage(struct mr_plan_runner *runner, struct mr_picture_run *run,
                                 uint32_t i)
{
    const struct mr_stage *stage = &runner->geometry.stages[i];
    struct mr_stage *next = &runner->geometry.stages[i + 1];
    struct mr_scratch *image = &runner->image[run->free_image];
    uint32_t channels = run->channels;
    uint64_t n_pixels = count_pixels(stage); /* no side is above 2 * MR_MAX_RESIZED */
    bool is_larger = n_pixels > (uint64_t)stage->window.width * (uint64_t)stage->window.height;
    if (n_pixels > runner->limits.max_pixels)
        return mr_error_set(run->error, MR_ERR_DAMAGED,
                            "image becomes %lldx%lld pixels; the limit is %llu pixels",
                            (long long)(is_larger ? stage->called_width : stage->window.width),
                            (long long)(is_larger ? stage->called_height : stage->window.height),
                            (unsigned long long)runner->limits.max_pixels);
    mr_status status = mr_scratch_reserve(image, n_pixels, channels, run->error);
    if (status != MR_OK)
        return status;
    struct mr_tensor_writer writer = {.kernels = runner->resample.kernels,
                                      .out = image->memory,
                                      .width = (uint32_t)stage->window.width,
                                      .height = (uint32_t)stage->window.height,
                                      .channels = channels,
                                      .dtype = MR_U8,
                                      .layout = MR_NHWC};
    status = run_stage(runner, run, stage, &run->source, &writer);
    run->free_image ^= 1;
    struct mr_image made = {.pixels = image->memory,
                            .width = writer.width,
                            .height = writer.height,
                            .n_channels = channels,
                            .stride = (size_t)writer.width * channels};
    if (stage->n_calls == 0)
        next->need.x = next->need.y = 0;
    else if (status == MR_OK)
        status = run_calls(runner, run, stage, &made);
    mr_row_source_init_pixels(&run->source, made.pixels, made.width, made.height, made.n_channels,
                              MR_NHWC, NULL);
    return status;
}

/* The first stage, whose output all pictures of the sample share: made once, and kept. */
static mr_status run_shared_stage(struct mr_plan_runner *runner, struct mr_picture_run *run)
{
    const struct mr_stage *stage = &runner->geometry.stages[0];
    uint32_t width = (uint32_t)stage->called_width, height = (uint32_t)stage->called_height;
    if (!runner->shared_is_made) {
        mr_status status = run_inner_stage(runner, run, 0);
        if (status == MR_OK)
            status = mr_scratch_reserve(&runner->shared, (uint64_t)width * height, run->channels,
                                        run->error);
        if (status != MR_OK)
            return status;
        memcpy(runner->shared.memory, run->source.pixels, (size_t)width * height * run->channels);
        runner->shared_is_made = true;
    }
    mr_row_source_init_pixels(&run->source, runner->shared.memory, width, height, run->channels,
                              MR_NHWC, NULL);
    return MR_OK;
}

/* Aligned, because a load that spans two recent stores waits for both. */
static mr_status reserve_row(struct mr_plan_runner *runner, const struct mr_picture_run *run)
{
    size_t len = (size_t)run->report->width * mr_tensor_write_row_bytes(runner->plan);
    return mr_scratch_reserve(&runner->row, len + MR_KERNELS_ALIGN - 1, 1, run->error);
}

static mr_status run_stages(struct mr_plan_runner *runner, struct mr_picture_run *run)
{
    const struct mr_plan *plan = runner->plan;
    mr_status status = MR_OK;
    uint32_t last = runner->geometry.n_stages - 1, first = 0;
    if (runner->shares && runner->geometry.n_shared) {
        status = run_shared_stage(runner, run);
        first = 1;
    }
    for (uint32_t i = first; i < last && status == MR_OK; i++)
        status = run_inner_stage(runner, run, i);
    if (status == MR_OK)
        status = reserve_row(runner, run);
    if (status != MR_OK)
        return status;
    struct mr_tensor_writer writer = {.kernels = runner->resample.kernels,
                                      .out = run->out,
                                      .width = run->report->width,
                                      .height = run->report->height,
                                      .channels = plan->channels,
                                      .dtype = plan->dtype,
                                      .layout = plan->layout,
                                      .half = runner->half[run->view].table,
                                      .spread = plan->channels != plan->work_channels,
                                      .row = mr_scratch_align(&runner->row, MR_KERNELS_ALIGN)};
    mr_tensor_write_set_rule(&writer, plan);
    return run_stage(runner, run, &runner->geometry.stages[last], &run->source, &writer);
}

static mr_status run_mask(struct mr_plan_runner *runner, const struct mr_picture_run *run)
{
    const struct mr_mask_job job = {.rule = &runner->plan->mask,
                                    .limits = &runner->limits,
                                    .kernels = runner->resample.kernels,
                                    .steps = &runner->steps,
                                    .geometry = &runner->geometry,
                                    .width = run->width,
                                    .height = run->height};
    return mr_mask_run(&runner->mask, &job, run->mask, run->error);
}

/* A picture that keeps its size must fit into a row. No side is above MR_MAX_RESIZED. */
static mr_status check_room(const struct mr_plan *plan, const struct mr_box *made, mr_error *error)
{
    if (plan->max_side && (made->width > plan->max_side || made->height > plan->max_side))
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "the output is %lldx%lld; pad_batch allows sides of %u",
                            (long long)made->width, (long long)made->height, plan->max_side);
    uint64_t bytes = (uint64_t)made->width * (uint64_t)made->height * plan->channels *
                     mr_dtype_size(plan->dtype);
    if (bytes <= plan->out_bytes)
        return MR_OK;
    return mr_error_set(error, MR_ERR_DAMAGED,
                        "the output is %lldx%lld, %llu bytes; max_row_bytes is %llu",
                        (long long)made->width, (long long)made->height, (unsigned long long)bytes,
                        (unsigned long long)plan->out_bytes);
}

mr_status mr_picture_run_geometry(struct mr_plan_runner *runner, uint32_t width, uint32_t height,
                                  struct mr_rng *rng, struct mr_box_list *boxes, mr_error *error)
{
    const struct mr_plan *plan = runner->plan;
    struct mr_geometry *g = &runner->geometry;
    struct mr_geometry_steps *steps = plan->mask.is_used ? &runner->steps : NULL;
    mr_status status = mr_geometry_record(plan, width, height, rng, g, steps, boxes, error);
    if (status != MR_OK)
        return status;
    const struct mr_box *made = &g->stages[g->n_stages - 1].window;
    if (plan->keeps_size)
        return check_room(plan, made, error);
    if (made->width != plan->out_width || made->height != plan->out_height)
        return mr_error_set(
            error, MR_ERR_DAMAGED,
            "the output is %lldx%lld, the first image's was %ux%u; " MR_PICTURE_EQUAL_SIZES,
            (long long)made->width, (long long)made->height, plan->out_width, plan->out_height);
    return MR_OK;
}

mr_status mr_picture_run(struct mr_plan_runner *runner, struct mr_picture_run *run)
{
    struct mr_box_list *boxes = runner->plan->kind.boxes ? runner->boxes : NULL;
    if (boxes)
        mr_box_list_scale(boxes, run->width, run->height);
    mr_status status =
        mr_picture_run_geometry(runner, run->width, run->height, run->rng, boxes, run->error);
    if (status != MR_OK)
        return status;
    const struct mr_box *made = &runner->geometry.stages[runner->geometry.n_stages - 1].window;
    run->report->width = (uint32_t)made->width;
    run->report->height = (uint32_t)made->height;
    mr_geometry_report(&runner->geometry, run->width, run->height, run->report->geometry);
    status = run_stages(runner, run);
    if (status == MR_OK && runner->plan->erase.kind == MR_OP_RANDOM_ERASING)
        mr_erase_sample(runner->plan, run->rng, run->out, &run->report->erase);
    return status == MR_OK && runner->plan->mask.is_used ? run_mask(runner, run) : status;
}

mr_status mr_picture_run_decode(struct mr_plan_runner *runner, struct mr_picture_run *run,
                                struct mr_box box)
{
    const uint8_t *rows[MR_ROW_SOURCE_MAX];
    size_t row_bytes = 3 * (size_t)box.width;
    mr_status status =
        mr_scratch_reserve(&runner->upright, (size_t)(box.width * box.height), 3, run->error);
    uint8_t *pixels = runner->upright.memory;
    if (status == MR_OK)
        status = begin_rows(runner, run, &run->source, box);
    for (int64_t y = 0; status == MR_OK && y < box.height;) {
        uint32_t n = 0;
        status = next_rows(runner, run, &run->source, rows, &n);
        for (uint32_t i = 0; status == MR_OK && i < n; i++)
            memcpy(pixels + (size_t)(y + i) * row_bytes, rows[i], row_bytes);
        y += n;
    }
    mr_row_source_init_box(&run->source, pixels, box);
    return status;
}

mr_status mr_picture_run_turn(struct mr_plan_runner *runner, struct mr_picture_run *run,
                              uint32_t orientation)
{
    const uint8_t *rows[MR_ROW_SOURCE_MAX];
    uint32_t width = run->width, height = run->height;
    mr_status status = mr_scratch_reserve(&runner->upright, (size_t)width * height, 3, run->error);
    if (status == MR_OK)
        status = begin_rows(runner, run, &run->source,
                            (struct mr_box){.width = width, .height = height});
    for (uint32_t y = 0; status == MR_OK && y < height;) {
        uint32_t n = 0;
        status = next_rows(runner, run, &run->source, rows, &n);
        for (uint32_t i = 0; status == MR_OK && i < n; i++)
            mr_row_source_turn_row(rows[i], y + i, width, height, orientation,
                                   runner->upright.memory);
        y += n;
    }
    if (orientation >= 5) {
        run->width = height;
        run->height = width;
    }
    mr_row_source_init_pixels(&run->source, runner->upright.memory, run->width, run->height, 3,
                              MR_NHWC, NULL);
    return status;
}
