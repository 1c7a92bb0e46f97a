/* SPDX-License-Identifier: Apache-2.0 */
/* The fingerprint of a loader: what changes it, and what must not. */
#include "tests/loader/rig.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/folder_fill.h"
#include "tests/support/packs.h"
#include "transforms/plan.h"

#include <millrace/run.h>

enum { N_CLASSES = 2, N_IMAGES = 3, PATH = 512, CIFAR_RECORD = 3073, N_RECORDS = 5 };

#define TRANSFORM "random_resized_crop(16)+hflip(0.5)"

static mr_loader_options plain(void)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.batch_size = 4;
    options.num_workers = MR_NO_WORKERS;
    return options;
}

static uint64_t print_of(const char *spec, const char *transform, const mr_loader_options *options)
{
    mr_dataset *dataset = mr_test_dataset(spec);
    mr_loader *loader = mr_test_loader(dataset, transform, options);
    uint64_t fingerprint = mr_loader_fingerprint(loader);
    assert_true(mr_loader_fingerprint(loader) == fingerprint);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    return fingerprint;
}

static uint64_t plain_print(const char *spec)
{
    mr_loader_options options = plain();
    return print_of(spec, TRANSFORM, &options);
}

static int make_folder(void **state)
{
    char *folder = mr_test_folder_filled(N_CLASSES, N_IMAGES);
    *state = folder;
    return 0;
}

static void the_place_of_the_files_does_not_count(void **state)
{
    char *folder = *state;
    char path[PATH], moved[PATH], before[PATH];
    uint64_t expected = plain_print(folder);
    assert_true(expected != 0);
    snprintf(path, sizeof path, "imagefolder:%s/../%s/./", folder, strrchr(folder, '/') + 1);
    assert_true(plain_print(path) == expected);
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    assert_true(plain_print("imagefolder:.") == expected);
    assert_int_equal(chdir(before), 0);
    snprintf(moved, sizeof moved, "%s-moved", folder);
    assert_int_equal(rename(folder, moved), 0);
    uint64_t found = plain_print(moved);
    assert_int_equal(rename(moved, folder), 0);
    assert_true(found == expected);
}

static void the_way_of_making_batches_does_not_count(void **state)
{
    mr_loader_options base = plain(), options;
    base.world_size = 3;
    uint64_t expected = print_of(*state, TRANSFORM, &base);
#define SAME(field, value)                                                                         \
    do {                                                                                           \
        options = base;                                                                            \
        options.field = value;                                                                     \
        assert_true(print_of(*state, TRANSFORM, &options) == expected);                            \
    } while (0)
    SAME(rank, 1);
    SAME(rank, 2);
    SAME(epoch, 5);
    SAME(n_epochs, 5);
    SAME(device, "host:0");
    SAME(n_slots, 7);
    SAME(n_buffers, 5);
    SAME(read_ahead, 9);
    SAME(time_limit_ms, 5000);
    SAME(reader, MR_READER_PREAD);
    SAME(with_timing, true);
    SAME(verify_packs, true);
    SAME(nice, 1);
    SAME(allow_same_epoch, true);
    base.start = MR_START_THREAD;
    SAME(num_workers, 2);
#undef SAME
}

/* The floats are made by a device or by the workers. */
static void the_maker_of_floats_does_not_count(void **state)
{
    static const char *const transforms[] = {
        "train:16", "random_resized_crop(16)+normalize(mean=0.5:0.4:0.3,std=0.2:"
                    "0.2:0.2,exact)"};
    for (int i = 0; i < 2; i++) {
        mr_loader_options options = plain();
        options.dtype = MR_F32;
        uint64_t expected = print_of(*state, transforms[i], &options);
        options.device = "host:0";
        assert_true(print_of(*state, transforms[i], &options) == expected);
        options.finish_on_host = true;
        assert_true(print_of(*state, transforms[i], &options) == expected);
    }
}

static void each_option_of_the_samples_counts(void **state)
{
    uint64_t seen[17];
    unsigned n = 0;
    mr_loader_options options = plain();
    seen[n++] = print_of(*state, TRANSFORM, &options);
#define OTHER(field, value)                                                                        \
    do {                                                                                           \
        options = plain();                                                                         \
        options.field = value;                                                                     \
        seen[n++] = print_of(*state, TRANSFORM, &options);                                         \
    } while (0)
    OTHER(batch_size, 5);
    OTHER(seed, 1);
    OTHER(no_shuffle, true);
    OTHER(order, MR_ORDER_KEYED);
    OTHER(tail, MR_TAIL_DROP);
    OTHER(tail, MR_TAIL_EXACT);
    OTHER(drop_last, true);
    OTHER(world_size, 2);
    OTHER(dtype, MR_F32);
    OTHER(dtype, MR_F16);
    OTHER(layout, MR_NHWC);
    OTHER(on_error, MR_ON_ERROR_SKIP);
    OTHER(on_error, MR_ON_ERROR_ZERO);
    OTHER(max_pixels, 1000000);
    OTHER(max_file_bytes, 1000000);
    OTHER(rank_slices, true);
#undef OTHER
    for (unsigned i = 0; i < n; i++)
        for (unsigned j = 0; j < i; j++)
            if (seen[i] == seen[j])
                fail_msg("variants %u and %u have the same fingerprint", i, j);
}

static void each_part_of_the_transform_counts(void **state)
{
    static const char *const transforms[] = {
        "random_resized_crop(16)",
        "random_resized_crop(16)+hflip(0.5)",
        "random_resized_crop(16)+hflip(0.25)",
        "random_resized_crop(16)+vflip(0.5)",
        "random_resized_crop(17)",
        "random_resized_crop(16,scale=0.1:1)",
        "random_resized_crop(16,ratio=0.5:2)",
        "exif+random_resized_crop(16)",
        "resize(16:16)",
        "center_crop(16)",
        "resize(20)+center_crop(16)",
        "random_resized_crop(16)+normalize(mean=0.5,std=0.5)",
        "random_resized_crop(16)+normalize(mean=0.5,std=0.25)",
        "random_resized_crop(16)+normalize(mean=0.4,std=0.5)",
        "random_resized_crop(16)+normalize(mean=0,std=0.5)",
        "random_resized_crop(16)+normalize(mean=0,std=0.25)",
        "random_resized_crop(16)+normalize(mean=0.5,std=0.5,exact)",
        "random_resized_crop(16)+normalize(mean=0.4,std=0.5,exact)",
        "random_resized_crop(16)+normalize(mean=0.4,std=0.3,exact)",
        "random_resized_crop(16)+normalize(mean=0.4,std=0.3,exact_v2)",
        "random_resized_crop(16)+mixup(1)",
        "random_resized_crop(16)+mixup(0.5)",
        "random_resized_crop(16)+cutmix(1)",
        "random_resized_crop(16)+timm_mixup",
    };
    enum { N = sizeof transforms / sizeof *transforms };
    uint64_t seen[N];
    mr_loader_options options = plain();
    options.dtype = MR_F32;
    for (int i = 0; i < N; i++) {
        seen[i] = print_of(*state, transforms[i], &options);
        for (int j = 0; j < i; j++)
            if (seen[i] == seen[j])
                fail_msg("%s and %s have the same fingerprint", transforms[i], transforms[j]);
    }
    assert_true(print_of(*state, NULL, &options) == print_of(*state, "train:224", &options));
}

static void each_name_size_and_label_of_a_folder_counts(void **state)
{
    const char *folder = *state;
    char one[PATH], other[PATH];
    uint64_t expected = plain_print(folder);
    snprintf(one, sizeof one, "%s/class_0/001.jpg", folder);
    snprintf(other, sizeof other, "%s/class_0/001b.jpg", folder);
    assert_int_equal(rename(one, other), 0); /* at the same place of the order */
    assert_true(plain_print(folder) != expected);
    assert_int_equal(rename(other, one), 0);
    assert_true(plain_print(folder) == expected);

    snprintf(other, sizeof other, "%s/class_0", folder);
    snprintf(one, sizeof one, "%s/class_0b", folder);
    assert_int_equal(rename(other, one), 0); /* the class has another name, its label stays */
    assert_true(plain_print(folder) != expected);
    assert_int_equal(rename(one, other), 0);

    snprintf(one, sizeof one, "%s/class_1/002.jpg", folder);
    int fd = open(one, O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_int_equal(write(fd, "!", 1), 1);
    close(fd);
    uint64_t longer = plain_print(folder);
    assert_true(longer != expected);
    assert_int_equal(unlink(one), 0);
    assert_true(plain_print(folder) != expected && plain_print(folder) != longer);
}

static void a_missing_file_counts(void **state)
{
    const char *folder = *state;
    char one[PATH];
    mr_loader_options options = plain();
    mr_dataset *dataset = mr_test_dataset(folder);
    mr_loader *loader = mr_test_loader(dataset, TRANSFORM, &options);
    uint64_t before = mr_loader_fingerprint(loader);
    snprintf(one, sizeof one, "%s/class_1/002.jpg", folder);
    assert_int_equal(unlink(one), 0);
    assert_true(mr_loader_fingerprint(loader) != before);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
}

static uint64_t print_of_list(const char *folder, const char *name, const char *text)
{
    char spec[PATH];
    mr_test_folder_write(folder, name, text, strlen(text));
    snprintf(spec, sizeof spec, "list:%s/%s", folder, name);
    return plain_print(spec);
}

static void the_lines_of_a_list_count_and_its_name_does_not(void **state)
{
    uint64_t expected = print_of_list(*state, "a.txt", "class_0/000.jpg\t0\nclass_1/001.jpg\t1\n");
    assert_true(print_of_list(*state, "b.txt", "class_0/000.jpg\t0\r\nclass_1/001.jpg\t1") ==
                expected);
    assert_true(print_of_list(*state, "a.txt", "class_0/000.jpg\t0\nclass_1/001.jpg\t0\n") !=
                expected);
    assert_true(print_of_list(*state, "a.txt", "class_0/000.jpg\t0\nclass_1/002.jpg\t1\n") !=
                expected);
    assert_true(print_of_list(*state, "a.txt", "class_1/001.jpg\t1\nclass_0/000.jpg\t0\n") !=
                expected);
    uint64_t numbers =
        print_of_list(*state, "a.txt", "class_0/000.jpg\t0 0.5\nclass_1/001.jpg\t1 1\n");
    assert_true(numbers != expected);
    assert_true(print_of_list(*state, "a.txt",
                              "class_0/000.jpg\t0 0.5\nclass_1/001.jpg\t1 1.5\n") != numbers);
}

static uint64_t print_of_records(const char *folder, const unsigned char *bytes, size_t len)
{
    char spec[PATH];
    mr_loader_options options = plain();
    mr_test_folder_write(folder, "test_batch.bin", bytes, len);
    snprintf(spec, sizeof spec, "cifar10:%s?split=test", folder);
    return print_of(spec, "cifar", &options);
}

static void labels_in_files_of_records_count(void **state)
{
    static unsigned char bytes[N_RECORDS * CIFAR_RECORD];
    memset(bytes, 0, sizeof bytes);
    for (int i = 0; i < N_RECORDS; i++)
        bytes[i * CIFAR_RECORD] = (unsigned char)i;
    uint64_t expected = print_of_records(*state, bytes, sizeof bytes);
    assert_true(print_of_records(*state, bytes, sizeof bytes) == expected);
    bytes[3 * CIFAR_RECORD] = 9;
    assert_true(print_of_records(*state, bytes, sizeof bytes) != expected);
    bytes[3 * CIFAR_RECORD] = 3;
    assert_true(print_of_records(*state, bytes, sizeof bytes) == expected);
    bytes[3 * CIFAR_RECORD + 1] = 9; /* pixels are not read */
    assert_true(print_of_records(*state, bytes, sizeof bytes) == expected);
    assert_true(print_of_records(*state, bytes, sizeof bytes - CIFAR_RECORD) != expected);
}

static void records_count_by_name_and_form_and_not_by_path(void **state)
{
    const char *folder = *state;
    static const unsigned char bytes[60];
    char spec[PATH], before[PATH], below[PATH];
    mr_test_folder_write(folder, "one.bin", bytes, sizeof bytes);
    snprintf(below, sizeof below, "%s/class_0", folder);
    mr_test_folder_write(below, "one.bin", bytes, sizeof bytes);
    mr_test_folder_write(folder, "two.bin", bytes, sizeof bytes);
    mr_loader_options options = plain();
    snprintf(spec, sizeof spec, "records:%s/one.bin?bytes=10", folder);
    uint64_t expected = print_of(spec, NULL, &options);
    snprintf(spec, sizeof spec, "records:%s/class_0/one.bin?bytes=10", folder);
    assert_true(print_of(spec, NULL, &options) == expected);
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    assert_true(print_of("records:one.bin?bytes=10", NULL, &options) == expected);
    assert_int_equal(chdir(before), 0);
    snprintf(spec, sizeof spec, "records:%s/two.bin?bytes=10", folder);
    assert_true(print_of(spec, NULL, &options) != expected);
    snprintf(spec, sizeof spec, "records:%s/one.bin?bytes=12", folder);
    assert_true(print_of(spec, NULL, &options) != expected);
    snprintf(spec, sizeof spec, "records:%s/one.bin?shape=2x5", folder);
    assert_true(print_of(spec, NULL, &options) != expected);
    snprintf(spec, sizeof spec, "records:%s/one.bin?bytes=8&label_bytes=2", folder);
    assert_true(print_of(spec, NULL, &options) != expected);
    snprintf(spec, sizeof spec, "records:%s/one.bin?shape=3x4x5", folder);
    expected = print_of(spec, "resize(6:6)", &options); /* all get one size in the end */
    snprintf(spec, sizeof spec, "records:%s/one.bin?shape=3x5x4", folder);
    assert_true(print_of(spec, "resize(6:6)", &options) != expected);
}

/* The fingerprint of a pack of the folder; the pack is moved before. */
static uint64_t print_of_pack(const char *folder, mr_pack_encoding encoding)
{
    char dir[PATH], moved[PATH], spec[PATH + 8];
    char *work = mr_test_folder_create();
    snprintf(dir, sizeof dir, "%s/pack", work);
    mr_test_packs_make(folder, dir, encoding);
    snprintf(spec, sizeof spec, "pack:%s", dir);
    uint64_t fingerprint = plain_print(spec);
    snprintf(moved, sizeof moved, "%s/elsewhere", work);
    assert_int_equal(rename(dir, moved), 0);
    snprintf(spec, sizeof spec, "pack:%s", moved);
    assert_true(plain_print(spec) == fingerprint);
    mr_test_folder_remove(work);
    return fingerprint;
}

static void packs_count_by_their_samples(void **state)
{
    const char *folder = *state;
    char one[PATH], other[PATH];
    uint64_t expected = print_of_pack(folder, MR_PACK_DCT);
    assert_true(expected != plain_print(folder));
    assert_true(print_of_pack(folder, MR_PACK_DCT) == expected);
    assert_true(print_of_pack(folder, MR_PACK_RAW) != expected);

    snprintf(one, sizeof one, "%s/class_0/001.jpg", folder);
    snprintf(other, sizeof other, "%s/class_0/001b.jpg", folder);
    assert_int_equal(rename(one, other), 0); /* at the same place of the order */
    assert_true(print_of_pack(folder, MR_PACK_DCT) != expected);
    assert_int_equal(rename(other, one), 0);

    snprintf(other, sizeof other, "%s/class_0/002.jpg", folder);
    assert_int_equal(unlink(one), 0);
    assert_int_equal(link(other, one), 0); /* other pixels under the same name */
    assert_true(print_of_pack(folder, MR_PACK_DCT) != expected);
}

/* As many operations as a list may have, each with long numbers: the last one still counts. */
static void the_last_of_many_operations_counts(void **state)
{
    static const char *const last[] = {"invert(0.25)", "invert(0.5)"};
    static char text[MR_PLAN_MAX_OPS * 256];
    mr_loader_options options = plain();
    uint64_t seen[2];
    for (int i = 0; i < 2; i++) {
        size_t len = (size_t)snprintf(text, sizeof text, "resize(8:8)");
        for (int k = 2; k < MR_PLAN_MAX_OPS; k++)
            len += (size_t)snprintf(
                text + len, sizeof text - len,
                "+color_jitter(%.17g:%.17g,%.17g:%.17g,%.17g:%.17g,%.17g:%.17g)", 1 / 7.0, 8 / 7.0,
                1 / 7.0, 8 / 7.0, 1 / 7.0, 8 / 7.0, -2 / 7.0, 2 / 7.0);
        snprintf(text + len, sizeof text - len, "+%s", last[i]);
        assert_true(strlen(text) > 8192);
        seen[i] = print_of(*state, text, &options);
    }
    assert_true(seen[0] != seen[1]);
}

static void callbacks_count_by_their_number_and_form(void **state)
{
    (void)state;
    uint64_t seen[2];
    for (int i = 0; i < 2; i++) {
        struct rig *rig = rig_create(100 + i);
        mr_loader_options options = rig_options();
        mr_loader *loader = rig_loader(rig, &options);
        seen[i] = mr_loader_fingerprint(loader);
        mr_loader_destroy(loader);
        loader = rig_loader(rig, &options);
        assert_true(mr_loader_fingerprint(loader) == seen[i]);
        mr_loader_destroy(loader);
        rig_destroy(rig);
    }
    assert_true(seen[0] != seen[1]);
    assert_true(mr_loader_fingerprint(NULL) == 0);
}

#define FOLDER_TEST(test) cmocka_unit_test_setup(test, make_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(the_place_of_the_files_does_not_count),
        FOLDER_TEST(the_way_of_making_batches_does_not_count),
        FOLDER_TEST(the_maker_of_floats_does_not_count),
        FOLDER_TEST(each_option_of_the_samples_counts),
        FOLDER_TEST(each_part_of_the_transform_counts),
        FOLDER_TEST(each_name_size_and_label_of_a_folder_counts),
        FOLDER_TEST(a_missing_file_counts),
        FOLDER_TEST(the_lines_of_a_list_count_and_its_name_does_not),
        FOLDER_TEST(labels_in_files_of_records_count),
        FOLDER_TEST(records_count_by_name_and_form_and_not_by_path),
        FOLDER_TEST(packs_count_by_their_samples),
        FOLDER_TEST(the_last_of_many_operations_counts),
        cmocka_unit_test(callbacks_count_by_their_number_and_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
