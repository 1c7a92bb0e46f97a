/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damaged samples of every kind, under every policy: the result is the policy's, or one line with
 * file, index and cause. The folder has good photographs and one bad file, which a list puts at a
 * known index.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/folder_fill.h"
#include "tests/support/images.h"

enum { N_GOOD = 20, BAD = 7 };

static char *folder;

/* The file at index BAD: its name and the function that makes it. */
struct bad_file {
    const char *name;
    void (*make)(const char *name);
    const char *words; /* in the error; NULL: it is not damaged */
};

static void write_text(const char *name)
{
    mr_test_folder_write(folder, name, "this is no image\n", 17);
}

static void write_nothing(const char *name)
{
    mr_test_folder_write(folder, name, "", 0);
}

static void make_directory(const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0777), 0);
}

static void make_loop(const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(symlink(name, path), 0);
}

static void make_no_file(const char *name)
{
    (void)name;
}

static void write_truncated(const char *name)
{
    struct mr_test_image image = mr_test_jpeg(&(struct mr_test_jpeg){.width = 200, .height = 160});
    mr_test_folder_write(folder, name, image.bytes, image.len / 3);
    mr_test_image_free(&image);
}

static void write_png(const char *name)
{
    struct mr_test_image image =
        mr_test_png(&(struct mr_test_png){.width = 90, .height = 70, .colour_type = 2});
    mr_test_folder_write(folder, name, image.bytes, image.len);
    mr_test_image_free(&image);
}

/*
 * The size in the header becomes 65535 x 65535. Height and width follow SOF0's marker, length and
 * precision.
 */
static void write_huge(const char *name)
{
    struct mr_test_image image = mr_test_jpeg(&(struct mr_test_jpeg){.width = 64, .height = 64});
    for (size_t i = 0; i + 9 < image.len; i++) {
        if (image.bytes[i] == 0xff && image.bytes[i + 1] == 0xc0) {
            memset(image.bytes + i + 5, 0xff, 4);
            break;
        }
    }
    mr_test_folder_write(folder, name, image.bytes, image.len);
    mr_test_image_free(&image);
}

static void write_sized(const char *name, uint32_t width, uint32_t height)
{
    struct mr_test_image image =
        mr_test_jpeg(&(struct mr_test_jpeg){.width = width, .height = height});
    mr_test_folder_write(folder, name, image.bytes, image.len);
    mr_test_image_free(&image);
}

static void write_dot(const char *name)
{
    write_sized(name, 1, 1);
}

static void write_line(const char *name)
{
    write_sized(name, 1, 5000);
}

static const struct bad_file bad_files[] = {
    {"text.jpg", write_text, "not an image"},
    {"empty.jpg", write_nothing, "empty"},
    {"directory.jpg", make_directory, "directory"},
    {"loop.jpg", make_loop, "symbolic links"},
    {"missing.jpg", make_no_file, "No such file"},
    {"truncated.jpg", write_truncated, "JPEG"},
    /* libjpeg's own limit on a side applies before the limit on pixels */
    {"huge.jpg", write_huge, "65500"},
    {"picture.JPEG", write_png, NULL},
    {"dot.jpg", write_dot, NULL},
    {"line.jpg", write_line, NULL},
};

/* Make a list of N_GOOD photographs with the bad file in the middle. A label is its index. */
static char *make_list(const char *bad)
{
    char line[256];
    char text[8192] = "";
    for (int i = 0, good = 0; i <= N_GOOD; i++) {
        if (i == BAD)
            snprintf(line, sizeof line, "%s\t%d\n", bad, i);
        else
            snprintf(line, sizeof line, "class_0/%03d.jpg\t%d\n", good++, i);
        strcat(text, line);
    }
    mr_test_folder_write(folder, "list.txt", text, strlen(text));
    static char spec[4096];
    snprintf(spec, sizeof spec, "list:%s/list.txt", folder);
    return spec;
}

static struct mr_test_epoch run(const char *spec, mr_on_error policy, uint32_t workers,
                                mr_tail tail, mr_error *damage)
{
    mr_dataset *dataset = mr_test_dataset(spec);
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = 5;
    o.num_workers = workers;
    o.no_shuffle = true;
    o.on_error = policy;
    o.tail = tail;
    mr_loader *loader = mr_test_loader(dataset, "eval:64:48", &o);
    struct mr_test_epoch e = mr_test_epoch_run(loader, 0);
    if (mr_loader_damaged(loader, 0, damage) != MR_OK)
        memset(damage, 0, sizeof *damage);
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    mr_loader_get_stats(loader, &stats);
    assert_int_equal(stats.n_damaged, damage->status != 0);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    return e;
}

static void check_words(const struct bad_file *bad, const mr_error *error)
{
    assert_int_equal(error->status, MR_ERR_DAMAGED);
    assert_int_equal(error->index, BAD);
    if (!strstr(error->text, bad->name) || !strstr(error->text, "(index 7): ") ||
        !strstr(error->text, bad->words) || strchr(error->text, '\n'))
        fail_msg("%s: '%s'", bad->name, error->text);
}

static void check_bad_file(const struct bad_file *bad, uint32_t workers)
{
    mr_error damage;
    const char *spec = make_list(bad->name);
    struct mr_test_epoch e = run(spec, MR_ON_ERROR_FAIL, workers, MR_TAIL_PAD, &damage);
    assert_int_equal(e.status, MR_END);
    if (!bad->words) {
        if (e.n_failures)
            fail_msg("%s", e.first_error.text);
        assert_int_equal(e.n_valid, N_GOOD + 1);
        mr_test_epoch_free(&e);
        return;
    }
    check_words(bad, &damage);
    check_words(bad, &e.first_error);
    assert_int_equal(e.n_failures, 1);
    assert_int_equal(e.n_samples, N_GOOD + 1 - 5);
    mr_test_epoch_free(&e);
    e = run(spec, MR_ON_ERROR_SKIP, workers, MR_TAIL_PAD, &damage);
    check_words(bad, &damage);
    assert_int_equal(e.n_valid, N_GOOD + 1);
    assert_int_equal(e.indices[BAD], BAD + 1);
    assert_true(e.row_digests[BAD] == e.row_digests[BAD + 1]);
    mr_test_epoch_free(&e);
    e = run(spec, MR_ON_ERROR_ZERO, workers, MR_TAIL_PAD, &damage);
    check_words(bad, &damage);
    assert_int_equal(e.n_valid, N_GOOD);
    assert_int_equal(e.indices[BAD], BAD);
    mr_test_epoch_free(&e);
    e = run(spec, MR_ON_ERROR_SKIP, workers, MR_TAIL_EXACT, &damage);
    assert_int_equal(e.n_valid, N_GOOD); /* a hole: no other sample may take the place */
    assert_int_equal(e.indices[BAD], BAD);
    mr_test_epoch_free(&e);
}

static void every_kind_of_bad_file_gets_the_policys_result(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_files / sizeof *bad_files; i++) {
        bad_files[i].make(bad_files[i].name);
        check_bad_file(&bad_files[i], MR_NO_WORKERS);
        check_bad_file(&bad_files[i], 2);
    }
}

static void bad_neighbours_are_skipped_together_and_listed_once(void **state)
{
    (void)state;
    mr_test_folder_write(folder, "all_bad.txt",
                         "x1.jpg\t1\nx2.jpg\t2\nclass_0/000.jpg\t3\nx3.jpg\t4\n", 45);
    char spec[4096];
    snprintf(spec, sizeof spec, "list:%s/all_bad.txt", folder);
    mr_dataset *dataset = mr_test_dataset(spec);
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = 4;
    o.no_shuffle = true;
    o.num_workers = 2;
    o.on_error = MR_ON_ERROR_SKIP;
    mr_loader *loader = mr_test_loader(dataset, "eval:64:48", &o);
    mr_error damage;
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        struct mr_test_epoch e = mr_test_epoch_run(loader, epoch);
        assert_int_equal(e.n_valid, 4);
        for (int i = 0; i < 4; i++)
            assert_int_equal(e.indices[i], 2);
        mr_test_epoch_free(&e);
    }
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(mr_loader_damaged(loader, i, &damage), MR_OK);
    assert_int_equal(mr_loader_damaged(loader, 3, &damage), MR_END);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
}

static void a_dataset_without_a_good_sample_fails_and_ends(void **state)
{
    (void)state;
    mr_test_folder_write(folder, "none.txt", "x1.jpg\t1\nx2.jpg\t2\nx3.jpg\t4\n", 27);
    char spec[4096];
    snprintf(spec, sizeof spec, "list:%s/none.txt", folder);
    mr_dataset *dataset = mr_test_dataset(spec);
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = 2;
    o.num_workers = 2;
    o.on_error = MR_ON_ERROR_SKIP;
    mr_loader *loader = mr_test_loader(dataset, "train:32", &o);
    struct mr_test_epoch e = mr_test_epoch_run(loader, 0);
    assert_int_equal(e.status, MR_END);
    assert_int_equal(e.n_failures, 2);
    assert_ptr_equal(strstr(e.first_error.text, "all 3 samples of the dataset are damaged: "),
                     e.first_error.text);
    mr_test_epoch_free(&e);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
}

/* Files that are truncated or removed while the epoch runs. */
static void files_that_shrink_or_disappear_are_damaged_not_fatal(void **state)
{
    (void)state;
    char *moving = mr_test_folder_create();
    char path[4096];
    mr_test_folder_fill(moving, 2, 30);
    mr_dataset *dataset = mr_test_dataset(moving);
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = 4;
    o.num_workers = 2;
    o.no_shuffle = true;
    o.on_error = MR_ON_ERROR_ZERO;
    o.n_slots = 2;
    mr_loader *loader = mr_test_loader(dataset, "eval:64:48", &o);
    mr_batch *batch;
    assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_OK);
    mr_batch_release(batch);
    snprintf(path, sizeof path, "%s/class_1/029.jpg", moving);
    assert_int_equal(truncate(path, 150), 0);
    snprintf(path, sizeof path, "%s/class_1/028.jpg", moving);
    assert_int_equal(unlink(path), 0);
    struct mr_test_epoch rest = mr_test_epoch_rest(loader);
    assert_int_equal(rest.status, MR_END);
    assert_int_equal(rest.n_samples, 56);
    assert_int_equal(rest.n_valid, 54);
    mr_test_epoch_free(&rest);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    mr_test_folder_remove(moving);
}

static int set_up(void **state)
{
    (void)state;
    folder = mr_test_folder_create();
    mr_test_folder_fill(folder, 1, N_GOOD);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mr_test_folder_remove(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_bad_file_gets_the_policys_result),
        cmocka_unit_test(bad_neighbours_are_skipped_together_and_listed_once),
        cmocka_unit_test(a_dataset_without_a_good_sample_fails_and_ends),
        cmocka_unit_test(files_that_shrink_or_disappear_are_damaged_not_fatal),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
