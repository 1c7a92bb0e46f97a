/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The example train_tokens as a program, on text made here: the loss falls; and a run that is
 * killed, stopped and continued on other numbers of ranks takes the samples of an undisturbed run,
 * in the same order, with the same losses apart from the order of sums.
 */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <millrace/millrace.h>

#include "tests/support/epochs.h"
#include "tests/support/documents.h"
#include "tests/support/folder.h"
#include "tests/support/processes.h"
#include "tests/system/training_rig.h"

#ifdef MR_TEST_TRAIN_TOKENS

enum { BATCH = 12, WINDOW = 16, VOCAB = 128, MAX_STEPS = 20000, FOREVER = 1000000 };

static char mixture[1400];

/* Words of an invented language, which differ in number between the two files. */
static void write_text(const char *name, uint32_t n_words, uint32_t n_bytes, uint32_t seed)
{
    static const char *const words[] = {"mill",  "race",  "water", "wheel", "grain", "stone",
                                        "flour", "bread", "river", "under", "over",  "turns"};
    char *text = malloc(n_bytes + 8);
    uint32_t len = 0;

    assert_non_null(text);
    while (len < n_bytes) {
        seed = seed * 1664525u + 1013904223u;
        len += (uint32_t)sprintf(text + len, "%s ", words[(seed >> 8) % n_words]);
    }
    mr_test_folder_write(training_folder(), name, text, n_bytes);
    free(text);
}

static int write_texts(void **state)
{
    const char *at = training_folder();

    (void)state;
    write_text("a.txt", 12, 9000, 1);
    write_text("b.txt", 5, 1500, 2);
    snprintf(
        mixture, sizeof mixture,
        "mix:0.7*(tokens:%s/a.txt?window=%d&dtype=u8)|0.3*(tokens:%s/b.txt?window=%d&dtype=u8)", at,
        WINDOW, at, WINDOW);
    return 0;
}

/* Fold a run's options into the rig's; its log.tsv and checkpoint go to the folder of `out`. */
static struct training_run *new_run(const char *name, const char *out, uint32_t n_ranks,
                                    const char *spec, uint64_t steps, bool is_resumed)
{
    static char options[700];

    assert_in_range(snprintf(options, sizeof options,
                             "--batch-size=%d --vocab=%d --seed=7 --save-every=5 --steps=%llu "
                             "--out=%s/%s%s%s%s%s",
                             BATCH, VOCAB, (unsigned long long)steps, training_folder(), out,
                             is_resumed ? " --resume=" : "", is_resumed ? training_folder() : "",
                             is_resumed ? "/" : "", is_resumed ? out : ""),
                    1, sizeof options - 20);
    if (is_resumed)
        strcat(options, "/last.ckpt");
    struct training_run *run = training_new(name, n_ranks, options);
    run->argv[0] = (char *)MR_TEST_TRAIN_TOKENS;
    assert_true(asprintf(&run->argv[1], "--data=%s", spec) > 0);
    snprintf(run->out, sizeof run->out, "%s/%s", training_folder(), out);
    return run;
}

static void free_run(struct training_run *run)
{
    free(run->argv[1]);
    free(run);
}

/* What log.tsv says of a step. A step that a killed run repeated has the later line. */
struct step {
    double loss;
    long n_labels;
    int64_t indices[BATCH];
};

static struct step *read_log(const char *out, int *n_steps)
{
    struct step *steps = calloc(MAX_STEPS, sizeof *steps);
    char path[400];
    int number, n_lines = 0;

    snprintf(path, sizeof path, "%s/%s/log.tsv", training_folder(), out);
    FILE *file = fopen(path, "r");
    *n_steps = 0;
    while (file != NULL && fscanf(file, "%d", &number) == 1) {
        assert_in_range(number, 1, *n_steps + 1); /* no step is left out */
        *n_steps = number;
        assert_in_range(++n_lines, 1, MAX_STEPS);
        struct step *step = &steps[number - 1];
        assert_int_equal(fscanf(file, "%lf %ld", &step->loss, &step->n_labels), 2);
        for (int i = 0; i < BATCH; i++)
            assert_int_equal(fscanf(file, i > 0 ? ",%ld" : "%ld", &step->indices[i]), 1);
    }
    if (file != NULL)
        fclose(file);
    return steps;
}

/* Number of whole lines of log.tsv. */
static int count_lines(const char *out)
{
    char path[400];
    int n = 0, c;

    snprintf(path, sizeof path, "%s/%s/log.tsv", training_folder(), out);
    FILE *file = fopen(path, "r");
    while (file != NULL && (c = fgetc(file)) != EOF)
        n += c == '\n';
    if (file != NULL)
        fclose(file);
    return n;
}

static void run_to_end(const char *name, const char *out, uint32_t n_ranks, const char *spec,
                       uint64_t steps, bool is_resumed)
{
    struct training_run *run = new_run(name, out, n_ranks, spec, steps, is_resumed);

    training_run(run);
    free_run(run);
}

/* Start a run without an end, and end it by a signal after some steps. */
static int interrupt(const char *name, const char *out, uint32_t n_ranks, const char *spec,
                     bool is_resumed, int signal_number)
{
    struct training_run *run = new_run(name, out, n_ranks, spec, FOREVER, is_resumed);
    int begun = count_lines(out);
    pid_t pid = training_start(run);

    for (int i = 0; i < 12000 && count_lines(out) < begun + 8; i++)
        mr_test_sleep_ms(5);
    if (count_lines(out) < begun + 8)
        training_show(run);
    assert_true(count_lines(out) >= begun + 8);
    kill(pid, signal_number);
    int status = training_finish(pid);
    free_run(run);
    return status;
}

static void expect_same_steps(const char *one, const char *other, int n_wanted)
{
    int n[2];
    struct step *a = read_log(one, &n[0]), *b = read_log(other, &n[1]);

    assert_int_equal(n[0], n_wanted);
    assert_int_equal(n[1], n_wanted);
    for (int i = 0; i < n_wanted; i++) {
        if (memcmp(a[i].indices, b[i].indices, sizeof a[i].indices) != 0)
            fail_msg("step %d has other samples", i + 1);
        assert_int_equal(a[i].n_labels, b[i].n_labels);
        if (!(fabs(a[i].loss - b[i].loss) <= 1e-9))
            fail_msg("step %d: losses %.17g and %.17g", i + 1, a[i].loss, b[i].loss);
    }
    free(a);
    free(b);
}

/* The steps of a run are those of a loader that is alone, in this process. */
static void expect_order(const char *out, const char *spec)
{
    int n;
    struct step *steps = read_log(out, &n);
    mr_dataset *dataset = mr_test_dataset(spec);
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;

    options.batch_size = BATCH;
    options.drop_last = true;
    options.tail = MR_TAIL_DROP;
    options.seed = mr_seed(7, "sampler");
    options.num_workers = MR_NO_WORKERS;
    mr_loader *loader = mr_test_loader(dataset, NULL, &options);
    assert_true(n > 0);
    for (int i = 0; i < n; i++) {
        mr_batch *batch;
        mr_status status = mr_loader_next(loader, MR_FOREVER, &batch);
        if (status == MR_END) {
            assert_int_equal(mr_loader_set_epoch(loader, mr_loader_epoch(loader) + 1), MR_OK);
            status = mr_loader_next(loader, MR_FOREVER, &batch);
        }
        assert_int_equal(status, MR_OK);
        assert_memory_equal(mr_batch_data(batch, "index"), steps[i].indices,
                            sizeof steps[i].indices);
        mr_batch_release(batch);
    }
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    free(steps);
}

static void need_gloo(void)
{
    if (!MR_TEST_GLOO) {
        print_message("this build has no gloo\n");
        skip();
    }
}

/* ---- tests ---- */

static void the_loss_falls(void **state)
{
    int n;

    (void)state;
    run_to_end("learn", "learn", 1, mixture, 150, false);
    struct step *steps = read_log("learn", &n);
    assert_int_equal(n, 150);
    assert_true(fabs(steps[0].loss - log(VOCAB)) < 0.1);
    print_message("loss %g after 150 steps\n", steps[n - 1].loss);
    assert_true(steps[n - 1].loss < 0.8); /* the text's own uncertainty is about 0.4 */
    assert_int_equal(steps[n - 1].n_labels, BATCH * WINDOW);
    free(steps);
    expect_order("learn", mixture);
}

/* One rank is killed, three are stopped, two go on to the end. */
static void expect_to_continue(const char *spec)
{
    int n;

    assert_int_equal(interrupt("killed", "parts", 1, spec, false, SIGKILL), 128 + SIGKILL);
    assert_int_equal(interrupt("stopped", "parts", 3, spec, true, SIGTERM), 0);
    free(read_log("parts", &n));
    run_to_end("rest", "parts", 2, spec, (uint64_t)n + 10, true);
    run_to_end("whole", "whole", 1, spec, (uint64_t)n + 10, false);
    expect_same_steps("whole", "parts", n + 10);
    expect_order("whole", spec);
}

static void a_mixture_continues_on_other_numbers_of_ranks(void **state)
{
    (void)state;
    need_gloo();
    expect_to_continue(mixture);
}

/* b.txt has 93 rows: epochs of 7 steps. */
static void epochs_continue_on_other_numbers_of_ranks(void **state)
{
    char spec[600];

    (void)state;
    need_gloo();
    snprintf(spec, sizeof spec, "tokens:%s/b.txt?window=%d&dtype=u8", training_folder(), WINDOW);
    expect_to_continue(spec);
}

/* Documents of 1 to 30 bytes, as X.bin and X.idx of Megatron-Core. */
static void write_documents(void)
{
    enum { N = 400 };
    int32_t lengths[N];
    uint32_t len = 0;

    for (int i = 0; i < N; i++) {
        lengths[i] = 1 + i * 7 % 30;
        len += (uint32_t)lengths[i];
    }
    write_text("d.bin", 12, len, 3);
    mr_test_documents_write_idx(training_folder(), "d.idx", MR_TEST_IDX_U8, lengths, N);
}

/* Rows have padding, whose labels do not count, and the epochs differ in their number of rows. */
static void packed_documents_continue_on_other_numbers_of_ranks(void **state)
{
    char spec[600];
    int n;

    (void)state;
    need_gloo();
    write_documents();
    snprintf(spec, sizeof spec, "tokens:%s/d.bin?window=%d&pack=bfd&pack_window=50",
             training_folder(), WINDOW);
    expect_to_continue(spec);
    struct step *steps = read_log("whole", &n);
    for (int i = 0; i < n; i++)
        assert_in_range(steps[i].n_labels, BATCH, BATCH * WINDOW - 1);
    free(steps);
}

/* Rows where documents end: a space stands for the end of one. */
static void masked_labels_do_not_count(void **state)
{
    char spec[600];
    int n;

    (void)state;
    snprintf(spec, sizeof spec,
             "tokens:%s/a.txt?window=%d&dtype=u8&eod=32&eod_mask_loss=1&reset_position_ids=1",
             training_folder(), WINDOW);
    run_to_end("masked", "masked", 1, spec, 20, false);
    struct step *steps = read_log("masked", &n);
    for (int i = 0; i < n; i++) /* a word has 4 or 5 letters */
        assert_in_range(steps[i].n_labels, BATCH * WINDOW * 7 / 10, BATCH * WINDOW * 9 / 10);
    free(steps);
}

static void an_id_beyond_the_vocabulary_ends_the_run(void **state)
{
    struct training_run *run = new_run("refused", "refused", 1, mixture, 20, false);

    (void)state;
    run->argv[4] = (char *)"--vocab=100";
    assert_int_equal(training_finish(training_start(run)), 1);
    assert_true(training_said(run, "a token is not below --vocab"));
    free_run(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_loss_falls, write_texts, training_teardown),
        cmocka_unit_test_setup_teardown(a_mixture_continues_on_other_numbers_of_ranks, write_texts,
                                        training_teardown),
        cmocka_unit_test_setup_teardown(epochs_continue_on_other_numbers_of_ranks, write_texts,
                                        training_teardown),
        cmocka_unit_test_setup_teardown(packed_documents_continue_on_other_numbers_of_ranks,
                                        write_texts, training_teardown),
        cmocka_unit_test_setup_teardown(masked_labels_do_not_count, write_texts, training_teardown),
        cmocka_unit_test_setup_teardown(an_id_beyond_the_vocabulary_ends_the_run, write_texts,
                                        training_teardown),
    };

    alarm(280); /* the children end with this process */
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    puts("train_tokens was not built");
    return 77;
}

#endif
