/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes one sample from bytes to tensor: the header, the geometry, then the rows of each stage,
 * resampled into the next stage's image or into the slot.
 *
 * Invariant: a codec that was opened is closed on every path.
 */
#include "transforms/plan_runner.h"

#include "base/clock.h"
#include "transforms/erase.h"
#include "transforms/geometry.h"
#include "transforms/image_ops/image_call.h"
#include "transforms/masks/mask_run.h"
#include "transforms/packed.h"
#include "transforms/resample.h"
#include "transforms/scratch.h"
#include "transforms/row_source.h"
#include "transforms/tensor_write.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static_assert(MR_GEOMETRY_FIELDS == 8, "mr_geometry_report() writes eight fields");

struct mr_plan_runner {
    const struct mr_plan *plan; /* of the view that is made now */
    const struct mr_plan *first_plan;
    const struct mr_plan *more_plans;
    uint32_t n_more;
    bool has_pictures; /* of views or crops */
    const struct mr_view_out *outs;
    struct mr_codec_limits limits;
    bool with_timing;
    struct mr_codec *codec; /* only if samples are encoded */
    struct mr_resample resample;
    struct mr_geometry geometry;
    struct mr_box_list *boxes;      /* of the sample that is run; only with boxes */
    struct mr_geometry_steps steps; /* only with masks */
    struct mr_mask_run mask;
    uint32_t mask_width; /* of the picture that steps begin with */
    uint32_t mask_height;
    struct mr_tensor_write_half half[MR_MAX_VIEWS];
    struct mr_scratch upright;  /* an image that EXIF turned, or the box of all views */
    struct mr_scratch image[2]; /* outputs of inner stages, used alternately */
    struct mr_scratch row;      /* one row for the tensor writer */
    struct mr_scratch planes;   /* one row of a planar source */
    struct mr_packed_copy packed;
};

/* The state of one call. */
struct run {
    const uint8_t *bytes;
    size_t len;
    const struct mr_packed_image *packed; /* NULL: bytes are a whole file or raw sample */
    uint64_t offset;                      /* where bytes begin in the packed sample */
    struct mr_rng *rng;
    void *out;
    struct mr_plan_runner_report *report;
    mr_error *error;
    struct mr_row_source source;
    uint32_t width; /* of the image as the operations see it */
    uint32_t height;
    uint32_t channels;   /* of the rows so far */
    uint32_t free_image; /* the next stage's output: an index of mr_plan_runner.image */
    uint32_t view;
};

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

void mr_plan_runner_set_boxes(struct mr_plan_runner *runner, struct mr_box_list *boxes)
{
    runner->boxes = boxes;
}

static uint64_t read_clock(const struct mr_plan_runner *runner)
{
    return runner->with_timing ? mr_clock_now_ns() : 0;
}

/* Start reading the rows of a box. If a codec makes them, the time counts as decoding. */
static mr_status begin_rows(struct mr_plan_runner *runner, struct run *run,
                            struct mr_row_source *source, struct mr_box box)
{
    uint64_t start = read_clock(runner);
    mr_status status = mr_row_source_begin(source, box, run->error);
    if (source->codec)
        run->report->decode_ns += read_clock(runner) - start;
    return status;
}

static mr_status next_rows(struct mr_plan_runner *runner, struct run *run,
                           struct mr_row_source *source, const uint8_t *rows[MR_ROW_SOURCE_MAX],
                           uint32_t *n_out)
{
    uint64_t start = read_clock(runner);
    mr_status status = mr_row_source_rows(source, rows, n_out, run->error);
    if (source->codec)
        run->report->decode_ns += read_clock(runner) - start;
    return status;
}

static mr_status run_stage(struct mr_plan_runner *runner, struct run *run,
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
static mr_status run_calls(struct mr_plan_runner *runner, struct run *run,
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
static mr_status run_inner_stage(struct mr_plan_runner *runner, struct run *run, uint32_t i)
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

/* Aligned, because a load that spans two recent stores waits for both. */
static mr_status reserve_row(struct mr_plan_runner *runner, const struct run *run)
{
    size_t len = (size_t)run->report->width * mr_tensor_write_row_bytes(runner->plan);
    return mr_scratch_reserve(&runner->row, len + MR_KERNELS_ALIGN - 1, 1, run->error);
}

static mr_status run_stages(struct mr_plan_runner *runner, struct run *run)
{
    const struct mr_plan *plan = runner->plan;
    mr_status status = MR_OK;
    uint32_t last = runner->geometry.n_stages - 1;
    for (uint32_t i = 0; i < last && status == MR_OK; i++)
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

mr_status mr_plan_runner_mask(struct mr_plan_runner *runner, const uint8_t *bytes, size_t len,
                              void *out, mr_error *error)
{
    const struct mr_box *made = &runner->geometry.stages[runner->geometry.n_stages - 1].window;
    const struct mr_mask_size size = {.width = runner->mask_width,
                                      .height = runner->mask_height,
                                      .out_width = (uint32_t)made->width,
                                      .out_height = (uint32_t)made->height};
    return mr_mask_run(&runner->mask, &runner->plan->mask, &runner->limits, &runner->steps, &size,
                       bytes, len, out, error);
}

#define EQUAL_SIZES "add center_crop(N) or resize(H:W) for equal sizes"

bool mr_plan_runner_is_other_size(const mr_error *error)
{
    return error->status == MR_ERR_DAMAGED && strstr(error->text, EQUAL_SIZES);
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

/* Draw the geometry, move the boxes (or NULL) with it, and check the output's size. */
static mr_status make_geometry(struct mr_plan_runner *runner, uint32_t width, uint32_t height,
                               struct mr_rng *rng, struct mr_box_list *boxes, mr_error *error)
{
    const struct mr_plan *plan = runner->plan;
    struct mr_geometry *g = &runner->geometry;
    struct mr_geometry_steps *steps = plan->mask.is_used ? &runner->steps : NULL;
    mr_status status = mr_geometry_record(plan, width, height, rng, g, steps, boxes, error);
    if (status != MR_OK)
        return status;
    runner->mask_width = width;
    runner->mask_height = height;
    const struct mr_box *made = &g->stages[g->n_stages - 1].window;
    if (plan->keeps_size)
        return check_room(plan, made, error);
    if (made->width != plan->out_width || made->height != plan->out_height)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "the output is %lldx%lld, the first image's was %ux%u; " EQUAL_SIZES,
                            (long long)made->width, (long long)made->height, plan->out_width,
                            plan->out_height);
    return MR_OK;
}

/* Make the tensor from run->source, which is set. */
static mr_status run_picture(struct mr_plan_runner *runner, struct run *run)
{
    struct mr_box_list *boxes = runner->plan->kind.boxes ? runner->boxes : NULL;
    if (boxes)
        mr_box_list_scale(boxes, run->width, run->height);
    mr_status status = make_geometry(runner, run->width, run->height, run->rng, boxes, run->error);
    if (status != MR_OK)
        return status;
    const struct mr_box *made = &runner->geometry.stages[runner->geometry.n_stages - 1].window;
    run->report->width = (uint32_t)made->width;
    run->report->height = (uint32_t)made->height;
    mr_geometry_report(&runner->geometry, run->width, run->height, run->report->geometry);
    status = run_stages(runner, run);
    if (status == MR_OK && runner->plan->erase.kind == MR_OP_RANDOM_ERASING)
        mr_erase_sample(runner->plan, run->rng, run->out, &run->report->erase);
    return status;
}

/* Views: the pictures of all of them are drawn, then what they need together is decoded. */

static const struct mr_plan *plan_of(const struct mr_plan_runner *runner, uint32_t view)
{
    return view ? &runner->more_plans[view - 1] : runner->first_plan;
}

static void join_boxes(struct mr_box *all, const struct mr_box *box)
{
    struct mr_box old = *all;
    if (box->width == 0)
        return;
    *all = *box;
    if (old.width == 0)
        return;
    int64_t right = old.x + old.width, bottom = old.y + old.height;
    all->x = old.x < box->x ? old.x : box->x;
    all->y = old.y < box->y ? old.y : box->y;
    all->width = (right > box->x + box->width ? right : box->x + box->width) - all->x;
    all->height = (bottom > box->y + box->height ? bottom : box->y + box->height) - all->y;
}

/*
 * The box of the source that all pictures of the sample need. Draws on copies of the generators, so
 * that the same draws can be made again.
 */
static mr_status draw_ahead(struct mr_plan_runner *runner, uint32_t width, uint32_t height,
                            const struct mr_rng *rng, struct mr_box *need_out, mr_error *error)
{
    struct mr_rng copy = *rng;
    struct mr_mt19937 torch;
    mr_status status = MR_OK;
    if (copy.torch) {
        torch = *copy.torch;
        copy.torch = &torch;
    }
    *need_out = (struct mr_box){0};
    for (uint32_t v = 0; v <= runner->n_more && status == MR_OK; v++) {
        runner->plan = plan_of(runner, v);
        for (uint32_t k = 0; k < runner->plan->view.n_pictures && status == MR_OK; k++) {
            struct mr_rng draws = mr_geometry_begin_draws(runner->plan, k, &copy);
            status = make_geometry(runner, width, height, &draws, NULL, error);
            if (status == MR_OK)
                join_boxes(need_out, &runner->geometry.stages[0].need);
        }
    }
    runner->plan = runner->first_plan;
    return status;
}

/* Decode a box; it is then the source. */
static mr_status decode_box(struct mr_plan_runner *runner, struct run *run, struct mr_box box)
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

static mr_status run_view(struct mr_plan_runner *runner, const struct run *run, uint32_t v)
{
    const struct mr_view_out *out = &runner->outs[v];
    mr_status status = MR_OK;
    runner->plan = plan_of(runner, v);
    for (uint32_t k = 0; k < runner->plan->view.n_pictures && status == MR_OK; k++) {
        struct mr_rng draws = mr_geometry_begin_draws(runner->plan, k, run->rng);
        struct run picture = *run;
        picture.rng = &draws;
        picture.out = out->pixels + k * runner->plan->out_bytes;
        picture.view = v;
        status = run_picture(runner, &picture);
        memcpy(out->geometry + (size_t)MR_GEOMETRY_FIELDS * k, run->report->geometry,
               sizeof run->report->geometry);
        if (out->erases)
            out->erases[k] = run->report->erase;
    }
    runner->plan = runner->first_plan;
    return status;
}

static mr_status run_views(struct mr_plan_runner *runner, struct run *run)
{
    struct mr_box need = {0};
    mr_status status = MR_OK;
    bool has_several = runner->n_more > 0 || runner->plan->view.n_pictures > 1;
    if (has_several && run->source.codec)
        status = draw_ahead(runner, run->width, run->height, run->rng, &need, run->error);
    if (status == MR_OK && need.width > 0)
        status = decode_box(runner, run, need);
    for (uint32_t v = 0; v <= runner->n_more && status == MR_OK; v++)
        status = run_view(runner, run, v);
    return status;
}

static mr_status run_image(struct mr_plan_runner *runner, struct run *run)
{
    return runner->has_pictures ? run_views(runner, run) : run_picture(runner, run);
}

/* Read the whole source and turn it; the source is then an image in memory. */
static mr_status turn_upright(struct mr_plan_runner *runner, struct run *run, uint32_t orientation)
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

static bool needs_turning(const struct mr_plan *plan, uint32_t orientation)
{
    return plan->use_exif && orientation >= 2 && orientation <= 8;
}

/* The source is the image as stored, before EXIF turns it. */
static mr_status run_stored(struct mr_plan_runner *runner, struct run *run, uint32_t width,
                            uint32_t height, uint32_t orientation)
{
    run->width = width;
    run->height = height;
    run->channels = runner->plan->source_channels;
    mr_status status = MR_OK;
    if (needs_turning(runner->plan, orientation))
        status = turn_upright(runner, run, orientation);
    return status == MR_OK ? run_image(runner, run) : status;
}

static mr_status run_encoded(struct mr_plan_runner *runner, struct run *run)
{
    struct mr_codec *codec = runner->codec;
    struct mr_image_head head;
    uint64_t start = read_clock(runner);
    mr_status status = run->packed ? mr_codec_open_packed(codec, run->packed, run->bytes, run->len,
                                                          run->offset, &head, run->error)
                                   : mr_codec_open(codec, run->bytes, run->len, &head, run->error);
    run->report->decode_ns += read_clock(runner) - start;
    if (status != MR_OK)
        return status;
    mr_row_source_init_codec(&run->source, codec);
    status = run_stored(runner, run, head.width, head.height, head.orientation);
    run->report->n_warnings = mr_codec_close(codec);
    return status;
}

static mr_status run_raw(struct mr_plan_runner *runner, struct run *run)
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

static mr_status run_timed(struct mr_plan_runner *runner, struct run *run,
                           mr_status (*way)(struct mr_plan_runner *runner, struct run *run))
{
    uint64_t start = read_clock(runner);
    mr_status status = way(runner, run);
    uint64_t total = read_clock(runner) - start;
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
    struct run run = {
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
        status = draw_ahead(runner, image->width, image->height, rng, &need, error);
    if (status != MR_OK)
        return status;
    *offset_out = 0;
    *len_out = whole ? image->len : 0;
    if (need.width > 0)
        mr_packed_range(image, need, offset_out, len_out);
    return MR_OK;
}

static mr_status run_pixels(struct mr_plan_runner *runner, struct run *run)
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
    struct run run = {.bytes = bytes,
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
