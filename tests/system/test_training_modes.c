/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The training example on several devices: every mode gets the weights of one process on one
 * device. Devices are the host's, or those of the double of the CUDA runtime, where ranks reduce
 * over the double of NCCL. With 49 or 33 pictures in batches of 16 the last batch has one picture,
 * which only one device gets.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/scale.h"
#include "tests/system/training_rig.h"

#ifdef MR_TEST_TRAIN

#define COMMON "--epochs=2 --batch-size=16 --dtype=f64 --workers=0 "

static struct training_run *run_on(const char *program, const char *name, uint32_t n_ranks,
                                   const char *options)
{
    struct training_run *run = training_new(name, n_ranks, options);

    run->argv[0] = (char *)program;
    training_run(run);
    return run;
}

static struct training_run *run_one(void)
{
    return run_on(MR_TEST_TRAIN, "one", 1, COMMON "--device=host");
}

static void expect_weights_of(const struct training_run *one, struct training_run *run)
{
    double apart = training_difference(one, run);

    print_message("%s: weights are %g apart\n", run->name, apart);
    assert_true(apart <= 1e-9);
    free(run);
}

static void modes_get_the_weights_of_one_device(void **state)
{
    (void)state;
    training_pictures(49, 21);
    struct training_run *one = run_one(), *run;

    run = run_on(MR_TEST_TRAIN, "dp", 1, COMMON "--mode=dp --devices=host:0,host:1");
    assert_true(training_said(run, "memory on host:0: network ") &&
                training_said(run, "memory on host:1: network "));
    expect_weights_of(one, run);
    expect_weights_of(
        one, run_on(MR_TEST_TRAIN, "dp3", 1, COMMON "--mode=dp --devices=host:2,host:0,host:5"));
    expect_weights_of(one, run_on(MR_TEST_TRAIN, "dp-loss", 1,
                                  COMMON "--mode=dp-loss --devices=host:0,host:1,host:2"));
    expect_weights_of(one,
                      run_on(MR_TEST_TRAIN, "mp", 1, COMMON "--mode=mp --devices=host:0,host:1"));
    free(one);
}

/* A checkpoint does not depend on the number of devices that wrote it. */
static void a_stopped_run_continues_in_another_mode(void **state)
{
    int n_epochs = mr_test_is_sanitized() ? 4 : 6;
    char options[100], text[700];
    snprintf(options, sizeof options, "--epochs=%d --batch-size=8 --dtype=f64 --workers=0 ",
             n_epochs);

    (void)state;
    training_pictures(161, 21);
    snprintf(text, sizeof text, "%s--device=host", options);
    struct training_run *whole = run_on(MR_TEST_TRAIN, "whole", 1, text);
    snprintf(text, sizeof text, "%s--mode=mp --devices=host:0,host:1", options);
    struct training_run *part = training_new("part", 1, text);
    assert_true(training_stop(part, SIGTERM));
    snprintf(text, sizeof text, "%s--device=host --resume=%s/last.ckpt", options, part->out);
    expect_weights_of(whole, run_on(MR_TEST_TRAIN, "rest", 1, text));
    snprintf(text, sizeof text,
             "--epochs=0 --dtype=f64 --workers=0 --mode=dp --devices=host:0,host:1 "
             "--resume=%s/last.ckpt",
             whole->out);
    struct training_run *tested = run_on(MR_TEST_TRAIN, "tested", 1, text);
    double a = training_last_line(whole, n_epochs).test_loss,
           b = training_last_line(tested, 1).test_loss;
    assert_true(a - b < 1e-12 && b - a < 1e-12);
    free(tested);
    free(whole);
    free(part);
}

static void wrong_options_are_errors_of_one_line(void **state)
{
    static const struct {
        const char *options, *words;
        int status;
    } cases[] = {
        {"--mode=mp --devices=host:0,host:1,host:2", "--mode mp needs two devices", 1},
        {"--mode=dp --devices=host:0", "--mode dp needs two or more devices", 1},
        {"--mode=dp --devices=host:0,cuda:1", "devices must be all cuda:N or all host:N", 1},
        {"--mode=dp --devices=host:0,,host:1", "the list of devices is wrong", 1},
        {"--mode=dp --devices=host:0,host:1x", "a device is host:N or cuda:N", 1},
        {"--mode=dp --device=host", "--mode ddp takes --device, the others take --devices", 64},
        {"--mode=pp", "'pp' is none of ddp, dp, dp-loss, mp", 64},
    };

    (void)state;
    training_pictures(20, 20);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct training_run *run = training_new("refused", 1, cases[i].options);
        int status = training_finish(training_start(run));
        if (status != cases[i].status || !training_said(run, cases[i].words)) {
            training_show(run);
            fail_msg("%s: status %d", cases[i].options, status);
        }
        free(run);
    }
}

#ifdef MR_TEST_DOUBLE_TRAIN

static void set_double(const char *options)
{
    assert_int_equal(setenv("MR_CUDA_DOUBLE", options, 1), 0);
}

/*
 * The double ends a program with a nonzero status if accesses are unordered or something is left
 * over.
 */
static void modes_on_gpus_get_the_weights_of_the_host(void **state)
{
    (void)state;
    training_pictures(33, 11);
    struct training_run *one = run_one(), *run;

    set_double("devices=2,policy=random,seed=1");
    run = run_on(MR_TEST_DOUBLE_TRAIN, "gpu-ddp", 1, COMMON "--device=auto");
    assert_true(training_said(run, "memory on cuda:0: network "));
    expect_weights_of(one, run);
    run = run_on(MR_TEST_DOUBLE_TRAIN, "gpu-dp", 1, COMMON "--mode=dp");
    assert_true(training_said(run, "memory on cuda:0: network ") &&
                training_said(run, "memory on cuda:1: network "));
    expect_weights_of(one, run);
    set_double("devices=2,policy=late");
    expect_weights_of(one, run_on(MR_TEST_DOUBLE_TRAIN, "gpu-dp-loss", 1,
                                  COMMON "--mode=dp-loss --devices=cuda:1,cuda:0"));
    expect_weights_of(one, run_on(MR_TEST_DOUBLE_TRAIN, "gpu-mp", 1, COMMON "--mode=mp"));
    free(one);
}

static void need_nccl(void)
{
#ifdef MR_TEST_NCCL_FOLDER
    assert_int_equal(setenv("MR_MODULE_PATH", MR_TEST_NCCL_FOLDER, 1), 0);
#else
    print_message("this build has no nccl\n");
    skip();
#endif
}

static void ranks_on_gpus_get_the_weights_of_the_host(void **state)
{
    (void)state;
    need_nccl();
    training_pictures(33, 11);
    struct training_run *one = run_one(), *run;

    set_double("devices=2,policy=random,seed=2");
    run = run_on(MR_TEST_DOUBLE_TRAIN, "nccl-2", 2, COMMON "--device=auto");
    assert_true(training_said(run, "world size 2 (nccl)"));
    struct training_line a = training_last_line(one, 2), b = training_last_line(run, 2);
    assert_true(a.accuracy == b.accuracy && a.test_accuracy == b.test_accuracy);
    assert_true(a.test_loss - b.test_loss < 1e-9 && b.test_loss - a.test_loss < 1e-9);
    expect_weights_of(one, run);
    run = run_on(MR_TEST_DOUBLE_TRAIN, "nccl-1", 1,
                 COMMON "--device=cuda:0 --backend=nccl --eval=rank0");
    assert_true(training_said(run, "world size 1 (nccl)"));
    expect_weights_of(one, run);
    free(one);
}

static void stopped_ranks_on_gpus_continue_with_the_same_bits(void **state)
{
    char options[100], text[700];
    snprintf(options, sizeof options,
             "--epochs=%d --batch-size=2 --workers=0 --device=cuda:local --eval=rank0",
             mr_test_is_sanitized() ? 3 : 5);

    (void)state;
    need_nccl();
    training_pictures(40, 10);
    set_double("devices=2,policy=early");
    struct training_run *whole = run_on(MR_TEST_DOUBLE_TRAIN, "whole", 2, options);
    struct training_run *part = training_new("part", 2, options);
    part->argv[0] = (char *)MR_TEST_DOUBLE_TRAIN;
    assert_true(training_stop(part, SIGUSR1));
    snprintf(text, sizeof text, "%s --resume=%s/last.ckpt", options, part->out);
    struct training_run *rest = run_on(MR_TEST_DOUBLE_TRAIN, "rest", 2, text);
    assert_true(training_difference(whole, rest) == 0);
    free(whole);
    free(part);
    free(rest);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(modes_get_the_weights_of_one_device, training_teardown),
        cmocka_unit_test_teardown(a_stopped_run_continues_in_another_mode, training_teardown),
        cmocka_unit_test_teardown(wrong_options_are_errors_of_one_line, training_teardown),
#ifdef MR_TEST_DOUBLE_TRAIN
        cmocka_unit_test_teardown(modes_on_gpus_get_the_weights_of_the_host, training_teardown),
        cmocka_unit_test_teardown(ranks_on_gpus_get_the_weights_of_the_host, training_teardown),
        cmocka_unit_test_teardown(stopped_ranks_on_gpus_continue_with_the_same_bits,
                                  training_teardown),
#endif
    };

    alarm(280); /* the children end with this process */
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
