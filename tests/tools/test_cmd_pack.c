/* SPDX-License-Identifier: Apache-2.0 */
/* `millrace pack`, `check` and `unpack` as a user calls them. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/images.h"
#include "tests/support/assert_words.h"
#include "tests/tools/run_command.h"

enum { N_CLASSES = 3, N_IMAGES = 40, N_SAMPLES = N_CLASSES * N_IMAGES };

static void assert_status(const struct mr_run *run, int status)
{
    if (run->status != status)
        fail_msg("exits with %d: %s", run->status, run->err);
}

/* "photos": 120 JPEGs; "mixed": two JPEGs, a PNG, and two that are damaged. */
static int set_up(void **state)
{
    mr_run_enter_folder(state);
    mr_run_make_images("photos", N_CLASSES, N_IMAGES);
    mr_run_make_images("mixed", 1, 2);
    struct mr_test_image png =
        mr_test_png(&(struct mr_test_png){.width = 30, .height = 20, .colour_type = 2});
    mr_test_image_save(&png, "mixed/class_0/a.png");
    mr_test_image_free(&png);
    mr_run_write_file("mixed/class_0/text.jpg", "hello, world", 12);
    struct mr_test_image jpeg = mr_test_jpeg(&(struct mr_test_jpeg){.width = 200, .height = 150});
    mr_run_write_file("mixed/class_0/short.jpg", jpeg.bytes, jpeg.len / 3);
    mr_test_image_free(&jpeg);
    return 0;
}

static void assert_same_packs(const char *a, const char *b)
{
    char x[64], y[64];

    snprintf(x, sizeof x, "%s/index", a);
    snprintf(y, sizeof y, "%s/index", b);
    mr_run_assert_same_files(x, y);
    snprintf(x, sizeof x, "%s/marks", a);
    snprintf(y, sizeof y, "%s/marks", b);
    assert_int_equal(mr_run_exists(x), mr_run_exists(y));
    if (mr_run_exists(x))
        mr_run_assert_same_files(x, y);
    for (int i = 0; i < 2; i++) {
        snprintf(x, sizeof x, "%s/shard-%05d", a, i);
        snprintf(y, sizeof y, "%s/shard-%05d", b, i);
        assert_int_equal(mr_run_exists(x), mr_run_exists(y));
        if (mr_run_exists(x))
            mr_run_assert_same_files(x, y);
    }
}

static void pack_of_files_is_checked_and_gives_them_back(void **state)
{
    struct mr_run run = {0};
    char a[64], b[64];

    (void)state;
    mr_run_command(&run, "pack", "--encoding", "jpeg", "--workers", "2", "imagefolder:photos",
                   "pack", NULL);
    assert_status(&run, 0);
    assert_words(run.out, "pack: 120 samples: jpeg 120 (120 with an index)\n");
    assert_words(run.out, "samples/s\n"); /* nothing kept, nothing damaged */
    assert_string_equal(run.err, "");
    mr_run_command(&run, "check", "pack:pack", "--jpeg", "stock", NULL);
    assert_status(&run, 0);
    assert_words(run.out, "pack:pack: 0 of 120 samples damaged, ");
    mr_run_command(&run, "check", "pack", NULL); /* a folder with an index */
    assert_status(&run, 0);
    assert_words(run.out, "pack: 0 of 120 samples damaged, ");
    mr_run_command(&run, "unpack", "pack", "again", NULL);
    assert_status(&run, 0);
    assert_words(run.out, "again: 120 files, wrote ");
    for (int c = 0; c < N_CLASSES; c++) {
        for (int i = 0; i < N_IMAGES; i++) {
            snprintf(a, sizeof a, "photos/class_%d/%d.jpg", c, i);
            snprintf(b, sizeof b, "again/class_%d/%d.jpg", c, i);
            mr_run_assert_same_files(a, b);
        }
    }
    mr_run_free(&run);
}

/* A training loop receives the same from every kind of pack. */
static void packs_export_as_their_folder_does(void **state)
{
    static const char *const encodings[] = {"dct", "DCT", "jpeg", "jpeg"};
    struct mr_run run = {0};

    (void)state;
    mr_run_command(&run, "export", "--data", "photos", "--transform", "train:32", "--seed", "3",
                   "--workers", "1", "--out", "folder.npy", NULL);
    assert_status(&run, 0);
    for (int i = 0; i < 4; i++) {
        char out[16], spec[24];
        snprintf(out, sizeof out, "as%d", i);
        snprintf(spec, sizeof spec, "pack:as%d", i);
        mr_run_command(&run, "pack", "photos", out, "--encoding", encodings[i], "--align",
                       "--shard-size", "1m", i == 3 ? "--no-index" : NULL, NULL);
        assert_status(&run, 0);
        if (i == 2)
            assert_words(run.out, "as2: 120 samples: jpeg 120 (120 with an index)\n");
        else
            assert_null(strstr(run.out, "with an index"));
        mr_run_command(&run, "export", "--data", spec, "--transform", "train:32", "--seed", "3",
                       "--workers", "1", "--out", "pack.npy", NULL);
        assert_status(&run, 0);
        mr_run_assert_same_files("folder.npy", "pack.npy");
        mr_run_assert_same_files("folder.labels.npy", "pack.labels.npy");
        mr_run_assert_same_files("folder.indices.npy", "pack.indices.npy");
    }
    mr_run_free(&run);
}

static void damaged_and_kept_samples_are_named_and_packed(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_command(&run, "pack", "mixed", "mixed-pack", NULL);
    assert_status(&run, 0);
    assert_words(run.out, "mixed-pack: 5 samples: dct 2 jpeg 3\n");
    assert_words(run.out, "; 3 stored as files; 2 damaged\n");
    assert_words(run.err, "millrace pack: mixed/class_0/a.png (index 2): ");
    assert_words(run.err, "mixed/class_0/short.jpg (index 3): ");
    assert_words(run.err, "mixed/class_0/text.jpg (index 4): ");
    mr_run_command(&run, "check", "mixed-pack", NULL);
    assert_status(&run, 1);
    assert_words(run.out, "mixed-pack/shard-00000 (class_0/short.jpg, index 3): ");
    assert_words(run.out, "mixed-pack/shard-00000 (class_0/text.jpg, index 4): ");
    assert_words(run.out, "mixed-pack: 2 of 5 samples damaged, ");
    mr_run_command(&run, "export", "--data", "pack:mixed-pack", "--on-error", "zero", "--workers",
                   "0", "--out", "mixed.npy", NULL);
    assert_status(&run, 0);
    assert_words(run.err, "mixed-pack/shard-00000 (class_0/text.jpg, index 4): ");
    if (strstr(run.err, "(index 4)") != NULL)
        fail_msg("the index is said twice: %s", run.err);
    mr_run_command(&run, "unpack", "pack:mixed-pack", "mixed-again", NULL);
    assert_status(&run, 0);
    mr_run_assert_same_files("mixed/class_0/a.png", "mixed-again/class_0/a.png");
    mr_run_assert_same_files("mixed/class_0/text.jpg", "mixed-again/class_0/text.jpg");
    mr_run_assert_same_files("mixed/class_0/short.jpg", "mixed-again/class_0/short.jpg");
    mr_run_free(&run);
}

/* The ending of a name follows the file's content; copied files keep their names. */
static void files_made_anew_get_an_ending_that_fits(void **state)
{
    static const char *const encodings[] = {"jpeg", "dct", "raw"};
    struct mr_run run = {0};

    (void)state;
    for (int i = 0; i < 3; i++) {
        char pack[16], out[16], path[64];
        snprintf(pack, sizeof pack, "anew%d", i);
        snprintf(out, sizeof out, "out%d", i);
        mr_run_command(&run, "pack", "mixed", pack, "--encoding", encodings[i], "--max-side", "16",
                       NULL);
        assert_status(&run, 0);
        mr_run_command(&run, "unpack", pack, out, NULL);
        assert_status(&run, 0);
        snprintf(path, sizeof path, "%s/class_0/0.jpg%s", out, i == 2 ? ".png" : "");
        assert_true(mr_run_exists(path));
        snprintf(path, sizeof path, "%s/class_0/a.png%s", out, i == 2 ? "" : ".jpg");
        char *bytes = mr_run_read_file(path, NULL);
        assert_memory_equal(bytes, i == 2 ? "\x89PNG" : "\xff\xd8\xff", i == 2 ? 4 : 3);
        free(bytes);
        snprintf(path, sizeof path, "%s/class_0/text.jpg", out);
        mr_run_assert_same_files("mixed/class_0/text.jpg", path);
    }
    mr_run_free(&run);
}

/* Folders at any depth, also through links, but not in circles. */
static void check_of_a_folder_looks_at_every_image_file(void **state)
{
    struct mr_run run = {0};

    (void)state;
    assert_int_equal(mkdir("heap", 0777), 0);
    assert_int_equal(mkdir("heap/a\tb", 0777), 0);
    assert_int_equal(mkdir("heap/a\tb/c", 0777), 0);
    mr_run_write_file("heap/top.JPEG", "no image", 8);
    mr_run_write_file("heap/a\tb/c/deep.png", "none either", 11);
    mr_run_write_file("heap/readme.txt", "is not looked at", 16);
    assert_int_equal(symlink("../photos/class_0", "heap/linked"), 0);
    assert_int_equal(symlink("..", "heap/a\tb/up"), 0);
    assert_int_equal(symlink("nowhere", "heap/broken.jpg"), 0);
    mr_run_command(&run, "check", "heap/", NULL);
    assert_status(&run, 1);
    assert_words(run.out, "heap/: 3 of 43 samples damaged, ");
    assert_words(run.out, "heap//top.JPEG: ");
    assert_words(run.out, "heap//a?b/c/deep.png: ");
    assert_words(run.out, "heap//broken.jpg: ");
    mr_run_command(&run, "check", "photos", "--workers", "3", NULL);
    assert_status(&run, 0);
    assert_words(run.out, "photos: 0 of 120 samples damaged, ");
    assert_int_equal(mkdir("nothing", 0777), 0);
    mr_run_command(&run, "check", "nothing", NULL);
    assert_status(&run, 1);
    assert_words(run.err, "nothing has no image files");
    mr_run_command(&run, "check", "not-there", NULL);
    assert_status(&run, 1);
    assert_words(run.err, "not-there");
    mr_run_free(&run);
}

static void check_goes_on_beside_a_folder_that_cannot_be_read(void **state)
{
    struct mr_run run = {0};

    (void)state;
    if (geteuid() == 0)
        skip(); /* root may read everything */
    assert_int_equal(mkdir("partly", 0777), 0);
    assert_int_equal(mkdir("partly/shut", 0), 0);
    assert_int_equal(symlink("../photos/class_0", "partly/open"), 0);
    mr_run_command(&run, "check", "partly", NULL);
    assert_int_equal(rmdir("partly/shut"), 0);
    assert_status(&run, 1);
    assert_words(run.err, "partly/shut: Permission denied");
    assert_words(run.out, "partly: 0 of 40 samples damaged, ");
    mr_run_free(&run);
}

static void altered_pack_is_found_and_exits_1(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_command(&run, "pack", "photos", "altered", NULL);
    assert_status(&run, 0);
    FILE *shard = fopen("altered/shard-00000", "r+");
    assert_non_null(shard);
    assert_int_equal(fseek(shard, 100, SEEK_SET), 0);
    int byte = fgetc(shard);
    assert_int_equal(fseek(shard, 100, SEEK_SET), 0);
    assert_int_equal(fputc(byte ^ 1, shard), byte ^ 1);
    assert_int_equal(fclose(shard), 0);
    mr_run_command(&run, "check", "altered", NULL);
    assert_status(&run, 1);
    assert_words(run.out, "altered/shard-00000 (class_0/0.jpg, index 0): ");
    assert_words(run.out, "altered: 1 of 120 samples damaged, ");
    mr_run_command(&run, "unpack", "altered", "rescued", NULL);
    assert_status(&run, 1);
    assert_words(run.err, "altered/shard-00000 (class_0/0.jpg, index 0): ");
    assert_false(mr_run_exists("rescued/class_0/0.jpg"));
    assert_true(mr_run_exists("rescued/class_2/9.jpg"));
    assert_int_equal(truncate("altered/index", 1000), 0);
    mr_run_command(&run, "check", "altered", NULL);
    assert_status(&run, 1);
    assert_words(run.err, "altered/index");
    mr_run_write_file("altered/index", "XXXXXXXX", 8);
    mr_run_command(&run, "check", "altered", NULL);
    assert_status(&run, 1);
    assert_words(run.err, "altered/index");
    assert_int_equal(unlink("altered/index"), 0);
    mr_run_command(&run, "check", "altered", NULL);
    assert_status(&run, 1);
    assert_words(run.err, "altered/index");
    mr_run_free(&run);
}

/* A signal may come at any time; the continued pack equals one without interruption. */
static void interrupted_pack_goes_on_to_the_same_bytes(void **state)
{
    static const int signals[] = {SIGINT, SIGKILL};
    static const char *const encodings[] = {"dct", "jpeg"};
    struct mr_run run = {0};
    unsigned n_signals = 0;

    (void)state;
    for (int k = 0; k < 4; k++) {
        char out[16], whole[16], index[32];
        int number = signals[k % 2];
        const char *const args[] = {"pack",           "photos",    out, "--encoding",
                                    encodings[k / 2], "--workers", "1", NULL};
        snprintf(out, sizeof out, "pieces%d", k);
        snprintf(whole, sizeof whole, "whole%d", k / 2);
        snprintf(index, sizeof index, "%s/index", out);
        if (!mr_run_exists(whole)) {
            mr_run_command(&run, "pack", "photos", whole, "--encoding", encodings[k / 2], NULL);
            assert_status(&run, 0);
        }
        for (unsigned i = 0; i < 200 && !mr_run_exists(index); i++) {
            mr_run_command_signal(&run, ".stdout", number, 1 + i * i / 40, args);
            if (run.status != 0)
                assert_status(&run, 128 + number);
            n_signals += run.status != 0;
            /*
             * Otherwise the signal came before or after the work, perhaps in a leak checker, which
             * prints other messages.
             */
            if (strncmp(run.err, "millrace", 8) == 0)
                assert_string_equal(run.err,
                                    "millrace pack: interrupted; the same command continues it\n");
        }
        assert_same_packs(whole, out);
    }
    assert_true(n_signals > 2);
    mr_run_free(&run);
}

static void marks_are_checked_by_name(void **state)
{
    struct mr_run run = {0};
    size_t len;

    (void)state;
    mr_run_command(&run, "pack", "photos", "marked", "--encoding", "jpeg", NULL);
    assert_status(&run, 0);
    mr_run_command(&run, "check", "marked", NULL);
    assert_status(&run, 0);
    assert_words(run.out, "marked: 0 of 120 samples damaged, 120 with an index, read ");
    char *marks = mr_run_read_file("marked/marks", &len);
    marks[20] ^= 1;
    mr_run_write_file("marked/marks", marks, len);
    free(marks);
    mr_run_command(&run, "check", "marked", NULL);
    assert_status(&run, 1);
    assert_words(run.out,
                 "marked/shard-00000 (class_0/0.jpg, index 0): its JPEG index was altered");
    assert_words(run.out, "marked: 1 of 120 samples damaged, 120 with an index, read ");
    mr_run_command(&run, "unpack", "marked", "marked-again", NULL);
    assert_status(&run, 0);
    mr_run_assert_same_files("photos/class_0/0.jpg", "marked-again/class_0/0.jpg");
    assert_int_equal(truncate("marked/marks", 100), 0);
    mr_run_command(&run, "check", "marked", NULL);
    assert_status(&run, 1);
    assert_words(run.err, "marked/marks");
    mr_run_free(&run);
}

static void other_options_and_complete_packs_are_refused(void **state)
{
    const char *const args[] = {"pack", "photos", "begun", "--workers", "1", NULL};
    struct mr_run run = {0};

    (void)state;
    for (unsigned ms = 20; ms > 0 && !mr_run_exists("begun/shard-00000"); ms += 5)
        mr_run_command_signal(&run, ".stdout", SIGKILL, ms, args);
    if (!mr_run_exists("begun/index")) {
        mr_run_command(&run, "pack", "photos", "begun", "--encoding", "raw", NULL);
        assert_status(&run, 2);
        assert_words(run.err, "encoding dct,");
        assert_words(run.err, "encoding raw,");
        mr_run_command(&run, "check", "begun", NULL);
        assert_status(&run, 1);
        assert_words(run.err, "begun");
        mr_run_command(&run, "pack", "photos", "begun", NULL);
        assert_status(&run, 0);
    }
    mr_run_command(&run, "pack", "photos", "begun", "--encoding", "raw", NULL);
    assert_status(&run, 2);
    assert_words(run.err,
                 "begun holds a complete pack of another dataset, or made with other options");
    mr_run_free(&run);
}

static void packing_what_is_complete_succeeds_and_writes_nothing(void **state)
{
    struct mr_run run = {0};
    size_t before_len, after_len;

    (void)state;
    mr_run_command(&run, "pack", "photos", "twice", NULL);
    assert_status(&run, 0);
    char *before = mr_run_read_file("twice/index", &before_len);
    mr_run_command(&run, "pack", "photos", "twice", NULL);
    assert_status(&run, 0);
    assert_words(run.out, "; the pack was already complete\n");
    char *after = mr_run_read_file("twice/index", &after_len);
    assert_int_equal(before_len, after_len);
    assert_memory_equal(before, after, after_len);
    free(before);
    free(after);
    mr_run_free(&run);
}

static void shuffled_pack_says_so_by_its_seed(void **state)
{
    struct mr_run run = {0};
    size_t a_len, b_len;

    (void)state;
    mr_run_command(&run, "pack", "photos", "s0", "--arrange", "shuffle", NULL);
    assert_status(&run, 0);
    mr_run_command(&run, "pack", "photos", "s0b", "--arrange", "shuffle", "--seed", "0",
                   "--workers", "4", "--jpeg", "stock", NULL);
    assert_status(&run, 0);
    assert_same_packs("s0", "s0b");
    mr_run_command(&run, "pack", "photos", "s1", "--arrange", "shuffle", "--seed", "1", NULL);
    assert_status(&run, 0);
    char *a = mr_run_read_file("s0/index", &a_len), *b = mr_run_read_file("s1/index", &b_len);
    assert_true(a_len != b_len || memcmp(a, b, a_len) != 0);
    free(a);
    free(b);
    mr_run_free(&run);
}

static void output_that_cannot_be_made_exits_1_and_is_named(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_command(&run, "pack", "photos", "no/such/folder", NULL);
    assert_status(&run, 1);
    assert_words(run.err, "no/such/folder");
    mr_run_command(&run, "pack", "photos", "photos/class_0/0.jpg", NULL);
    assert_status(&run, 1);
    assert_words(run.err, "photos/class_0/0.jpg");
    mr_run_command(&run, "pack", "photos", "good", NULL);
    assert_status(&run, 0);
    mr_run_command(&run, "unpack", "good", "no/such/folder", NULL);
    assert_status(&run, 1);
    assert_words(run.err, "no/such/folder");
    mr_run_command(&run, "unpack", "good", "photos", NULL); /* the same pixels, other bytes */
    assert_status(&run, 2);
    assert_words(run.err, "photos/class_0/0.jpg already exists");
    mr_run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pack_of_files_is_checked_and_gives_them_back),
        cmocka_unit_test(packs_export_as_their_folder_does),
        cmocka_unit_test(damaged_and_kept_samples_are_named_and_packed),
        cmocka_unit_test(files_made_anew_get_an_ending_that_fits),
        cmocka_unit_test(check_of_a_folder_looks_at_every_image_file),
        cmocka_unit_test(check_goes_on_beside_a_folder_that_cannot_be_read),
        cmocka_unit_test(altered_pack_is_found_and_exits_1),
        cmocka_unit_test(interrupted_pack_goes_on_to_the_same_bytes),
        cmocka_unit_test(marks_are_checked_by_name),
        cmocka_unit_test(other_options_and_complete_packs_are_refused),
        cmocka_unit_test(packing_what_is_complete_succeeds_and_writes_nothing),
        cmocka_unit_test(shuffled_pack_says_so_by_its_seed),
        cmocka_unit_test(output_that_cannot_be_made_exits_1_and_is_named),
    };

    return cmocka_run_group_tests(tests, set_up, mr_run_leave_folder);
}
