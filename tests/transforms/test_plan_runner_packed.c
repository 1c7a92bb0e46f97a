/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole samples from packs: the tensor, the draws and the report are those of the file, with any
 * transform and in every form of the sample, from no byte outside mr_plan_runner_range().
 */
#include "tests/support/images.h"
#include "tests/support/assert_words.h"
#include "tests/support/allocations.h"
#include "tests/transforms/guarded.h"
#include "tests/transforms/packed_sample.h"
#include "tests/transforms/reference.h"
#include "transforms/plan_runner.h"
#include "transforms/plan_compile.h"
#include "transforms/tile.h"
#include "transforms/transform.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct mr_codec_limits zeros;
static const struct mr_sample_kind files = {.encoded = 1, .picture = 1};

static mr_status make_plan(const char *text, mr_dtype dtype, mr_layout layout, struct mr_plan *plan)
{
    mr_transform *transform;
    assert_int_equal(mr_transform_parse(text, &transform, NULL), MR_OK);
    mr_status status = mr_plan_compile(transform, &files, dtype, layout, plan, NULL);
    mr_transform_destroy(transform);
    return status;
}

/* One image, in the forms that a pack may have it in. */
enum { AS_FILE, AS_PIXELS, AS_DCT, AS_MARKED, N_WAYS };

struct picture {
    struct mr_test_image file;
    uint32_t width, height;
    struct packed_sample ways[N_WAYS];
};

static void make_picture(struct picture *p, const struct mr_test_jpeg *options)
{
    p->file = mr_test_jpeg(options);
    uint8_t *pixels = mr_test_jpeg_pixels(p->file.bytes, p->file.len, &p->width, &p->height);
    packed_sample_file(&p->file, &p->ways[AS_FILE]);
    packed_sample_raw(pixels, p->width, p->height, &p->ways[AS_PIXELS]);
    assert_true(packed_sample_make(&p->file, MR_PACKED_DCT, &p->ways[AS_DCT]));
    bool marked = packed_sample_marked(&p->file, &p->ways[AS_MARKED]);
    assert_int_equal(marked, !options->progressive);
    if (!marked)
        packed_sample_file(&p->file, &p->ways[AS_MARKED]);
    for (int way = 0; options->orientation && way < N_WAYS; way++)
        p->ways[way].image.orientation = options->orientation;
    free(pixels);
}

static void free_picture(struct picture *p)
{
    for (int way = 0; way < N_WAYS; way++)
        packed_sample_free(&p->ways[way]);
    mr_test_image_free(&p->file);
}

/* What a run returns. */
struct result {
    mr_status status;
    uint8_t *out;
    struct mr_plan_runner_report report;
    uint32_t next_draw;
    mr_error error;
};

static struct mr_rng start_draws(uint64_t index, struct mr_mt19937 *torch)
{
    struct mr_rng rng;
    if (torch)
        mr_mt19937_init(torch, index);
    mr_rng_init(&rng, 1, 2, index);
    if (torch)
        mr_rng_init_torch(&rng, torch);
    return rng;
}

static struct result run_file(struct mr_plan_runner *runner, const struct mr_plan *plan,
                              const struct picture *p, uint64_t index, bool torch)
{
    struct mr_mt19937 mt;
    struct mr_rng rng = start_draws(index, torch ? &mt : NULL);
    struct result r = {.out = calloc(1, plan->out_bytes)};
    r.status = mr_plan_runner_run(runner, p->file.bytes, p->file.len, true, &rng, r.out, &r.report,
                                  &r.error);
    r.next_draw = mr_rng_u32(&rng);
    return r;
}

/* extra: read this many bytes before and after what is needed, if the sample has them. */
static struct result run_packed(struct mr_plan_runner *runner, const struct mr_plan *plan,
                                const struct packed_sample *sample, uint64_t index, bool torch,
                                uint64_t extra)
{
    struct mr_mt19937 mt;
    struct mr_rng rng = start_draws(index, torch ? &mt : NULL);
    struct result r = {.out = calloc(1, plan->out_bytes)};
    uint64_t offset = 0, len = 0;
    r.status = mr_plan_runner_range(runner, &sample->image, &rng, &offset, &len, &r.error);
    if (r.status == MR_OK) {
        assert_true(offset <= sample->image.len && len <= sample->image.len - offset);
        uint64_t before = extra < offset ? extra : offset, after = sample->image.len - offset - len;
        offset -= before;
        len += before + (extra < after ? extra : after);
        struct guarded bytes =
            guarded_copy(sample->bytes + offset, (size_t)len + MR_TILE_SLACK, true);
        memset(bytes.at + len, 0x5a, MR_TILE_SLACK);
        r.status = mr_plan_runner_run_packed(runner, &sample->image, bytes.at, (size_t)len, offset,
                                             &rng, r.out, &r.report, &r.error);
        guarded_free(&bytes);
        r.next_draw = mr_rng_u32(&rng);
    }
    return r;
}

static void check_same(struct mr_plan_runner *runner, const struct mr_plan *plan, struct picture *p,
                       uint64_t index, bool torch, const char *text)
{
    struct result want = run_file(runner, plan, p, index, torch);
    for (int way = 0; way < N_WAYS; way++) {
        struct result got = run_packed(runner, plan, &p->ways[way], index, torch, index % 3 * 40);
        if (got.status != want.status)
            fail_msg("%s, way %d: status %d instead of %d, %s", text, way, got.status, want.status,
                     got.error.text);
        if (want.status == MR_OK) {
            if (memcmp(got.out, want.out, plan->out_bytes) != 0)
                fail_msg("%s, %ux%u, way %d, index %llu: the tensor differs", text, p->width,
                         p->height, way, (unsigned long long)index);
            assert_memory_equal(got.report.geometry, want.report.geometry,
                                sizeof want.report.geometry);
            assert_int_equal(got.report.n_warnings, want.report.n_warnings);
            assert_int_equal(got.next_draw, want.next_draw);
        } else {
            assert_string_equal(got.error.text, want.error.text);
        }
        free(got.out);
    }
    free(want.out);
}

static const char *const texts[] = {
    "train:24", "eval:40:32", "random_crop(9:5,padding=2)+hflip",
    "random_crop(99:50,padding=50,padding_mode=reflect)+hflip",
    "random_crop(8,padding=40,fill=9:80:200)",
    "random_crop(12,padding=40,padding_mode=symmetric)+vflip",
    "random_crop(50,padding=30,padding_mode=edge)+resize(20)", "train:24+vflip+rgb",
    "random_resized_crop(24,interp=random)+hflip",
    "random_resized_crop(20:30,scale=0.01:1,interp=lanczos)", "resize(40,bicubic)+center_crop(32)",
    "random_resized_crop(24,interp=nearest)+resize(30:9,box)",
    "resize(30)+random_resized_crop(16)+hflip", "center_crop(7)",
    "center_crop(150)+vflip+resize(33:44)", "random_resized_crop(5,scale=0.001:0.01)",
    /* often shows nothing of the image */
    "random_crop(8,padding=40)", "resize(200:200)+center_crop(3)+resize(20:20)+random_crop(9)",
    "train:24+equalize(1)+hflip+random_grayscale(0.5)",
    "random_crop(60,padding=30)+autocontrast(1)+random_resized_crop(16)",
    /* larger than some images: damaged in both ways */
    "random_crop(120:100)"};
#define N_TEXTS (sizeof texts / sizeof texts[0])

static const uint8_t samplings[][2] = {{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}};

static void every_form_of_an_image_gives_the_files_tensor(void **state)
{
    (void)state;
    uint64_t random = reference_seed();
    for (size_t t = 0; t < N_TEXTS; t++) {
        struct mr_plan plan;
        struct mr_plan_runner *runner;
        assert_int_equal(
            make_plan(texts[t], t % 2 ? MR_F32 : MR_U8, t % 3 ? MR_NCHW : MR_NHWC, &plan), MR_OK);
        assert_int_equal(mr_plan_runner_create(&plan, &zeros, t % 2, &runner, NULL), MR_OK);
        for (uint32_t i = 0; i < 20; i++) {
            struct mr_test_jpeg options = {.width = 8 + (uint32_t)reference_below(&random, 200),
                                           .height = 8 + (uint32_t)reference_below(&random, 150),
                                           .seed = (uint32_t)reference_random(&random),
                                           .progressive = i % 3 == 2,
                                           .restart = i % 4 == 1 ? 2 : 0};
            options.colour = i % 7 == 6 ? MR_TEST_GREY : i % 9 == 8 ? MR_TEST_YCCK : MR_TEST_YCC;
            if (options.colour == MR_TEST_YCC)
                memcpy(options.sampling,
                       (uint8_t[3][2]){{samplings[i % 5][0], samplings[i % 5][1]}, {1, 1}, {1, 1}},
                       6);
            struct picture p;
            make_picture(&p, &options);
            for (uint64_t index = 0; index < 8; index++)
                check_same(runner, &plan, &p, index, index % 2, texts[t]);
            free_picture(&p);
        }
        mr_plan_runner_destroy(runner);
    }
}

static void exif_turns_packed_images_before_the_crop(void **state)
{
    (void)state;
    const char *exif[] = {"exif+train:20", "train:20"};
    for (int t = 0; t < 2; t++) {
        struct mr_plan plan;
        struct mr_plan_runner *runner;
        assert_int_equal(make_plan(exif[t], MR_U8, MR_NHWC, &plan), MR_OK);
        assert_int_equal(mr_plan_runner_create(&plan, &zeros, false, &runner, NULL), MR_OK);
        for (uint32_t orientation = 1; orientation <= 8; orientation++) {
            struct picture p;
            make_picture(
                &p, &(struct mr_test_jpeg){.width = 90, .height = 50, .orientation = orientation});
            for (uint64_t index = 0; index < 6; index++)
                check_same(runner, &plan, &p, index, false, exif[t]);
            struct mr_rng rng = start_draws(3, NULL);
            uint64_t offset, len;
            assert_int_equal(
                mr_plan_runner_range(runner, &p.ways[AS_DCT].image, &rng, &offset, &len, NULL),
                MR_OK);
            if (t == 0 && orientation > 1)
                assert_int_equal(len, p.ways[AS_DCT].image.len);
            assert_int_equal(p.ways[AS_MARKED].image.orientation, orientation);
            assert_int_equal(
                mr_plan_runner_range(runner, &p.ways[AS_MARKED].image, &rng, &offset, &len, NULL),
                MR_OK);
            assert_int_equal(len == p.file.len, t == 0 && orientation > 1);
            free_picture(&p);
        }
        mr_plan_runner_destroy(runner);
    }
}

static void a_crop_reads_a_part_of_the_sample_only(void **state)
{
    (void)state;
    struct mr_plan plan;
    struct mr_plan_runner *runner;
    struct picture p;
    uint64_t offset, len;
    make_picture(&p, &(struct mr_test_jpeg){.width = 200, .height = 320});
    assert_int_equal(make_plan("center_crop(20)", MR_U8, MR_NHWC, &plan), MR_OK);
    assert_int_equal(mr_plan_runner_create(&plan, &zeros, false, &runner, NULL), MR_OK);
    struct mr_rng rng = start_draws(0, NULL);
    const struct mr_packed_image *dct = &p.ways[AS_DCT].image, *raw = &p.ways[AS_PIXELS].image;
    assert_int_equal(mr_plan_runner_range(runner, dct, &rng, &offset, &len, NULL), MR_OK);
    assert_int_equal(offset, dct->rows[148 / 16]); /* rows 150 to 169, and two around them */
    assert_int_equal(offset + len, dct->rows[171 / 16 + 1]);
    assert_int_equal(mr_plan_runner_range(runner, raw, &rng, &offset, &len, NULL), MR_OK);
    assert_int_equal(offset, 150 * 600);
    assert_int_equal(len, 20 * 600);
    assert_int_equal(
        mr_plan_runner_range(runner, &p.ways[AS_FILE].image, &rng, &offset, &len, NULL), MR_OK);
    assert_int_equal(offset, 0);
    assert_int_equal(len, p.file.len);
    const struct mr_packed_image *marked = &p.ways[AS_MARKED].image;
    assert_int_equal(mr_plan_runner_range(runner, marked, &rng, &offset, &len, NULL), MR_OK);
    assert_int_equal(offset, marked->rows[148 / 16]);
    assert_int_equal(offset + len, marked->rows[171 / 16 + 1] + 2); /* up to the last bit */
    mr_plan_runner_destroy(runner);
    free_picture(&p);
}

static void a_window_beside_the_image_needs_no_bytes(void **state)
{
    (void)state;
    struct mr_plan plan;
    struct mr_plan_runner *runner;
    struct picture p;
    uint32_t n_empty = 0;
    make_picture(&p, &(struct mr_test_jpeg){.width = 40, .height = 30});
    assert_int_equal(make_plan("random_crop(8,padding=40)", MR_U8, MR_NHWC, &plan), MR_OK);
    assert_int_equal(mr_plan_runner_create(&plan, &zeros, false, &runner, NULL), MR_OK);
    for (uint64_t index = 0; index < 50; index++) {
        struct mr_rng rng = start_draws(index, NULL);
        uint64_t offset, len;
        assert_int_equal(
            mr_plan_runner_range(runner, &p.ways[AS_DCT].image, &rng, &offset, &len, NULL), MR_OK);
        n_empty += len == 0;
        check_same(runner, &plan, &p, index, false, "beside");
    }
    assert_in_range(n_empty, 10, 49);
    mr_plan_runner_destroy(runner);
    free_picture(&p);
}

static void pictures_that_are_no_jpegs_stay_files(void **state)
{
    (void)state;
    struct mr_plan plan;
    struct mr_plan_runner *runner;
    struct packed_sample sample;
    struct mr_test_image png =
        mr_test_png(&(struct mr_test_png){.width = 50, .height = 40, .colour_type = 2});
    assert_int_equal(make_plan("train:20", MR_U8, MR_NHWC, &plan), MR_OK);
    assert_int_equal(mr_plan_runner_create(&plan, &zeros, false, &runner, NULL), MR_OK);
    packed_sample_file(&png, &sample);
    struct picture p = {.file = png};
    for (uint64_t index = 0; index < 5; index++) {
        struct result want = run_file(runner, &plan, &p, index, false);
        struct result got = run_packed(runner, &plan, &sample, index, false, 0);
        assert_int_equal(got.status, MR_OK);
        assert_memory_equal(got.out, want.out, plan.out_bytes);
        free(want.out);
        free(got.out);
    }
    packed_sample_free(&sample);
    packed_sample_file(&(struct mr_test_image){(uint8_t *)"text", 4}, &sample);
    struct result got = run_packed(runner, &plan, &sample, 0, false, 0);
    assert_int_equal(got.status, MR_ERR_DAMAGED);
    assert_string_equal(got.error.text, "not an image: the first bytes are 74 65 78 74");
    free(got.out);
    packed_sample_free(&sample);
    mr_plan_runner_destroy(runner);
    mr_test_image_free(&png);
}

static void the_index_is_checked_before_it_is_used(void **state)
{
    (void)state;
    struct mr_plan plan, raw_plan;
    struct mr_plan_runner *runner;
    struct mr_plan_runner_report report;
    struct picture p;
    mr_error error;
    uint64_t offset, len;
    uint8_t out[20 * 20 * 3];
    struct mr_rng rng = start_draws(0, NULL);
    make_picture(&p, &(struct mr_test_jpeg){.width = 90, .height = 50});
    assert_int_equal(make_plan("train:20", MR_U8, MR_NHWC, &plan), MR_OK);
    assert_int_equal(mr_plan_runner_create(&plan, &zeros, false, &runner, NULL), MR_OK);
    struct packed_sample *s = &p.ways[AS_DCT];
    s->image.n_rows--;
    assert_int_equal(mr_plan_runner_range(runner, &s->image, &rng, &offset, &len, &error),
                     MR_ERR_DAMAGED);
    assert_string_equal(error.text, "the pack says 3 rows of MCUs; its size makes 4");
    assert_int_equal(mr_plan_runner_run_packed(runner, &s->image, s->bytes, s->image.len, 0, &rng,
                                               out, &report, &error),
                     MR_ERR_DAMAGED);
    s = &p.ways[AS_PIXELS];
    assert_error(
        mr_plan_runner_run_packed(runner, &s->image, s->bytes, 0, 0, &rng, out, &report, &error),
        MR_ERR_DAMAGED, &error, "of the sample's pixels were not read");
    s = &p.ways[AS_DCT];
    s->image.n_rows++;
    assert_error(
        mr_plan_runner_run_packed(runner, &s->image, s->bytes, 0, 0, &rng, out, &report, &error),
        MR_ERR_DAMAGED, &error, "of the pack's sample were not read completely");
    check_same(runner, &plan,
               &(struct picture){
                   .file = p.file,
                   .ways = {p.ways[AS_FILE], p.ways[AS_PIXELS], p.ways[AS_DCT], p.ways[AS_MARKED]}},
               1, false, "afterwards");
    mr_plan_runner_destroy(runner);
    struct mr_sample_kind kind = {.dtype = MR_F64, .ndim = 1, .shape = {4}, .data_bytes = 32};
    assert_int_equal(mr_plan_compile(NULL, &kind, MR_DTYPE_DEFAULT, MR_NCHW, &raw_plan, NULL),
                     MR_OK);
    assert_int_equal(mr_plan_runner_create(&raw_plan, &zeros, false, &runner, NULL), MR_OK);
    assert_int_equal(mr_plan_runner_range(runner, &s->image, &rng, &offset, &len, &error),
                     MR_ERR_DAMAGED);
    assert_string_equal(error.text, "sample is an encoded image, the dataset's samples are raw");
    mr_plan_runner_destroy(runner);
    free_picture(&p);
}

/* The marks may not have been read, or cannot be used: MR_JPEG=stock, or a reader without room. */
static void without_its_marks_a_marked_sample_is_a_file(void **state)
{
    (void)state;
    struct mr_plan plan;
    struct picture p;
    uint64_t offset, len;
    make_picture(&p, &(struct mr_test_jpeg){.width = 90, .height = 150});
    assert_int_equal(make_plan("random_crop(20)", MR_U8, MR_NHWC, &plan), MR_OK);
    for (int stock = 0; stock < 2; stock++) {
        struct mr_plan_runner *runner;
        mr_error error;
        struct packed_sample sample = p.ways[AS_MARKED];
        struct mr_rng rng = start_draws(0, NULL);
        assert_int_equal(mr_plan_runner_create(&plan, &zeros, false, &runner, NULL), MR_OK);
        if (stock)
            mr_plan_runner_use_stock_jpeg(runner);
        check_same(runner, &plan, &p, 0, false, "with marks");
        assert_int_equal(mr_plan_runner_range(runner, &sample.image, &rng, &offset, &len, NULL),
                         MR_OK);
        assert_int_equal(len == p.file.len, stock);
        sample.image.marks = NULL;
        struct result want = run_file(runner, &plan, &p, 0, false);
        struct result got = run_packed(runner, &plan, &sample, 0, false, p.file.len);
        assert_int_equal(got.status, MR_OK);
        assert_memory_equal(got.out, want.out, plan.out_bytes);
        uint8_t out[20 * 20 * 3];
        struct mr_plan_runner_report report;
        sample.image.marks = stock ? sample.marks : NULL;
        assert_int_equal(mr_plan_runner_run_packed(runner, &sample.image, sample.bytes + 1,
                                                   p.file.len - 1, 1, &rng, out, &report, &error),
                         MR_ERR_DAMAGED);
        assert_string_equal(error.text, "the JPEG was not read completely and has no index");
        free(want.out);
        free(got.out);
        mr_plan_runner_destroy(runner);
    }
    free_picture(&p);
}

static void a_warm_object_allocates_nothing_itself_for_packs(void **state)
{
    (void)state;
    if (ALLOCATIONS_STATIC_DEPS) {
        print_message("libjpeg's allocations cannot be separated from the room's in this build\n");
        skip();
    }
    struct mr_plan plan;
    struct mr_plan_runner *runner;
    struct mr_plan_runner_report report;
    struct picture p;
    uint8_t out[24 * 24 * 3];
    make_picture(&p, &(struct mr_test_jpeg){.width = 400, .height = 300});
    assert_int_equal(make_plan("train:24", MR_U8, MR_NHWC, &plan), MR_OK);
    assert_int_equal(mr_plan_runner_create(&plan, &zeros, false, &runner, NULL), MR_OK);
    for (int round = 0; round < 2; round++) {
        allocations = (struct allocations){0};
        for (uint64_t index = 0; index < 50; index++) {
            for (int way = 0; way < N_WAYS; way++) {
                const struct packed_sample *s = &p.ways[way];
                struct mr_rng rng = start_draws(index, NULL);
                uint64_t offset, len;
                assert_int_equal(mr_plan_runner_range(runner, &s->image, &rng, &offset, &len, NULL),
                                 MR_OK);
                assert_int_equal(mr_plan_runner_run_packed(runner, &s->image, s->bytes + offset,
                                                           (size_t)len, offset, &rng, out, &report,
                                                           NULL),
                                 MR_OK);
            }
        }
        assert_true(round == 1 || allocations.n_own > 0);
    }
    assert_int_equal(allocations.n_own, 0);
    mr_plan_runner_destroy(runner);
    free_picture(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_an_image_gives_the_files_tensor),
        cmocka_unit_test(exif_turns_packed_images_before_the_crop),
        cmocka_unit_test(a_crop_reads_a_part_of_the_sample_only),
        cmocka_unit_test(a_window_beside_the_image_needs_no_bytes),
        cmocka_unit_test(pictures_that_are_no_jpegs_stay_files),
        cmocka_unit_test(the_index_is_checked_before_it_is_used),
        cmocka_unit_test(without_its_marks_a_marked_sample_is_a_file),
        cmocka_unit_test(a_warm_object_allocates_nothing_itself_for_packs),
    };
    int cannot = packed_sample_cannot_run();
    if (cannot)
        return cannot;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
