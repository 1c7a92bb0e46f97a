/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same (seed, epoch) gives the same bytes in every mode. The oracle is the caller's thread with
 * the simplest reader. Every other mode must give the same bytes in every array.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/folder_fill.h"

enum { N_CLASSES = 5, N_IMAGES = 29, N_EPOCHS = 2 };

static char *folder;
static mr_dataset *dataset;

static mr_loader_options base_options(void)
{
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = 16;
    o.seed = 42;
    return o;
}

/* Digests of the first epochs, all from one loader. */
static void digests_of(const char *transform, const mr_loader_options *options,
                       uint64_t digests_out[N_EPOCHS])
{
    mr_loader *loader = mr_test_loader(dataset, transform, options);
    for (uint64_t e = 0; e < N_EPOCHS; e++) {
        struct mr_test_epoch epoch = mr_test_epoch_run(loader, e);
        assert_int_equal(epoch.status, MR_END);
        assert_int_equal(epoch.n_samples, N_CLASSES * N_IMAGES);
        digests_out[e] = epoch.digest;
        mr_test_epoch_free(&epoch);
    }
    mr_loader_destroy(loader);
}

static void reference(const char *transform, mr_loader_options options,
                      uint64_t digests_out[N_EPOCHS])
{
    options.num_workers = MR_NO_WORKERS;
    options.reader = MR_READER_PREAD;
    digests_of(transform, &options, digests_out);
    assert_true(digests_out[0] != digests_out[1]);
}

static void assert_same(const char *transform, const mr_loader_options *options,
                        const uint64_t expected[N_EPOCHS])
{
    uint64_t got[N_EPOCHS];
    digests_of(transform, options, got);
    for (int e = 0; e < N_EPOCHS; e++)
        if (got[e] != expected[e])
            fail_msg("epoch %d: digest %016llx, expected %016llx (workers %u, start %d, reader %d)",
                     e, (unsigned long long)got[e], (unsigned long long)expected[e],
                     options->num_workers, options->start, options->reader);
}

static void bytes_do_not_depend_on_the_number_of_workers(void **state)
{
    (void)state;
    static const uint32_t workers[] = {MR_NO_WORKERS, 1, 3, 8};
    uint64_t expected[N_EPOCHS];
    mr_loader_options o = base_options();
    reference("train:64", o, expected);
    for (size_t i = 0; i < sizeof workers / sizeof *workers; i++) {
        o.num_workers = workers[i];
        assert_same("train:64", &o, expected);
    }
}

/* Image operations before and after a crop, and in structures. */
#define IMAGE_OPS                                                                                  \
    "equalize(0.3)+random_resized_crop(48)+hflip+random_apply(color_jitter(0.8,0.8,0.8,0.2),0.8)+" \
    "random_grayscale(0."                                                                          \
    "2)+"                                                                                          \
    "random_choice(adjust_sharpness(2,1),posterize(3,1)+autocontrast(1),random_order(invert,"      \
    "solarize(100)))+"                                                                             \
    "random_apply(gaussian_blur(5),0.5)+pil_gaussian_blur(0.1:2)+trivial_augment_wide(bilinear)"

static void image_operations_do_not_depend_on_workers_and_readers(void **state)
{
    (void)state;
    static const uint32_t workers[] = {1, 8};
    uint64_t expected[N_EPOCHS];
    mr_loader_options o = base_options();
    o.dtype = MR_F32;
    reference(IMAGE_OPS, o, expected);
    for (size_t i = 0; i < sizeof workers / sizeof *workers; i++) {
        o.num_workers = workers[i];
        assert_same(IMAGE_OPS, &o, expected);
    }
}

static void bytes_do_not_depend_on_start_and_reader(void **state)
{
    (void)state;
    static const mr_start starts[] = {MR_START_EXEC, MR_START_FORK, MR_START_THREAD};
    static const mr_reader_kind readers[] = {MR_READER_AUTO, MR_READER_PREAD};
    uint64_t expected[N_EPOCHS];
    mr_loader_options o = base_options();
    reference("train:64", o, expected);
    o.num_workers = 2;
    for (size_t s = 0; s < 3; s++) {
        for (size_t r = 0; r < 2; r++) {
            o.start = starts[s];
            o.reader = readers[r];
            assert_same("train:64", &o, expected);
        }
    }
}

static void bytes_do_not_depend_on_depth(void **state)
{
    (void)state;
    uint64_t expected[N_EPOCHS];
    mr_loader_options o = base_options();
    reference("train:64", o, expected);
    o.num_workers = 3;
    for (uint32_t slots = 2; slots <= 12; slots += 5) {
        for (uint32_t ahead = 1; ahead <= 33; ahead += 16) {
            o.n_slots = slots;
            o.read_ahead = ahead;
            assert_same("train:64", &o, expected);
        }
    }
}

static void floats_and_layouts_are_reproducible_too(void **state)
{
    (void)state;
    static const mr_dtype dtypes[] = {MR_U8, MR_F32, MR_F16, MR_BF16};
    uint64_t expected[N_EPOCHS];
    for (size_t d = 0; d < 4; d++) {
        for (int layout = MR_NCHW; layout <= MR_NHWC; layout++) {
            mr_loader_options o = base_options();
            o.dtype = dtypes[d];
            o.layout = (mr_layout)layout;
            reference("train:48", o, expected);
            o.num_workers = 2;
            assert_same("train:48", &o, expected);
        }
    }
}

struct by_index {
    int64_t index;
    uint64_t digest;
};

static int compare_index(const void *a, const void *b)
{
    const struct by_index *x = a;
    const struct by_index *y = b;
    if (x->index != y->index)
        return x->index < y->index ? -1 : 1;
    return x->digest < y->digest ? -1 : x->digest > y->digest;
}

/* All samples of an epoch over all ranks, sorted by index; returns how many. */
static size_t gather(uint32_t world_size, uint32_t batch_size, struct by_index *out)
{
    size_t n = 0;
    for (uint32_t rank = 0; rank < world_size; rank++) {
        mr_loader_options o = base_options();
        o.num_workers = 2;
        o.batch_size = batch_size;
        o.world_size = world_size;
        o.rank = rank;
        o.tail = MR_TAIL_EXACT;
        mr_loader *loader = mr_test_loader(dataset, "train:64", &o);
        struct mr_test_epoch epoch = mr_test_epoch_run(loader, 7);
        assert_int_equal(epoch.status, MR_END);
        for (uint64_t i = 0; i < epoch.n_samples; i++)
            out[n++] = (struct by_index){epoch.indices[i], epoch.row_digests[i]};
        mr_test_epoch_free(&epoch);
        mr_loader_destroy(loader);
    }
    qsort(out, n, sizeof *out, compare_index);
    return n;
}

static void samples_do_not_depend_on_world_size_and_batch_size(void **state)
{
    (void)state;
    enum { N = N_CLASSES * N_IMAGES };
    static const uint32_t worlds[] = {1, 2, 5};
    static const uint32_t batches[] = {16, 7, 64};
    struct by_index expected[N];
    struct by_index got[2 * N];
    assert_int_equal(gather(1, 16, expected), N);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(expected[i].index, i); /* each index exactly once */
    for (size_t w = 0; w < 3; w++) {
        assert_int_equal(gather(worlds[w], batches[w], got), N);
        assert_memory_equal(got, expected, sizeof expected);
    }
}

static int set_up(void **state)
{
    (void)state;
    folder = mr_test_folder_filled(N_CLASSES, N_IMAGES);
    dataset = mr_test_dataset(folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mr_dataset_destroy(dataset);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_do_not_depend_on_the_number_of_workers),
        cmocka_unit_test(image_operations_do_not_depend_on_workers_and_readers),
        cmocka_unit_test(bytes_do_not_depend_on_start_and_reader),
        cmocka_unit_test(bytes_do_not_depend_on_depth),
        cmocka_unit_test(floats_and_layouts_are_reproducible_too),
        cmocka_unit_test(samples_do_not_depend_on_world_size_and_batch_size),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
