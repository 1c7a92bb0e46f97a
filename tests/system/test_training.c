/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The training example as a program, on pictures made here in CIFAR-10's files: it learns, one, two and four ranks come
 * to the same weights, and a run that a signal stops goes on where it was. Easy to get wrong: weights are compared as
 * the checkpoint holds them, all of them, since a loss can agree by chance.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <millrace/millrace.h>

#include "examples/checkpoint.h"
#include "tests/support/folder.h"
#include "tests/support/processes.h"

#ifdef MR_TEST_TRAIN

enum { SIDE = 32, PIXELS = SIDE * SIDE, RECORD = 1 + 3 * PIXELS, MAX_ARGS = 32, N_PARAMS = 113738, ANY = -1 };

/* ---- pictures ---- */

static uint32_t random_state;

static int noise(int limit)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (int)((random_state >> 8) % (uint32_t)limit);
}

/*
 * Stripes, upright or level, of five widths; colours, phase and noise say nothing of the class, and a flip does not
 * change it.
 */
static void draw(uint8_t *record, int label)
{
    int period = 2 + label / 2 * 2 + (label / 2 > 2) * 2, phase = noise(period);
    int bright[3] = {60 + noise(80), 60 + noise(80), 60 + noise(80)};

    record[0] = (uint8_t)label;
    for (int c = 0; c < 3; c++) {
        for (int i = 0; i < PIXELS; i++) {
            int along = label % 2 ? i / SIDE : i % SIDE;
            int value = 30 + ((along + phase) % period < period / 2 ? bright[c] : 0) + noise(60);
            record[1 + c * PIXELS + i] = (uint8_t)value;
        }
    }
}

/* Of the present test. */
static char *folder;

static void write_split(const char *name, int n, uint32_t seed)
{
    uint8_t *records = malloc((size_t)n * RECORD);

    assert_non_null(records);
    random_state = seed;
    for (int i = 0; i < n; i++)
        draw(records + (size_t)i * RECORD, i % 10);
    mr_test_folder_write(folder, name, records, (uint64_t)n * RECORD);
    free(records);
}

static void make_pictures(int n_train, int n_test)
{
    static const char names[] = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n";

    folder = mr_test_folder_create();

    write_split("data_batch_1.bin", n_train, 1);
    write_split("test_batch.bin", n_test, 2);
    mr_test_folder_write(folder, "batches.meta.txt", names, sizeof names - 1);
}

static int remove_pictures(void **state)
{
    (void)state;
    if (folder != NULL)
        mr_test_folder_remove(folder);
    folder = NULL;
    return 0;
}

/* ---- runs ---- */

/* What a run is given, and where it writes: folder/out-NAME. */
struct run {
    const char *name;
    uint32_t n_ranks;
    char out[300];
    char log[300]; /* what it says */
    char data_option[320];
    char out_option[320];
    char options[700];
    char *argv[MAX_ARGS];
    int argc;
};

static void add(struct run *run, const char *argument)
{
    assert_in_range(run->argc, 0, MAX_ARGS - 2);
    run->argv[run->argc++] = (char *)argument;
}

/* options: separated by single spaces. */
static struct run *new_run(const char *name, uint32_t n_ranks, const char *options)
{
    struct run *run = calloc(1, sizeof *run);
    char *rest, *word;

    assert_non_null(run);
    rest = run->options;
    *run = (struct run){.name = name, .n_ranks = n_ranks};
    snprintf(run->out, sizeof run->out, "%s/out-%s", folder, name);
    snprintf(run->log, sizeof run->log, "%s/log-%s", folder, name);
    snprintf(run->data_option, sizeof run->data_option, "--data=%s", folder);
    snprintf(run->out_option, sizeof run->out_option, "--out=%s", run->out);
    assert_in_range(snprintf(run->options, sizeof run->options, "%s", options), 1, sizeof run->options - 1);
    add(run, MR_TEST_TRAIN);
    add(run, run->data_option);
    add(run, run->out_option);
    while ((word = strsep(&rest, " ")) != NULL)
        add(run, word);
    return run;
}

/* A process of its own; only the words of failures are shown. */
static void become(const struct run *run)
{
    int fd = open(run->log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
        _exit(125);
    if (run->n_ranks > 1) {
        mr_launch_options options = MR_LAUNCH_OPTIONS_INIT;
        mr_launch_result result;
        mr_error error;
        options.nproc = run->n_ranks;
        if (mr_launch(&options, run->argv, &result, &error) < 0)
            dprintf(STDERR_FILENO, "mr_launch: %s\n", error.text);
        else
            _exit(result.exit_status);
        _exit(124);
    }
    execv(run->argv[0], run->argv);
    _exit(126);
}

static pid_t start(const struct run *run)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        become(run);
    return pid;
}

static void show_log(const struct run *run)
{
    char text[4000];
    FILE *file = fopen(run->log, "r");

    if (file == NULL)
        return;
    size_t len = fread(text, 1, sizeof text - 1, file);
    text[len] = '\0';
    fclose(file);
    print_message("%s said:\n%s", run->name, text);
}

static int finish(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void run_well(const struct run *run)
{
    int status = finish(start(run));

    if (status != 0)
        show_log(run);
    assert_int_equal(status, 0);
}

/* ---- what they leave ---- */

struct line {
    long epoch;
    double loss, accuracy, test_loss, test_accuracy, seconds;
};

/* The last line of log.tsv, which has n of them; ANY number. */
static struct line last_line(const struct run *run, int n)
{
    struct line line = {0};
    char path[340];
    int n_lines = 0;

    snprintf(path, sizeof path, "%s/log.tsv", run->out);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fscanf(file, "%ld %lf %lf %lf %lf %lf", &line.epoch, &line.loss, &line.accuracy, &line.test_loss,
                  &line.test_accuracy, &line.seconds) == 6)
        n_lines++;
    fclose(file);
    if (n != ANY)
        assert_int_equal(n_lines, n);
    return line;
}

struct saved {
    struct checkpoint head;
    uint64_t n;      /* weights and velocity */
    double *numbers; /* of either dtype */
};

static struct saved load(const struct run *run)
{
    struct saved saved = {.n = 2 * N_PARAMS};
    char path[340];

    snprintf(path, sizeof path, "%s/last.ckpt", run->out);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fread(&saved.head, sizeof saved.head, 1, file), 1);
    assert_int_equal(saved.head.n_params, N_PARAMS);
    saved.numbers = malloc(saved.n * sizeof(double));
    assert_non_null(saved.numbers);
    if (saved.head.dtype == MR_F64) {
        assert_int_equal(fread(saved.numbers, sizeof(double), saved.n, file), saved.n);
    } else {
        for (uint64_t i = 0; i < saved.n; i++) {
            float number;
            assert_int_equal(fread(&number, sizeof number, 1, file), 1);
            saved.numbers[i] = number;
        }
    }
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
    return saved;
}

/* The largest difference between the weights, or velocities, of two runs. */
static double difference(const struct run *a, const struct run *b)
{
    struct saved first = load(a), second = load(b);
    double most = 0, size = 0;

    assert_int_equal(first.head.epoch, second.head.epoch);
    for (uint64_t i = 0; i < first.n; i++) {
        most = fmax(most, fabs(first.numbers[i] - second.numbers[i]));
        size = fmax(size, fabs(first.numbers[i]));
        assert_true(isfinite(first.numbers[i]) && isfinite(second.numbers[i]));
    }
    assert_true(size > 0.01);
    free(first.numbers);
    free(second.numbers);
    return most;
}

static void need_gloo(void)
{
    if (!MR_TEST_GLOO) {
        print_message("this build has no gloo\n");
        skip();
    }
}

static void expect_agreement(const char *options, double tolerance)
{
    struct run *one = new_run("one", 1, options);

    run_well(one);
    for (uint32_t n_ranks = 2; n_ranks <= 4; n_ranks += 2) {
        struct run *many = new_run(n_ranks == 2 ? "two" : "four", n_ranks, options);
        run_well(many);
        double apart = difference(one, many);
        print_message("1 and %u ranks: weights are %g apart\n", n_ranks, apart);
        assert_true(apart <= tolerance);
        free(many);
    }
    free(one);
}

/* ---- tests ---- */

static void it_learns(void **state)
{
    make_pictures(400, 100);
    struct run *run = new_run("learn", 1, "--epochs=5 --batch-size=20");

    (void)state;
    run_well(run);
    struct line line = last_line(run, 5);
    print_message("test accuracy %.1f %%\n", 100 * line.test_accuracy);
    assert_true(line.test_accuracy >= 0.8); /* chance is 0.1 */
    assert_true(line.test_loss < 0.8);      /* log(10) is 2.3 */
    free(run);
}

static void ranks_come_to_the_weights_of_one_process_in_f64(void **state)
{
    (void)state;
    need_gloo();
    make_pictures(161, 41); /* no multiple of 2 or 4: some ranks have an empty last step */
    expect_agreement("--epochs=3 --batch-size=16 --dtype=f64 --workers=0", 1e-9);
}

static void ranks_come_to_the_weights_of_one_process_in_f32(void **state)
{
    (void)state;
    need_gloo();
    make_pictures(160, 20); /* 20 steps */
    expect_agreement("--epochs=1 --batch-size=8 --workers=0", 1e-5);
}

/* 1,007 samples, or 10,007: each counts once, on whatever rank. */
static void ranks_test_the_same_weights_alike(void **state)
{
    static const struct {
        const char *name, *options;
        uint32_t n_ranks;
    } cases[] = {{"one", "", 1}, {"two", "", 2}, {"four", "", 4}, {"first", "--eval=rank0", 2}};
    int n = getenv("MR_TEST_LONG") ? 10007 : 1007;

    (void)state;
    need_gloo();
    make_pictures(100, n);
    struct run *trained = new_run("trained", 1, "--epochs=1 --batch-size=20 --dtype=f64");
    struct line one = {0};

    run_well(trained);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char options[600];
        snprintf(options, sizeof options, "--epochs=0 --batch-size=20 --dtype=f64 --resume=%s/best.ckpt%s%s",
                 trained->out, *cases[i].options ? " " : "", cases[i].options);
        struct run *run = new_run(cases[i].name, cases[i].n_ranks, options);
        run_well(run);
        struct line line = last_line(run, 1);
        one = i == 0 ? line : one;
        assert_int_equal(lround(line.test_accuracy * n), lround(one.test_accuracy * n));
        assert_true(fabs(line.test_loss - one.test_loss) * n <= 1e-12 * one.test_loss * n);
        free(run);
    }
    free(trained);
}

/* Run until the first epoch is through, then stop by a signal. Returns whether that was in the middle of an epoch. */
static bool run_and_stop(const struct run *run, int signal_number)
{
    char log[340];
    pid_t pid = start(run);

    snprintf(log, sizeof log, "%s/log.tsv", run->out);
    for (int i = 0; i < 12000 && access(log, F_OK) != 0; i++)
        mr_test_sleep_ms(5);
    mr_test_sleep_ms(20);
    kill(pid, signal_number);
    int status = finish(pid);
    if (status != 0)
        show_log(run);
    assert_int_equal(status, 0);
    struct saved saved = load(run);
    free(saved.numbers);
    return saved.head.in_epoch == 1;
}

static void expect_to_continue(uint32_t n_ranks, int signal_number)
{
    make_pictures(160, 20);
    const char *options = "--epochs=10 --batch-size=8 --dtype=f64 --workers=0";
    struct run *whole = new_run("whole", n_ranks, options), *rest;
    struct run *part = new_run("part", n_ranks, options);
    char more[600];

    run_well(whole);
    assert_true(run_and_stop(part, signal_number));
    snprintf(more, sizeof more, "%s --resume=%s/last.ckpt", options, part->out);
    rest = new_run("rest", n_ranks, more);
    run_well(rest);
    assert_true(difference(whole, rest) == 0);
    assert_true(last_line(whole, 10).test_loss == last_line(rest, 10 - (int)last_line(part, ANY).epoch).test_loss);
    free(whole);
    free(part);
    free(rest);
}

static void a_stopped_run_goes_on_with_the_same_bits(void **state)
{
    (void)state;
    expect_to_continue(1, SIGTERM);
}

static void stopped_ranks_go_on_with_the_same_bits(void **state)
{
    (void)state;
    need_gloo();
    expect_to_continue(2, SIGUSR1);
}

static void a_wrong_checkpoint_is_named(void **state)
{
    char more[600], path[340], text[400] = {0};

    (void)state;
    make_pictures(20, 20);
    struct run *trained = new_run("trained", 1, "--epochs=1 --batch-size=20"), *run;
    run_well(trained);
    snprintf(path, sizeof path, "%s/last.ckpt", trained->out);
    assert_int_equal(truncate(path, 100000), 0);
    snprintf(more, sizeof more, "--resume=%s", path);
    run = new_run("refused", 1, more);
    assert_int_equal(finish(start(run)), 1);
    FILE *file = fopen(run->log, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    assert_non_null(strstr(text, "last.ckpt: a checkpoint of another length than its head says"));
    free(run);
    free(trained);
}

static void make_split(const char *split)
{
    char path[600];

    snprintf(path, sizeof path, "%s/%s", folder, split);
    assert_int_equal(mkdir(path, 0777), 0);
    mr_test_folder_fill(path, 2, 9);
}

/* 17 of 18 photographs count, on whatever ranks they are. */
static void damaged_photographs_add_nothing(void **state)
{
    const char *options = "--epochs=2 --batch-size=4 --dtype=f64 --workers=0 --lr=0.001";

    (void)state;
    folder = mr_test_folder_create();
    make_split("train");
    make_split("val");
    mr_test_folder_write(folder, "train/class_1/003.jpg", "text", 4);
    struct run *one = new_run("one", 1, options), *two = new_run("two", 2, options);
    one->argv[0] = two->argv[0] = MR_TEST_TRAIN_FOLDER;
    run_well(one);
    double share = last_line(one, 2).accuracy * 17;
    assert_true(fabs(share - round(share)) < 1e-9);
    if (MR_TEST_GLOO) {
        run_well(two);
        assert_true(fabs(last_line(one, 2).loss - last_line(two, 2).loss) < 1e-9);
        assert_true(fabs(last_line(one, 2).test_loss - last_line(two, 2).test_loss) < 1e-9);
    }
    free(one);
    free(two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(it_learns, remove_pictures),
        cmocka_unit_test_teardown(a_stopped_run_goes_on_with_the_same_bits, remove_pictures),
        cmocka_unit_test_teardown(a_wrong_checkpoint_is_named, remove_pictures),
        cmocka_unit_test_teardown(damaged_photographs_add_nothing, remove_pictures),
        cmocka_unit_test_teardown(ranks_come_to_the_weights_of_one_process_in_f64, remove_pictures),
        cmocka_unit_test_teardown(ranks_come_to_the_weights_of_one_process_in_f32, remove_pictures),
        cmocka_unit_test_teardown(ranks_test_the_same_weights_alike, remove_pictures),
        cmocka_unit_test_teardown(stopped_ranks_go_on_with_the_same_bits, remove_pictures),
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
