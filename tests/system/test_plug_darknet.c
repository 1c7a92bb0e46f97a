/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What docs/plug-in.md says about trainers like darknet, for examples/plug_darknet.c: X has a
 * loader's bytes divided by 255, in planes; y has a one for the class; an epoch has each image
 * once; and the trainer learns.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

int mr_test_plug_main(int argc, char **argv);
#define main mr_test_plug_main
#include "examples/plug_darknet.c"
#undef main

#include "tests/support/folder.h"
#include "tests/support/folder_fill.h"
#include "tests/support/assert_words.h"

enum {
    N_CLASSES = 3,
    N_EACH = 11,
    N_IMAGES = N_CLASSES * N_EACH,
    SIDE = 32,
    RECORD = 1 + 3 * SIDE * SIDE
};

static char *folder;

static int make_folder(void **state)
{
    (void)state;
    folder = mr_test_folder_create();
    return 0;
}

/* ---- what the network gets ---- */

static mr_loader *open_bytes(mr_dataset *dataset, const load_args *args)
{
    mr_loader_options options = *mr_loader_resolved(args->loader);
    mr_transform *transform = NULL;
    mr_loader *loader = NULL;
    mr_error error;

    options.dtype = MR_U8;
    options.layout = MR_NCHW;
    options.num_workers = MR_NO_WORKERS;
    assert_int_equal(
        mr_transform_parse("random_resized_crop(32,scale=0.25:1)+hflip(0.5)", &transform, &error),
        MR_OK);
    assert_ok(mr_loader_create(dataset, transform, &options, &loader, &error), &error);
    mr_transform_destroy(transform);
    return loader;
}

static void compare_row(const data *d, int row, const uint8_t *bytes, int64_t label)
{
    for (int i = 0; i < d->X.cols; i++)
        assert_float_equal(d->X.vals[row][i], (float)bytes[i] / 255, 1e-6);
    for (int j = 0; j < d->y.cols; j++)
        assert_float_equal(d->y.vals[row][j], j == label ? 1 : 0, 0);
}

static void rows_are_bytes_over_255_and_truth_is_one_hot(void **state)
{
    load_args args = {.n = 16, .w = SIDE, .h = SIDE};
    mr_batch *bytes = NULL;
    data d;

    (void)state;
    mr_test_folder_fill(folder, N_CLASSES, N_EACH);
    start_loading(&args, folder, 1);
    mr_loader *loader = open_bytes(args.dataset, &args);
    assert_int_equal(args.classes, N_CLASSES);
    for (int step = 0; step < N_IMAGES / 16; step++) {
        assert_true(load_data(&args, &d));
        assert_int_equal(mr_loader_next(loader, MR_FOREVER, &bytes), MR_OK);
        assert_int_equal(d.X.rows, 16);
        assert_int_equal(d.y.rows, 16);
        assert_int_equal(d.X.cols, 3 * SIDE * SIDE);
        const int64_t *labels = mr_batch_data(bytes, "label");
        const uint8_t *pixels = mr_batch_data(bytes, "image");
        for (int row = 0; row < 16; row++)
            compare_row(&d, row, pixels + (size_t)row * 3 * SIDE * SIDE, labels[row]);
        mr_batch_release(bytes);
        free_data(d);
    }
    assert_false(load_data(&args, &d));
    mr_loader_destroy(loader);
    mr_loader_destroy(args.loader);
    mr_dataset_destroy(args.dataset);
}

static void an_epoch_has_no_image_twice(void **state)
{
    load_args args = {.n = 4, .w = SIDE, .h = SIDE};
    int64_t first[2] = {-1, -1};
    data d;

    (void)state;
    mr_test_folder_fill(folder, N_CLASSES, N_EACH);
    start_loading(&args, folder, 2);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        bool seen[N_IMAGES] = {false};
        int n_seen = 0;
        assert_int_equal(mr_loader_set_epoch(args.loader, epoch), MR_OK);
        while (load_data(&args, &d)) {
            const int64_t *indices = mr_batch_data(d.batch, "index");
            for (int i = 0; i < args.n; i++, n_seen++) {
                assert_false(seen[indices[i]]);
                seen[indices[i]] = true;
                first[epoch] = n_seen == 0 ? indices[i] : first[epoch];
            }
            free_data(d);
        }
        assert_int_equal(n_seen, N_IMAGES / args.n * args.n);
    }
    assert_int_not_equal(first[0], first[1]); /* with this seed */
    mr_loader_destroy(args.loader);
    mr_dataset_destroy(args.dataset);
}

/* ---- the program ---- */

/* The class decides which of the three planes is brighter. */
static void write_pictures(const char *name, int n)
{
    uint8_t *records = malloc((size_t)n * RECORD);
    uint32_t random = 1;

    assert_non_null(records);
    for (int i = 0; i < n * RECORD; i++) {
        int place = i % RECORD, label = i / RECORD % N_CLASSES;
        random = random * 1664525u + 1013904223u;
        int value = (int)(random >> 24) / 2 + ((place - 1) / (SIDE * SIDE) == label ? 60 : 0);
        records[i] = place == 0 ? (uint8_t)label : (uint8_t)value;
    }
    mr_test_folder_write(folder, name, records, (uint64_t)n * RECORD);
    free(records);
}

static int run_plug(const char *arguments, char *text, size_t size)
{
    char command[8000];

    snprintf(command, sizeof command, "'" MR_TEST_PLUG "' %s 2>&1", arguments);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t len = fread(text, 1, size - 1, pipe);
    text[len] = '\0';
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void the_trainer_learns(void **state)
{
    static const char names[] = "red\ngreen\nblue\n";
    char arguments[5000], text[4000];
    double loss = 0, right = 0;
    int epoch = -1;

    (void)state;
    write_pictures("data_batch_1.bin", 480);
    mr_test_folder_write(folder, "batches.meta.txt", names, sizeof names - 1);
    snprintf(arguments, sizeof arguments, "'cifar10:%s' 3", folder);
    assert_int_equal(run_plug(arguments, text, sizeof text), 0);
    assert_words(text, "epoch 0: 480 images, loss ");
    const char *last = strstr(text, "epoch 2: 480 images, loss ");
    if (last == NULL ||
        sscanf(last, "epoch %d: 480 images, loss %lf, right %lf %%", &epoch, &loss, &right) != 3)
        fail_msg("it prints \"%s\"", text);
    if (loss > 0.3 || right < 95)
        fail_msg("after three epochs the loss is %f, %f %% are right", loss, right);
}

static void a_missing_dataset_is_an_error_of_one_line(void **state)
{
    char text[4000];

    (void)state;
    assert_int_equal(run_plug("/nowhere/photographs", text, sizeof text), 1);
    assert_words(text, "/nowhere/photographs");
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(rows_are_bytes_over_255_and_truth_is_one_hot, make_folder),
        cmocka_unit_test_setup(an_epoch_has_no_image_twice, make_folder),
        cmocka_unit_test_setup(the_trainer_learns, make_folder),
        cmocka_unit_test(a_missing_dataset_is_an_error_of_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
