/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage: resampling the decoded boxes to 224 x 224, u8 interleaved, which is written in place
 * without a conversion. The box is decoded into a frame first. After a decoder, rows are in the
 * cache; those of a frame of ten megabytes are not. So one band of rows at a time is copied to
 * where a decoder would have put it, and the clock stops during the copy.
 */
#include "bench/stages.h"

#include "base/clock.h"
#include "transforms/resample.h"

#include <stdlib.h>
#include <string.h>

enum { SIDE = 224, ROWS = 8, BAND = 4 * ROWS };

struct frame {
    uint8_t *pixels; /* n_rows rows, then room for a band */
    size_t allocated;
    size_t row_bytes;
    uint32_t n_rows;
};

static void keep_rows(void *user, const uint8_t *const *rows, uint32_t n_rows)
{
    struct frame *frame = user;
    for (uint32_t i = 0; i < n_rows; i++)
        memcpy(frame->pixels + frame->n_rows++ * frame->row_bytes, rows[i], frame->row_bytes);
}

static bool fit_frame(struct frame *frame, struct mr_box box)
{
    frame->row_bytes = (size_t)box.width * 3;
    frame->n_rows = 0;
    size_t need = frame->row_bytes * ((size_t)box.height + BAND);
    if (need > frame->allocated) {
        free(frame->pixels);
        frame->pixels = malloc(need);
        frame->allocated = frame->pixels ? need : 0;
    }
    return frame->pixels != NULL;
}

/* Push n rows, ROWS at a time. */
static void push_rows(struct mr_resample *resample, const uint8_t *pixels, size_t row_bytes,
                      uint32_t n)
{
    for (uint32_t y = 0; y < n; y += ROWS) {
        const uint8_t *rows[ROWS];
        uint32_t n_rows = n - y < ROWS ? n - y : ROWS;
        for (uint32_t i = 0; i < n_rows; i++)
            rows[i] = pixels + (y + i) * row_bytes;
        mr_resample_push(resample, rows, n_rows);
    }
}

/* Adds the time it takes, without the copies, to *total_ns. */
static mr_status resample_frame(struct mr_resample *resample, struct mr_tensor_writer *writer,
                                const struct mr_stage *stage, const struct frame *frame,
                                uint64_t *total_ns, mr_error *error)
{
    uint64_t start = mr_clock_now_ns();
    mr_status status = mr_resample_begin(resample, stage, 3, writer, error);
    *total_ns += mr_clock_now_ns() - start;
    uint8_t *band = frame->pixels + frame->n_rows * frame->row_bytes;
    for (uint32_t y = 0; status == MR_OK && y < frame->n_rows; y += BAND) {
        uint32_t n = frame->n_rows - y < BAND ? frame->n_rows - y : BAND;
        memcpy(band, frame->pixels + y * frame->row_bytes, n * frame->row_bytes);
        start = mr_clock_now_ns();
        push_rows(resample, band, frame->row_bytes, n);
        *total_ns += mr_clock_now_ns() - start;
    }
    return status;
}

/* Find the plan's only resize for a photograph; false if there is no resize. */
static bool find_stage(const struct mr_plan *plan, const struct mr_photo *photo,
                       struct mr_stage *stage_out)
{
    struct mr_geometry geometry;
    struct mr_rng rng;
    mr_rng_init(&rng, 0, 0, (uint64_t)photo->index);
    if (mr_geometry_make(plan, photo->width, photo->height, &rng, &geometry, NULL) != MR_OK)
        return false;
    *stage_out = geometry.stages[0];
    return true;
}

/* Compares the pixels with those of the whole library. */
static bool equals_whole(const struct mr_plan *plan, const struct mr_photo *photo,
                         const uint8_t *hwc)
{
    struct mr_plan_runner *runner;
    struct mr_rng rng;
    static const size_t plane = SIDE * SIDE;
    uint8_t *chw = malloc(3 * plane);
    bool equal = chw != NULL &&
                 mr_plan_runner_create(plan, &mr_photos_limits, false, &runner, NULL) == MR_OK;
    if (equal) {
        struct mr_plan_runner_report report;
        mr_rng_init(&rng, 0, 0, (uint64_t)photo->index);
        equal = mr_plan_runner_run(runner, photo->bytes, photo->len, true, &rng, chw, &report,
                                   NULL) == MR_OK;
        for (size_t i = 0; equal && i < 3 * plane; i++)
            equal = chw[i % 3 * plane + i / 3] == hwc[i];
        mr_plan_runner_destroy(runner);
    }
    free(chw);
    return equal;
}

static mr_status run_set(struct mr_photos *photos, const struct mr_plan *plan,
                         const struct mr_kernel_ops *kernels, struct mr_run *run, mr_error *error)
{
    struct mr_codec *codec;
    mr_status status = mr_codec_create(&mr_photos_limits, &codec, error);
    if (status != MR_OK)
        return status;
    struct mr_resample resample = {.kernels = kernels};
    struct frame frame = {0};
    uint8_t *out = malloc(3 * SIDE * SIDE);
    struct mr_tensor_writer writer = {.kernels = kernels,
                                      .out = out,
                                      .width = SIDE,
                                      .height = SIDE,
                                      .channels = 3,
                                      .dtype = MR_U8,
                                      .layout = MR_NHWC};
    uint64_t total_ns = 0;
    for (uint64_t i = 0; out && i < photos->n; i++) {
        const struct mr_photo *photo = &photos->photo[i];
        struct mr_stage stage;
        bool right =
            find_stage(plan, photo, &stage) && fit_frame(&frame, stage.need) &&
            mr_stage_decode_box(codec, photo, NULL, stage.need, keep_rows, &frame, NULL) == MR_OK;
        right =
            right && resample_frame(&resample, &writer, &stage, &frame, &total_ns, NULL) == MR_OK;
        run->n_wrong += !right || (run->check && !equals_whole(plan, photo, out));
    }
    run->seconds = (double)total_ns / 1e9;
    run->n_items = photos->n;
    status = out ? MR_OK : mr_error_memory(error, 3 * SIDE * SIDE);
    free(out);
    free(frame.pixels);
    mr_resample_fini(&resample);
    mr_codec_destroy(codec);
    return status;
}

static mr_status run_bilinear(struct mr_photos *photos, enum mr_cpu cpu, struct mr_run *run,
                              mr_error *error)
{
    return run_set(photos, &photos->plan, mr_kernels_find(cpu), run, error);
}

static mr_status run_bicubic(struct mr_photos *photos, enum mr_cpu cpu, struct mr_run *run,
                             mr_error *error)
{
    return run_set(photos, &photos->bicubic, mr_kernels_find(cpu), run, error);
}

static mr_status run_c(void *user, struct mr_run *run, mr_error *error)
{
    return run_bilinear(user, MR_CPU_C, run, error);
}

static mr_status run_avx2(void *user, struct mr_run *run, mr_error *error)
{
    return run_bilinear(user, MR_CPU_AVX2, run, error);
}

static mr_status run_avx512(void *user, struct mr_run *run, mr_error *error)
{
    return run_bilinear(user, MR_CPU_AVX512, run, error);
}

static mr_status run_avx2_bicubic(void *user, struct mr_run *run, mr_error *error)
{
    return run_bicubic(user, MR_CPU_AVX2, run, error);
}

static mr_status run_avx512_bicubic(void *user, struct mr_run *run, mr_error *error)
{
    return run_bicubic(user, MR_CPU_AVX512, run, error);
}

/* Add cases for each set of loops that this machine has. */
void mr_stage_resample_add(struct mr_engine *engine, struct mr_photos *photos)
{
    mr_engine_add(engine, "resample, c", run_c, photos);
    if (mr_kernels_find(MR_CPU_AVX2)) {
        mr_engine_add(engine, "resample, avx2", run_avx2, photos);
        mr_engine_add(engine, "resample, avx2, bicubic", run_avx2_bicubic, photos);
    }
    if (mr_kernels_find(MR_CPU_AVX512)) {
        mr_engine_add(engine, "resample, avx512", run_avx512, photos);
        mr_engine_add(engine, "resample, avx512, bicubic", run_avx512_bicubic, photos);
    }
}

void mr_stage_resample_ratios(struct mr_engine *engine)
{
    if (mr_kernels_find(MR_CPU_AVX2))
        mr_engine_time_ratio(engine, "resample, avx2, bicubic / bilinear",
                             "resample, avx2, bicubic", "resample, avx2", MR_AIM_BELOW, 1.9);
    if (mr_kernels_find(MR_CPU_AVX512))
        mr_engine_time_ratio(engine, "resample, avx512, bicubic / bilinear",
                             "resample, avx512, bicubic", "resample, avx512", MR_AIM_BELOW, 1.9);
}
