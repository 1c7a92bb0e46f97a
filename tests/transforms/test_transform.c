/* SPDX-License-Identifier: Apache-2.0 */
/* The builder checks its arguments, texts have their meaning, and errors name the place. */
#include "tests/support/assert_words.h"
#include "tests/transforms/reference.h"
#include "transforms/transform.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static mr_transform *parse_transform(const char *text)
{
    mr_transform *transform;
    mr_error error;
    assert_ok(mr_transform_parse(text, &transform, &error), &error);
    return transform;
}

static void expect_text(const mr_transform *transform, const char *want)
{
    char text[1024];
    size_t len = mr_transform_format(transform, text, sizeof text);
    assert_string_equal(text, want);
    assert_int_equal(len, strlen(want));
}

/* Field by field: the padding of the struct may hold anything. */
static void expect_same(const mr_transform *a, const mr_transform *b)
{
    assert_int_equal(a->n_ops, b->n_ops);
    for (uint32_t i = 0; i < a->n_ops; i++) {
        const struct mr_op *p = &a->ops[i], *q = &b->ops[i];
        assert_int_equal(p->kind, q->kind);
        assert_int_equal(p->height, q->height);
        assert_int_equal(p->width, q->width);
        assert_int_equal(p->padding, q->padding);
        assert_int_equal(p->padding_mode, q->padding_mode);
        assert_memory_equal(p->fill, q->fill, sizeof p->fill);
        assert_int_equal(p->n_children, q->n_children);
        assert_int_equal(p->image_op, q->image_op);
        assert_memory_equal(p->args, q->args, sizeof p->args);
        assert_int_equal(p->n_channels, q->n_channels);
        assert_int_equal(p->exact, q->exact);
        assert_int_equal(p->implied, q->implied);
        assert_int_equal(p->interpolation, q->interpolation);
    }
}

static void expect_long_form(const char *text, const char *want)
{
    mr_transform *transform = parse_transform(text);
    expect_text(transform, want);
    mr_transform *again = parse_transform(want);
    expect_same(transform, again);
    mr_transform_destroy(transform);
    mr_transform_destroy(again);
}

#define IMAGENET "normalize(mean=0.485:0.456:0.406,std=0.229:0.224:0.225,if_float)"
#define CIFAR "normalize(mean=0.4914:0.4822:0.4465,std=0.247:0.2435:0.2616,if_float)"
#define CROP "random_resized_crop(224,scale=0.08:1,ratio=0.75:1.3333333333333333)"

static void short_forms_become_long_ones(void **state)
{
    (void)state;
    expect_long_form("train:224", CROP "+hflip(0.5)+" IMAGENET);
    expect_long_form("train:224:192", "random_resized_crop(224:192,scale=0.08:1,ratio=0.75:1."
                                      "3333333333333333)+hflip(0.5)+" IMAGENET);
    expect_long_form("eval:232:224", "resize(232)+center_crop(224)+" IMAGENET);
    expect_long_form("cifar", "random_crop(32,padding=4)+hflip(0.5)+" CIFAR);
    expect_long_form("none", "none");
}

static void long_forms_in_any_case_and_spacing(void **state)
{
    (void)state;
    expect_long_form(" Exif + RESIZE( 224 : 320 )+Center_Crop(200:100) + random_crop(32:40 , "
                     "Padding = 4)+hflip+VFLIP(p=.25)",
                     "exif+resize(224:320)+center_crop(200:100)+random_crop(32:40,padding=4)+hflip("
                     "0.5)+vflip(0.25)");
    expect_long_form("random_resized_crop(96,ratio=1:2,scale=1e-1:0.5)",
                     "random_resized_crop(96,scale=0.1:0.5,ratio=1:2)");
    expect_long_form("resize(224:224)", "resize(224:224)");
    expect_long_form("normalize(std=0.1,mean=-0.5,exact)", "normalize(mean=-0.5,std=0.1,exact)");
    expect_long_form("normalize(0.5,0.1,if_float,Exact_V2)",
                     "normalize(mean=0.5,std=0.1,exact_v2,if_float)");
    expect_long_form("hflip()", "hflip(0.5)");
    expect_long_form("exif+RGB + hflip + rgb()", "exif+rgb+hflip(0.5)+rgb");
}

static void short_forms_are_items_too(void **state)
{
    (void)state;
    expect_long_form("train:224+rgb", CROP "+hflip(0.5)+rgb+" IMAGENET);
    expect_long_form("exif+train:224", "exif+" CROP "+hflip(0.5)+" IMAGENET);
    /* What is implied stays last, and an explicit operation replaces it. */
    expect_long_form("random_crop(8,padding=2,fill=0,padding_mode=constant)",
                     "random_crop(8,padding=2)");
    expect_long_form("random_crop(8, padding_mode = Symmetric)",
                     "random_crop(8,padding=0,padding_mode=symmetric)");
    expect_long_form("random_crop(8,fill=3,padding=9)+random_crop(8,fill=0:0:255)",
                     "random_crop(8,padding=9,fill=3)+random_crop(8,padding=0,fill=0:0:255)");
    expect_long_form("cifar+vflip(0.1)", "random_crop(32,padding=4)+hflip(0.5)+vflip(0.1)+" CIFAR);
    expect_long_form("eval:8:8+normalize(mean=0:0:0,std=1:1:1)",
                     "resize(8)+center_crop(8)+normalize(mean=0:0:0,std=1:1:1)");
}

static void resizes_have_an_interpolation(void **state)
{
    (void)state;
    expect_long_form("resize(224, interp = BiCubic)", "resize(224,interp=bicubic)");
    expect_long_form("resize(5,random)", "resize(5,interp=random)");
    expect_long_form("resize(224:192,lanczos)", "resize(224:192,interp=lanczos)");
    expect_long_form("resize(224,interp=bilinear)+resize(32,bilinear)", "resize(224)+resize(32)");
    expect_long_form(
        "random_resized_crop(224,interp=box,ratio=1:2,scale=0.5:1)+resize(7,nearest)+resize(9,"
        "hamming)",
        "random_resized_crop(224,scale=0.5:1,ratio=1:2,interp=box)+resize(7,interp=nearest)+"
        "resize(9,interp=hamming)");
    expect_long_form("train(224,interp=bicubic)",
                     "random_resized_crop(224,scale=0.08:1,ratio=0.75:1.3333333333333333,interp="
                     "bicubic)+hflip(0.5)+" IMAGENET);
    expect_long_form("eval(256:224,bicubic)",
                     "resize(256,interp=bicubic)+center_crop(224)+" IMAGENET);
}

static void geometry_takes_arguments_by_position_and_by_name(void **state)
{
    (void)state;
    expect_long_form("random_shortest_size(480:512:544,1333,bicubic)",
                     "random_shortest_size(480:512:544,max_size=1333,interp=bicubic)");
    expect_long_form("random_shortest_size(min_size=9)", "random_shortest_size(9)");
    expect_long_form("scale_jitter(target_size=20:30)", "scale_jitter(20:30,scale_range=0.1:2)");
    expect_long_form("scale_jitter(20,1:1,nearest)",
                     "scale_jitter(20,scale_range=1:1,interp=nearest)");
    expect_long_form("fixed_size_crop(9:8,1:2:3)+fixed_size_crop(7)",
                     "fixed_size_crop(9:8,fill=1:2:3)+fixed_size_crop(7)");
    expect_long_form("random_zoom_out(7,1:2,0.25)",
                     "random_zoom_out(side_range=1:2,p=0.25,fill=7)");
    expect_long_form("random_zoom_out", "random_zoom_out(side_range=1:4,p=0.5)");
    expect_long_form("letterbox(640)+letterbox(9:8,fill=0,interp=box)",
                     "letterbox(640,fill=114)+letterbox(9:8,fill=0,interp=box)");
    expect_long_form("random_resized_crop(224,0.5:1,1:2,bicubic)",
                     "random_resized_crop(224,scale=0.5:1,ratio=1:2,interp=bicubic)");
    expect_long_form("random_resized_crop(0.5:1,size=9,ratio=1:4)",
                     "random_resized_crop(9,scale=0.5:1,ratio=1:4)");
    expect_long_form(
        "random_crop(32,4,128)+random_crop(9,2,Reflect)",
        "random_crop(32,padding=4,fill=128)+random_crop(9,padding=2,padding_mode=reflect)");
    expect_long_form("random_crop(9,pad_if_needed,reflect,padding=1)+resize(7,bicubic,max_size=9)",
                     "random_crop(9,padding=1,pad_if_needed,padding_mode=reflect)+"
                     "resize(7,max_size=9,interp=bicubic)");
    expect_long_form("pad(3)+pad(1:2,fill=1:2:3)+pad(edge,padding=1:2:3:4)",
                     "pad(3:3:3:3)+pad(1:2:1:2,fill=1:2:3)+pad(1:2:3:4,padding_mode=edge)");
    expect_long_form("resize(size=8:9)+center_crop(size=7)+hflip(p=1)",
                     "resize(8:9)+center_crop(7)+hflip(1)");
    expect_long_form("rgb+normalize(0.5,0.25)", "rgb+normalize(mean=0.5,std=0.25)");
    expect_long_form("normalize(0,1,exact_v2_half)", "normalize(mean=0,std=1,exact_v2_half)");
    expect_long_form("normalize(0,1,exact_half)", "normalize(mean=0,std=1,exact_half)");
    expect_long_form("normalize(0:0:0,1:1:1,exact)", "normalize(mean=0:0:0,std=1:1:1,exact)");
}

static void image_operations_take_arguments_by_position_and_by_name(void **state)
{
    (void)state;
    expect_long_form("invert+Equalize(p=.25)+autocontrast(1)",
                     "invert(0.5)+equalize(0.25)+autocontrast(1)");
    expect_long_form("posterize(4)+posterize( P = 1 , bits = 3 )",
                     "posterize(4,0.5)+posterize(3,1)");
    expect_long_form("solarize(127.5,0.1)+adjust_sharpness(p=0.3,2)",
                     "solarize(127.5,0.1)+adjust_sharpness(2,0.3)");
    expect_long_form("grayscale+random_grayscale+grayscale(3)",
                     "grayscale(1)+random_grayscale(0.1)+grayscale(3)");
    expect_long_form("color_jitter", "color_jitter(1:1,1:1,1:1,0:0)");
    expect_long_form("color_jitter(0.5,2,hue=0.25)", "color_jitter(0.5:1.5,0:3,1:1,-0.25:0.25)");
    expect_long_form("color_jitter(b=0.5,h=0.25,s=0:2)",
                     "color_jitter(0.5:1.5,1:1,0:2,-0.25:0.25)");
    expect_long_form("gaussian_blur(kernel=5)", "gaussian_blur(5,0.1:2)");
    expect_long_form("rand_augment(bins=30,m=8,n=1)", "rand_augment(1,8,30,interp=nearest,fill=0)");
    expect_long_form("color_jitter(0.5:0.75,saturation=0:2,hue=-0.5:-0.25)",
                     "color_jitter(0.5:0.75,1:1,0:2,-0.5:-0.25)");
    expect_long_form("gaussian_blur(23)+gaussian_blur(5,sigma=1.5)",
                     "gaussian_blur(23,0.1:2)+gaussian_blur(5,1.5:1.5)");
    expect_long_form("pil_gaussian_blur(0.1:2)+pil_gaussian_blur(radius=3)",
                     "pil_gaussian_blur(0.1:2)+pil_gaussian_blur(3:3)");
    expect_long_form("rotation(30)+rotation(-5.5:7,bilinear,10:-20.5,9)",
                     "rotation(-30:30,interp=nearest,fill=0)+"
                     "rotation(-5.5:7,interp=bilinear,center=10:-20.5,fill=9)");
    expect_long_form("affine(0)+affine(10,0.1:0.2,scale=0.9,shear=5,bicubic)",
                     "affine(0:0,interp=nearest,fill=0)+affine(-10:10,translate=0.1:0.2,scale=0.9:"
                     "0.9,shear=-5:5,"
                     "interp=bicubic,fill=0)");
    expect_long_form("affine(0,fill=1:2:3,shear=-1:2:-3:4.5,center=0:0)+affine(1:2,shear=3:4)",
                     "affine(0:0,shear=-1:2:-3:4.5,interp=nearest,fill=1:2:3,center=0:0)+"
                     "affine(1:2,shear=3:4,interp=nearest,fill=0)");
    expect_long_form(
        "perspective+perspective(p=1,0.25,nearest,fill=7:7:7)",
        "perspective(0.5,0.5,interp=bilinear,fill=0)+perspective(0.25,1,interp=nearest,fill=7)");
    expect_long_form(
        "rand_augment+rand_augment(3,5,interp=bilinear,fill=128)",
        "rand_augment(2,9,31,interp=nearest,fill=0)+rand_augment(3,5,31,interp=bilinear,fill=128)");
    expect_long_form(
        "trivial_augment_wide(bicubic)+trivial_augment_wide(fill=1:2:3,num_magnitude_bins=10)",
        "trivial_augment_wide(31,interp=bicubic,fill=0)+trivial_augment_wide(10,interp=nearest,"
        "fill=1:2:3)");
    expect_long_form("rand_augment_v2(m=3)+trivial_augment_wide_v2+auto_augment_v2(svhn)",
                     "rand_augment_v2(2,3,31,interp=nearest,fill=0)+trivial_augment_wide_v2(31,"
                     "interp=nearest,fill=0)+auto_augment_v2(policy=svhn,interp=nearest,fill=0)");
    expect_long_form("auto_augment+auto_augment(svhn)+auto_augment(policy=cifar10,interp=bilinear)",
                     "auto_augment(policy=imagenet,interp=nearest,fill=0)+auto_augment(policy=svhn,"
                     "interp=nearest,"
                     "fill=0)+auto_augment(policy=cifar10,interp=bilinear,fill=0)");
    expect_long_form("timm(\"rand-m9-mstd0.5-inc1\")+timm('3a')",
                     "timm(\"rand-m9-mstd0.5-inc1\",interp=random,fill=124:116:104)+"
                     "timm(\"3a\",interp=random,fill=124:116:104)");
    expect_long_form(
        "timm(bicubic, policy = \"rand-inc1-mmax20-p0.25-n3-t3aw-mstd101-m12\" ,fill=7)",
        "timm(\"rand-m12-mstd101-n3-p0.25-mmax20-t3aw\",interp=bicubic,fill=7)");
    expect_long_form(
        "timm(\"rand\")+timm(\"v0r-mstd1\")+timm(\"rand-n2-tweights-mmax0-inc1-p0.5\")",
        "timm(\"rand-m10\",interp=random,fill=124:116:104)+"
        "timm(\"v0r-mstd1\",interp=random,fill=124:116:104)+"
        "timm(\"rand-m10-tweights\",interp=random,fill=124:116:104)");
    expect_long_form("train:224+invert", CROP "+hflip(0.5)+invert(0.5)+" IMAGENET);
}

static void structures_hold_transforms(void **state)
{
    (void)state;
    expect_long_form("random_apply(invert)", "random_apply(invert(0.5),0.5)");
    expect_long_form(
        "random_apply( color_jitter( 0.5 ) + equalize , p = 0.8 )+hflip",
        "random_apply(color_jitter(0.5:1.5,1:1,1:1,0:0)+equalize(0.5),0.8)+hflip(0.5)");
    expect_long_form("RANDOM_CHOICE(invert,posterize(2)+equalize,solarize(1))",
                     "random_choice(invert(0.5),posterize(2,0.5)+equalize(0.5),solarize(1,0.5))");
    expect_long_form("random_order(hflip,vflip(0.25))+hflip+random_apply(channel_permutation)",
                     "random_order(hflip(0.5),vflip(0.25))+hflip(0.5)+"
                     "random_apply(channel_permutation,0.5)");
    expect_long_form("jpeg(75)+jpeg(quality=20:90)", "jpeg(75:75)+jpeg(20:90)");
    expect_long_form("photometric_distort(contrast=0:2,p=1)",
                     "photometric_distort(0.875:1.125,0:2,0.5:1.5,-0.05:0.05,1)");
    expect_long_form(
        "random_order(random_apply(random_choice(invert,equalize),0.1),autocontrast)+train:224",
        "random_order(random_apply(random_choice(invert(0.5),equalize(0.5)),0.1),autocontrast(0.5))"
        "+" CROP "+hflip(0.5)+" IMAGENET);
    expect_long_form("train:224+random_apply(invert,0.25)",
                     CROP "+hflip(0.5)+random_apply(invert(0.5),0.25)+" IMAGENET);
}

static void text_is_appended_as_a_whole_or_not_at_all(void **state)
{
    (void)state;
    mr_error error;
    mr_transform *t = parse_transform("exif+train:224");
    assert_int_equal(mr_transform_append(t, "vflip(0.25)+resize(8,bicubic)", NULL), MR_OK);
    const char *want = "exif+" CROP "+hflip(0.5)+vflip(0.25)+resize(8,interp=bicubic)+" IMAGENET;
    expect_text(t, want);
    assert_int_equal(mr_transform_append(t, "hflip+exif", &error), MR_ERR_INVALID);
    assert_string_equal(
        error.text,
        "transform \"hflip+exif\", character 7: exif is after hflip; it must come first");
    assert_int_equal(mr_transform_append(t, NULL, NULL), MR_ERR_INVALID);
    assert_int_equal(mr_transform_append(NULL, "hflip", NULL), MR_ERR_INVALID);
    expect_text(t, want);
    mr_transform_destroy(t);
}

static void a_given_normalise_replaces_the_implied_one(void **state)
{
    (void)state;
    static const char normalize[] = "normalize(mean=0.5:0.5:0.5,std=0.25:0.25:0.25)";
    mr_transform *transform = parse_transform("train:224");
    assert_int_equal(mr_transform_append(transform, normalize, NULL), MR_OK);
    expect_text(transform, CROP "+hflip(0.5)+normalize(mean=0.5:0.5:0.5,std=0.25:0.25:0.25)");
    mr_error error;
    assert_int_equal(mr_transform_append(transform, normalize, &error), MR_ERR_INVALID);
    assert_words(error.text, "character 1: normalize is after normalize, which must come last");
    mr_transform_destroy(transform);
}

static void errors_name_the_place(void **state)
{
    (void)state;
    const struct {
        const char *text;
        int place;
        const char *words;
    } cases[] = {
        {"", 1, "a name is expected"},
        {"train", 6, "a size is expected"},
        {"train:abc", 7, "a number is expected"},
        {"train:0", 7, "a size from 1 to 65535"},
        {"train:2.5", 7, "a size from 1 to 65535"},
        {"train:-3", 7, "a size from 1 to 65535"},
        {"train:65536", 7, "a size from 1 to 65535"},
        {"train:1:2:3", 7, "height:width"},
        {"train:1:2:3:4:5", 7, "height:width"},
        {"eval:224", 9, "two sizes"},
        {"random_order(rotation(9,expand=1))", 14, "inside a structure images keep their size"},
        {"random_shortest_size", 1, "sizes, as 480:512:544, are expected"},
        {"random_shortest_size(20:0)", 22, "a size from 1 to 65535"},
        {"random_shortest_size(1:2:3:4:5:6:7:8:9:1:2:3:4:5:6:7:8)", 54, "at most sixteen"},
        {"random_shortest_size(20,max_size=1:2)", 25, "one value is expected"},
        {"scale_jitter(9,2:1)", 1, "scale_jitter: scale_range 2:1 is not a range above 0"},
        {"scale_jitter(9,0:1)", 1, "scale_jitter: scale_range 0:1 is not a range above 0"},
        {"scale_jitter(size=9)", 21, "a size is expected"},
        {"random_zoom_out(side_range=0.9:2)", 1, "side_range 0.9:2 is not a range from 1 up"},
        {"random_zoom_out(0.5)", 1, "random_zoom_out: fill 0.5 is not a whole number"},
        {"random_zoom_out(0,1:2,3)", 23, "a probability from 0 to 1"},
        {"fixed_size_crop(9,bicubic)", 19, "unknown or given twice"},
        {"letterbox(9,fill=256)", 1, "letterbox: fill 256 is not"},
        {"resize(size=abc)", 8, "height:width"},
        {"random_resized_crop(8,0.1:1,1:2,3:4)", 33, "unknown or given twice"},
        {"hflip(2)", 7, "from 0 to 1"},
        {"hflip(nan)", 7, "unknown"},
        {"resize(224)+rotate(3)", 13, "no operation"},
        {"resize(224)+", 13, "a name is expected"},
        {"resize(224", 11, "',' or ')'"},
        {"resize(224))", 12, "'+' or the end"},
        {"resize(224,antialias)", 12, "unknown"},
        {"resize(224,224)", 12, "unknown or given twice"},
        {"cifar:32", 7, "unknown"},
        {"normalize(mean=1:2,std=1:1)", 20, "one or three"},
        {"normalize(mean=0:0:0)", 1, "needs mean= and std="},
        {"normalize(0.485,0.456,0.406,0.229,0.224,0.225)", 23,
         "normalize needs mean= and std=, of one or three values each, as in "
         "mean=0.485:0.456:0.406,std=0.229:0.224:0.225"},
        {"normalize(mean=0,std=0)", 1, "std 0 of channel 0"},
        {"normalize(mean=0,std=1,exact=1)", 24, "takes no value"},
        {"normalize(mean=0,std=1,exact,exact_v2)", 1, "exact and exact_v2 exclude each other"},
        {"normalize(mean=0,std=1,exact_half,exact_v2)", 1,
         "exact_v2 and exact_half exclude each other"},
        {"hflip+exif", 7, "must come first"},
        {"rgb+exif", 5, "must come first"},
        {"rgb(3)", 5, "unknown"},
        {"normalize(mean=0,std=1)+rgb", 25, "must come last"},
        {"normalize(mean=0,std=1)+hflip", 25, "must come last"},
        {"random_resized_crop(224,scale=1)", 25, "lo:hi"},
        {"random_resized_crop(224,scale=1:0.5)", 1, "scale 1:0.5"},
        {"random_resized_crop(224,ratio=0:1)", 1, "ratio 0:1"},
        {"a_name_that_is_far_too_long_for_this", 1, "too long"},
        {"xyzzy:224", 1, "no operation has this name; there are train, eval, cifar"},
        {"train:224,filp", 11, "no operation has this name (did you mean 'hflip'?)"},
        {"train:224,hflip", 10, "'+' joins operations, not ','"},
        {"train:224,3", 10, "':' joins sizes and '+' joins operations, not ','"},
        {"hflip(1e999)", 7, "a number is expected"},
        {"hflip(0x1)", 8, "',' or ')'"},
        {"resize(224,interp=bicubik)", 12,
         "no interpolation has this name (did you mean 'bicubic'?); there are "
         "bilinear, nearest, box, hamming, bicubic, lanczos, random"},
        {"resize(224,interp=)", 19, "a number is expected"},
        {"resize(224,interp=3)", 12, "no interpolation"},
        {"resize(224,interp)", 12, "no interpolation"},
        {"resize(224,interp=box,lanczos)", 23, "unknown or given twice"},
        {"resize(224,box=3)", 12, "takes no value"},
        {"resize(224,bicubic=box)", 12, "takes no value"},
        {"resize(interp=box)", 19, "a size is expected"},
        {"hflip(0.5,interp=box)", 11, "unknown or given twice"},
        {"center_crop(8,bicubic)", 15, "unknown or given twice"},
        {"random_crop(8,padding=box)", 15, "one value is expected"},
        {"random_crop(8,padding_mode=reflct)", 15,
         "no padding mode has this name (did you mean 'reflect'?); there are constant, edge, "
         "reflect, sym"},
        {"random_crop(8,padding_mode=3)", 15, "no padding mode has this name"},
        {"random_crop(8,fill=1:2)", 15, "one value or r:g:b is expected"},
        {"random_crop(8,fill=1.5)", 1, "random_crop: fill 1.5 is not a whole number from 0 to 255"},
        {"random_crop(8,fill=0:256:0)", 1,
         "random_crop: fill 256 is not a whole number from 0 to 255"},
        {"random_crop(8,padding_mode=edge,fill=1)", 1,
         "random_crop: a padding_mode of edge has no fill"},
        {"random_resized_crop(8,scale=box)", 23, "lo:hi"},
        {"normalize(mean=0,std=1,exact=box)", 24, "takes no value"},
        {"normalize(mean=box,std=box)", 20, "one or three"},
        {"posterize", 1, "posterize needs bits"},
        {"posterize(2.5)", 11, "bits: a whole number from 1 to 8 is expected"},
        {"hflip+posterize(9)", 17, "bits: a whole number from 1 to 8"},
        {"posterize(4,bits=4)", 11, "p: a number from 0 to 1"},
        {"posterize(bits=4,bits=4)", 18, "unknown or given twice"},
        {"solarize(-1)", 10, "threshold: a number from 0 to 256"},
        {"equalize(nan)", 10, "unknown"},
        {"equalize(1,1)", 12, "unknown or given twice"},
        {"equalize(p=1:1)", 10, "p: a number from 0 to 1"},
        {"grayscale(2)", 11, "num_output_channels: 1 or 3"},
        {"color_jitter(-0.5)", 14, "brightness: a number or lo:hi from 0 to 1000"},
        {"color_jitter(1:0.5)", 14, "brightness: a number or lo:hi"},
        {"gaussian_blur", 1, "gaussian_blur needs kernel_size"},
        {"gaussian_blur(22)", 15, "kernel_size: an odd number from 1 to 63"},
        {"gaussian_blur(65)", 15, "kernel_size: an odd number from 1 to 63"},
        {"gaussian_blur(5,2:1)", 17, "sigma: a number or lo:hi from 0.001 to 1000"},
        {"gaussian_blur(5,0)", 17, "sigma: a number or lo:hi from 0.001 to 1000"},
        {"pil_gaussian_blur(-1)", 19, "radius: a number or lo:hi from 0 to 1000"},
        {"rotation", 1, "rotation needs degrees"},
        {"rotation(-5)", 10, "degrees: a number or lo:hi from -36000 to 36000"},
        {"rotation(5,interp=lanczos)", 12,
         "no choice has this name; there are nearest, bilinear, bicubic"},
        {"rotation(5,fill=1:2)", 12, "fill: a whole number or r:g:b from 0 to 255"},
        {"rotation(5,fill=0.5)", 12, "fill: a whole number or r:g:b from 0 to 255"},
        {"rotation(5,fill=1:2:256)", 12, "fill: a whole number or r:g:b from 0 to 255"},
        {"rotation(5,fill=1:2:3:4)", 12, "fill: a whole number or r:g:b from 0 to 255"},
        {"rotation(5,fill=0:1:2:3:4:5:6:7:8:9:0:1:2:3:4:5:6)", 49,
         "at most sixteen values are possible here"},
        {"rotation(5,center=3)", 12, "center: x:y, two numbers from -100000 to 100000"},
        {"rotation(5,scale=1:2)", 12, "unknown or given twice"},
        {"affine", 1, "affine needs degrees"},
        {"affine(0,translate=0.1:1.5)", 10, "translate: x:y, two numbers from 0 to 1"},
        {"affine(0,scale=0:1)", 10, "scale: a number or lo:hi from 0.001 to 1000"},
        {"affine(0,scale=2:1)", 10, "scale: a number or lo:hi from 0.001 to 1000"},
        {"affine(0,shear=1:2:3)", 10, "shear: a number, lo:hi or lo:hi:lo:hi from -180 to 180"},
        {"affine(0,shear=-3)", 10, "shear: a number, lo:hi or lo:hi:lo:hi from -180 to 180"},
        {"affine(0,shear=1:2:4:3)", 10, "shear: a number, lo:hi or lo:hi:lo:hi from -180 to 180"},
        {"perspective(1.5)", 13, "distortion_scale: a number from 0 to 1"},
        {"perspective(0.5,-0.1)", 17, "p: a number from 0 to 1"},
        {"color_jitter(hue=0.6)", 14, "hue: a number or lo:hi from -0.5 to 0.5"},
        {"color_jitter(0,0,0,0,0)", 22,
         "unknown or given twice; color_jitter has brightness, contrast, saturation, hue"},
        {"rand_augment(0)", 14, "num_ops: a whole number from 1 to 256"},
        {"rand_augment(2,-1)", 16, "magnitude: a whole number from 0 to 999"},
        {"hflip+rand_augment(2,40)", 7,
         "magnitude 40 is not below num_magnitude_bins, which is 31"},
        {"rand_augment(2,9,9)", 1, "magnitude 9 is not below num_magnitude_bins, which is 9"},
        {"rand_augment_v2(2,9,9)", 1, "magnitude 9 is not below num_magnitude_bins"},
        {"rand_augment(k=3)", 14, "unknown or given twice"},
        {"augmix(bicubic)", 1, "interp: tensors have nearest and bilinear"},
        {"trivial_augment_wide(1)", 22, "num_magnitude_bins: a whole number from 2 to 1000"},
        {"trivial_augment_wide(interp=box)", 22, "there are nearest, bilinear, bicubic"},
        {"trivial_augment_wide(fill=256)", 22, "fill: a whole number or r:g:b from 0 to 255"},
        {"trivial_augment_wide(fill=1:2)", 22, "fill: a whole number or r:g:b"},
        {"trivial_augment_wide(fill=1:2:2.5)", 22, "fill: a whole number or r:g:b"},
        {"auto_augment(imagenot)", 14, "'imagenot' is unknown or given twice"},
        {"auto_augment(policy=imagenot)", 14, "did you mean 'imagenet'?"},
        {"timm", 1, "timm needs policy"},
        {"timm(3)", 6,
         "policy: rand-..., original, originalr, v0, v0r or 3a is expected, in quotes"},
        {"timm(\"augmix-m5\")", 6, "policy: rand-..."},
        {"timm(\"rand-m9)", 6, "the closing quote is missing"},
        {"timm(\"rand-m9-w0\")", 15, "policy: a section of rand is like m9, n2"},
        {"timm(\"rand-\")", 12, "policy: a section of rand is like m9, n2"},
        {"timm(\"rand-m9.5\")", 13, "policy: m: a whole number from 0 to 1000"},
        {"timm(\"rand-n0\")", 13, "policy: n: a whole number from 1 to 256"},
        {"timm(\"rand-p1.5\")", 13, "policy: p: a number from 0 to 1 "},
        {"timm(\"rand-mstd1.2.3\")", 16, "policy: mstd: a number from 0 to 1000"},
        {"timm(\"rand-tall\")", 13, "policy: weights, 3a or 3aw is expected after t"},
        {"timm(\"v0-m9\")", 10, "policy: mstd and a number, as in mstd0.5, is expected"},
        {"timm(\"rand-n16-tweights\")", 1, "policy: n is above the number of operations"},
        {"timm(\"3a\",interp=box)", 11, "there are random, nearest, bilinear, bicubic"},
        {"hflip(\"3a\")", 7, "a probability from 0 to 1"},
        {"equalise", 1, "did you mean 'equalize'?"},
        {"random_apply", 13, "'(' and a transform"},
        {"random_apply(0.5)", 1, "a transform is expected"},
        {"random_apply()", 1, "a transform is expected in the parentheses"},
        {"random_apply(invert,equalize)", 21, "'+' chains several"},
        {"random_apply(invert,2)", 21, "from 0 to 1"},
        {"random_choice()", 1, "a transform is expected in the parentheses"},
        {"random_apply(invert,0.5,p=0.5)", 25, "unknown or given twice"},
        {"pad", 1, "a padding of one value, x:y or left:top:right:bottom is expected"},
        {"pad(1:2:3)", 5, "a padding of one value, x:y or left:top:right:bottom"},
        {"pad(-1)", 5, "a number from 0 to 65535"},
        {"pad(1,reflect,fill=3)", 1, "pad: a padding_mode of reflect has no fill"},
        {"resize(8,max_size=8)", 1, "resize: max_size 8 is not above the size 8"},
        {"resize(8:9,max_size=20)", 12, "unknown or given twice"},
        {"random_crop(8,pad_if_needed=1)", 15, "takes no value"},
        {"jpeg", 1, "jpeg needs quality"},
        {"jpeg(0)", 6, "quality: a number or lo:hi from 1 to 100"},
        {"jpeg(20:30.5)", 1, "quality: whole numbers are expected"},
        {"channel_permutation(3)", 21, "unknown or given twice"},
        {"photometric_distort(2:1)", 21, "brightness: a number or lo:hi from 0 to 1000"},
        {"random_apply(invert+resize(8:8),0.5)", 21,
         "only image operations and structures can be inside"},
        {"random_choice(invert,train:224)", 22, "only image operations"},
        {"random_choice(invert,0.5)", 22, "unknown or given twice"},
        {"random_choice(invert,grayscale)", 22, "images keep their channels"},
        {"random_order(invert", 20, "'+', ',' or ')' is expected"},
        {"random_order(invert+)", 21, "a name is expected"},
        {"random_order(posterize(4,0)+posterize(4,),invert)", 41, "a number is expected"},
        {"normalize(mean=0,std=1)+random_apply(invert)", 25, "must come last"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mr_transform *transform = (mr_transform *)&cases;
        mr_error error;
        char start[256];
        if (mr_transform_parse(cases[i].text, &transform, &error) != MR_ERR_INVALID)
            fail_msg("\"%s\" was accepted", cases[i].text);
        assert_null(transform);
        snprintf(start, sizeof start, "transform \"%s\", character %d: ", cases[i].text,
                 cases[i].place);
        if (strncmp(error.text, start, strlen(start)) != 0 || !strstr(error.text, cases[i].words))
            fail_msg("\"%s\" lacks \"%s%s\"", error.text, start, cases[i].words);
    }
}

/* Fifty other names after it would hide it. */
static void only_a_near_operation_is_suggested(void **state)
{
    (void)state;
    mr_transform *transform;
    mr_error error;
    assert_int_equal(mr_transform_parse("trian:224", &transform, &error), MR_ERR_INVALID);
    assert_string_equal(
        error.text,
        "transform \"trian:224\", character 1: no operation has this name (did you mean "
        "'train'?)");
}

static void errors_in_long_texts_show_the_part_around_the_place(void **state)
{
    (void)state;
    char text[512] = "";
    mr_transform *transform;
    mr_error error;
    for (int i = 0; i < 30; i++)
        strcat(text, "vflip(1)+"); /* 270 characters */
    strcat(text, "filp");
    for (int i = 0; i < 20; i++)
        strcat(text, "+hflip(0)");
    assert_error(mr_transform_parse(text, &transform, &error), MR_ERR_INVALID, &error,
                 "transform \"...+vflip(1)+vflip(1)+");
    assert_words(error.text, "+vflip(1)+filp+hflip(0)+");
    assert_words(error.text,
                 "...\", character 271: no operation has this name (did you mean 'hflip'?)");
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"resize(0)",
                                        "resize(1:70000)",
                                        "center_crop(0:1)",
                                        "random_crop(1,padding=65536)",
                                        "random_resized_crop(1,scale=nan:1)",
                                        "random_resized_crop(1,scale=1:0.5)",
                                        "random_resized_crop(1,ratio=1:inf)",
                                        "random_resized_crop(1,ratio=0:1)",
                                        "hflip(nan)",
                                        "vflip(1.01)",
                                        "normalize(mean=0:0,std=1:1)",
                                        "normalize(mean=0:0:0,std=0:0:0)",
                                        "normalize(mean=1:nan:1,std=1:1:1)",
                                        "normalize(mean=0:0:0,std=1:nan:1)",
                                        "normalize(mean=0:0:0,std=1:1e-300:1)",
                                        "normalize(std=1:1:1)"};
    mr_transform *t;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (mr_transform_parse(wrong[i], &t, NULL) != MR_ERR_INVALID || t)
            fail_msg("%s was accepted", wrong[i]);
    assert_int_equal(mr_transform_parse(NULL, &t, NULL), MR_ERR_INVALID);
    assert_null(t);
    mr_transform_destroy(NULL);
    t = parse_transform("none");
    for (int i = 0; i < MR_PLAN_MAX_OPS; i++)
        assert_int_equal(mr_transform_append(t, "hflip", NULL), MR_OK);
    mr_error error;
    assert_int_equal(mr_transform_append(t, "hflip", &error), MR_ERR_INVALID);
    assert_words(error.text, "hflip is operation 65; a transform has at most 64");
    mr_transform_destroy(t);
}

static void format_writes_no_more_than_it_may(void **state)
{
    (void)state;
    mr_transform *t = parse_transform("train:224");
    char text[64];
    memset(text, 'x', sizeof text);
    size_t len = mr_transform_format(t, text, 10);
    assert_memory_equal(text, "random_re\0x", 11);
    assert_int_equal(mr_transform_format(t, NULL, 0), len);
    mr_transform_destroy(t);
}

static void numbers_do_not_depend_on_the_locale(void **state)
{
    (void)state;
    if (!setlocale(LC_ALL, "de_DE.UTF-8") && !setlocale(LC_ALL, "fr_FR.UTF-8"))
        print_message("no locale with a decimal comma here: only C is tested\n");
    expect_long_form("hflip(0.25)", "hflip(0.25)");
    setlocale(LC_ALL, "C");
}

static void hostile_texts_are_refused_or_round_trip(void **state)
{
    (void)state;
    uint64_t random = reference_seed();
    const char *words[] = {"train:224",
                           "eval:232:224",
                           "cifar",
                           "none",
                           "exif",
                           "rgb",
                           "resize(",
                           "224",
                           ":",
                           ",",
                           ")",
                           "(",
                           "+",
                           "hflip",
                           "normalize(mean=0:0:0,std=1:1:1)",
                           "1e308",
                           "-",
                           "=",
                           "scale",
                           ".",
                           "\xff",
                           "%s",
                           " ",
                           "random_crop(32,padding=4)",
                           "vflip(.5)",
                           "interp=",
                           "bicubic",
                           "resize(7,interp=lanczos)",
                           "exact",
                           "exact_v2",
                           "exact_half"};
    for (int i = 0; i < 20000; i++) {
        char text[400] = "", formatted[2000];
        uint64_t n = reference_below(&random, 9);
        for (uint64_t k = 0; k < n; k++)
            strcat(text, words[reference_below(&random, sizeof words / sizeof words[0])]);
        mr_transform *transform, *again;
        mr_error error;
        if (mr_transform_parse(text, &transform, &error) != MR_OK) {
            assert_null(transform);
            assert_words(error.text, ", character ");
            continue;
        }
        mr_transform_format(transform, formatted, sizeof formatted);
        again = parse_transform(formatted);
        expect_same(transform, again);
        mr_transform_destroy(transform);
        mr_transform_destroy(again);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_forms_become_long_ones),
        cmocka_unit_test(long_forms_in_any_case_and_spacing),
        cmocka_unit_test(short_forms_are_items_too),
        cmocka_unit_test(resizes_have_an_interpolation),
        cmocka_unit_test(geometry_takes_arguments_by_position_and_by_name),
        cmocka_unit_test(image_operations_take_arguments_by_position_and_by_name),
        cmocka_unit_test(structures_hold_transforms),
        cmocka_unit_test(text_is_appended_as_a_whole_or_not_at_all),
        cmocka_unit_test(a_given_normalise_replaces_the_implied_one),
        cmocka_unit_test(errors_name_the_place),
        cmocka_unit_test(only_a_near_operation_is_suggested),
        cmocka_unit_test(errors_in_long_texts_show_the_part_around_the_place),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(format_writes_no_more_than_it_may),
        cmocka_unit_test(numbers_do_not_depend_on_the_locale),
        cmocka_unit_test(hostile_texts_are_refused_or_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
