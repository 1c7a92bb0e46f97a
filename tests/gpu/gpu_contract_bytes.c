/* SPDX-License-Identifier: Apache-2.0 */
/* Compares pixels and other records, in every form that a loader gives, with the host's bytes. */
#include "tests/gpu/gpu_contract.h"

#include <stdlib.h>

static const mr_dtype dtypes[] = {MR_U8, MR_F32, MR_F16, MR_BF16};

/*
 * A transform without randomness compares nothing interesting, so the default transform draws
 * crops, flips and mean.
 */
static void compare_epoch(struct gpu_setup *setup, const char *spec, const char *transform,
                          const mr_loader_options *options)
{
    struct gpu_lockstep pair = gpu_lockstep_open(setup, spec, transform, options);
    gpu_lockstep_epoch(&pair, 0);
    gpu_lockstep_close(&pair);
}

static void compare_dtypes(struct gpu_setup *setup, mr_layout layout, uint32_t pad_channels)
{
    for (uint32_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        mr_loader_options options = gpu_contract_options(setup);
        options.dtype = dtypes[i];
        options.layout = layout;
        options.pad_channels = pad_channels;
        compare_epoch(setup, setup->photos, setup->brief ? "train:64" : NULL, &options);
    }
}

static void compare_nchw(struct gpu_setup *setup)
{
    compare_dtypes(setup, MR_NCHW, 0);
}

static void compare_nhwc(struct gpu_setup *setup)
{
    compare_dtypes(setup, MR_NHWC, 0);
}

static void padded_to_4(struct gpu_setup *setup)
{
    compare_dtypes(setup, MR_NHWC, 4);
    compare_dtypes(setup, MR_NCHW, 4);
}

static void padded_to_8(struct gpu_setup *setup)
{
    compare_dtypes(setup, MR_NHWC, 8);
    if (!setup->brief)
        compare_dtypes(setup, MR_NCHW, 8);
}

static void compare_exact(struct gpu_setup *setup)
{
    static const char *const transform =
        "random_resized_crop(96)+hflip(0.5)+normalize(mean=0.485:0.456:0.406,"
        "std=0.229:0.224:0.225,exact)";
    for (uint32_t i = 1; i < sizeof dtypes / sizeof *dtypes; i++) {
        mr_loader_options options = gpu_contract_options(setup);
        options.dtype = dtypes[i];
        options.layout = i % 2 ? MR_NCHW : MR_NHWC;
        compare_epoch(setup, setup->photos, transform, &options);
    }
}

/* Constants, a normal number for each channel and for each element; one to four boxes. */
static void erased_boxes(struct gpu_setup *setup)
{
    static const char *const transforms[] = {
        "random_resized_crop(96)+hflip+normalize(mean=0.5:0.4:0.3,std=0.2:0.3:0.4)+random_erasing("
        "0.9,value=random)",
        "resize(61:47)+random_erasing(0.8,0.05:0.4,value=0.5:-1:2,count=4)",
        "random_resized_crop(64)+normalize(mean=0.5,std=0.2,exact)+random_erasing(1,value=rand,"
        "count=2)",
        "resize(224:224)+random_erasing(1,0.1:0.5,value=random,count=3)"};
    for (uint32_t i = 0; i < 2 * sizeof transforms / sizeof *transforms; i++) {
        mr_loader_options options = gpu_contract_options(setup);
        options.dtype = dtypes[1 + i % 3];
        options.layout = i % 2 ? MR_NCHW : MR_NHWC;
        options.pad_channels = i > 4 ? 4 : 0;
        if (!setup->brief || i < 3)
            compare_epoch(setup, setup->photos, transforms[i / 2], &options);
    }
}

/* Both rules, MixUp and CutMix, on erased rows; bytes by timm's rule. */
static void mixed_rows(struct gpu_setup *setup)
{
    static const char *const transforms[] = {
        "random_resized_crop(96)+hflip+random_erasing(0.5,value=random)+mixup_or_cutmix(0.2,1)",
        ("resize(61:47)+normalize(mean=0.5,std=0.2)+random_erasing(0.5,value=rand)+timm_mixup("
         "mixup="
         "0.8,cutmix=1)"),
        "random_resized_crop(64)+normalize(mean=0.5,std=0.2,exact)+mixup(0.8)",
        "resize(224:224)+cutmix(1)", "resize(37:53)+timm_mixup(mixup=0.8,cutmix=1)"};
    for (uint32_t i = 0; i < 2 * sizeof transforms / sizeof *transforms; i++) {
        mr_loader_options options = gpu_contract_options(setup);
        options.dtype = i / 2 == 4 ? MR_U8 : dtypes[1 + i % 3];
        options.layout = i % 2 ? MR_NCHW : MR_NHWC;
        options.pad_channels = i % 4 == 1 ? 4 : 0;
        options.batch_size += options.batch_size % 2;
        if (!setup->brief || i % 2 == 0)
            compare_epoch(setup, setup->photos, transforms[i / 2], &options);
    }
}

static void finished_by_workers(struct gpu_setup *setup)
{
    for (uint32_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        mr_loader_options options = gpu_contract_options(setup);
        options.dtype = dtypes[i];
        options.finish_on_host = true;
        compare_epoch(setup, setup->photos, "train:96", &options);
    }
}

/* Sides that no power of two divides, and not square. */
static void odd_sizes(struct gpu_setup *setup)
{
    static const char *const transforms[] = {
        "resize(37:53)+normalize(mean=0.5:0.4:0.3,std=0.2:0.3:0.4,if_float)", "resize(1:1)",
        "resize(3:129)+vflip(0.5)", "eval:64:63"};
    for (uint32_t i = 0; i < sizeof transforms / sizeof *transforms; i++) {
        mr_loader_options options = gpu_contract_options(setup);
        options.dtype = dtypes[i];
        options.layout = i % 2 ? MR_NHWC : MR_NCHW;
        options.batch_size = 7;
        compare_epoch(setup, setup->photos, transforms[i], &options);
    }
}

static void compare_records(struct gpu_setup *setup, const char *file, const char *keys,
                            const mr_loader_options *options)
{
    char *spec = gpu_setup_text("records:%s?%s", file, keys);
    compare_epoch(setup, spec, NULL, options);
    free(spec);
}

static void pictures_that_are_records(struct gpu_setup *setup)
{
    char *colour = gpu_setup_records(setup, "colour.bin", 100, 3 * 20 * 24);
    char *grey = gpu_setup_records(setup, "grey.bin", 100, 28 * 28);
    for (uint32_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        mr_loader_options options = gpu_contract_options(setup);
        options.dtype = dtypes[i];
        compare_records(setup, colour, "shape=3x20x24&label_bytes=8", &options);
        compare_records(setup, grey, "shape=1x28x28&label_bytes=8", &options);
        options.layout = MR_NHWC;
        compare_records(setup, colour, "shape=20x24x3&layout=hwc&label_bytes=8", &options);
        compare_records(setup, grey, "shape=28x28x1&layout=hwc&label_bytes=4&label_off=-4&header=4",
                        &options);
    }
    free(colour);
    free(grey);
}

/* Records that are not pictures are copied unchanged: tokens, with labels that are arrays. */
static void records_that_are_no_pictures(struct gpu_setup *setup)
{
    char *file = gpu_setup_records(setup, "tokens.bin", 200, 130);
    mr_loader_options options = gpu_contract_options(setup);
    compare_records(setup, file, "dtype=u16&shape=65&label_dtype=f32&label_shape=2", &options);
    compare_records(setup, file, "dtype=u8&bytes=130&label_bytes=8", &options);
    options.batch_size = 1;
    compare_records(setup, file, "dtype=i16&shape=5x13&label_bytes=2", &options);
    free(file);
}

/*
 * The last batch is short. With the exact tail some ranks end with masked rows, or with no row at
 * all.
 */
static void compare_tails(struct gpu_setup *setup)
{
    static const mr_tail kinds[] = {MR_TAIL_PAD, MR_TAIL_DROP, MR_TAIL_EXACT};
    for (uint32_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (uint32_t rank = 0; rank < 4; rank += 3) {
            mr_loader_options options = gpu_contract_options(setup);
            options.dtype = MR_F16;
            options.tail = kinds[i];
            options.rank = rank;
            options.world_size = 4;
            options.batch_size = 5;
            compare_epoch(setup, setup->photos, "train:32", &options);
        }
}

const struct gpu_case gpu_bytes_cases[] = {
    {"u8, f32, f16 and bf16, nchw, are the host's bytes", compare_nchw},
    {"u8, f32, f16 and bf16, nhwc, are the host's bytes", compare_nhwc},
    {"channels padded to 4 are zero, the others the host's", padded_to_4},
    {"channels padded to 8 are zero, the others the host's", padded_to_8},
    {"the exact mode gives the host's bytes", compare_exact},
    {"erased boxes are the host's", erased_boxes},
    {"mixed rows are the host's", mixed_rows},
    {"floats that workers made cross unchanged", finished_by_workers},
    {"odd and unequal sides give the host's bytes", odd_sizes},
    {"pictures that are records give the host's bytes", pictures_that_are_records},
    {"records that are no pictures cross unchanged", records_that_are_no_pictures},
    {"short batches, holes and empty batches are the host's", compare_tails},
    {NULL, NULL}};
