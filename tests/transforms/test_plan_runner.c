/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole samples: everything that is folded, streamed and cut off gives the same as one operation
 * after the other on whole images, for raw pictures and for JPEGs of which only a part is decoded.
 */
#include "tests/support/assert_words.h"
#include "tests/support/images.h"
#include "tests/support/allocations.h"
#include "tests/transforms/reference.h"
#include "transforms/plan_runner.h"
#include "transforms/plan_compile.h"
#include "transforms/tensor_write.h"
#include "transforms/transform.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct mr_codec_limits limits = {
    .max_pixels = 100000000, .max_scans = 500, .max_decoder_bytes = 512u << 20};

static struct mr_plan compile_plan(const mr_transform *transform, const struct mr_sample_kind *kind,
                                   mr_dtype dtype, mr_layout layout)
{
    struct mr_plan plan;
    mr_error error;
    assert_ok(mr_plan_compile(transform, kind, dtype, layout, &plan, &error), &error);
    return plan;
}

static mr_transform *parse_transform(const char *text)
{
    mr_transform *transform;
    mr_error error;
    assert_ok(mr_transform_parse(text, &transform, &error), &error);
    return transform;
}

static struct mr_plan make_plan(const char *text, const struct mr_sample_kind *kind, mr_dtype dtype,
                                mr_layout layout)
{
    mr_transform *transform = parse_transform(text);
    struct mr_plan plan = compile_plan(transform, kind, dtype, layout);
    mr_transform_destroy(transform);
    return plan;
}

static struct mr_sample_kind raw_kind(const struct image *image, mr_layout layout)
{
    int64_t n = image->channels;
    struct mr_sample_kind kind = {.picture = 1, .dtype = MR_U8, .ndim = 3, .layout = layout};
    kind.data_bytes = (uint64_t)(image->width * image->height * n);
    const int64_t planes[3] = {n, image->height, image->width},
                  runner[3] = {image->height, image->width, n};
    memcpy(kind.shape, layout == MR_NCHW ? planes : runner, sizeof planes);
    return kind;
}

static struct image copy_image(const struct image *image)
{
    struct image copy = image_make(image->width, image->height, image->channels);
    memcpy(copy.pixels, image->pixels, (size_t)(image->width * image->height * image->channels));
    return copy;
}

/* The bytes of a raw sample. */
static uint8_t *lay_out(const struct image *image, mr_layout layout)
{
    int64_t n = image->channels, size = image->width * image->height;
    uint8_t *bytes = malloc((size_t)(size * n));
    for (int64_t i = 0; i < size; i++)
        for (int64_t c = 0; c < n; c++)
            bytes[layout == MR_NCHW ? c * size + i : i * n + c] = image->pixels[i * n + c];
    return bytes;
}

/* The tensor, made by its definition. */
static uint8_t *make_tensor(const struct image *image, const struct mr_plan *plan)
{
    size_t size = mr_dtype_size(plan->dtype), n_pixels = (size_t)(image->width * image->height);
    size_t n = (size_t)image->channels;
    uint8_t *out = calloc(n_pixels * n, size);
    for (size_t i = 0; i < n_pixels; i++)
        for (size_t c = 0; c < n; c++) {
            uint8_t value = image->pixels[i * n + c];
            float f = plan->table[c][value];
            uint16_t half =
                plan->dtype == MR_F16 ? mr_tensor_write_f16(f) : mr_tensor_write_bf16(f);
            const void *from = plan->dtype == MR_U8    ? (const void *)&value
                               : plan->dtype == MR_F32 ? (void *)&f
                                                       : &half;
            memcpy(out + (plan->layout == MR_NCHW ? c * n_pixels + i : i * n + c) * size, from,
                   size);
        }
    return out;
}

/*
 * Run one sample both ways, with the plan of text and with text's operations on whole images, and
 * compare. The generators must also have made the same number of draws.
 */
static void check_sample(struct mr_plan_runner *runner, const struct mr_plan *plan,
                         const uint8_t *bytes, size_t len, const struct image *image,
                         uint64_t index, const char *text)
{
    struct mr_rng fast, slow;
    struct mr_plan_runner_report report;
    mr_error error = {0};
    mr_rng_init(&fast, 1, 2, index);
    mr_rng_init(&slow, 1, 2, index);
    uint8_t *out = malloc(plan->out_bytes + 1);
    memset(out, 0xa5, plan->out_bytes + 1);
    mr_status status =
        mr_plan_runner_run(runner, bytes, len, plan->kind.encoded, &fast, out, &report, &error);
    struct image want = copy_image(image);
    mr_transform *t = parse_transform(text);
    bool possible = reference_run(&want, t, plan, &slow);
    mr_transform_destroy(t);
    if ((status == MR_OK) != possible)
        fail_msg("%s: status %d, %s", text, status, error.text);
    if (status == MR_OK) {
        uint8_t *tensor = make_tensor(&want, plan);
        assert_int_equal(plan->out_bytes, (uint64_t)(want.width * want.height * want.channels) *
                                              mr_dtype_size(plan->dtype));
        if (memcmp(tensor, out, plan->out_bytes) != 0)
            fail_msg("%s: %lldx%lld, dtype %s, layout %d: the tensor differs", text,
                     (long long)image->width, (long long)image->height, mr_dtype_name(plan->dtype),
                     plan->layout);
        assert_int_equal(mr_rng_u32(&fast), mr_rng_u32(&slow));
        free(tensor);
    }
    assert_int_equal(out[plan->out_bytes], 0xa5);
    free(out);
    image_free(&want);
}

static uint32_t pick_below(uint64_t *random, uint32_t n)
{
    return 1 + (uint32_t)reference_below(random, n);
}

static const char *const text_ops[] = {
    "equalize(0.7)",
    "invert+solarize(100)",
    "posterize(3,1)+autocontrast(1)",
    "grayscale(3)",
    "grayscale",
    "color_jitter(0.8,0.8,0.8,0.2)",
    "adjust_sharpness(1.7,0.6)+solarize(99)",
    "random_grayscale(0.5)",
    "random_crop(40:17,padding=30,padding_mode=edge)",
    "random_crop(9:50,padding=25,padding_mode=reflect)",
    "random_crop(60:60,padding=40,padding_mode=symmetric)",
    "random_crop(20:30,padding=15,fill=200)",
    "random_crop(70:20,pad_if_needed,padding=3,padding_mode=edge)",
    "random_crop(20:70,pad_if_needed,padding_mode=reflect)",
    "random_crop(50,pad_if_needed)+pad(5:9,padding_mode=symmetric)",
    "pad(2:40:7:0,fill=1)+resize(20,max_size=25)",
    "random_order(hflip,vflip,channel_permutation)+photometric_distort(p=0.7)+jpeg(20:90)",
    "random_apply(invert(0.3)+grayscale(3),0.6)",
    "pil_gaussian_blur(0.3:3)",
    "trivial_augment_wide(interp=bilinear,fill=9)",
    "rand_augment(3,20)+timm(\"rand-n4-mstd2-inc1\",fill=9)",
    "auto_augment(svhn,interp=bicubic)",
    "random_choice(equalize(1),invert(1)+posterize(2))",
    "random_order(solarize(50,1),autocontrast(1),random_apply(equalize,0.5))"};
enum { N_TEXT_OPS = sizeof text_ops / sizeof *text_ops };

static void append_random_op(mr_transform *t, uint64_t *random, uint32_t most)
{
    uint32_t height = pick_below(random, most), width = pick_below(random, most);
    const char *interpolation = mr_transform_interpolations[reference_below(random, MR_N_FILTERS)];
    char made[64];
    const char *text = made;
    switch (reference_below(random, 14)) {
    case 0: snprintf(made, sizeof made, "random_resized_crop(%u:%u)", height, width); break;
    case 1: snprintf(made, sizeof made, "resize(%u,interp=%s)", height, interpolation); break;
    case 2:
        snprintf(made, sizeof made, "resize(%u:%u,interp=%s)", height, width, interpolation);
        break;
    case 3: snprintf(made, sizeof made, "center_crop(%u:%u)", height, width); break;
    case 4:
        snprintf(made, sizeof made, "random_crop(%u:%u,padding=%u)", height, width,
                 pick_below(random, most));
        break;
    case 5: snprintf(made, sizeof made, "random_crop(%u:%u)", 1 + height / 8, 1 + width / 8); break;
    case 6: text = "hflip"; break;
    case 7: text = "rgb"; break;
    case 8: text = "vflip"; break;
    default: text = text_ops[reference_below(random, N_TEXT_OPS)]; break;
    }
    assert_int_equal(mr_transform_append(t, text, NULL), MR_OK);
}

static void any_list_equals_one_operation_after_the_other(void **state)
{
    (void)state;
    uint64_t random = reference_seed();
    const mr_dtype dtypes[] = {MR_U8, MR_U8, MR_U8, MR_F32, MR_F16, MR_BF16};
    int n_run = 0;
    for (int i = 0; i < 1500; i++) {
        struct image image = image_make(pick_below(&random, 60), pick_below(&random, 60),
                                        reference_below(&random, 3) ? 3 : 1);
        image_fill(&image, reference_random(&random));
        mr_transform *t;
        assert_int_equal(mr_transform_parse("none", &t, NULL), MR_OK);
        for (uint64_t k = reference_below(&random, 6); k > 0; k--)
            append_random_op(t, &random, 50);
        mr_layout from = reference_below(&random, 2) ? MR_NCHW : MR_NHWC;
        struct mr_sample_kind kind = raw_kind(&image, from);
        struct mr_plan plan;
        char text[2000];
        mr_transform_format(t, text, sizeof text);
        mr_status status =
            mr_plan_compile(t, &kind, dtypes[reference_below(&random, 6)],
                            reference_below(&random, 2) ? MR_NCHW : MR_NHWC, &plan, NULL);
        if (status == MR_OK) {
            struct mr_plan_runner *runner;
            uint8_t *bytes = lay_out(&image, from);
            assert_int_equal(mr_plan_runner_create(&plan, &limits, i % 2, &runner, NULL), MR_OK);
            for (uint64_t index = 0; index < 4; index++)
                check_sample(runner, &plan, bytes, kind.data_bytes, &image, index, text);
            mr_plan_runner_destroy(runner);
            free(bytes);
            n_run++;
        }
        mr_transform_destroy(t);
        image_free(&image);
    }
    assert_true(n_run > 1000);
}

/* Each text has rgb in another place. In the reference, operations after it see three channels. */
static void gray_pictures_become_three_equal_channels_wherever_rgb_is(void **state)
{
    (void)state;
#define BY_THREE "normalize(mean=0.1:0.5:0.9,std=0.2:0.3:0.4)"
    const char *texts[] = {"rgb+random_resized_crop(20:17)+hflip+resize(9:30)",
                           "random_resized_crop(20:17)+rgb+hflip+resize(9:30)",
                           "random_resized_crop(20:17)+hflip+rgb+resize(9:30)",
                           "random_resized_crop(20:17)+hflip+resize(9:30)+rgb"};
    const mr_dtype dtypes[] = {MR_U8, MR_F32, MR_F16, MR_BF16};
    struct image image = image_make(40, 31, 1);
    image_fill(&image, 5);
    for (int i = 0; i < 16; i++) {
        mr_dtype dtype = dtypes[i / 4];
        struct mr_sample_kind kind = raw_kind(&image, i & 1 ? MR_NCHW : MR_NHWC);
        uint8_t first[9 * 30 * 3 * 4], out[sizeof first];
        for (int t = 0; t < 4; t++) {
            char text[200];
            snprintf(text, sizeof text, "%s%s", texts[t], dtype == MR_U8 ? "" : "+" BY_THREE);
            struct mr_plan plan = make_plan(text, &kind, dtype, i & 2 ? MR_NCHW : MR_NHWC);
            struct mr_plan_runner *runner;
            struct mr_plan_runner_report report;
            struct mr_rng rng;
            assert_int_equal(plan.out_bytes, 9 * 30 * 3 * mr_dtype_size(dtype));
            assert_int_equal(mr_plan_runner_create(&plan, &limits, false, &runner, NULL), MR_OK);
            check_sample(runner, &plan, image.pixels, kind.data_bytes, &image, 6, text);
            mr_rng_init(&rng, 1, 2, 6);
            assert_int_equal(mr_plan_runner_run(runner, image.pixels, kind.data_bytes, false, &rng,
                                                t ? out : first, &report, NULL),
                             MR_OK);
            assert_true(t == 0 || memcmp(first, out, plan.out_bytes) == 0);
            mr_plan_runner_destroy(runner);
        }
    }
    image_free(&image);
}

struct jpeg {
    struct mr_test_image file;
    const uint8_t *bytes; /* the file's */
    size_t len;
    struct image image; /* decoded as a whole */
};

/* orientation above 0: with an EXIF segment that has it. */
static struct jpeg make_jpeg(uint32_t width, uint32_t height, int sampling, bool progressive,
                             uint8_t orientation, uint64_t seed)
{
    struct mr_test_jpeg options = {
        .width = width,
        .height = height,
        .seed = (uint32_t)seed,
        .quality = 90,
        .sampling = {{sampling & 1 ? 2 : 1, sampling & 2 ? 2 : 1}, {1, 1}, {1, 1}},
        .progressive = progressive,
        .orientation = orientation};
    struct jpeg jpeg = {.file = mr_test_jpeg(&options), .image = image_make(width, height, 3)};
    jpeg.bytes = jpeg.file.bytes;
    jpeg.len = jpeg.file.len;
    uint8_t *whole = mr_test_jpeg_pixels(jpeg.bytes, jpeg.len, &width, &height);
    memcpy(jpeg.image.pixels, whole, (size_t)width * height * 3);
    free(whole);
    return jpeg;
}

static void jpeg_free(struct jpeg *jpeg)
{
    mr_test_image_free(&jpeg->file);
    image_free(&jpeg->image);
}

static const struct mr_sample_kind files = {.encoded = 1, .picture = 1};

static void jpegs_equal_a_full_decode_and_one_operation_after_the_other(void **state)
{
    (void)state;
    uint64_t random = reference_seed();
    const char *texts[] = {
        "train:24",
        "eval:40:32",
        "random_crop(9:5,padding=2)+hflip",
        "hflip+random_crop(32,padding=9,padding_mode=edge)+random_crop(33,padding=3,fill=1:2:3)",
        "train:24+vflip+rgb",
        "resize(30)+random_resized_crop(16)+hflip",
        "center_crop(7)",
        "center_crop(150)+vflip+resize(33:44)",
        "random_resized_crop(5,scale=0.001:0.01)",
        "resize(200:200)+center_crop(3)+resize(20:20)+random_crop(9)",
        "train:24+equalize(0.5)+random_apply(invert+posterize(4),0.8)",
        "equalize(1)+random_resized_crop(24)+autocontrast(1)+hflip+solarize(128)",
        "center_crop(200)+invert(1)+resize(20)+grayscale+random_crop(9)"};
    for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
        struct mr_plan plan =
            make_plan(texts[t], &files, t % 2 ? MR_F32 : MR_U8, t % 3 ? MR_NCHW : MR_NHWC);
        struct mr_plan_runner *runner;
        assert_int_equal(mr_plan_runner_create(&plan, &limits, true, &runner, NULL), MR_OK);
        for (int i = 0; i < 12; i++) {
            struct jpeg jpeg = make_jpeg(8 + pick_below(&random, 150), 8 + pick_below(&random, 150),
                                         i % 4, i % 3 == 2, 0, reference_random(&random));
            for (uint64_t index = 0; index < 6; index++)
                check_sample(runner, &plan, jpeg.bytes, jpeg.len, &jpeg.image, index, texts[t]);
            jpeg_free(&jpeg);
        }
        mr_plan_runner_destroy(runner);
    }
}

/* What Pillow's exif_transpose does, one turn after the other. */
static void turn_image(struct image *image, int orientation)
{
    if (orientation >= 5) { /* transpose */
        struct image out = image_make(image->height, image->width, 3);
        for (int64_t y = 0; y < image->height; y++)
            for (int64_t x = 0; x < image->width; x++)
                memcpy(out.pixels + 3 * (x * out.width + y),
                       image->pixels + 3 * (y * image->width + x), 3);
        image_free(image);
        *image = out;
    }
    /*
     * 6: a quarter clockwise, which is transpose and mirror; 7: transverse; 8: a quarter
     * counter-clockwise
     */
    if (orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7)
        reference_hflip(image);
    if (orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8)
        reference_vflip(image);
}

static void exif_turns_the_image_before_the_crop(void **state)
{
    (void)state;
    struct mr_plan plan = make_plan("exif+train:20", &files, MR_U8, MR_NHWC);
    struct mr_plan deaf = make_plan("train:20", &files, MR_U8, MR_NHWC);
    struct mr_plan_runner *runner, *deaf_pixels;
    assert_int_equal(mr_plan_runner_create(&plan, &limits, false, &runner, NULL), MR_OK);
    assert_int_equal(mr_plan_runner_create(&deaf, &limits, false, &deaf_pixels, NULL), MR_OK);
    for (int orientation = 1; orientation <= 8; orientation++) {
        struct jpeg jpeg = make_jpeg(90, 50, 3, false, (uint8_t)orientation, 5);
        check_sample(deaf_pixels, &deaf, jpeg.bytes, jpeg.len, &jpeg.image, 3, "train:20");
        turn_image(&jpeg.image, orientation);
        assert_int_equal(jpeg.image.width, orientation >= 5 ? 50 : 90);
        check_sample(runner, &plan, jpeg.bytes, jpeg.len, &jpeg.image, 3, "exif+train:20");
        jpeg_free(&jpeg);
    }
    mr_plan_runner_destroy(runner);
    mr_plan_runner_destroy(deaf_pixels);
}

static void a_bad_image_leaves_the_object_usable(void **state)
{
    (void)state;
    struct mr_plan plan = make_plan("train:20", &files, MR_U8, MR_NCHW);
    struct mr_plan_runner *runner;
    struct mr_plan_runner_report report;
    struct mr_rng rng;
    mr_error error;
    uint8_t out[1200];
    assert_int_equal(mr_plan_runner_create(&plan, &limits, false, &runner, NULL), MR_OK);
    struct jpeg jpeg = make_jpeg(120, 100, 3, false, 0, 9);
    for (size_t len = 0; len < jpeg.len; len += 97) {
        mr_rng_init(&rng, 0, 0, len);
        mr_status status =
            mr_plan_runner_run(runner, jpeg.bytes, len, true, &rng, out, &report, &error);
        assert_true(status == MR_OK || status == MR_ERR_DAMAGED);
        assert_true(len > 300 || status == MR_ERR_DAMAGED);
        check_sample(runner, &plan, jpeg.bytes, jpeg.len, &jpeg.image, len, "train:20");
    }
    mr_rng_init(&rng, 0, 0, 0);
    assert_int_equal(
        mr_plan_runner_run(runner, jpeg.bytes, jpeg.len, false, &rng, out, &report, &error),
        MR_ERR_DAMAGED);
    jpeg_free(&jpeg);
    mr_plan_runner_destroy(runner);
}

static void sizes_that_differ_from_the_first_are_damaged(void **state)
{
    (void)state;
    struct mr_plan plan = make_plan("none", &files, MR_U8, MR_NCHW);
    struct mr_plan_runner *runner;
    struct mr_plan_runner_report report;
    struct mr_rng rng;
    mr_error error;
    struct jpeg first = make_jpeg(22, 22, 0, false, 0, 9),
                other = make_jpeg(40, 22, 0, false, 0, 9);
    assert_int_equal(mr_plan_compile_fix_size(&plan, 22, 22, NULL), MR_OK);
    uint8_t out[22 * 22 * 3];
    assert_int_equal(mr_plan_runner_create(&plan, &limits, false, &runner, NULL), MR_OK);
    check_sample(runner, &plan, first.bytes, first.len, &first.image, 0, "none");
    mr_rng_init(&rng, 0, 0, 0);
    assert_int_equal(
        mr_plan_runner_run(runner, other.bytes, other.len, true, &rng, out, &report, &error),
        MR_ERR_DAMAGED);
    assert_non_null(
        strstr(error.text, "the output is 40x22, the first image's was 22x22; add center_crop(N)"));
    assert_true(mr_plan_runner_is_other_size(&error));
    assert_int_equal(mr_plan_runner_run(runner, other.bytes, 20, true, &rng, out, &report, &error),
                     MR_ERR_DAMAGED);
    assert_false(mr_plan_runner_is_other_size(&error));
    jpeg_free(&first);
    jpeg_free(&other);
    mr_plan_runner_destroy(runner);
}

static void an_image_that_grows_beyond_the_limit_is_damaged(void **state)
{
    (void)state;
    struct image image = image_make(1, 4000, 3);
    struct mr_sample_kind kind = raw_kind(&image, MR_NHWC);
    struct mr_plan plan = make_plan("resize(400)+resize(10:10)", &kind, MR_U8, MR_NHWC);
    struct mr_plan_runner *runner;
    struct mr_plan_runner_report report;
    struct mr_rng rng;
    mr_error error;
    uint8_t out[300];
    mr_rng_init(&rng, 0, 0, 0);
    assert_int_equal(mr_plan_runner_create(&plan, &limits, false, &runner, NULL), MR_OK);
    assert_int_equal(mr_plan_runner_run(runner, image.pixels, kind.data_bytes, false, &rng, out,
                                        &report, &error),
                     MR_ERR_DAMAGED);
    assert_string_equal(error.text,
                        "image becomes 400x1600000 pixels; the limit is 100000000 pixels");
    assert_int_equal(mr_plan_runner_run(runner, image.pixels, kind.data_bytes - 1, false, &rng, out,
                                        &report, &error),
                     MR_ERR_DAMAGED);
    assert_string_equal(error.text, "sample has 11999 bytes instead of 12000");
    mr_plan_runner_destroy(runner);
    image_free(&image);
}

static void limits_of_zero_mean_the_defaults_between_stages_too(void **state)
{
    (void)state;
    const struct mr_codec_limits zeros = {0};
    struct image image = image_make(1, 4000, 3);
    struct mr_sample_kind kind = raw_kind(&image, MR_NHWC);
    const char *texts[] = {"resize(4)+resize(10:10)", "resize(400)+resize(10:10)"};
    for (int i = 0; i < 2; i++) {
        struct mr_plan plan = make_plan(texts[i], &kind, MR_U8, MR_NHWC);
        struct mr_plan_runner *runner;
        struct mr_plan_runner_report report;
        struct mr_rng rng;
        mr_error error = {0};
        uint8_t out[300];
        mr_rng_init(&rng, 0, 0, 0);
        assert_int_equal(mr_plan_runner_create(&plan, &zeros, false, &runner, NULL), MR_OK);
        mr_status status = mr_plan_runner_run(runner, image.pixels, kind.data_bytes, false, &rng,
                                              out, &report, &error);
        assert_string_equal(
            error.text, i ? "image becomes 400x1600000 pixels; the limit is 178956970 pixels" : "");
        assert_int_equal(status, i ? MR_ERR_DAMAGED : MR_OK);
        mr_plan_runner_destroy(runner);
    }
    image_free(&image);
}

static void the_report_has_the_crop(void **state)
{
    (void)state;
    struct mr_plan plan = make_plan("center_crop(20)+hflip(1)", &files, MR_U8, MR_NCHW);
    struct mr_plan_runner *runner;
    struct mr_plan_runner_report report;
    struct mr_rng rng;
    uint8_t out[1200];
    struct jpeg jpeg = make_jpeg(64, 48, 3, false, 0, 9);
    for (int with_timing = 0; with_timing < 2; with_timing++) {
        mr_rng_init(&rng, 0, 0, 0);
        assert_int_equal(mr_plan_runner_create(&plan, &limits, with_timing, &runner, NULL), MR_OK);
        assert_int_equal(
            mr_plan_runner_run(runner, jpeg.bytes, jpeg.len, true, &rng, out, &report, NULL),
            MR_OK);
        const int32_t geometry[8] = {64, 48, 22, 14, 20, 20, 1, 0};
        assert_memory_equal(report.geometry, geometry, sizeof geometry);
        assert_int_equal(report.n_warnings, 0);
        assert_int_equal(report.decode_ns > 0, with_timing);
        mr_plan_runner_destroy(runner);
    }
    jpeg_free(&jpeg);
}

/* ---- Allocations ---- */

/* 50 images, twice. The second time the object is warm: it has seen the same images and draws. */
static struct allocations warm_allocations(const char *text, const struct mr_sample_kind *kind,
                                           const uint8_t *bytes, size_t len)
{
    struct mr_plan plan = make_plan(text, kind, MR_F16, MR_NHWC);
    struct mr_plan_runner *runner;
    struct mr_plan_runner_report report;
    struct mr_rng rng;
    if (!plan.out_known)
        assert_int_equal(mr_plan_compile_fix_size(&plan, 400, 300, NULL), MR_OK);
    uint8_t *out = malloc(plan.out_bytes);
    assert_int_equal(mr_plan_runner_create(&plan, &limits, false, &runner, NULL), MR_OK);
    for (int round = 0; round < 2; round++) {
        allocations = (struct allocations){0};
        for (uint64_t index = 0; index < 50; index++) {
            mr_rng_init(&rng, 1, 0, index);
            mr_status status =
                mr_plan_runner_run(runner, bytes, len, kind->encoded, &rng, out, &report, NULL);
            if (status != MR_OK)
                fail_msg("%s: status %d", text, status);
        }
        if (round == 0)
            assert_true(allocations.n_own > 0);
    }
    struct allocations warm = allocations;
    mr_plan_runner_destroy(runner);
    free(out);
    return warm;
}

static const char *const warm_texts[] = {
    "train:24",
    "resize(40)+random_resized_crop(30)+hflip",
    "exif+random_crop(20,padding=4)",
    "random_crop(420:310,padding=60,padding_mode=reflect)+hflip",
    ("train:24+color_jitter(0.8,0.8,0.8,0.2)+adjust_sharpness(2)+gaussian_blur(5)"
     "+pil_gaussian_blur(2)"),
    "train:24+trivial_augment_wide(bilinear)+rand_augment+auto_augment",
    "none"};

static struct mr_test_image warm_file(int format)
{
    const struct mr_test_jpeg jpeg = {.width = 400, .height = 300, .orientation = 3};
    const struct mr_test_jpeg scans = {.width = 400, .height = 300, .progressive = true};
    const struct mr_test_png png = {.width = 400, .height = 300, .colour_type = 2};
    return format == 0   ? mr_test_jpeg(&jpeg)
           : format == 1 ? mr_test_png(&png)
                         : mr_test_jpeg(&scans);
}

/*
 * Counts the room's own code; the next test counts libjpeg and libpng. libpng gets its memory from
 * the codec.
 */
static void a_warm_object_allocates_nothing_itself(void **state)
{
    (void)state;
    struct image image = image_make(400, 300, 3);
    struct mr_sample_kind kind = raw_kind(&image, MR_NCHW);
    image_fill(&image, 1);
    for (size_t t = 0; t < sizeof warm_texts / sizeof warm_texts[0]; t++) {
        if (strncmp(warm_texts[t], "exif", 4) != 0) {
            struct allocations warm =
                warm_allocations(warm_texts[t], &kind, image.pixels, kind.data_bytes);
            assert_int_equal(warm.n_own, 0);
            assert_int_equal(warm.n_process, 0); /* no library takes part */
        }
        for (int format = 0; format < 3 && !ALLOCATIONS_STATIC_DEPS; format++) {
            struct mr_test_image file = warm_file(format);
            struct allocations warm = warm_allocations(warm_texts[t], &files, file.bytes, file.len);
            assert_in_range(warm.n_own / 50, 0, format == 1 ? 16 : 0);
            mr_test_image_free(&file);
        }
    }
    image_free(&image);
}

/*
 * libjpeg's pools, and libpng's structs with zlib's window, live as long as one image. Measured for
 * 400x300: libjpeg-turbo 2.1 takes 10 pieces, 36279 bytes; libpng 1.6 takes 8, 52338 bytes. The
 * bounds have room for other versions, but not for a piece per row or for the whole image (360000
 * bytes).
 */
static void libraries_allocate_little_for_an_encoded_image(void **state)
{
    (void)state;
    if (!ALLOCATIONS_OF_PROCESS) {
        print_message("the allocations of shared libraries cannot be counted in this build\n");
        skip();
    }
    for (size_t t = 0; t < sizeof warm_texts / sizeof warm_texts[0]; t++) {
        for (int format = 0; format < 2; format++) {
            struct mr_test_image file = warm_file(format);
            struct allocations warm = warm_allocations(warm_texts[t], &files, file.bytes, file.len);
            size_t n = warm.n_process / 50, len = warm.len_process / 50;
            print_message("%s, %s: %zu allocations, %zu bytes an image\n", warm_texts[t],
                          format ? "PNG" : "JPEG", n, len);
            assert_in_range(n, 1, 16); /* 0: they were not counted */
            assert_in_range(len, 1, 128 << 10);
            mr_test_image_free(&file);
        }
    }
}

static void records_are_copied(void **state)
{
    (void)state;
    struct mr_sample_kind kind = {.dtype = MR_F64, .ndim = 1, .shape = {4}, .data_bytes = 32};
    struct mr_plan plan = compile_plan(NULL, &kind, MR_DTYPE_DEFAULT, MR_NCHW);
    struct mr_plan_runner *runner;
    struct mr_plan_runner_report report;
    struct mr_rng rng;
    const double values[4] = {1.5, -2.0, 1e300, 0.0};
    double out[4];
    mr_rng_init(&rng, 0, 0, 0);
    assert_int_equal(mr_plan_runner_create(&plan, &limits, false, &runner, NULL), MR_OK);
    assert_int_equal(
        mr_plan_runner_run(runner, (const uint8_t *)values, 32, false, &rng, out, &report, NULL),
        MR_OK);
    assert_memory_equal(values, out, 32);
    mr_plan_runner_destroy(runner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_list_equals_one_operation_after_the_other),
        cmocka_unit_test(gray_pictures_become_three_equal_channels_wherever_rgb_is),
        cmocka_unit_test(jpegs_equal_a_full_decode_and_one_operation_after_the_other),
        cmocka_unit_test(exif_turns_the_image_before_the_crop),
        cmocka_unit_test(a_bad_image_leaves_the_object_usable),
        cmocka_unit_test(sizes_that_differ_from_the_first_are_damaged),
        cmocka_unit_test(an_image_that_grows_beyond_the_limit_is_damaged),
        cmocka_unit_test(limits_of_zero_mean_the_defaults_between_stages_too),
        cmocka_unit_test(the_report_has_the_crop),
        cmocka_unit_test(a_warm_object_allocates_nothing_itself),
        cmocka_unit_test(libraries_allocate_little_for_an_encoded_image),
        cmocka_unit_test(records_are_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
