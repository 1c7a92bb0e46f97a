/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loaders over a small folder of images: every way to start workers and every reader gives the same
 * bytes, and damage names its file.
 */
#include "tests/loader/rig.h"
#include "tests/support/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/folder.h"
#include "tests/support/images.h"
#include "tests/support/assert_words.h"

enum { N_CLASSES = 2, PER_CLASS = 9, N_IMAGES = N_CLASSES * PER_CLASS, CROP = 16 };

struct folder {
    char *path;
    mr_dataset *dataset;
};

static const char *name_of(const struct folder *folder, int i)
{
    static char name[128];
    snprintf(name, sizeof name, "%s/class%d/%02d.jpg", folder->path, i / PER_CLASS, i % PER_CLASS);
    return name;
}

static int make_folder(void **state)
{
    struct folder *folder = calloc(1, sizeof *folder);
    char path[128];
    mr_error error;
    folder->path = mr_test_folder_create();
    for (int i = 0; i < N_CLASSES; i++) {
        snprintf(path, sizeof path, "%s/class%d", folder->path, i);
        if (mkdir(path, 0777) != 0)
            return -1;
    }
    for (int i = 0; i < N_IMAGES; i++) {
        struct mr_test_image image =
            mr_test_jpeg(&(struct mr_test_jpeg){.width = 40 + 3 * (uint32_t)i,
                                                .height = 90 - 2 * (uint32_t)i,
                                                .seed = (uint32_t)i,
                                                .progressive = i % 3 == 1});
        mr_test_image_save(&image, name_of(folder, i));
        mr_test_image_free(&image);
    }
    *state = folder;
    snprintf(path, sizeof path, "imagefolder:%s", folder->path);
    return mr_dataset_open(path, NULL, &folder->dataset, &error) == MR_OK ? 0 : -1;
}

static int remove_folder(void **state)
{
    struct folder *folder = *state;
    mr_dataset_destroy(folder->dataset);
    free(folder);
    return 0;
}

static mr_loader *make(const struct folder *folder, const mr_loader_options *options)
{
    mr_transform *transform;
    mr_loader *loader;
    mr_error error;
    assert_int_equal(mr_transform_parse("random_resized_crop(16)+hflip(0.5)", &transform, &error),
                     MR_OK);
    mr_loader_options on_device = *options;
    mr_test_set_devices(&on_device);
    assert_ok(mr_loader_create(folder->dataset, transform, &on_device, &loader, &error), &error);
    mr_transform_destroy(transform);
    return loader;
}

struct epoch {
    uint8_t pixels[N_IMAGES][3 * CROP * CROP];
    int64_t index[N_IMAGES];
    int64_t label[N_IMAGES];
    int32_t geometry[N_IMAGES][8];
    uint8_t mask[N_IMAGES];
};

static void collect(mr_loader *loader, struct epoch *epoch)
{
    mr_batch *batch;
    uint32_t n = 0;
    mr_status status;
    memset(epoch, 0, sizeof *epoch);
    while ((status = mr_loader_next(loader, MR_FOREVER, &batch)) == MR_OK) {
        uint32_t rows = mr_batch_size(batch);
        assert_true(n + rows <= N_IMAGES);
        memcpy(epoch->pixels[n], mr_test_data(batch, "image"), rows * sizeof *epoch->pixels);
        memcpy(&epoch->index[n], mr_test_data(batch, "index"), rows * sizeof(int64_t));
        memcpy(&epoch->label[n], mr_test_data(batch, "label"), rows * sizeof(int64_t));
        memcpy(epoch->geometry[n], mr_test_data(batch, "geometry"), rows * sizeof *epoch->geometry);
        memcpy(&epoch->mask[n], mr_test_data(batch, "mask"), rows);
        n += rows;
        mr_batch_release(batch);
    }
    if (status != MR_END)
        fail_msg("%s: %s", mr_status_name(status), mr_loader_error(loader)->text);
    assert_int_equal(n, N_IMAGES);
}

static mr_loader_options options_of(uint32_t num_workers, mr_start start, mr_reader_kind reader)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.batch_size = 4;
    options.num_workers = num_workers;
    options.start = start;
    options.reader = reader;
    options.seed = 9;
    return options;
}

static void every_start_and_reader_gives_the_same_bytes(void **state)
{
    static struct epoch expected, got;
    mr_loader_options options = options_of(MR_NO_WORKERS, MR_START_DEFAULT, MR_READER_PREAD);
    mr_loader *loader = make(*state, &options);
    collect(loader, &expected);
    mr_loader_destroy(loader);
    const mr_start starts[] = {MR_START_EXEC, MR_START_FORK, MR_START_THREAD};
    for (unsigned s = 0; s < 3; s++)
        for (mr_reader_kind reader = MR_READER_AUTO; reader <= MR_READER_PREAD; reader += 2) {
            options = options_of(2, starts[s], reader);
            loader = make(*state, &options);
            assert_int_equal(mr_loader_resolved(loader)->start, starts[s]);
            collect(loader, &got);
            mr_loader_stats stats = MR_LOADER_STATS_INIT;
            assert_int_equal(mr_loader_get_stats(loader, &stats), MR_OK);
            if (reader == MR_READER_PREAD)
                assert_string_equal(stats.reader, "pread");
            assert_true(stats.bytes_read > 0);
            assert_int_equal(stats.n_deaths, 0);
            mr_loader_destroy(loader);
            assert_memory_equal(&got, &expected, sizeof got);
        }
}

static void labels_are_the_classes_and_geometry_is_that_of_the_file(void **state)
{
    static struct epoch epoch;
    mr_loader_options options = options_of(2, MR_START_THREAD, MR_READER_AUTO);
    mr_loader *loader = make(*state, &options);
    collect(loader, &epoch);
    for (int i = 0; i < N_IMAGES; i++) {
        const int32_t *g = epoch.geometry[i];
        int64_t index = epoch.index[i];
        assert_int_equal(epoch.label[i], index / PER_CLASS);
        assert_int_equal(g[0], 40 + 3 * index);
        assert_int_equal(g[1], 90 - 2 * index);
        assert_true(g[2] >= 0 && g[3] >= 0 && g[4] > 0 && g[5] > 0 && g[2] + g[4] <= g[0] &&
                    g[3] + g[5] <= g[1]);
    }
    mr_loader_destroy(loader);
}

static void times_of_every_stage_are_measured_on_request(void **state)
{
    static struct epoch epoch;
    mr_loader_options options = options_of(2, MR_START_EXEC, MR_READER_AUTO);
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    options.with_timing = true;
    mr_loader *loader = make(*state, &options);
    collect(loader, &epoch);
    assert_int_equal(mr_loader_get_stats(loader, &stats), MR_OK);
    assert_true(stats.read_ns > 0 && stats.decode_ns > 0 && stats.transform_ns > 0);
    assert_int_equal(stats.num_workers, 2);
    mr_loader_destroy(loader);
}

static void truncate_to(const struct folder *folder, int i, off_t len)
{
    assert_int_equal(truncate(name_of(folder, i), len), 0);
}

static void damage_is_named_by_file_index_and_cause(void **state)
{
    struct folder *folder = *state;
    static struct epoch epoch;
    mr_error error;
    truncate_to(folder, 4, 60);
    truncate_to(folder, 12, 0);
    unlink(name_of(folder, 16));
    for (unsigned m = 0; m < 2; m++) {
        mr_loader_options options =
            options_of(m ? 2 : MR_NO_WORKERS, MR_START_DEFAULT, MR_READER_AUTO);
        options.no_shuffle = true;
        options.on_error = MR_ON_ERROR_ZERO;
        mr_loader *loader = make(folder, &options);
        collect(loader, &epoch);
        const int broken[] = {4, 12, 16};
        for (unsigned i = 0; i < 3; i++) {
            char words[64];
            assert_int_equal(epoch.mask[broken[i]], 0);
            assert_int_equal(mr_loader_damaged(loader, i, &error), MR_OK);
            assert_int_equal(error.index, broken[i]);
            snprintf(words, sizeof words, "class%d/%02d.jpg (index %d): ", broken[i] / PER_CLASS,
                     broken[i] % PER_CLASS, broken[i]);
            assert_words(error.text, words);
        }
        assert_int_equal(mr_loader_damaged(loader, 3, &error), MR_END);
        mr_loader_destroy(loader);
    }
    struct mr_test_image image = mr_test_jpeg(&(struct mr_test_jpeg){.width = 8, .height = 8});
    mr_test_image_save(&image, name_of(folder, 16)); /* for the teardown */
    mr_test_image_free(&image);
}

static void a_transform_of_none_takes_the_size_of_the_first_good_image(void **state)
{
    struct folder *folder = *state;
    mr_loader_options options = options_of(2, MR_START_THREAD, MR_READER_AUTO);
    mr_transform *transform;
    mr_loader *loader;
    mr_error error;
    truncate_to(folder, 0, 10);
    options.no_shuffle = true;
    options.batch_size = 1;
    assert_int_equal(mr_transform_parse("none", &transform, &error), MR_OK);
    mr_test_set_devices(&options);
    assert_ok(mr_loader_create(folder->dataset, transform, &options, &loader, &error), &error);
    mr_transform_destroy(transform);
    rig_expect(loader, MR_ERR_DAMAGED);
    mr_batch *batch = rig_next(loader);
    assert_int_equal(mr_batch_array(batch, "image")->shape[2], 88);
    assert_int_equal(mr_batch_array(batch, "image")->shape[3], 43);
    mr_batch_release(batch);
    rig_expect(loader, MR_ERR_DAMAGED); /* of another size */
    mr_loader_destroy(loader);
}

struct seen {
    unsigned n;
    char line[2000];
};

static void see(void *user, mr_log_level level, const char *line)
{
    struct seen *seen = user;
    assert_int_equal(level, MR_LOG_WARNING);
    if (seen->n++ == 0)
        snprintf(seen->line, sizeof seen->line, "%s", line);
}

/* Take two epochs of a folder in which image 16 is broken. */
static void see_two_epochs(const struct folder *folder, const char *text, mr_on_error on_error,
                           struct seen *seen)
{
    mr_loader_options options = options_of(2, MR_START_THREAD, MR_READER_AUTO);
    mr_transform *transform;
    mr_loader *loader;
    mr_batch *batch;
    mr_error error;
    *seen = (struct seen){0};
    options.no_shuffle = true;
    options.on_error = on_error;
    mr_test_set_devices(&options);
    mr_log_set(see, seen);
    assert_int_equal(mr_transform_parse(text, &transform, &error), MR_OK);
    assert_ok(mr_loader_create(folder->dataset, transform, &options, &loader, &error), &error);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        mr_status status = mr_loader_set_epoch(loader, epoch);
        while (status == MR_OK || status == MR_ERR_DAMAGED)
            if ((status = mr_loader_next(loader, MR_FOREVER, &batch)) == MR_OK)
                mr_batch_release(batch);
        assert_int_equal(status, MR_END);
    }
    mr_loader_destroy(loader);
    mr_transform_destroy(transform);
    mr_log_set(NULL, NULL);
}

/* The first image is 40 x 90 pixels, the second 43 x 88. */
static void the_first_image_of_another_size_is_logged_once_where_no_error_shows_it(void **state)
{
    const struct folder *folder = *state;
    struct seen seen;
    truncate_to(folder, 16, 10);
    see_two_epochs(folder, "resize(20)", MR_ON_ERROR_SKIP, &seen);
    assert_int_equal(seen.n, 1);
    assert_words(seen.line, "images of other sizes are left out (on_error skip), the first: ");
    assert_words(seen.line, "class0/01.jpg (index 1): the output is 20x40, the first image's was "
                            "20x45; add center_crop(N) or resize(H:W) for equal sizes, "
                            "or set ragged or pad_batch");
    see_two_epochs(folder, "resize(20)", MR_ON_ERROR_ZERO, &seen);
    assert_int_equal(seen.n, 1);
    assert_words(seen.line, "images of other sizes become zeros (on_error zero), the first: ");
    see_two_epochs(folder, "resize(20)", MR_ON_ERROR_FAIL, &seen);
    assert_int_equal(seen.n, 0); /* each error says it */
    see_two_epochs(folder, "resize(20:20)", MR_ON_ERROR_SKIP, &seen);
    assert_int_equal(seen.n, 0); /* only the broken file is left out */
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(every_start_and_reader_gives_the_same_bytes),
        IN_FOLDER(labels_are_the_classes_and_geometry_is_that_of_the_file),
        IN_FOLDER(times_of_every_stage_are_measured_on_request),
        IN_FOLDER(damage_is_named_by_file_index_and_cause),
        IN_FOLDER(a_transform_of_none_takes_the_size_of_the_first_good_image),
        IN_FOLDER(the_first_image_of_another_size_is_logged_once_where_no_error_shows_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
