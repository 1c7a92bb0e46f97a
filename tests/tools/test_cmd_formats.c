/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands over image files that are not JPEGs, good and damaged. Every suffix is listed, a file's
 * format follows from its bytes, and a pack of them has the same pixels and the same damage.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "tests/support/assert_words.h"
#include "tests/tools/run_command.h"

#define BMP "BM\0\0\0\0\0\0\0\0\32\0\0\0\14\0\0\0\2\0\2\0\1\0\30\0"
#define BMP_PIXELS "\1\2\3\4\5\6\0\0\7\10\11\12\13\14\0\0"

struct example {
    const char *name;
    size_t len;
    const char *bytes;
    const char *damage; /* NULL if it is good */
};

#define EXAMPLE(name, bytes, damage)                                                               \
    {                                                                                              \
        name, sizeof(bytes) - 1, bytes, damage                                                     \
    }

static const struct example examples[] = {
    EXAMPLE("a.jpg", BMP BMP_PIXELS, NULL),
    EXAMPLE("b.JPEG", "P6 2 1 255 abcdef", NULL),
    EXAMPLE("c.Png", "P5 3 1 255 abc", NULL),
    EXAMPLE("d.ppm", "P4 9 1 ab", NULL),
    EXAMPLE("e.BMP", BMP BMP_PIXELS, NULL),
    EXAMPLE("f.pgm", "P2 2 2 9 1 2 3 4", NULL),
    EXAMPLE("g.tif", "P1 3 1 101", NULL),
    EXAMPLE("h.TIFF", "P3 1 1 9 1 2 3", NULL),
    EXAMPLE("i.WebP", BMP BMP_PIXELS, NULL),
    EXAMPLE("cut.bmp", BMP "\1\2\3", "BMP: 3 bytes of pixels where 14 are needed"),
    EXAMPLE("cut.pgm", "P5 300 200 255 a", "PPM: 1 bytes of pixels where 60000 are needed"),
    EXAMPLE("cut.webp", "RIFF\20\0\0\0WEBPVP8 ", "WebP"),
    EXAMPLE("gif.webp", "GIF89a.......",
            "GIF is not supported; JPEG, PNG, WebP, TIFF, BMP and PPM are"),
    EXAMPLE("huge.ppm", "P6 1000000000 1 255 abc",
            "1000000000 x 1 pixels are above the limit of 178956970"),
};
enum { N_EXAMPLES = sizeof examples / sizeof *examples, N_DAMAGED = 5 };

static int set_up(void **state)
{
    char path[100];

    mr_run_enter_folder(state);
    assert_int_equal(mkdir("mix", 0777), 0);
    assert_int_equal(mkdir("mix/class", 0777), 0);
    for (size_t i = 0; i < N_EXAMPLES; i++) {
        snprintf(path, sizeof path, "mix/class/%s", examples[i].name);
        mr_run_write_file(path, examples[i].bytes, examples[i].len);
    }
    mr_run_write_file("mix/class/other.pbm", "P1 1 1 1", 8);
    return 0;
}

static void check_what(const char *spec)
{
    struct mr_run run = {0};
    char line[200];

    mr_run_command(&run, "check", spec, NULL);
    assert_int_equal(run.status, 1);
    snprintf(line, sizeof line, "%s: %d of %d samples damaged, ", spec, N_DAMAGED, N_EXAMPLES);
    assert_words(run.out, line);
    for (size_t i = 0; i < N_EXAMPLES; i++) {
        snprintf(line, sizeof line, "class/%s", examples[i].name);
        const char *found = strstr(run.out, line);
        if ((found != NULL) != (examples[i].damage != NULL))
            fail_msg("%s in:\n%s", line, run.out);
        if (found != NULL)
            assert_words(found, examples[i].damage);
    }
    mr_run_free(&run);
}

static void check_finds_every_suffix_and_names_the_damage(void **state)
{
    (void)state;
    check_what("mix");
    check_what("imagefolder:mix");
}

static void list_names_formats_by_their_bytes(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_command(&run, "list", "mix", NULL);
    assert_int_equal(run.status, 0);
    assert_words(run.out, "\nbmp             4\n");
    assert_words(run.out, "\nppm             8\n");
    assert_words(run.out, "\nwebp            1\n");
    assert_words(run.out, "\ngif             1\n");
    /* cut.webp, gif.webp, and a BMP that is too large */
    assert_words(run.out, "without a header of an image that can be decoded: 3\n");
    assert_words(run.out, "\nwidth               1            2   1000000000\n");
    mr_run_free(&run);
}

static void export_all(const char *spec, const char *workers, const char *policy, const char *out)
{
    struct mr_run run = {0};

    mr_run_command(&run, "export", spec, "--transform", "train:6", "--batch-size", "4", "--workers",
                   workers, "--on-error", policy, "--out", out, NULL);
    if (run.status != 0)
        fail_msg("%s", run.err);
    mr_run_free(&run);
}

static void packs_have_the_same_pixels_and_the_same_damage(void **state)
{
    static const char *const encodings[] = {"dct", "jpeg", "raw"}, *const policies[] = {"skip",
                                                                                        "zero"};
    struct mr_run run = {0};
    char pack[20], spec[30];

    (void)state;
    for (int k = 0; k < 2; k++) {
        snprintf(pack, sizeof pack, "%s.npy", policies[k]);
        export_all("mix", "0", policies[k], pack);
    }
    for (int i = 0; i < 3; i++) {
        snprintf(pack, sizeof pack, "pack-%s", encodings[i]);
        snprintf(spec, sizeof spec, "pack:%s", pack);
        mr_run_command(&run, "pack", "mix", pack, "--encoding", encodings[i], NULL);
        assert_int_equal(run.status, 0);
        assert_words(run.out, "5 damaged");
        check_what(spec);
        for (int k = 0; k < 2; k++) {
            char name[20];
            snprintf(name, sizeof name, "%s.npy", policies[k]);
            export_all(spec, "2", policies[k], "packed.npy");
            mr_run_assert_same_files("packed.npy", name);
        }
    }
    mr_run_free(&run);
}

static void the_first_damage_ends_an_epoch_by_default(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_command(&run, "export", "mix", "--no-shuffle", "--transform", "eval:6:6", "--out",
                   "x.npy", NULL);
    assert_int_equal(run.status, 1);
    assert_words(run.err,
                 "mix/class/cut.bmp (index 3): BMP: 3 bytes of pixels where 14 are needed");
    assert_false(mr_run_exists("x.npy"));
    mr_run_free(&run);
}

static void preview_shows_what_is_good(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_command(&run, "preview", "mix", "--batch-size", "14", "--on-error", "skip", "--out",
                   "sheet.png", NULL);
    if (run.status != 0 && strstr(run.err, "no libgd") == NULL)
        fail_msg("%s", run.err);
    mr_run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_finds_every_suffix_and_names_the_damage),
        cmocka_unit_test(list_names_formats_by_their_bytes),
        cmocka_unit_test(packs_have_the_same_pixels_and_the_same_damage),
        cmocka_unit_test(the_first_damage_ends_an_epoch_by_default),
        cmocka_unit_test(preview_shows_what_is_good),
    };
    return cmocka_run_group_tests(tests, set_up, mr_run_leave_folder);
}
