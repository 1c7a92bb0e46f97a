/* SPDX-License-Identifier: Apache-2.0 */
/* A transform is checked against samples, dtype and layout before anything runs. */
#include "tests/support/assert_words.h"
#include "transforms/plan_compile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct mr_sample_kind files = {.encoded = 1, .picture = 1};
static const struct mr_sample_kind cifar = {.picture = 1,
                                            .dtype = MR_U8,
                                            .ndim = 3,
                                            .shape = {3, 32, 32},
                                            .layout = MR_NCHW,
                                            .data_bytes = 3072};
static const struct mr_sample_kind gray = {.picture = 1,
                                           .dtype = MR_U8,
                                           .ndim = 3,
                                           .shape = {28, 20, 1},
                                           .layout = MR_NHWC,
                                           .data_bytes = 560};
static const struct mr_sample_kind tokens = {
    .dtype = MR_U16, .ndim = 1, .shape = {1024}, .data_bytes = 2048};

static mr_status compile_plan(const char *text, const struct mr_sample_kind *kind, mr_dtype dtype,
                              mr_layout layout, struct mr_plan *plan, mr_error *error)
{
    mr_transform *transform = NULL;
    if (text && mr_transform_parse(text, &transform, error) != MR_OK)
        fail_msg("%s", error->text);
    mr_status status = mr_plan_compile(transform, kind, dtype, layout, plan, error);
    mr_transform_destroy(transform);
    return status;
}

static struct mr_plan expect_plan(const char *text, const struct mr_sample_kind *kind,
                                  mr_dtype dtype, mr_layout layout)
{
    struct mr_plan plan;
    mr_error error;
    assert_ok(compile_plan(text, kind, dtype, layout, &plan, &error), &error);
    return plan;
}

static void expect_refused(const char *text, const struct mr_sample_kind *kind, mr_dtype dtype,
                           const char *words)
{
    struct mr_plan plan;
    mr_error error;
    assert_int_equal(compile_plan(text, kind, dtype, MR_NCHW, &plan, &error), MR_ERR_INVALID);
    assert_string_equal(error.text, words);
}

static void expect_shape(const struct mr_plan *plan, int64_t a, int64_t b, int64_t c, uint64_t len)
{
    assert_true(plan->out_known);
    assert_int_equal(plan->out_ndim, 3);
    assert_int_equal(plan->out_shape[0], a);
    assert_int_equal(plan->out_shape[1], b);
    assert_int_equal(plan->out_shape[2], c);
    assert_int_equal(plan->out_bytes, len);
}

static void files_get_train_224_by_default(void **state)
{
    (void)state;
    struct mr_plan plan = expect_plan(NULL, &files, MR_DTYPE_DEFAULT, MR_NCHW);
    assert_int_equal(plan.dtype, MR_U8);
    assert_int_equal(plan.n_ops, 2);
    expect_shape(&plan, 3, 224, 224, 150528);
    plan = expect_plan("train:224:192", &files, MR_F32, MR_NHWC);
    expect_shape(&plan, 224, 192, 3, 224 * 192 * 12);
    plan = expect_plan("resize(64:64)+resize(32)+center_crop(10:20)", &files, MR_BF16, MR_NCHW);
    expect_shape(&plan, 3, 10, 20, 1200);
    plan = expect_plan("resize(64:128)+resize(32)", &files, MR_U8, MR_NCHW);
    expect_shape(&plan, 3, 32, 64, 3 * 32 * 64);
}

static void raw_pictures_are_copied_if_nothing_changes(void **state)
{
    (void)state;
    struct mr_plan plan = expect_plan(NULL, &cifar, MR_DTYPE_DEFAULT, MR_NCHW);
    assert_true(plan.copy);
    expect_shape(&plan, 3, 32, 32, 3072);
    assert_false(expect_plan("none", &cifar, MR_U8, MR_NHWC).copy);
    assert_false(expect_plan("none", &cifar, MR_F32, MR_NCHW).copy);
    assert_false(expect_plan("cifar", &cifar, MR_U8, MR_NCHW).copy);
    assert_true(expect_plan("none", &gray, MR_U8, MR_NCHW).copy);
    plan = expect_plan("eval:232:224", &cifar, MR_U8, MR_NCHW);
    expect_shape(&plan, 3, 224, 224, 150528);
    plan = expect_plan("resize(56)", &gray, MR_F16, MR_NCHW);
    expect_shape(&plan, 1, 78, 56, 2 * 78 * 56);
}

static void records_are_copied_unchanged(void **state)
{
    (void)state;
    struct mr_plan plan = expect_plan(NULL, &tokens, MR_DTYPE_DEFAULT, MR_NCHW);
    assert_true(plan.copy);
    assert_int_equal(plan.dtype, MR_U16);
    assert_int_equal(plan.out_ndim, 1);
    assert_int_equal(plan.out_shape[0], 1024);
    assert_int_equal(plan.out_bytes, 2048);
    expect_plan("none", &tokens, MR_U16, MR_NHWC);
    expect_refused("hflip", &tokens, MR_U16,
                   "hflip cannot be applied: the samples are not pictures");
    expect_refused(NULL, &tokens, MR_F32, "dtype f32 cannot be made of records of u16");
}

static void normalise_needs_a_float(void **state)
{
    (void)state;
    expect_refused("normalize(mean=0,std=1)", &files, MR_U8,
                   "normalize cannot be applied: dtype is u8, not a float");
    expect_refused("cifar", &gray, MR_F32,
                   "normalize cannot be applied: it has 3 channels, the pictures have 1");
    expect_refused("none", &files, MR_I32,
                   "dtype i32 cannot hold pictures: u8, f32, f16 and bf16 can");
    struct mr_plan plan = expect_plan("train:224", &files, MR_F32, MR_NCHW);
    assert_true(plan.bias[0] < -2.1f && plan.bias[0] > -2.2f);
    plan = expect_plan("hflip+center_crop(8)", &files, MR_F32, MR_NCHW);
    assert_true(plan.table[1][255] == 1.0f && plan.bias[1] == 0.0f);
    plan = expect_plan("center_crop(8)+normalize(mean=0.5,std=0.5,exact)", &files, MR_F32, MR_NCHW);
    assert_true(plan.exact);
}

static void a_color_needs_three_channels(void **state)
{
    (void)state;
    expect_plan("rotation(5,fill=1:2:3)+grayscale", &files, MR_U8, MR_NCHW);
    expect_plan("grayscale+random_apply(rotation(5,fill=9))", &gray, MR_U8, MR_NCHW);
    expect_refused("grayscale+random_apply(rotation(5,fill=1:2:3))", &files, MR_U8,
                   "rotation cannot be applied: fill has 3 channels, the pictures have 1 there");
    expect_refused(
        "rgb+rotation(5,fill=1:2:3)", &gray, MR_U8,
        "rotation cannot be applied: fill has 3 channels, the pictures have 1 before the tensor");
    expect_refused("affine(0,fill=1:1:3)", &gray, MR_U8,
                   "affine cannot be applied: fill has 3 channels, the pictures have 1 there");
}

static void rgb_makes_three_channels_of_one(void **state)
{
    (void)state;
    struct mr_plan plan = expect_plan("rgb", &gray, MR_U8, MR_NHWC);
    assert_false(plan.copy);
    expect_shape(&plan, 28, 20, 3, 28 * 20 * 3);
    plan = expect_plan("center_crop(8)+rgb", &gray, MR_F16, MR_NCHW);
    expect_shape(&plan, 3, 8, 8, 3 * 8 * 8 * 2);
    expect_plan("rgb+train:8", &gray, MR_F32, MR_NCHW);
    plan = expect_plan("rgb", &cifar, MR_U8, MR_NCHW);
    assert_true(plan.copy);
    expect_refused("rgb", &tokens, MR_U16, "rgb cannot be applied: the samples are not pictures");
}

static void exif_is_for_files(void **state)
{
    (void)state;
    assert_true(expect_plan("exif+train:8", &files, MR_U8, MR_NCHW).use_exif);
    assert_false(expect_plan("exif", &cifar, MR_U8, MR_NCHW).use_exif);
    assert_true(expect_plan("exif", &cifar, MR_U8, MR_NCHW).copy);
}

static void an_open_size_is_that_of_the_first_image(void **state)
{
    (void)state;
    struct mr_plan plan = expect_plan("resize(224)", &files, MR_U8, MR_NCHW);
    assert_false(plan.out_known);
    assert_int_equal(mr_plan_compile_fix_size(&plan, 500, 375, NULL), MR_OK);
    expect_shape(&plan, 3, 224, 298, 3 * 224 * 298);
    assert_int_equal(mr_plan_compile_fix_size(&plan, 9, 9, NULL), MR_OK);
    expect_shape(&plan, 3, 224, 298, 3 * 224 * 298);
    plan = expect_plan("none", &files, MR_F32, MR_NHWC);
    assert_int_equal(mr_plan_compile_fix_size(&plan, 0, 5, NULL), MR_ERR_DAMAGED);
    assert_false(plan.out_known);
    assert_int_equal(mr_plan_compile_fix_size(&plan, 40, 30, NULL), MR_OK);
    expect_shape(&plan, 30, 40, 3, 4 * 3600);
}

static void crops_that_never_fit_are_refused_at_once(void **state)
{
    (void)state;
    expect_refused("random_crop(40)", &cifar, MR_U8,
                   "crop 40x40 is larger than the image 32x32 with padding 0");
    expect_refused("center_crop(8)+random_crop(9)", &files, MR_U8,
                   "crop 9x9 is larger than the image 8x8 with padding 0");
}

static void a_fill_suits_the_pictures(void **state)
{
    (void)state;
    expect_refused("random_crop(20:8,padding=4,fill=1:2:3)", &gray, MR_U8,
                   "random_crop cannot be applied: fill has 3 channels, the pictures have 1 there");
    expect_refused("grayscale+random_crop(8,padding=4,fill=1:2:3)", &cifar, MR_U8,
                   "random_crop cannot be applied: fill has 3 channels, the pictures have 1 there");
    expect_plan("random_crop(20:8,padding=4,fill=7)+rgb", &gray, MR_U8, MR_NCHW);
    expect_plan("random_crop(8,padding=4,fill=1:2:3)+grayscale", &cifar, MR_U8, MR_NCHW);
}

/* Also inside a structure, whatever is drawn. */
static void kernels_that_never_fit_are_refused_at_once(void **state)
{
    (void)state;
    const char *words = "gaussian_blur: an image of 8 x 8 is too small for kernel 23";
    expect_refused("random_resized_crop(8)+gaussian_blur(23)", &files, MR_U8, words);
    expect_refused("random_resized_crop(8)+hflip+random_apply(equalize+gaussian_blur(23),0.1)",
                   &files, MR_U8, words);
    expect_refused("resize(40)+random_choice(invert,random_order(gaussian_blur(17),gaussian_blur("
                   "23)))+center_crop(8)+"
                   "random_apply(random_choice(invert,gaussian_blur(23)))",
                   &files, MR_U8, words);
    expect_refused("gaussian_blur(63)", &gray, MR_U8,
                   "gaussian_blur: an image of 20 x 28 is too small for kernel 63");
    expect_plan("random_resized_crop(12)+gaussian_blur(23)", &files, MR_U8, MR_NCHW);
    struct mr_plan plan = expect_plan("gaussian_blur(23)", &files, MR_U8, MR_NCHW);
    assert_int_equal(mr_plan_compile_fix_size(&plan, 12, 11, NULL), MR_ERR_DAMAGED);
    assert_int_equal(mr_plan_compile_fix_size(&plan, 12, 12, NULL), MR_OK);
}

static void structures_keep_the_number_of_channels(void **state)
{
    (void)state;
    struct mr_plan plan = expect_plan("random_apply(invert+grayscale(3))", &gray, MR_U8, MR_NHWC);
    expect_shape(&plan, 28, 20, 1, 28 * 20);
    plan = expect_plan("grayscale(3)+random_choice(grayscale(3),invert)", &gray, MR_U8, MR_NHWC);
    expect_shape(&plan, 28, 20, 3, 28 * 20 * 3);
    plan = expect_plan("random_apply(grayscale(3))+grayscale", &cifar, MR_U8, MR_NHWC);
    expect_shape(&plan, 32, 32, 1, 1024);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    struct mr_plan plan;
    mr_error error;
    assert_int_equal(compile_plan(NULL, &files, (mr_dtype)77, MR_NCHW, &plan, &error),
                     MR_ERR_INVALID);
    assert_int_equal(compile_plan(NULL, &files, MR_U8, (mr_layout)2, &plan, &error),
                     MR_ERR_INVALID);
    struct mr_sample_kind wrong = cifar;
    wrong.data_bytes = 3071;
    assert_int_equal(compile_plan(NULL, &wrong, MR_U8, MR_NCHW, &plan, &error), MR_ERR_INVALID);
    wrong = cifar;
    wrong.shape[0] = 4;
    assert_int_equal(compile_plan(NULL, &wrong, MR_U8, MR_NCHW, &plan, &error), MR_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_get_train_224_by_default),
        cmocka_unit_test(raw_pictures_are_copied_if_nothing_changes),
        cmocka_unit_test(records_are_copied_unchanged),
        cmocka_unit_test(normalise_needs_a_float),
        cmocka_unit_test(a_color_needs_three_channels),
        cmocka_unit_test(rgb_makes_three_channels_of_one),
        cmocka_unit_test(exif_is_for_files),
        cmocka_unit_test(an_open_size_is_that_of_the_first_image),
        cmocka_unit_test(crops_that_never_fit_are_refused_at_once),
        cmocka_unit_test(a_fill_suits_the_pictures),
        cmocka_unit_test(kernels_that_never_fit_are_refused_at_once),
        cmocka_unit_test(structures_keep_the_number_of_channels),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
