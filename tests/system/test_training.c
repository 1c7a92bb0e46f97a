/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The training example as a program: it learns; one, two and four ranks get the same weights; and a
 * run that a signal stops continues where it was. test_training_modes.c tests several devices in
 * one process. The machine may have a GPU, so the tests name the CPU.
 */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <millrace/millrace.h>

#include "tests/support/folder.h"
#include "tests/support/folder_fill.h"
#include "tests/support/processes.h"
#include "tests/support/scale.h"
#include "tests/system/training_rig.h"

#ifdef MR_TEST_TRAIN

static void need_gloo(void)
{
    if (!MR_TEST_GLOO) {
        print_message("this build has no gloo\n");
        skip();
    }
}

static void expect_agreement(const char *options, double tolerance)
{
    struct training_run *one = training_new("one", 1, options);

    training_run(one);
    for (uint32_t n_ranks = 2; n_ranks <= 4; n_ranks += 2) {
        struct training_run *many = training_new(n_ranks == 2 ? "two" : "four", n_ranks, options);
        training_run(many);
        double apart = training_difference(one, many);
        print_message("1 and %u ranks: weights are %g apart\n", n_ranks, apart);
        assert_true(apart <= tolerance);
        free(many);
    }
    free(one);
}

/* ---- tests ---- */

/* Under sanitizers only one epoch; the result is checked only without them. */
static struct training_line train_network(int n_epochs, const char *options)
{
    char text[300];
    int n = mr_test_is_sanitized() ? 1 : n_epochs;

    snprintf(text, sizeof text, "--epochs=%d --device=host %s", n, options);
    struct training_run *run = training_new("learn", 1, text);
    training_run(run);
    struct training_line line = training_last_line(run, n);
    print_message("test accuracy %.1f %%\n", 100 * line.test_accuracy);
    free(run);
    return line;
}

static void the_network_learns(void **state)
{
    (void)state;
    training_pictures(400, 100);
    struct training_line line = train_network(5, "--batch-size=20");
    assert_true(line.test_accuracy >= 0.8 || mr_test_is_sanitized()); /* by chance 0.1 */
    assert_true(line.test_loss < 0.8 || mr_test_is_sanitized());      /* log(10) is 2.3 */
}

static void the_network_learns_from_mixed_and_repeated_pictures(void **state)
{
    (void)state;
    training_pictures(600, 100);
    struct training_line line =
        train_network(6, "--batch-size=16 --repeat=2 "
                         "--transform=cifar+random_erasing(0.25)+mixup_or_cutmix(0.2,1)");
    assert_true(line.test_accuracy >= 0.6 || mr_test_is_sanitized()); /* by chance 0.1 */
}

static void ranks_get_the_weights_of_one_process_in_f64(void **state)
{
    (void)state;
    need_gloo();
    training_pictures(161, 41); /* not a multiple of 2 or 4: some ranks have an empty last step */
    expect_agreement("--epochs=3 --batch-size=16 --dtype=f64 --workers=0 --device=host", 1e-9);
}

static void ranks_get_the_weights_of_one_process_in_f32(void **state)
{
    (void)state;
    need_gloo();
    training_pictures(160, 20); /* 20 steps */
    expect_agreement("--epochs=1 --batch-size=8 --workers=0 --device=host", 1e-5);
}

/* In f32 another order of sums gives another network in the end, but not a worse one. */
static void four_ranks_learn_as_well_as_one_process(void **state)
{
    const char *options = "--epochs=4 --batch-size=20 --workers=0 --device=host";

    (void)state;
    need_gloo();
    training_pictures(400, 200);
    struct training_run *one = training_new("one", 1, options),
                        *four = training_new("four", 4, options);
    training_run(one);
    training_run(four);
    double a = training_last_line(one, 4).test_accuracy,
           b = training_last_line(four, 4).test_accuracy;
    print_message("test accuracy %.1f %% and %.1f %%\n", 100 * a, 100 * b);
    assert_true(a > 0.6 && fabs(a - b) <= 0.03);
    free(one);
    free(four);
}

/* Each sample counts once, on any number of ranks. */
static void ranks_test_the_same_weights_alike(void **state)
{
    static const struct {
        const char *name, *options;
        uint32_t n_ranks;
    } cases[] = {{"one", "", 1}, {"two", "", 2}, {"four", "", 4}, {"first", "--eval=rank0", 2}};
    /* not a multiple of the batch size or the number of ranks */
    int n = mr_test_is_long() ? 10007 : mr_test_is_sanitized() ? 307 : 1007;

    (void)state;
    need_gloo();
    training_pictures(100, n);
    struct training_run *trained =
        training_new("trained", 1, "--epochs=1 --batch-size=20 --dtype=f64 --device=host");
    struct training_line one = {0};

    training_run(trained);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char options[600];
        snprintf(options, sizeof options,
                 "--epochs=0 --batch-size=20 --dtype=f64 --device=host --resume=%s/best.ckpt%s%s",
                 trained->out, *cases[i].options ? " " : "", cases[i].options);
        struct training_run *run = training_new(cases[i].name, cases[i].n_ranks, options);
        training_run(run);
        struct training_line line = training_last_line(run, 1);
        one = i == 0 ? line : one;
        assert_int_equal(lround(line.test_accuracy * n), lround(one.test_accuracy * n));
        assert_true(fabs(line.test_loss - one.test_loss) * n <= 1e-12 * one.test_loss * n);
        free(run);
    }
    free(trained);
}

static void expect_to_continue(uint32_t n_ranks, int signal_number)
{
    training_pictures(160, 20);
    int n_epochs = mr_test_is_sanitized() ? 4 : 6; /* it is most likely stopped in the second one */
    char options[200], more[600];
    snprintf(options, sizeof options,
             "--epochs=%d --batch-size=8 --dtype=f64 --workers=0 --device=host", n_epochs);
    struct training_run *whole = training_new("whole", n_ranks, options), *rest;
    struct training_run *part = training_new("part", n_ranks, options);

    training_run(whole);
    assert_true(training_stop(part, signal_number));
    snprintf(more, sizeof more, "%s --resume=%s/last.ckpt", options, part->out);
    rest = training_new("rest", n_ranks, more);
    training_run(rest);
    assert_true(training_difference(whole, rest) == 0);
    assert_true(
        training_last_line(whole, n_epochs).test_loss ==
        training_last_line(rest, n_epochs - (int)training_last_line(part, TRAINING_ANY).epoch)
            .test_loss);
    free(whole);
    free(part);
    free(rest);
}

static void a_stopped_run_continues_with_the_same_bits(void **state)
{
    (void)state;
    expect_to_continue(1, SIGTERM);
}

static void stopped_ranks_continue_with_the_same_bits(void **state)
{
    (void)state;
    need_gloo();
    expect_to_continue(2, SIGUSR1);
}

static void a_wrong_checkpoint_is_named(void **state)
{
    char more[600], path[340];

    (void)state;
    training_pictures(20, 20);
    struct training_run *trained =
                            training_new("trained", 1, "--epochs=1 --batch-size=20 --device=host"),
                        *run;
    training_run(trained);
    snprintf(path, sizeof path, "%s/last.ckpt", trained->out);
    assert_int_equal(truncate(path, 100000), 0);
    snprintf(more, sizeof more, "--device=host --resume=%s", path);
    run = training_new("refused", 1, more);
    assert_int_equal(training_finish(training_start(run)), 1);
    assert_true(training_said(run, "last.ckpt: the file's length does not match its head"));
    free(run);
    free(trained);
}

static void make_split(const char *split)
{
    char path[600];

    snprintf(path, sizeof path, "%s/%s", training_folder(), split);
    assert_int_equal(mkdir(path, 0777), 0);
    mr_test_folder_fill(path, 2, 9);
}

/* 17 of 18 photographs count, on any number of ranks. */
static void damaged_photographs_add_nothing(void **state)
{
    const char *options =
        "--epochs=2 --batch-size=4 --dtype=f64 --workers=0 --lr=0.001 --device=host";

    (void)state;
    make_split("train");
    make_split("val");
    mr_test_folder_write(training_folder(), "train/class_1/003.jpg", "text", 4);
    struct training_run *one = training_new("one", 1, options),
                        *two = training_new("two", 2, options);
    one->argv[0] = two->argv[0] = MR_TEST_TRAIN_FOLDER;
    training_run(one);
    double share = training_last_line(one, 2).accuracy * 17;
    assert_true(fabs(share - round(share)) < 1e-9);
    struct training_run *parts =
        training_new("parts", 1,
                     "--epochs=2 --batch-size=4 --dtype=f64 --workers=0 --lr=0.001 "
                     "--mode=dp-loss --devices=host:0,host:1");
    parts->argv[0] = MR_TEST_TRAIN_FOLDER;
    training_run(parts);
    assert_true(fabs(training_last_line(one, 2).loss - training_last_line(parts, 2).loss) < 1e-9);
    free(parts);
    if (MR_TEST_GLOO) {
        training_run(two);
        assert_true(fabs(training_last_line(one, 2).loss - training_last_line(two, 2).loss) < 1e-9);
        assert_true(fabs(training_last_line(one, 2).test_loss -
                         training_last_line(two, 2).test_loss) < 1e-9);
    }
    free(one);
    free(two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_network_learns, training_teardown),
        cmocka_unit_test_teardown(the_network_learns_from_mixed_and_repeated_pictures,
                                  training_teardown),
        cmocka_unit_test_teardown(a_stopped_run_continues_with_the_same_bits, training_teardown),
        cmocka_unit_test_teardown(a_wrong_checkpoint_is_named, training_teardown),
        cmocka_unit_test_teardown(damaged_photographs_add_nothing, training_teardown),
        cmocka_unit_test_teardown(ranks_get_the_weights_of_one_process_in_f64, training_teardown),
        cmocka_unit_test_teardown(ranks_get_the_weights_of_one_process_in_f32, training_teardown),
        cmocka_unit_test_teardown(four_ranks_learn_as_well_as_one_process, training_teardown),
        cmocka_unit_test_teardown(ranks_test_the_same_weights_alike, training_teardown),
        cmocka_unit_test_teardown(stopped_ranks_continue_with_the_same_bits, training_teardown),
    };

    alarm(mr_test_is_long() ? 580 : 280); /* the children end with this process */
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    puts("train_cifar10 was not built: no OpenBLAS");
    return 77;
}

#endif
