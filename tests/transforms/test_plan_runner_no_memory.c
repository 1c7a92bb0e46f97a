/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each allocation on the way to one sample's pixels fails once, in whatever form the sample is
 * stored: the status and the message say so, and the same object then makes the right pixels.
 */
#include "tests/support/assert_words.h"
#include "tests/support/images.h"
#include "tests/support/allocations.h"
#include "tests/transforms/packed_sample.h"
#include "transforms/codec.h"
#include "transforms/plan_runner.h"
#include "transforms/plan_compile.h"
#include "transforms/transform.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct mr_codec_limits limits;

/* So tall that columns are filtered first, which needs an extra strip. */
enum { WIDTH = 30, HEIGHT = 200, MOST_ALLOCATIONS = 2000 };

enum {
    AS_JPEG,
    AS_SCANS,
    AS_PNG,
    AS_PPM,
    AS_PLANES,
    AS_PACKED_FILE,
    AS_PACKED_PIXELS,
    AS_DCT,
    AS_MARKED,
    N_WAYS
};

struct sample {
    struct mr_test_image file; /* of files */
    uint8_t *pixels;           /* of the other forms */
    struct packed_sample packed;
};

/* Replaces a JPEG, with the same pixels. */
static void make_ppm(struct mr_test_image *file)
{
    uint32_t width, height;
    uint8_t *pixels = mr_test_jpeg_pixels(file->bytes, file->len, &width, &height);
    struct mr_test_image ppm = {malloc(20 + 3 * WIDTH * HEIGHT), 0};
    ppm.len = (size_t)sprintf((char *)ppm.bytes, "P6 %d %d 255 ", WIDTH, HEIGHT);
    memcpy(ppm.bytes + ppm.len, pixels, 3 * WIDTH * HEIGHT);
    ppm.len += 3 * WIDTH * HEIGHT;
    free(pixels);
    mr_test_image_free(file);
    *file = ppm;
}

static void make_sample(int way, struct sample *sample)
{
    struct mr_test_jpeg jpeg = {
        .width = WIDTH, .height = HEIGHT, .progressive = way == AS_SCANS, .orientation = 3};
    struct mr_test_png png = {.width = WIDTH, .height = HEIGHT, .colour_type = 2, .orientation = 3};
    uint32_t width, height;
    *sample = (struct sample){.file = way == AS_PNG ? mr_test_png(&png) : mr_test_jpeg(&jpeg)};
    if (way == AS_PLANES || way == AS_PACKED_PIXELS)
        sample->pixels = mr_test_jpeg_pixels(sample->file.bytes, sample->file.len, &width, &height);
    if (way == AS_PPM)
        make_ppm(&sample->file);
    if (way == AS_PACKED_FILE)
        packed_sample_file(&sample->file, &sample->packed);
    if (way == AS_PACKED_PIXELS)
        packed_sample_raw(sample->pixels, WIDTH, HEIGHT, &sample->packed);
    if (way == AS_MARKED)
        assert_true(packed_sample_marked(&sample->file, &sample->packed));
    if (way == AS_DCT)
        assert_true(packed_sample_make(&sample->file, MR_PACKED_DCT, &sample->packed));
}

static void free_sample(int way, struct sample *sample)
{
    mr_test_image_free(&sample->file);
    free(sample->pixels);
    if (way >= AS_PACKED_FILE)
        packed_sample_free(&sample->packed);
}

static struct mr_plan make_plan(const char *text, int way)
{
    struct mr_sample_kind kind = {.picture = 1, .encoded = 1};
    struct mr_plan plan;
    mr_transform *transform;
    mr_error error = {0};
    if (way == AS_PLANES)
        kind = (struct mr_sample_kind){.picture = 1,
                                       .dtype = MR_U8,
                                       .ndim = 3,
                                       .layout = MR_NCHW,
                                       .data_bytes = 3 * WIDTH * HEIGHT,
                                       .shape = {3, HEIGHT, WIDTH}};
    assert_ok(mr_transform_parse(text, &transform, &error), &error);
    assert_ok(mr_plan_compile(transform, &kind, MR_F16, MR_NCHW, &plan, &error), &error);
    mr_transform_destroy(transform);
    return plan;
}

static mr_status run_packed(struct mr_plan_runner *runner, const struct packed_sample *s,
                            struct mr_rng *rng, uint8_t *out, mr_error *error)
{
    struct mr_plan_runner_report report;
    uint64_t offset, len;
    mr_status status = mr_plan_runner_range(runner, &s->image, rng, &offset, &len, error);
    if (status != MR_OK)
        return status;
    return mr_plan_runner_run_packed(runner, &s->image, s->bytes + offset, (size_t)len, offset, rng,
                                     out, &report, error);
}

/*
 * refused: the number of the allocation that fails; 0: none. *ended_out: there were fewer
 * allocations.
 */
static mr_status run_sample(struct mr_plan_runner *runner, int way, const struct sample *sample,
                            uint8_t *out, size_t refused, bool *ended_out, mr_error *error)
{
    struct mr_plan_runner_report report;
    struct mr_rng rng;
    mr_status status;
    mr_rng_init(&rng, 1, 2, 3);
    *error = (mr_error){0};
    allocations = (struct allocations){.refused = refused};
    if (way >= AS_PACKED_FILE)
        status = run_packed(runner, &sample->packed, &rng, out, error);
    else if (way == AS_PLANES)
        status = mr_plan_runner_run(runner, sample->pixels, 3 * WIDTH * HEIGHT, false, &rng, out,
                                    &report, error);
    else
        status = mr_plan_runner_run(runner, sample->file.bytes, sample->file.len, true, &rng, out,
                                    &report, error);
    allocations.refused = 0;
    *ended_out = allocations.n_met < refused;
    return status;
}

static void check_refusals(const char *text, int way)
{
    struct mr_plan plan = make_plan(text, way);
    struct mr_plan_runner *runner;
    struct sample sample;
    mr_error error;
    bool ended = false;
    make_sample(way, &sample);
    uint8_t *want = calloc(1, plan.out_bytes), *out = malloc(plan.out_bytes);
    assert_int_equal(mr_plan_runner_create(&plan, &limits, false, &runner, NULL), MR_OK);
    if (run_sample(runner, way, &sample, want, 0, &ended, &error) != MR_OK)
        fail_msg("%s, way %d: %s", text, way, error.text);
    mr_plan_runner_destroy(runner);
    size_t n = 0, n_failed = 0;
    for (ended = false; !ended && n < MOST_ALLOCATIONS;) {
        assert_int_equal(mr_plan_runner_create(&plan, &limits, false, &runner, NULL), MR_OK);
        mr_status status = run_sample(runner, way, &sample, out, ++n, &ended, &error);
        bool has_words = error.status == status && error.text[0];
        if (status != MR_OK && (ended || status != MR_ERR_NO_MEMORY || !has_words))
            fail_msg("%s, way %d, allocation %zu: status %d, in the error %d: \"%s\"", text, way, n,
                     status, error.status, error.text);
        n_failed += status != MR_OK;
        /* libjpeg asks again, for less memory */
        if (status == MR_OK && memcmp(out, want, plan.out_bytes) != 0)
            fail_msg("%s, way %d, without allocation %zu: the tensor differs", text, way, n);
        memset(out, 0xa5, plan.out_bytes);
        if (run_sample(runner, way, &sample, out, 0, &(bool){false}, &error) != MR_OK)
            fail_msg("%s, way %d, after allocation %zu: %s", text, way, n, error.text);
        if (memcmp(out, want, plan.out_bytes) != 0)
            fail_msg("%s, way %d, after allocation %zu: the tensor differs", text, way, n);
        mr_plan_runner_destroy(runner);
    }
    assert_in_range(n, 10, MOST_ALLOCATIONS - 1);
    assert_in_range(n_failed, 10, n);
    free(want);
    free(out);
    free_sample(way, &sample);
}

static const char *const texts[] = {
    "resize(40:20,bicubic)+hflip(1)",
    "resize(90:25)+vflip(1)+resize(30:20,bicubic)",
    "equalize(1)+resize(40:20,bicubic)+color_jitter(0.8,0.8,0.8,0.2)+gaussian_blur(5)+pil_gaussian_"
    "blur(2)",
    "hflip(1)+random_crop(210:30,padding=9,padding_mode=reflect)+adjust_sharpness(2,1)+resize(9:30,"
    "lanczos)",
    "affine(20,shear=5,bilinear)+resize(40:20,bicubic)+rotation(10:20)+random_crop(44:22,padding=8,"
    "fill=9)",
    "perspective(p=1)+trivial_augment_wide+rand_augment+auto_augment+resize(40:20,bicubic)",
    "random_choice(posterize(3,1)+autocontrast(1),solarize(9,1)+invert(1))+grayscale+resize(40:20,"
    "bicubic)",
    "resize(40:20,bicubic)+jpeg(30)+pad(3,fill=9)"};

static void each_failed_allocation_is_reported_and_leaves_the_object_usable(void **state)
{
    (void)state;
    bool packs = packed_sample_cannot_run() == 0; /* tried once per process */
    for (int way = 0; way < (packs ? N_WAYS : AS_DCT); way++)
        for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
            check_refusals(texts[t], way);
}

static void an_image_that_exif_turns_needs_memory_too(void **state)
{
    (void)state;
    for (int way = AS_JPEG; way <= AS_PNG; way++)
        check_refusals("exif+resize(40:20,bicubic)", way);
}

static void each_failed_allocation_of_an_object_is_reported(void **state)
{
    (void)state;
    struct mr_plan plan = make_plan("train:24", AS_JPEG);
    struct mr_plan_runner *runner;
    mr_error error = {0};
    size_t n = 0;
    mr_status status = MR_ERR_NO_MEMORY;
    for (; status != MR_OK && n < MOST_ALLOCATIONS; mr_plan_runner_destroy(runner)) {
        allocations = (struct allocations){.refused = ++n};
        status = mr_plan_runner_create(&plan, &limits, false, &runner, &error);
        allocations.refused = 0;
        if (status != MR_OK) {
            assert_int_equal(status, MR_ERR_NO_MEMORY);
            assert_int_equal(error.status, status);
            assert_true(error.text[0]);
            assert_null(runner);
        }
    }
    assert_in_range(n, 4, 20);
}

static void each_failed_allocation_while_marks_are_made_is_reported(void **state)
{
    (void)state;
    struct mr_test_image image =
        mr_test_jpeg(&(struct mr_test_jpeg){.width = WIDTH, .height = HEIGHT});
    struct mr_codec *codec;
    struct mr_packed_image made;
    mr_error error = {0};
    size_t n = 0;
    mr_status status = MR_ERR_NO_MEMORY;
    assert_int_equal(mr_codec_create(&limits, &codec, NULL), MR_OK);
    if (!mr_codec_reads_marks(codec)) {
        print_message("this libjpeg does not accept a decoder of scans\n");
        status = MR_OK;
        n = 9;
    }
    while (status != MR_OK && n < MOST_ALLOCATIONS) {
        allocations = (struct allocations){.refused = ++n};
        status = mr_codec_mark(codec, image.bytes, image.len, &made, &error);
        allocations.refused = 0;
        if (status != MR_OK) {
            assert_int_equal(status, MR_ERR_NO_MEMORY);
            assert_true(error.text[0]);
        }
    }
    assert_in_range(n, 3, MOST_ALLOCATIONS - 1);
    mr_codec_destroy(codec);
    mr_test_image_free(&image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_failed_allocation_is_reported_and_leaves_the_object_usable),
        cmocka_unit_test(an_image_that_exif_turns_needs_memory_too),
        cmocka_unit_test(each_failed_allocation_of_an_object_is_reported),
        cmocka_unit_test(each_failed_allocation_while_marks_are_made_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
