/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recipes by name stand for their long texts, with the given sizes, and errors name the place of
 * the name.
 */
#include "tests/support/assert_words.h"
#include "transforms/plan_compile.h"
#include "transforms/text/transform_recipe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SANITIZE "+sanitize(min_size=1,min_area=1)"
#define IOU_CROP "random_iou_crop(scale=0.3:1,ratio=0.5:2,trials=40)"
#define IMAGENET "+normalize(mean=0.485:0.456:0.406,std=0.229:0.224:0.225,if_float)"
#define WIDE(interp) "+trivial_augment_wide(31,interp=" interp ",fill=0)"
#define SCALE ",scale=0.08:1,ratio=0.75:1.3333333333333333"
#define DINO_COLOURS                                                                               \
    "+hflip(0.5)+random_apply(color_jitter(0.6:1.4,0.6:1.4,0.8:1.2,-0.1:0.1),0.8)+random_"         \
    "grayscale(0.2)"
#define SIMCLR_RANGE "0.19999999999999996:1.8"
#define SIMCLR_COLOURS                                                                             \
    "+hflip(0.5)+random_apply(color_jitter(" SIMCLR_RANGE "," SIMCLR_RANGE "," SIMCLR_RANGE        \
    ",-0.2:0.2),0.8)+random_grayscale(0.2)"
#define DINO(size, scale)                                                                          \
    "random_resized_crop(" size ",scale=" scale                                                    \
    ",ratio=0.75:1.3333333333333333,interp=bicubic)" DINO_COLOURS
#define DINOV3_JITTER                                                                              \
    "random_apply(color_jitter(0.6:1.4,0.6:1.4,0.8:1.2,-0.1:0.1),0.8)+random_grayscale(0.2)"
#define DINOV3_CROP(size, scale)                                                                   \
    "random_resized_crop(" size ",scale=" scale                                                    \
    ",ratio=0.75:1.3333333333333333,interp=bicubic)+hflip(0.5)"
#define DINOV3_SHARED(size, scale) "shared(" DINOV3_JITTER ")+" DINOV3_CROP(size, scale)
#define DINOV3_INSIDE(k)                                                                           \
    "view(local" k ",4,inside(global" k "," DINOV3_CROP(                                           \
        "224", "0.32:1") ")+" DINOV3_JITTER                                                        \
                         "+random_apply(gaussian_blur(9,0.1:2),0.5)+patch_crop(96,16)" IMAGENET    \
                         ")"
#define TIMM(size, magnitude)                                                                      \
    "random_resized_crop(" size SCALE ",interp=random)+hflip(0.5)"                                 \
    "+timm(\"rand-m" magnitude "-mstd0.5-inc1\",interp=random,fill=124:116:104)" IMAGENET

static const struct {
    const char *text, *want;
} recipes[] = {
    {"resnet50_v1", "random_resized_crop(224" SCALE ")+hflip(0.5)" IMAGENET},
    {"resnet50_v1_eval", "resize(256)+center_crop(224)" IMAGENET},
    {"resnet50_v2", "random_resized_crop(176" SCALE ")+hflip(0.5)" WIDE("bilinear") IMAGENET},
    {"resnet50_v2_eval", "resize(232)+center_crop(224)" IMAGENET},
    {"vit_b_16", "random_resized_crop(224" SCALE
                 ")+hflip(0.5)+rand_augment(2,9,31,interp=bilinear,fill=0)" IMAGENET},
    {"vit_b_16_eval", "resize(256)+center_crop(224)" IMAGENET},
    {"swin_t",
     "random_resized_crop(224" SCALE ",interp=bicubic)+hflip(0.5)" WIDE("bicubic") IMAGENET},
    {"swin_t_eval", "resize(232,interp=bicubic)+center_crop(224)" IMAGENET},
    {"convnext_tiny", "random_resized_crop(176" SCALE ")+hflip(0.5)" WIDE("bilinear") IMAGENET},
    {"convnext_tiny_eval", "resize(236)+center_crop(224)" IMAGENET},
    {"simclr", "random_resized_crop(224" SCALE ")" SIMCLR_COLOURS
               "+random_apply(gaussian_blur(23,0.1:2),0.5)" IMAGENET},
    {"dino_global1", DINO("224", "0.4:1") "+pil_gaussian_blur(0.1:2)" IMAGENET},
    {"dino_global2",
     DINO("224", "0.4:1") "+random_apply(pil_gaussian_blur(0.1:2),0.1)+solarize(128,0.2)" IMAGENET},
    {"dino_local", DINO("96", "0.05:0.4") "+random_apply(pil_gaussian_blur(0.1:2),0.5)" IMAGENET},
    {"dino",
     "view(global1," DINO(
         "224", "0.4:1") "+pil_gaussian_blur(0.1:2)" IMAGENET
                         ")|view(global2," DINO(
                             "224", "0.4:1") "+random_apply(pil_gaussian_blur(0.1:2),0.1)+solarize("
                                             "128,0.2)" IMAGENET ")|view(local,8," DINO(
                                                 "96", "0.05:0.4") "+random_apply(pil_gaussian_"
                                                                   "blur(0.1:2),0.5)" IMAGENET ")"},
    {"dinov2_global1", DINO("224", "0.32:1") IMAGENET},
    {"dinov2_global2",
     DINO("224", "0.32:1") "+random_apply(gaussian_blur(9,0.1:2),0.9)+solarize(128,0.2)" IMAGENET},
    {"dinov2_local", DINO("96", "0.05:0.32") "+random_apply(gaussian_blur(9,0.1:2),0.5)" IMAGENET},
    {"dinov2",
     "view(global1," DINO("224", "0.32:1") IMAGENET ")|view(global2," DINO(
         "224",
         "0.32:1") "+random_apply(gaussian_blur(9,0.1:2),0.9)+solarize(128,0.2)" IMAGENET
                   ")|view(local,8," DINO(
                       "96", "0.05:0.32") "+random_apply(gaussian_blur(9,0.1:2),0.5)" IMAGENET ")"},
    {"dinov3_shared_jitter",
     "view(global1," DINOV3_SHARED("224", "0.32:1") IMAGENET ")|view(global2," DINOV3_SHARED(
         "224",
         "0.32:1") "+random_apply(gaussian_blur(9,0.1:2),0.9)+solarize(128,0.2)" IMAGENET
                   ")|view(local,8," DINOV3_SHARED(
                       "96", "0.05:0.32") "+random_apply(gaussian_blur(9,0.1:2),0.5)" IMAGENET ")"},
    {"dinov3_local_subset",
     "view(global1," DINO("224", "0.32:1") IMAGENET ")|view(global2," DINO(
         "224", "0.32:1") "+random_apply(gaussian_blur(9,0.1:2),0.9)+solarize(128,0.2)" IMAGENET
                          ")|" DINOV3_INSIDE("1") "|" DINOV3_INSIDE("2")},
    {"timm_train", "random_resized_crop(224" SCALE
                   ")+hflip(0.5)+color_jitter(0.6:1.4,0.6:1.4,0.6:1.4,0:0)" IMAGENET},
    {"timm_eval", "resize(256)+center_crop(224)" IMAGENET},
    {"timm_a1", TIMM("224", "7")},
    {"timm_a1_eval", "resize(235,interp=bicubic)+center_crop(224)" IMAGENET},
    {"timm_a2", TIMM("224", "7")},
    {"timm_a2_eval", "resize(235,interp=bicubic)+center_crop(224)" IMAGENET},
    {"timm_a3", TIMM("160", "6")},
    {"timm_a3_eval", "resize(235,interp=bicubic)+center_crop(224)" IMAGENET},
    {"deit3",
     "resize(224,interp=bicubic)+random_crop(224,padding=4,padding_mode=reflect)+hflip(0.5)"
     "+random_choice(grayscale(3),solarize(128,1),pil_gaussian_blur(0.1:2))"
     "+color_jitter(0.7:1.3,0.7:1.3,0.7:1.3,0:0)" IMAGENET},
    {"deit3_eval", "resize(224,interp=bicubic)+center_crop(224)" IMAGENET},
    {"segmentation_train",
     "random_resize(260,1040)+hflip(0.5)+pad_if_smaller(480)+random_crop(480,padding=0)"
     "+mask(nearest=torch,fill=255,dtype=u8)" IMAGENET},
    {"segmentation_eval", "resize(520:520)+mask(nearest=torch,fill=255,dtype=u8)" IMAGENET},
    {"segmentation_eval_v1", "resize(520)+mask(nearest=pil,fill=255,dtype=u8)" IMAGENET},
    {"detection_hflip", "hflip(0.5)" SANITIZE},
    {"detection_lsj", "scale_jitter(1024,scale_range=0.1:2)"
                      "+fixed_size_crop(1024,fill=123:117:104)+hflip(0.5)" SANITIZE},
    {"detection_multiscale", "random_shortest_size(480:512:544:576:608:640:672:704:736:768:800,"
                             "max_size=1333)+hflip(0.5)" SANITIZE},
    {"detection_ssd", "photometric_distort(0.875:1.125,0.5:1.5,0.5:1.5,-0.05:0.05,0.5)"
                      "+random_zoom_out(side_range=1:4,p=0.5)+" IOU_CROP "+hflip(0.5)" SANITIZE},
    {"detection_ssdlite", IOU_CROP "+hflip(0.5)" SANITIZE},
    {"detection_eval", "none"},
};
enum { N_RECIPES = sizeof recipes / sizeof *recipes };

static void expect_long_form(const char *text, const char *want)
{
    char found[2048], again_text[2048];
    mr_transform *transform, *again;
    mr_error error;
    assert_ok(mr_transform_parse(text, &transform, &error), &error);
    assert_in_range(mr_transform_format(transform, found, sizeof found), 1, sizeof found - 1);
    assert_string_equal(found, want);
    assert_ok(mr_transform_parse(found, &again, &error), &error);
    mr_transform_format(again, again_text, sizeof again_text);
    assert_string_equal(again_text, want);
    mr_transform_destroy(again);
    mr_transform_destroy(transform);
}

static void every_name_stands_for_its_long_text(void **state)
{
    (void)state;
    assert_int_equal(N_RECIPES, mr_transform_recipe_count);
    for (int i = 0; i < N_RECIPES; i++) {
        assert_string_equal(mr_transform_recipes[i].name, recipes[i].text);
        expect_long_form(recipes[i].text, recipes[i].want);
    }
}

static void given_sizes_replace_the_recipe_s_own(void **state)
{
    (void)state;
    const char *wide = "random_resized_crop(224" SCALE ")+hflip(0.5)" WIDE("bilinear") IMAGENET;
    expect_long_form("resnet50_v2:224", wide);
    expect_long_form(" ResNet50_V2( 224 )", wide);
    expect_long_form("resnet50_v2()", recipes[2].want);
    expect_long_form("resnet50_v1(128:96)",
                     "random_resized_crop(128:96" SCALE ")+hflip(0.5)" IMAGENET);
    expect_long_form("swin_t_eval:256:192", "resize(256,interp=bicubic)+center_crop(192)" IMAGENET);
    expect_long_form("vit_b_16_eval(384:384)", "resize(384)+center_crop(384)" IMAGENET);
    /* SimCLR's blur is a tenth of the height. */
    expect_long_form("simclr:96:224", "random_resized_crop(96:224" SCALE ")" SIMCLR_COLOURS
                                      "+random_apply(gaussian_blur(9,0.1:2),0.5)" IMAGENET);
    expect_long_form("simclr:32", "random_resized_crop(32" SCALE ")" SIMCLR_COLOURS
                                  "+random_apply(gaussian_blur(3,0.1:2),0.5)" IMAGENET);
}

static void recipes_are_items_like_others(void **state)
{
    (void)state;
    expect_long_form("exif+resnet50_v1+vflip(0.1)",
                     "exif+random_resized_crop(224" SCALE ")+hflip(0.5)+vflip(0.1)" IMAGENET);
    expect_long_form("resnet50_v1_eval+normalize(mean=0,std=1)",
                     "resize(256)+center_crop(224)+normalize(mean=0,std=1)");
}

static void every_recipe_can_be_compiled_for_photographs(void **state)
{
    (void)state;
    static const struct mr_sample_kind files = {.encoded = 1, .picture = 1};
    for (int i = 0; i < N_RECIPES; i++) {
        for (int k = 0; k < 2; k++) {
            mr_transform *transform;
            struct mr_plan plan;
            mr_error error;
            if (mr_transform_parse(recipes[i].text, &transform, &error) != MR_OK ||
                mr_plan_compile(transform, &files, k ? MR_F32 : MR_U8, MR_NCHW, &plan, &error) !=
                    MR_OK)
                fail_msg("%s: %s", recipes[i].text, error.text);
            mr_transform_destroy(transform);
            if (mr_transform_recipes[i].size == 0) { /* it is drawn */
                assert_ok(mr_plan_compile_keep_size(&plan, 12 << 20, 0, &error), &error);
                continue;
            }
            if (!plan.out_known) /* each image keeps its shape */
                assert_ok(mr_plan_compile_fix_size(&plan, 520, 520, &error), &error);
            /* of views the first one is compiled, a global crop */
            uint32_t side = strchr(recipes[i].want, '|') ? mr_transform_recipes[i].resized
                                                         : mr_transform_recipes[i].size;
            assert_int_equal(plan.out_height, side);
            assert_int_equal(plan.out_width, side);
        }
    }
}

static void errors_name_the_place(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int place;
        const char *words;
    } cases[] = {
        {"resnet50_v3", 1, "did you mean 'resnet50_v"},
        {"exif+simcrl", 6, "did you mean 'simclr'?"},
        {"simclr:abc", 8, "a number is expected"},
        {"hflip+swin_t:0", 14, "a size from 1 to 65535"},
        {"swin_t(1:2:3)", 8, "a size is one number or height:width"},
        {"swin_t(224,3)", 12, "unknown or given twice"},
        {"swin_t(224,interp=nearest)", 12, "unknown or given twice"},
        {"detection_multiscale:800", 22, "unknown or given twice"},
        {"swin_t_eval:224", 13, "two sizes, RESIZE:CROP, are expected"},
        {"hflip+simclr:700", 7, "in simclr: kernel_size: an odd number from 1 to 63"},
        {"random_apply(invert)+random_apply(vit_b_16)", 35, "only image operations and structures"},
        {"normalize(mean=0,std=1)+dino_local", 25, "in dino_local: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mr_transform *transform;
        mr_error error;
        char start[120];
        snprintf(start, sizeof start, "transform \"%s\", character %d: ", cases[i].text,
                 cases[i].place);
        assert_int_equal(mr_transform_parse(cases[i].text, &transform, &error), MR_ERR_INVALID);
        assert_null(transform);
        if (strncmp(error.text, start, strlen(start)) != 0 || !strstr(error.text, cases[i].words))
            fail_msg("%s\n%s%s", error.text, start, cases[i].words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_stands_for_its_long_text),
        cmocka_unit_test(given_sizes_replace_the_recipe_s_own),
        cmocka_unit_test(recipes_are_items_like_others),
        cmocka_unit_test(every_recipe_can_be_compiled_for_photographs),
        cmocka_unit_test(errors_name_the_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
