/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Erased and mixed batches are the same whether a device or workers finish them: every kind of
 * value, one to four boxes, both rules of mixing, every float and layout, one device and (for
 * erasing) parts, any number of workers, and holes. Pixels are copied as bytes.
 */
#include "tests/loader/stream_rig.h"

#include <stdio.h>
#include <string.h>

#include <millrace/millrace.h>

#include "tests/support/assert_words.h"
#include "tests/support/folder.h"
#include "tests/support/folder_fill.h"

enum { N_PHOTOS = 40, MAX_PATH = 600 };

static const char *const texts[] = {
    "random_erasing(0.7,0.1:0.5,value=0)",
    ("hflip+normalize(mean=0.5:0.4:0.3,std=0.2:0.3:0.4)+random_erasing(0.8,0.1:0.5,value=0.5:-1.25:"
     "3,count=4)"),
    "normalize(mean=0.5,std=0.2,exact)+random_erasing(0.9,0.1:0.6,value=random,count=3)",
    "hflip+random_erasing(0.7,0.1:0.5,value=rand,count=2)",
};
static const char *const mixing[] = {
    "normalize(mean=0.5,std=0.2)+random_erasing(0.7,0.1:0.5,value=random,count=3)+mixup_or_cutmix("
    "0.8,1)",
    "hflip+random_erasing(0.8,0.1:0.5,value=0.5:-1.25:3,count=4)+mixup(0.4)",
    "normalize(mean=0.5,std=0.2,exact)+random_erasing(0.7,0.1:0.5,value=rand)+cutmix",
    "normalize(mean=0.5,std=0.3)+random_erasing(0.7,0.1:0.5,value=random)+timm_mixup(mixup=0.8,"
    "cutmix=1)",
};
static const mr_dtype dtypes[] = {MR_F32, MR_F16, MR_BF16};

struct place {
    const char *device;
    const char *devices[3];
    uint32_t n_devices;
};
static const struct place places[] = {{"host:1", {NULL}, 0},
                                      {"cuda:1", {NULL}, 0},
                                      {NULL, {"host:0", "host:1"}, 2},
                                      {NULL, {"cuda:0", "cuda:2", "cuda:1"}, 3}};
enum { N_SINGLE = 2 }; /* the first shapes have the batch in one piece */
enum { N_PLACES = sizeof places / sizeof *places };

static mr_loader_options options_at(const struct place *place, uint32_t num_workers)
{
    mr_loader_options options = rig_options();
    options.num_workers = num_workers;
    options.seed = 5;
    options.device = place->device;
    options.devices = place->n_devices ? place->devices : NULL;
    options.n_devices = place->n_devices;
    return options;
}

/* Compare one epoch with that of a loader whose workers make the floats. */
static void expect_the_hosts(mr_dataset *dataset, const char *text,
                             const mr_loader_options *options)
{
    struct seen *seen = seen_create(), *expected = seen_on_host(dataset, text, options, 1);
    mr_transform *transform;
    mr_loader *loader = NULL;
    mr_error error;
    if (mr_transform_parse(text, &transform, &error) != MR_OK ||
        mr_loader_create(dataset, transform, options, &loader, &error) != MR_OK)
        fail_msg("%s: %s", text, error.text);
    mr_transform_destroy(transform);
    seen_epoch(seen, loader);
    mr_loader_destroy(loader);
    seen_expect_same(seen, expected);
    seen_free(seen);
    seen_free(expected);
}

static void every_kind_of_box_is_the_hosts(void **state)
{
    struct rig *rig = *state;
    for (unsigned p = 0; p < N_PLACES; p++)
        for (unsigned d = 0; d < 3; d++) {
            struct double_options machine = {.n_devices = 3};
            assert_true(stage_policy(p + d, &machine));
            stage_open(&machine);
            for (unsigned t = 0; t < sizeof texts / sizeof *texts; t++) {
                mr_loader_options options = options_at(&places[p], MR_NO_WORKERS);
                options.dtype = dtypes[d];
                options.layout = (p + t) % 2 ? MR_NHWC : MR_NCHW;
                expect_the_hosts(rig->dataset, texts[t], &options);
            }
            stage_close();
        }
}

static void every_kind_of_mixing_is_the_hosts(void **state)
{
    struct rig *rig = *state;
    for (unsigned p = 0; p < N_SINGLE; p++)
        for (unsigned d = 0; d < 3; d++) {
            struct double_options machine = {.n_devices = 3};
            assert_true(stage_policy(p + d, &machine));
            stage_open(&machine);
            for (unsigned t = 0; t < sizeof mixing / sizeof *mixing; t++) {
                mr_loader_options options = options_at(&places[p], MR_NO_WORKERS);
                options.dtype = dtypes[d];
                options.layout = (p + t) % 2 ? MR_NHWC : MR_NCHW;
                options.soft_labels = t % 2 ? 300 : 0;
                expect_the_hosts(rig->dataset, mixing[t], &options);
                options.finish_on_host = true;
                expect_the_hosts(rig->dataset, mixing[t], &options);
            }
            stage_close();
        }
}

static void bytes_are_mixed_on_devices_too(void **state)
{
    struct rig *rig = *state;
    for (unsigned p = 0; p < N_SINGLE; p++)
        for (unsigned layout = 0; layout < 2; layout++) {
            stage_open(
                &(struct double_options){.n_devices = 3, .policy = DOUBLE_RANDOM, .seed = p});
            mr_loader_options options = options_at(&places[p], MR_NO_WORKERS);
            options.dtype = MR_U8;
            options.layout = layout ? MR_NHWC : MR_NCHW;
            expect_the_hosts(rig->dataset, "hflip+timm_mixup(mixup=0.8,cutmix=1)", &options);
            stage_close();
        }
}

static void any_number_of_workers_gives_the_same_rows(void **state)
{
    (void)state;
    static const char text[] = "random_resized_crop(24:20)+hflip+normalize(mean=0.5,std=0.2)+"
                               "random_erasing(0.8,0.05:0.4,value=random,count=4)";
    static const char mixed[] =
        "random_resized_crop(24:20)+hflip+normalize(mean=0.5,std=0.2)+"
        "random_erasing(0.8,0.05:0.4,value=random,count=4)+mixup_or_cutmix(0.8,1)";
    static const uint32_t workers[] = {MR_NO_WORKERS, 1, 8};
    char spec[MAX_PATH];
    mr_dataset *dataset;
    mr_error error;
    char *folder = mr_test_folder_filled(2, N_PHOTOS / 2);
    snprintf(spec, sizeof spec, "imagefolder:%s", folder);
    assert_ok(mr_dataset_open(spec, NULL, &dataset, &error), &error);
    for (unsigned p = 0; p < N_PLACES; p++)
        for (unsigned w = 0; w < 3; w++) {
            stage_open(&(struct double_options){.n_devices = 3, .policy = DOUBLE_LATE});
            mr_loader_options options = options_at(&places[p], workers[w]);
            options.start = MR_START_DEFAULT;
            options.dtype = dtypes[w];
            options.batch_size = 7;
            expect_the_hosts(dataset, text, &options);
            if (p < N_SINGLE)
                expect_the_hosts(dataset, mixed, &options);
            stage_close();
        }
    mr_dataset_destroy(dataset);
}

static void holes_have_no_boxes_and_are_not_mixed(void **state)
{
    struct rig *rig = *state;
    for (unsigned i = 0; i < 100; i += 3)
        rig->shared->fails[i] = true;
    for (unsigned p = 0; p < N_PLACES; p++) {
        stage_open(&(struct double_options){.n_devices = 3, .policy = DOUBLE_RANDOM, .seed = p});
        mr_loader_options options = options_at(&places[p], MR_NO_WORKERS);
        options.dtype = MR_F32;
        options.on_error = p % 2 ? MR_ON_ERROR_SKIP : MR_ON_ERROR_ZERO;
        expect_the_hosts(rig->dataset, "random_erasing(1,0.1:0.5,value=7)", &options);
        if (p < N_SINGLE)
            expect_the_hosts(rig->dataset, "random_erasing(1,0.1:0.5,value=7)+mixup", &options);
        stage_close();
    }
}

static uint64_t bytes_of_epoch(struct rig *rig, const char *text, const mr_loader_options *options)
{
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    mr_transform *transform;
    mr_loader *loader;
    mr_batch *batch;
    assert_int_equal(mr_transform_parse(text, &transform, NULL), MR_OK);
    assert_int_equal(mr_loader_create(rig->dataset, transform, options, &loader, NULL), MR_OK);
    mr_transform_destroy(transform);
    while (mr_loader_next(loader, MR_FOREVER, &batch) == MR_OK)
        stage_release(batch, MR_OK);
    assert_int_equal(mr_loader_get_stats(loader, &stats), MR_OK);
    mr_loader_destroy(loader);
    return stats.h2d_bytes;
}

static void boxes_cross_the_bus_and_floats_do_not(void **state)
{
    stage_open(&(struct double_options){.n_devices = 3});
    mr_loader_options options = options_at(&places[1], MR_NO_WORKERS);
    options.dtype = MR_F32;
    options.n_epochs = 1;
    uint64_t plain = bytes_of_epoch(*state, "none", &options);
    uint64_t erased = bytes_of_epoch(*state, texts[0], &options);
    uint64_t mixed = bytes_of_epoch(*state, "mixup", &options);
    options.finish_on_host = true;
    uint64_t floats = bytes_of_epoch(*state, texts[0], &options);
    uint64_t n_rows = 13 * 8; /* the last batch's block has full size too */
    assert_true(erased > plain && erased <= plain + n_rows * 176);
    /* a label and a weight each, aligned */
    assert_true(mixed > plain && mixed <= plain + 13 * (8 * 12 + 128));
    assert_int_equal(floats - plain, 3 * 100 * RIG_BYTES);
    stage_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(every_kind_of_box_is_the_hosts),
        RIG_TEST(every_kind_of_mixing_is_the_hosts),
        RIG_TEST(bytes_are_mixed_on_devices_too),
        cmocka_unit_test(any_number_of_workers_gives_the_same_rows),
        RIG_TEST(holes_have_no_boxes_and_are_not_mixed),
        RIG_TEST(boxes_cross_the_bus_and_floats_do_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
