/* SPDX-License-Identifier: Apache-2.0 */
/*
 * millrace tune: finds the smallest sufficient number of workers. All numbers are measured twice,
 * upwards and downwards. Those near the best are measured again, round by round, until it is clear
 * which of them are within the bound.
 * Invariant: only figures of the same round are compared, because on a shared machine the speed
 * changes from one second to the next.
 */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/arg_list.h"
#include "tools/measure/bench_json.h"
#include "tools/measure/bench_run.h"
#include "tools/command.h"
#include "tools/say.h"
#include "tools/measure/tune_pick.h"

#define DEFAULT_SECONDS 2.0
#define NOT_GIVEN UINT32_MAX

enum { MAX_COUNTS = MR_LOADER_ARGS_MAX_WORKERS, FULL_ROUNDS = 2, ROUNDS = 3 };

struct tune_args {
    struct mr_bench_args common;
    uint32_t max_workers; /* NOT_GIVEN: the number of CPUs */
};

struct tune {
    struct mr_bench_run run;
    struct mr_tune_count counts[MAX_COUNTS];
    size_t n;
    struct mr_bench_row *rows; /* all rounds, in the order of measuring */
    size_t n_rows;
};

static const struct mr_arg list[] = {
    {"max-workers", "N",
     "Largest number of workers to try (default: the CPUs that this process may use)",
     MR_ARG_U32(struct tune_args, max_workers, 0, MR_MAX_WORKERS)},
    {0},
};

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct tune_args *args = state->input;

    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &args->common; return 0;
    case ARGP_KEY_END:
        if (args->max_workers != NOT_GIVEN && args->common.common.n_workers > 0)
            argp_error(
                state,
                "--max-workers cannot be combined with --workers, which lists the numbers to try");
        return 0;
    default: return mr_arg_list_parse(state, list, key, value);
    }
}

static int compare_counts(const void *a, const void *b)
{
    const struct mr_tune_count *x = a, *y = b;

    return (x->workers > y->workers) - (x->workers < y->workers);
}

/* Choose the numbers of workers, in rising order without repetition. */
static void choose_counts(struct tune *tune, const struct tune_args *args)
{
    const struct mr_loader_args *loader = &args->common.common;
    uint32_t steps[MAX_COUNTS];

    tune->n = loader->n_workers;
    for (size_t i = 0; i < tune->n; i++)
        tune->counts[i].workers = loader->workers[i] == MR_NO_WORKERS ? 0 : loader->workers[i];
    if (tune->n == 0) {
        uint32_t most = args->max_workers != NOT_GIVEN ? args->max_workers : tune->run.meta.n_cpus;
        tune->n =
            mr_tune_pick_counts(most < MR_MAX_WORKERS ? most : MR_MAX_WORKERS, steps, MAX_COUNTS);
        for (size_t i = 0; i < tune->n; i++)
            tune->counts[i].workers = steps[i];
    }
    qsort(tune->counts, tune->n, sizeof *tune->counts, compare_counts);
    size_t n = 0;
    for (size_t i = 0; i < tune->n; i++)
        if (n == 0 || tune->counts[i].workers != tune->counts[n - 1].workers)
            tune->counts[n++] = tune->counts[i];
    tune->n = n;
}

static int measure_count(struct tune *tune, struct mr_tune_count *count, uint32_t round)
{
    struct mr_bench_row *row = &tune->rows[tune->n_rows];
    int exit_status = mr_bench_run_row(
        &tune->run, count->workers > 0 ? count->workers : MR_NO_WORKERS, round, row);

    if (exit_status != MR_EXIT_OK)
        return exit_status;
    tune->n_rows++;
    mr_tune_pick_add(count, row);
    return MR_EXIT_OK;
}

/* Measure the close numbers once: upwards in even rounds, downwards in odd ones. */
static int measure_round(struct tune *tune, uint32_t round)
{
    int exit_status = MR_EXIT_OK;

    for (size_t i = 0; i < tune->n && exit_status == MR_EXIT_OK; i++) {
        struct mr_tune_count *count = &tune->counts[round % 2 == 0 ? i : tune->n - 1 - i];
        if (count->close)
            exit_status = measure_count(tune, count, round);
    }
    return exit_status;
}

static int measure_counts(struct tune *tune, struct mr_tune_answer *answer_out)
{
    int exit_status = MR_EXIT_OK;
    bool sure = false;

    for (size_t i = 0; i < tune->n; i++)
        tune->counts[i].close = true; /* the first rounds measure all of them */
    for (uint32_t round = 0; exit_status == MR_EXIT_OK && !sure && round < MR_TUNE_MAX_ROUNDS;
         round++) {
        exit_status = measure_round(tune, round);
        if (exit_status == MR_EXIT_OK && round + 1 == FULL_ROUNDS)
            sure = mr_tune_pick_close(tune->counts, tune->n) < 2;
        if (exit_status == MR_EXIT_OK && round + 1 >= ROUNDS)
            sure = mr_tune_pick_choose(tune->counts, tune->n, answer_out);
    }
    if (exit_status != MR_EXIT_OK)
        return exit_status;
    mr_tune_pick_choose(tune->counts, tune->n, answer_out);
    mr_tune_pick_explain(answer_out, tune->run.meta.n_cpus);
    return MR_EXIT_OK;
}

/* Print the close numbers; the last line is the answer. */
static void print_answer(const struct mr_tune_answer *answer)
{
    char line[MR_TUNE_LINE];

    printf("\nworkers  of the best  lowest  highest  rounds\n");
    for (size_t i = 0; i < answer->n; i++) {
        if (!answer->counts[i].close)
            continue;
        mr_tune_pick_row(&answer->counts[i], line, sizeof line);
        printf("%s\n", line);
    }
    mr_tune_pick_line(answer, line, sizeof line);
    printf("\n%s\n", line);
}

static int run_tune(struct tune *tune, const struct tune_args *args)
{
    struct mr_tune_answer answer;

    choose_counts(tune, args);
    tune->rows = calloc(tune->n * MR_TUNE_MAX_ROUNDS, sizeof *tune->rows);
    if (tune->rows == NULL) {
        mr_say_error("out of memory");
        return MR_EXIT_FAILED;
    }
    int exit_status = measure_counts(tune, &answer);
    if (exit_status == MR_EXIT_OK) {
        print_answer(&answer);
        if (args->common.json != NULL && !mr_bench_json_store(&tune->run.json, &tune->run.meta,
                                                              tune->rows, tune->n_rows, &answer))
            exit_status = MR_EXIT_FAILED;
    }
    free(tune->rows);
    return exit_status;
}

int mr_cmd_tune_run(int argc, char **argv)
{
    struct argp_child children[] = {{mr_bench_args_argp(), 0, NULL, 0}, {0}};
    struct argp_option options[sizeof list / sizeof *list];
    const struct argp argp = {
        .options = mr_arg_list_options(list, options),
        .parser = parse_option,
        .args_doc = MR_LOADER_ARGS_DOC,
        .doc = "Find the smallest number of workers within 3 % of the best throughput, and what "
               "limits it: decoding, reading or the consumer. --workers takes a list of the "
               "numbers to try (default 0,1,2,3,4,6,8,12,... up to --max-workers)."
               "\v"
               "Example:\n"
               "  millrace tune imagefolder:train --dtype f32\n"
               "  millrace tune imagefolder:train --batch-size 256 --step 85",
        .children = children,
    };
    struct tune_args args = {.max_workers = NOT_GIVEN};
    struct tune tune = {0};
    int exit_status = MR_EXIT_FAILED;

    mr_bench_args_init(&args.common, DEFAULT_SECONDS);
    if (mr_command_parse(&argp, argc, argv, 0, &args))
        exit_status = mr_bench_run_open(&tune.run, &args.common, argc, argv);
    if (exit_status == MR_EXIT_OK)
        exit_status = mr_bench_run_close(&tune.run, run_tune(&tune, &args));
    mr_bench_args_free(&args.common);
    return exit_status;
}
