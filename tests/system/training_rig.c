/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts and watches training programs. A killed run must end its ranks too, so each process ends
 * when its parent does.
 */
#include "tests/system/training_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <millrace/dist.h>

#include "tests/support/folder.h"
#include "tests/support/processes.h"

#ifndef MR_TEST_TRAIN
#define MR_TEST_TRAIN "" /* was not built, and no test comes here */
#endif

enum { SIDE = 32, PIXELS = SIDE * SIDE, RECORD = 1 + 3 * PIXELS, N_PARAMS = 113738 };

/* ---- pictures ---- */

static uint32_t random_state;

static int draw_noise(int limit)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (int)((random_state >> 8) % (uint32_t)limit);
}

/*
 * Vertical or horizontal stripes of five widths. Colours, phase and noise do not depend on the
 * class, and a flip does not change it.
 */
static void draw_picture(uint8_t *record, int label)
{
    int period = 2 + label / 2 * 2 + (label / 2 > 2) * 2, phase = draw_noise(period);
    int bright[3] = {60 + draw_noise(80), 60 + draw_noise(80), 60 + draw_noise(80)};

    record[0] = (uint8_t)label;
    for (int c = 0; c < 3; c++) {
        for (int i = 0; i < PIXELS; i++) {
            int along = label % 2 ? i / SIDE : i % SIDE;
            int value =
                30 + ((along + phase) % period < period / 2 ? bright[c] : 0) + draw_noise(60);
            record[1 + c * PIXELS + i] = (uint8_t)value;
        }
    }
}

/* The folder of the current test. */
static char *folder;

static void write_split(const char *name, int n, uint32_t seed)
{
    uint8_t *records = malloc((size_t)n * RECORD);

    assert_non_null(records);
    random_state = seed;
    for (int i = 0; i < n; i++)
        draw_picture(records + (size_t)i * RECORD, i % 10);
    mr_test_folder_write(folder, name, records, (uint64_t)n * RECORD);
    free(records);
}

const char *training_folder(void)
{
    if (folder == NULL)
        folder = mr_test_folder_create();
    return folder;
}

const char *training_pictures(int n_train, int n_test)
{
    static const char names[] = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n";

    training_folder();
    write_split("data_batch_1.bin", n_train, 1);
    write_split("test_batch.bin", n_test, 2);
    mr_test_folder_write(folder, "batches.meta.txt", names, sizeof names - 1);
    return folder;
}

int training_teardown(void **state)
{
    (void)state;
    if (folder != NULL)
        mr_test_folder_remove(folder);
    folder = NULL;
    return 0;
}

/* ---- runs ---- */

static void add_argument(struct training_run *run, const char *argument)
{
    assert_in_range(run->argc, 0, TRAINING_MAX_ARGS - 2);
    run->argv[run->argc++] = (char *)argument;
}

/* options: separated by single spaces. */
struct training_run *training_new(const char *name, uint32_t n_ranks, const char *options)
{
    struct training_run *run = calloc(1, sizeof *run);
    char *rest, *word;

    assert_non_null(run);
    rest = run->options;
    *run = (struct training_run){.name = name, .n_ranks = n_ranks};
    snprintf(run->out, sizeof run->out, "%s/out-%s", folder, name);
    snprintf(run->log, sizeof run->log, "%s/log-%s", folder, name);
    snprintf(run->data_option, sizeof run->data_option, "--data=%s", folder);
    snprintf(run->out_option, sizeof run->out_option, "--out=%s", run->out);
    assert_in_range(snprintf(run->options, sizeof run->options, "%s", options), 1,
                    sizeof run->options - 1);
    add_argument(run, MR_TEST_TRAIN);
    add_argument(run, run->data_option);
    add_argument(run, run->out_option);
    while ((word = strsep(&rest, " ")) != NULL)
        add_argument(run, word);
    return run;
}

/* Become the program in a child; its output is shown only after a failure. */
static void become_program(const struct training_run *run)
{
    int fd = open(run->log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
        _exit(125);
    if (run->n_ranks > 1) {
        mr_launch_options options = MR_LAUNCH_OPTIONS_INIT;
        mr_launch_result result = MR_LAUNCH_RESULT_INIT;
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

pid_t training_start(const struct training_run *run)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        become_program(run);
    return pid;
}

void training_show(const struct training_run *run)
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

int training_finish(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void training_run(const struct training_run *run)
{
    int status = training_finish(training_start(run));

    if (status != 0)
        training_show(run);
    assert_int_equal(status, 0);
}

bool training_said(const struct training_run *run, const char *words)
{
    char text[8000];
    FILE *file = fopen(run->log, "r");

    assert_non_null(file);
    size_t len = fread(text, 1, sizeof text - 1, file);
    text[len] = '\0';
    fclose(file);
    return strstr(text, words) != NULL;
}

/* ---- results ---- */

/* The last line of log.tsv, which must have n lines; TRAINING_ANY: any number. */
struct training_line training_last_line(const struct training_run *run, int n)
{
    struct training_line line = {0};
    char path[340];
    int n_lines = 0;

    snprintf(path, sizeof path, "%s/log.tsv", run->out);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fscanf(file, "%ld %lf %lf %lf %lf %lf", &line.epoch, &line.loss, &line.accuracy,
                  &line.test_loss, &line.test_accuracy, &line.seconds) == 6)
        n_lines++;
    fclose(file);
    if (n != TRAINING_ANY)
        assert_int_equal(n_lines, n);
    return line;
}

struct saved {
    struct checkpoint head;
    uint64_t n;      /* weights and velocity */
    double *numbers; /* of either dtype */
};

static struct saved load_checkpoint(const struct training_run *run)
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

bool training_is_in_epoch(const struct training_run *run)
{
    struct saved saved = load_checkpoint(run);

    free(saved.numbers);
    return saved.head.in_epoch == 1;
}

/* The largest difference between the weights, or velocities, of two runs. */
double training_difference(const struct training_run *a, const struct training_run *b)
{
    struct saved first = load_checkpoint(a), second = load_checkpoint(b);
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

/*
 * Run until the first epoch has ended, then stop by a signal. True: it stopped in the middle of an
 * epoch.
 */
bool training_stop(const struct training_run *run, int signal_number)
{
    char log[340];
    pid_t pid = training_start(run);

    snprintf(log, sizeof log, "%s/log.tsv", run->out);
    for (int i = 0; i < 12000 && access(log, F_OK) != 0; i++)
        mr_test_sleep_ms(5);
    mr_test_sleep_ms(20);
    kill(pid, signal_number);
    int status = training_finish(pid);
    if (status != 0)
        training_show(run);
    assert_int_equal(status, 0);
    return training_is_in_epoch(run);
}
