/* SPDX-License-Identifier: Apache-2.0 */
/* `millrace export` writes what a training loop receives. */
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/assert_words.h"
#include "tests/support/folder.h"
#include "tests/support/images.h"
#include "tests/support/shards.h"
#include "tests/tools/npy_file.h"
#include "tests/tools/run_command.h"

enum { N_CLASSES = 3, N_IMAGES = 5, N_SAMPLES = N_CLASSES * N_IMAGES };

static int set_up(void **state)
{
    mr_run_enter_folder(state);
    mr_run_make_images("photos", N_CLASSES, N_IMAGES);
    return 0;
}

static void assert_shape(const struct mr_npy_file *npy, const char *descr, unsigned ndim,
                         const int64_t *shape)
{
    assert_string_equal(npy->descr, descr);
    assert_int_equal(npy->ndim, ndim);
    for (unsigned i = 0; i < ndim; i++)
        assert_int_equal(npy->shape[i], shape[i]);
}

static void assert_same_export(const char *a, const char *b)
{
    static const char *const suffixes[] = {".npy", ".labels.npy", ".indices.npy", ".mask.npy"};
    char x[64], y[64];

    for (int i = 0; i < 4; i++) {
        snprintf(x, sizeof x, "%s%s", a, suffixes[i]);
        snprintf(y, sizeof y, "%s%s", b, suffixes[i]);
        mr_run_assert_same_files(x, y);
    }
}

static void four_files_describe_one_epoch(void **state)
{
    struct mr_npy_file image, label, index, mask;
    struct mr_run run = {0};

    (void)state;
    mr_run_command(&run, "export", "--data", "imagefolder:photos", "--transform", "train:16",
                   "--workers", "0", "--batch-size", "4", "--out", "four.npy", NULL);
    assert_int_equal(run.status, 0);
    assert_string_equal(run.out, "four.npy: u8 (15, 3, 16, 16)\n");
    mr_npy_file_read(&image, "four.npy");
    mr_npy_file_read(&label, "four.labels.npy");
    mr_npy_file_read(&index, "four.indices.npy");
    mr_npy_file_read(&mask, "four.mask.npy");
    assert_shape(&image, "|u1", 4, (int64_t[]){N_SAMPLES, 3, 16, 16});
    assert_shape(&label, "<i8", 1, (int64_t[]){N_SAMPLES});
    assert_shape(&index, "<i8", 1, (int64_t[]){N_SAMPLES});
    assert_shape(&mask, "|u1", 1, (int64_t[]){N_SAMPLES});
    mr_run_command(&run, "order", "--samples", "15", NULL);
    char *at = run.out;
    for (size_t i = 0; i < N_SAMPLES; i++) {
        assert_int_equal(mr_npy_file_i64(&index, i), strtoll(at, &at, 10));
        assert_int_equal(mr_npy_file_i64(&label, i), mr_npy_file_i64(&index, i) / N_IMAGES);
        assert_int_equal(mask.data[i], 1);
    }
    mr_npy_file_free(&image);
    mr_npy_file_free(&label);
    mr_npy_file_free(&index);
    mr_npy_file_free(&mask);
    mr_run_free(&run);
}

static void seed_epoch_and_order_are_those_of_the_order_command(void **state)
{
    static const char *const ways[][6] = {{"--seed", "7", "--epoch", "3", "--order", "torch"},
                                          {"--seed", "7", "--epoch", "3", "--order", "keyed"},
                                          {"--seed", "8", "--epoch", "3", "--world-size", "2"},
                                          {"--seed", "7", "--epoch", "4", "--no-shuffle", NULL}};
    struct mr_npy_file index;
    struct mr_run order = {0}, export = {0};

    (void)state;
    for (int i = 0; i < 4; i++) {
        const char *const *w = ways[i];
        mr_run_command(&order, "order", "--samples", "15", w[0], w[1], w[2], w[3], w[4], w[5],
                       NULL);
        mr_run_command(&export, "export", "--data", "photos", "--transform", "train:8", "--workers",
                       "0", "--out", "order.npy", w[0], w[1], w[2], w[3], w[4], w[5], NULL);
        assert_int_equal(export.status, 0);
        mr_npy_file_read(&index, "order.indices.npy");
        char *at = order.out;
        for (size_t k = 0; k < (size_t)index.shape[0]; k++)
            assert_int_equal(mr_npy_file_i64(&index, k), strtoll(at, &at, 10));
        assert_string_equal(at, "\n");
        mr_npy_file_free(&index);
    }
    mr_run_free(&order);
    mr_run_free(&export);
}

static void workers_batch_size_and_reader_change_nothing(void **state)
{
    static const char *const ways[][3] = {
        {"0", "4", "auto"}, {"1", "4", "pread"}, {"3", "7", "auto"}, {"2", "1", "pread"}};
    struct mr_run run = {0};
    char out[16];

    (void)state;
    for (int i = 0; i < 4; i++) {
        snprintf(out, sizeof out, "same%d.npy", i);
        mr_run_command(&run, "export", "--data", "photos", "--transform", "train:16", "--seed", "7",
                       "--epoch", "2", "--workers", ways[i][0], "--batch-size", ways[i][1],
                       "--reader", ways[i][2], "--out", out, NULL);
        if (run.status != 0)
            fail_msg("exits with %d: %s", run.status, run.err);
    }
    assert_same_export("same0", "same1");
    assert_same_export("same0", "same2");
    assert_same_export("same0", "same3");
    mr_run_free(&run);
}

static void dtype_and_layout_are_written_as_numpy_knows_them(void **state)
{
    static const struct {
        const char *dtype, *layout, *descr;
        int64_t shape[4];
    } cases[] = {{"f32", "nchw", "<f4", {5, 3, 8, 8}},
                 {"F16", "NHWC", "<f2", {5, 8, 8, 3}},
                 {"bf16", "nhwc", "<u2", {5, 8, 8, 3}},
                 {"u8", "Nhwc", "|u1", {5, 8, 8, 3}}};
    struct mr_run run = {0};
    struct mr_npy_file npy;

    (void)state;
    for (int i = 0; i < 4; i++) {
        mr_run_command(&run, "export", "--data", "photos", "--transform", "eval:10:8",
                       "--world-size", "3", "--workers", "0", "--dtype", cases[i].dtype, "--layout",
                       cases[i].layout, "--out", "type.npy", NULL);
        assert_int_equal(run.status, 0);
        mr_npy_file_read(&npy, "type.npy");
        assert_shape(&npy, cases[i].descr, 4, cases[i].shape);
        mr_npy_file_free(&npy);
    }
    mr_run_free(&run);
}

static void mean_and_deviation_take_the_place_of_the_usual_ones(void **state)
{
    struct mr_npy_file bytes, floats;
    struct mr_run run = {0};

    (void)state;
    mr_run_command(&run, "export", "--data", "photos", "--workers", "0", "--transform", "eval:10:8",
                   "--out", "bytes.npy", NULL);
    mr_run_command(&run, "export", "--data", "photos", "--workers", "0", "--transform", "eval:10:8",
                   "--dtype", "f32", "--mean", "0.5,0.25,0", "--std", "0.5,0.5,2", "--out",
                   "floats.npy", NULL);
    assert_int_equal(run.status, 0);
    mr_npy_file_read(&bytes, "bytes.npy");
    mr_npy_file_read(&floats, "floats.npy");
    assert_int_equal(bytes.data_len * 4, floats.data_len);
    for (size_t i = 0; i < bytes.data_len; i++) {
        static const double mean[] = {0.5, 0.25, 0}, std[] = {0.5, 0.5, 2};
        size_t channel = i / 64 % 3;
        float value;
        memcpy(&value, floats.data + 4 * i, 4);
        assert_float_equal(value, (bytes.data[i] / 255.0 - mean[channel]) / std[channel], 1e-5);
    }
    mr_npy_file_free(&bytes);
    mr_npy_file_free(&floats);
    mr_run_free(&run);
}

static void exact_ranks_hold_each_index_once(void **state)
{
    struct mr_npy_file index;
    struct mr_run run = {0};
    int seen[N_SAMPLES] = {0};
    char rank[2] = "0";

    (void)state;
    for (; rank[0] < '4'; rank[0]++) {
        mr_run_command(&run, "export", "--data", "photos", "--transform", "train:8", "--world-size",
                       "4", "--rank", rank, "--tail", "exact", "--batch-size", "2", "--workers",
                       "1", "--out", "rank.npy", NULL);
        assert_int_equal(run.status, 0);
        mr_npy_file_read(&index, "rank.indices.npy");
        assert_int_equal(index.shape[0], rank[0] < '3' ? 4 : 3);
        for (size_t i = 0; i < (size_t)index.shape[0]; i++)
            seen[mr_npy_file_i64(&index, i)]++;
        mr_npy_file_free(&index);
    }
    for (int i = 0; i < N_SAMPLES; i++)
        assert_int_equal(seen[i], 1);
    mr_run_free(&run);
}

static void dropped_last_batch_is_not_written(void **state)
{
    struct mr_npy_file index;
    struct mr_run run = {0};

    (void)state;
    mr_run_command(&run, "export", "--data", "photos", "--transform", "train:8", "--batch-size",
                   "4", "--drop-last", "--workers", "0", "--out", "drop.npy", NULL);
    assert_int_equal(run.status, 0);
    mr_npy_file_read(&index, "drop.indices.npy");
    assert_int_equal(index.shape[0], 12);
    mr_npy_file_free(&index);
    mr_run_command(&run, "export", "--data", "photos", "--transform", "train:8", "--batch-size",
                   "40", "--drop-last", "--workers", "0", "--out", "drop.npy", NULL);
    assert_int_equal(run.status, 0);
    assert_string_equal(run.out, "drop.npy: u8 (0, 3, 8, 8)\n");
    mr_npy_file_read(&index, "drop.indices.npy");
    assert_shape(&index, "<i8", 1, (int64_t[]){0});
    mr_npy_file_free(&index);
    mr_npy_file_read(&index, "drop.npy");
    assert_shape(&index, "|u1", 4, (int64_t[]){0, 3, 8, 8});
    mr_npy_file_free(&index);
    mr_run_command(&run, "export", "--data", "photos", "--transform", "train:8+timm_mixup",
                   "--repeat", "3", "--workers", "0", "--out", "drop.npy", NULL);
    assert_int_equal(run.status, 0); /* fewer than 256 samples */
    assert_string_equal(run.out, "drop.npy: u8 (0, 3, 8, 8)\n");
    mr_run_free(&run);
}

static void saved_list_gives_the_same_export(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_command(&run, "list", "--data", "photos", "--save", "photos.list", NULL);
    assert_int_equal(run.status, 0);
    mr_run_command(&run, "export", "--data", "photos", "--transform", "train:16", "--workers", "0",
                   "--out", "folder.npy", NULL);
    assert_int_equal(run.status, 0);
    mr_run_command(&run, "export", "--data", "list:photos.list", "--transform", "train:16",
                   "--workers", "0", "--out", "list.npy", NULL);
    assert_int_equal(run.status, 0);
    assert_same_export("folder", "list");
    mr_run_free(&run);
}

/* Without --transform images get the default one, also those of a pack of pixels. */
static void pack_gives_the_export_of_its_folder(void **state)
{
    static const char *const encodings[] = {"dct", "jpeg", "raw"};
    struct mr_run run = {0};
    char dir[24], spec[32];

    (void)state;
    mr_run_command(&run, "export", "--data", "photos", "--seed", "7", "--workers", "0", "--out",
                   "files.npy", NULL);
    assert_int_equal(run.status, 0);
    for (int i = 0; i < 3; i++) {
        snprintf(dir, sizeof dir, "pack-%s", encodings[i]);
        snprintf(spec, sizeof spec, "pack:%s", dir);
        mr_run_command(&run, "pack", "photos", dir, "--encoding", encodings[i], NULL);
        if (run.status != 0)
            fail_msg("exits with %d: %s", run.status, run.err);
        mr_run_command(&run, "export", "--data", spec, "--seed", "7", "--workers", "2",
                       "--verify-packs", "--out", "packed.npy", NULL);
        if (run.status != 0)
            fail_msg("exits with %d: %s", run.status, run.err);
        assert_same_export("files", "packed");
    }
    mr_run_free(&run);
}

static void records_are_written_as_they_are(void **state)
{
    int16_t tokens[64];
    struct mr_npy_file data;
    struct mr_run run = {0};

    (void)state;
    for (int i = 0; i < 64; i++)
        tokens[i] = (int16_t)(i * 321);
    mr_run_write_file("tokens.bin", tokens, sizeof tokens);
    mr_run_command(&run, "export", "--data",
                   "records:tokens.bin?bytes=16&stride=8&dtype=i16&shape=8", "--no-shuffle",
                   "--workers", "0", "--batch-size", "4", "--out", "tokens.npy", NULL);
    if (run.status != 0)
        fail_msg("exits with %d: %s", run.status, run.err);
    mr_npy_file_read(&data, "tokens.npy");
    assert_shape(&data, "<i2", 2, (int64_t[]){15, 8});
    for (int i = 0; i < 15; i++)
        assert_memory_equal(data.data + 16 * i, tokens + 4 * i, 16);
    mr_npy_file_free(&data);
    mr_run_free(&run);
}

static void only_regular_files_are_replaced(void **state)
{
    static const char *const names[] = {"directory.npy", "pipe.npy"};
    struct mr_run run = {0};
    struct stat info;

    (void)state;
    assert_int_equal(mkdir("directory.npy", 0777), 0);
    assert_int_equal(mkfifo("pipe.npy", 0666), 0);
    for (int i = 0; i < 2; i++) {
        mr_run_command(&run, "export", "--data", "photos", "--transform", "train:8", "--workers",
                       "0", "--out", names[i], NULL);
        assert_int_equal(run.status, 1);
        assert_words(run.err, names[i]);
        assert_int_equal(stat(names[i], &info), 0);
        assert_false(S_ISREG(info.st_mode));
    }
    assert_false(mr_run_exists("directory.labels.npy"));
    mr_run_write_file("target", "old", 3);
    assert_int_equal(symlink("target", "link.npy"), 0);
    mr_run_command(&run, "export", "--data", "photos", "--transform", "train:8", "--workers", "0",
                   "--out", "link.npy", NULL);
    assert_int_equal(run.status, 0);
    assert_int_equal(lstat("link.npy", &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    mr_run_assert_same_files("link.npy", "target");
    assert_int_equal(stat("target", &info), 0);
    assert_true(info.st_size > 3);
    mr_run_free(&run);
}

static const char *const long_export[] = {
    "export",    "--data", "list:long.list", "--transform", "train:64", "--out", "never.npy",
    "--workers", "1",      "--batch-size",   "4",           NULL};

static void write_long_list(void)
{
    FILE *list = fopen("long.list", "w");

    assert_non_null(list);
    for (int i = 0; i < 200000; i++)
        fprintf(list, "photos/class_0/%d.jpg\t%d\n", i % N_IMAGES, i);
    assert_int_equal(fclose(list), 0);
}

static void interrupted_export_leaves_nothing(void **state)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU};
    struct rlimit none = {0, 0};
    struct mr_run run = {0};

    (void)state;
    write_long_list();
    setrlimit(RLIMIT_CORE, &none);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        mr_run_command_signal(&run, ".stdout", signals[i], 700, long_export);
        if (run.status != 128 + signals[i])
            fail_msg("signal %d: ends with %d: %s", signals[i], run.status, run.err);
        assert_int_equal(mr_run_count_entries("never"), 0);
    }
    mr_run_free(&run);
}

static void limit_on_file_sizes_is_an_error_that_leaves_nothing(void **state)
{
    struct mr_run run = {0};
    struct rlimit before, small;

    (void)state;
    write_long_list();
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    /* the shared memory of this loader needs less, the images need more */
    small.rlim_cur = 16 << 20;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    mr_run_command_signal(&run, ".stdout", 0, 0, long_export);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    if (run.status != 1)
        fail_msg("ends with %d: %s", run.status, run.err);
    if (strstr(run.err, "never.npy") == NULL || strstr(run.err, "File too large") == NULL)
        fail_msg("says: %s", run.err);
    assert_int_equal(mr_run_count_entries("never"), 0);
    mr_run_free(&run);
}

static void target_is_refused_before_the_data_are_opened(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_command(&run, "export", "--data", "nowhere", "--out", "missing/x.npy", NULL);
    assert_int_equal(run.status, 1);
    assert_words(run.err, "missing");
    assert_null(strstr(run.err, "nowhere"));
    mr_run_command(&run, "export", "--data", "nowhere", "--out", "/dev/full.npy", NULL);
    assert_int_equal(run.status, 1);
    assert_words(run.err, "/dev/full.npy: files are not created in /dev");
    mr_run_free(&run);
}

/* 7 photographs in a tar, the i-th with a caption of i letters. */
static void write_shard(void)
{
    struct mr_test_shard shard = {0};
    for (int i = 0; i < 7; i++) {
        struct mr_test_image image =
            mr_test_jpeg(&(struct mr_test_jpeg){.width = 40, .height = 30, .seed = (uint32_t)i});
        char name[32];
        snprintf(name, sizeof name, "%03d.jpg", i);
        mr_test_shard_add(&shard, name, image.bytes, image.len);
        snprintf(name, sizeof name, "%03d.txt", i);
        mr_test_shard_add(&shard, name, "abcdefg", (uint64_t)i);
        mr_test_image_free(&image);
    }
    mr_test_shard_end(&shard);
    mr_test_folder_write(".", "shard.tar", shard.bytes, shard.len);
    mr_test_shard_free(&shard);
}

static void extra_members_are_values_and_offsets(void **state)
{
    struct mr_npy_file values, offsets, geometry;
    struct mr_run run = {0};
    int64_t at = 0;

    (void)state;
    write_shard();
    mr_run_command(&run, "export", "tar:shard.tar?label=none&keep=txt:9", "--transform", "train:16",
                   "--no-shuffle", "--batch-size", "3", "--out", "shard.npy", NULL);
    assert_int_equal(run.status, 0);
    mr_npy_file_read(&values, "shard.txt.npy");
    mr_npy_file_read(&offsets, "shard.txt.offsets.npy");
    mr_npy_file_read(&geometry, "shard.geometry.npy");
    assert_shape(&values, "|u1", 1, (int64_t[]){21});
    assert_shape(&offsets, "<i8", 1, (int64_t[]){8});
    assert_shape(&geometry, "<i4", 2, (int64_t[]){7, 8});
    for (int i = 0; i < 7; i++) {
        assert_int_equal(mr_npy_file_i64(&offsets, (size_t)i), at);
        assert_memory_equal(values.data + at, "abcdefg", (size_t)i);
        at += i;
    }
    assert_int_equal(mr_npy_file_i64(&offsets, 7), at);
    mr_npy_file_free(&values);
    mr_npy_file_free(&offsets);
    mr_npy_file_free(&geometry);
    mr_run_free(&run);
}

enum { N_SIZES = 7, SIDE = 10 };

static struct mr_test_png sized_png(int i, bool is_mask)
{
    return (struct mr_test_png){.width = (uint32_t)(i % 2 == 0 ? SIDE + i : SIDE),
                                .height = (uint32_t)(i % 2 == 0 ? SIDE : SIDE + i),
                                .seed = (uint32_t)i,
                                .colour_type = is_mask ? 0 : 2};
}

/* Images of different sizes, and a mask of each. */
static void write_sizes(void)
{
    static const char *const folders[] = {"sizes", "sizes/a", "masks", "masks/a"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        assert_int_equal(mkdir(folders[i], 0777), 0);
    for (int i = 0; i < N_SIZES; i++)
        for (int is_mask = 0; is_mask < 2; is_mask++) {
            struct mr_test_png options = sized_png(i, is_mask);
            struct mr_test_image image = mr_test_png(&options);
            char name[32];
            snprintf(name, sizeof name, "%s/a/%d.png", is_mask ? "masks" : "sizes", i);
            mr_test_folder_write(".", name, image.bytes, image.len);
            mr_test_image_free(&image);
        }
}

/* The file has the values of all images, or of their masks, one after the other. */
static void expect_sizes(const char *path, bool is_mask, bool planes)
{
    struct mr_npy_file values;
    size_t at = 0;

    mr_npy_file_read(&values, path);
    for (int i = 0; i < N_SIZES; i++) {
        struct mr_test_png options = sized_png(i, is_mask);
        size_t n = (size_t)options.width * options.height, channels = is_mask ? 1 : 3;
        uint8_t *pixels = mr_test_png_pixels(&options);
        assert_in_range(at + n * channels, 1, values.data_len);
        for (size_t k = 0; k < n * channels; k++, at++) {
            size_t place = is_mask ? 3 * k : planes ? 3 * (k % n) + k / n : k;
            assert_int_equal(values.data[at], pixels[place]);
        }
        free(pixels);
    }
    assert_shape(&values, "|u1", 1, (int64_t[]){(int64_t)at});
    mr_npy_file_free(&values);
}

static void images_of_different_sizes_are_written_without_padding(void **state)
{
    static const char *const ways[][3] = {{"--pad-batch", "20", NULL},
                                          {"--ragged", "--max-row-bytes", "2K"}};
    struct mr_npy_file file;
    struct mr_run run = {0};

    (void)state;
    write_sizes();
    for (int way = 0; way < 4; way++) {
        mr_run_command(&run, "export", "imagefolder:sizes?extra=seg:65536:.png:masks",
                       "--no-shuffle", "--transform", "hflip(0)+mask", "--out", "sizes.npy",
                       "--batch-size", "3", "--layout", way < 2 ? "nchw" : "nhwc", ways[way % 2][0],
                       ways[way % 2][1], ways[way % 2][2], NULL);
        if (run.status != 0)
            fail_msg("exits with %d: %s", run.status, run.err);
        expect_sizes("sizes.npy", false, way < 2);
        expect_sizes("sizes.mask_image.npy", true, false);
        mr_npy_file_read(&file, "sizes.image.shape.npy");
        assert_shape(&file, "<i4", 2, (int64_t[]){N_SIZES, 2});
        mr_npy_file_free(&file);
    }
    mr_npy_file_read(&file, "sizes.image.offsets.npy"); /* of the last way */
    for (int i = 0, at = 0; i < N_SIZES; at += 3 * SIDE * (SIDE + i), i++)
        assert_int_equal(mr_npy_file_i64(&file, (size_t)i), at);
    mr_npy_file_free(&file);
    mr_run_command(&run, "export", "sizes", "--transform", "grayscale", "--ragged",
                   "--max-row-bytes", "1K", "--out", "grey.npy", NULL);
    assert_string_equal(run.out, "grey.npy: u8 (910)\n");
    mr_run_free(&run);
}

static void groups_have_images_of_a_similar_shape(void **state)
{
    struct mr_npy_file index;
    struct mr_run run = {0};

    (void)state;
    mr_run_command(&run, "export", "sizes", "--transform", "hflip", "--pad-batch", "16",
                   "--batch-size", "3", "--no-shuffle", "--aspect-ratio-groups", "1", "--out",
                   "groups.npy", NULL);
    if (run.status != 0)
        fail_msg("exits with %d: %s", run.status, run.err);
    mr_npy_file_read(&index, "groups.indices.npy");
    assert_shape(&index, "<i8", 1, (int64_t[]){6});
    for (size_t i = 0; i < 6; i++) /* the square is with the wide ones */
        assert_int_equal(mr_npy_file_i64(&index, i), ((int64_t[]){0, 2, 4, 1, 3, 5})[i]);
    mr_npy_file_free(&index);
    mr_run_free(&run);
}

static void a_mixed_epoch_has_its_labels(void **state)
{
    enum { BATCH = 5, CLASSES = 4 };
    struct mr_npy_file label, partner, lambda, soft;
    struct mr_run run = {0};

    (void)state;
    mr_run_command(&run, "export", "imagefolder:photos", "--transform", "train:16+mixup(1)",
                   "--dtype", "f32", "--batch-size", "5", "--soft-labels", "4", "--out",
                   "mixed.npy", NULL);
    assert_int_equal(run.status, 0);
    mr_npy_file_read(&label, "mixed.labels.npy");
    mr_npy_file_read(&partner, "mixed.mix_labels.npy");
    mr_npy_file_read(&lambda, "mixed.mix_lambda.npy");
    mr_npy_file_read(&soft, "mixed.soft_labels.npy");
    assert_shape(&partner, "<i8", 1, (int64_t[]){N_SAMPLES});
    assert_shape(&lambda, "<f4", 1, (int64_t[]){N_SAMPLES});
    assert_shape(&soft, "<f4", 2, (int64_t[]){N_SAMPLES, CLASSES});
    for (int i = 0; i < N_SAMPLES; i++) {
        int before = i % BATCH == 0 ? i + BATCH - 1 : i - 1;
        int64_t own = mr_npy_file_i64(&label, (size_t)i),
                other = mr_npy_file_i64(&partner, (size_t)i);
        float share, shares[CLASSES];
        memcpy(&share, lambda.data + (size_t)i * sizeof share, sizeof share);
        memcpy(shares, soft.data + (size_t)i * sizeof shares, sizeof shares);
        assert_int_equal(other, mr_npy_file_i64(&label, (size_t)before));
        for (int c = 0; c < CLASSES; c++)
            assert_float_equal(shares[c], (own == c ? share : 0) + (other == c ? 1 - share : 0),
                               1e-6);
    }
    mr_npy_file_free(&label);
    mr_npy_file_free(&partner);
    mr_npy_file_free(&lambda);
    mr_npy_file_free(&soft);
    mr_run_command(&run, "export", "imagefolder:photos", "--transform", "train:16+mixup(1)",
                   "--dtype", "f32", "--batch-size", "16", "--drop-last", "--out", "none.npy",
                   NULL);
    assert_int_equal(run.status, 0);
    mr_npy_file_read(&lambda, "none.mix_lambda.npy");
    assert_shape(&lambda, "<f4", 1, (int64_t[]){0});
    mr_npy_file_free(&lambda);
    assert_int_equal(access("none.soft_labels.npy", F_OK), -1);
    mr_run_command(&run, "export", "imagefolder:photos", "--soft-labels", "4", "--out", "plain.npy",
                   NULL);
    assert_int_equal(run.status, 2);
    assert_words(run.err, "soft_labels 4: the transform does not mix");
    mr_run_free(&run);
}

static void a_mixture_needs_an_end(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_command(&run, "export", "--data", "mix:2*(photos)|1*(photos)", "--workers", "0", "--out",
                   "mixed.npy", NULL);
    assert_int_equal(run.status, 1);
    assert_string_equal(run.err, "millrace export: an epoch of the mixture has no end: give "
                                 "--mix-samples or --mix-stop\n");
    mr_run_command(&run, "export", "--data", "mix:2*(photos)|1*(photos)", "--workers", "0",
                   "--transform", "eval:10:8", "--mix-samples", "9", "--out", "mixed.npy", NULL);
    assert_string_equal(run.out, "mixed.npy: u8 (9, 3, 8, 8)\n");
    mr_run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mixture_needs_an_end),
        cmocka_unit_test(four_files_describe_one_epoch),
        cmocka_unit_test(extra_members_are_values_and_offsets),
        cmocka_unit_test(images_of_different_sizes_are_written_without_padding),
        cmocka_unit_test(groups_have_images_of_a_similar_shape),
        cmocka_unit_test(a_mixed_epoch_has_its_labels),
        cmocka_unit_test(seed_epoch_and_order_are_those_of_the_order_command),
        cmocka_unit_test(workers_batch_size_and_reader_change_nothing),
        cmocka_unit_test(dtype_and_layout_are_written_as_numpy_knows_them),
        cmocka_unit_test(mean_and_deviation_take_the_place_of_the_usual_ones),
        cmocka_unit_test(exact_ranks_hold_each_index_once),
        cmocka_unit_test(dropped_last_batch_is_not_written),
        cmocka_unit_test(saved_list_gives_the_same_export),
        cmocka_unit_test(pack_gives_the_export_of_its_folder),
        cmocka_unit_test(records_are_written_as_they_are),
        cmocka_unit_test(only_regular_files_are_replaced),
        cmocka_unit_test(interrupted_export_leaves_nothing),
        cmocka_unit_test(limit_on_file_sizes_is_an_error_that_leaves_nothing),
        cmocka_unit_test(target_is_refused_before_the_data_are_opened),
    };

    return cmocka_run_group_tests(tests, set_up, mr_run_leave_folder);
}
