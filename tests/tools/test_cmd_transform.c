/* SPDX-License-Identifier: Apache-2.0 */
/* `millrace transform` checks a text and prints its passes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/assert_words.h"
#include "tests/tools/run_command.h"

static void long_form_comes_first_and_the_passes_follow(void **state)
{
    struct mr_run run = {0}, again = {0};
    char text[256];

    (void)state;
    mr_run_command(&run, "transform", "eval:256:224+posterize(4)", NULL);
    assert_int_equal(run.status, 0);
    assert_string_equal(run.err, "");
    assert_words(run.out, "\n\nsample: u8 nchw 3x224x224, 150528 bytes\nneeded: ");
    assert_words(run.out, "of an image of 500x375");
    assert_words(run.out, "\n  posterize             posterize ");
    /* The first line is a text with the same passes. */
    snprintf(text, sizeof text, "%.*s", (int)strcspn(run.out, "\n"), run.out);
    mr_run_command(&again, "transform", text, NULL);
    assert_string_equal(again.out, run.out);
    mr_run_free(&run);
    mr_run_free(&again);
}

static void size_dtype_and_layout_are_taken(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_command(&run, "transform", "resize(50)", "--size", "300x100", "--dtype", "F16",
                   "--layout", "nhwc", NULL);
    assert_int_equal(run.status, 0);
    assert_words(run.out, "sample: f16 nhwc 50x150x3, 45000 bytes\n");
    assert_words(run.out, "of an image of 300x100");
    mr_run_free(&run);
}

static void calls_of_a_sample_are_printed(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_command(&run, "transform", "resize(50)+posterize(4,1)+hflip(1)", "--size", "60x100",
                   "--index", "7", "--epoch", "3", "--seed", "18446744073709551615", NULL);
    assert_int_equal(run.status, 0);
    assert_words(run.out, "\n\nindex 7 of epoch 3 with seed 18446744073709551615:\n"
                          "  resize(size=83:50,interpolation=bilinear)\n"
                          "  posterize(bits=4)\n"
                          "  hflip\n");
    mr_run_command(&run, "transform", "hflip(1)+random_erasing(1)", "--dtype", "f32", "--index",
                   "0", NULL);
    const char *calls = strstr(run.out, "\n  hflip\n");
    int box[4];
    assert_non_null(calls);
    assert_int_equal(sscanf(calls, " hflip erase %dx%d+%d+%d", &box[0], &box[1], &box[2], &box[3]),
                     4);
    mr_run_command(&run, "transform", "none", "--index", "0", NULL);
    assert_words(run.out, "\nindex 0 of epoch 0 with seed 0:\n  nothing\n");
    mr_run_free(&run);
}

static void expect_failure(int status, const char *words, const char *text, const char *option,
                           const char *value)
{
    struct mr_run run = {0};

    mr_run_command(&run, "transform", text, option, value, NULL);
    assert_int_equal(run.status, status);
    assert_string_equal(run.out, "");
    assert_words(run.err, words);
    mr_run_free(&run);
}

static void errors_name_the_place(void **state)
{
    (void)state;
    expect_failure(2,
                   "transform \"train:224+posterze(4)\", character 11: no operation has this name "
                   "(did you mean "
                   "'posterize'?)",
                   "train:224+posterze(4)", NULL, NULL);
    expect_failure(2, "normalize cannot be applied: dtype is u8", "normalize(mean=0,std=1)", NULL,
                   NULL);
    expect_failure(1, "crop 32x32 is larger than the image 20x40", "random_crop(32)", "--size",
                   "20x40");
    expect_failure(2, "--size: '20' is not WIDTHxHEIGHT, each from 1 to 65535", "none", "--size",
                   "20");
    expect_failure(2, "--size: '20x65536' is not", "none", "--size", "20x65536");
    expect_failure(2, "TEXT is missing", "--size", "20x20", NULL);
    expect_failure(2, "unexpected argument 'hflip'", "none", "hflip", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_form_comes_first_and_the_passes_follow),
        cmocka_unit_test(size_dtype_and_layout_are_taken),
        cmocka_unit_test(calls_of_a_sample_are_printed),
        cmocka_unit_test(errors_name_the_place),
    };

    return cmocka_run_group_tests(tests, mr_run_enter_folder, mr_run_leave_folder);
}
