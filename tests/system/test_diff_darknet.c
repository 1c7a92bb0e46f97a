/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code that examples/darknet.diff adds to darknet, with darknet's types from darknet_double.h
 * and the few functions that it uses. Rows are planar floats and one-hot truth, and an epoch has
 * each image once although the network's size changes during it (net->random).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/system/darknet_double.h"

#include "tests/support/folder.h"
#include "tests/support/folder_fill.h"

/* ---- darknet's ---- */

typedef struct image {
    int w, h, c;
    float *data;
} image;

static int n_distorted;

static image float_to_image(int w, int h, int c, float *pixels)
{
    return (image){w, h, c, pixels};
}

static void random_distort_image(image im, float hue, float saturation, float exposure)
{
    n_distorted += im.c == 3 && hue == 0.1f && saturation == 1.5f && exposure == 2;
    im.data[0] = -1; /* shows that rows may be written */
}

static void free_data(data d)
{
    assert_true(d.shallow);
    free(d.X.vals);
    free(d.y.vals);
}

#include MR_TEST_DIFF_FILE

/* ---- tests ---- */

enum { N_CLASSES = 3, N_EACH = 11, N_IMAGES = N_CLASSES * N_EACH, N = 4, STEPS = N_IMAGES / N };

static char *folder;

static int make_folder(void **state)
{
    (void)state;
    folder = mr_test_folder_filled(N_CLASSES, N_EACH);
    return 0;
}

static load_args args_of(int size)
{
    return (load_args){
        .n = N,
        .w = size,
        .h = size,
        .min = size,
        .max = 2 * size,
        .size = size,
        .classes = N_CLASSES,
        .aspect = 0.75f,
        .saturation = 1,
        .exposure = 1,
    };
}

static void check_rows(const data *d, const mr_batch *batch, int size)
{
    const int64_t *labels = mr_batch_data(batch, "label");

    assert_int_equal(d->w, size);
    assert_int_equal(d->h, size);
    assert_int_equal(d->X.rows, N);
    assert_int_equal(d->X.cols, 3 * size * size);
    assert_int_equal(d->y.rows, N);
    assert_int_equal(d->y.cols, N_CLASSES);
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N_CLASSES; j++)
            assert_float_equal(d->y.vals[i][j], j == labels[i], 0);
        for (int k = 0; k < d->X.cols; k++)
            assert_true(d->X.vals[i][k] >= 0 && d->X.vals[i][k] <= 1);
    }
}

static void an_epoch_has_each_image_once_although_sizes_change(void **state)
{
    millrace_images still = millrace_open(folder, 0), resized = millrace_open(folder, 0);

    (void)state;
    for (int step = 0; step < 2 * STEPS; step++) {
        int size = 32 * (1 + step % 3);
        data expected = millrace_next(&still, args_of(64)),
             got = millrace_next(&resized, args_of(size));
        check_rows(&got, resized.batch, size);
        assert_int_equal(mr_batch_epoch(resized.batch), step / STEPS);
        assert_memory_equal(mr_batch_data(resized.batch, "index"),
                            mr_batch_data(still.batch, "index"), N * sizeof(int64_t));
        free_data(expected);
        free_data(got);
    }
    millrace_close(&still);
    millrace_close(&resized);
}

static void a_network_that_was_trained_before_continues_its_epoch(void **state)
{
    millrace_images images = millrace_open(folder, 2 * N_IMAGES + 5);

    (void)state;
    free_data(millrace_next(&images, args_of(32)));
    assert_int_equal(mr_batch_epoch(images.batch), 2);
    millrace_close(&images);
}

static void colours_are_distorted_by_darknet_if_the_network_asks_for_it(void **state)
{
    millrace_images images = millrace_open(folder, 0);
    load_args args = args_of(32);

    (void)state;
    args.hue = 0.1f;
    args.saturation = 1.5f;
    args.exposure = 2;
    n_distorted = 0;
    data d = millrace_next(&images, args);
    assert_int_equal(n_distorted, N);
    assert_float_equal(d.X.vals[N - 1][0], -1, 0);
    free_data(d);
    millrace_close(&images);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_epoch_has_each_image_once_although_sizes_change),
        cmocka_unit_test(a_network_that_was_trained_before_continues_its_epoch),
        cmocka_unit_test(colours_are_distorted_by_darknet_if_the_network_asks_for_it),
    };
    return cmocka_run_group_tests(tests, make_folder, NULL);
}
