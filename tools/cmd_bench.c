/* SPDX-License-Identifier: Apache-2.0 */
/*
 * millrace bench: measures the throughput for each number of workers, with one loader after the
 * other on the same dataset. Options that cannot work (a plot without gnuplot) are reported before
 * the measurement begins.
 */
#include <argp.h>
#include <string.h>

#include "tools/arg_list.h"
#include "tools/temporary_file.h"
#include "tools/measure/bench_json.h"
#include "tools/measure/bench_plot.h"
#include "tools/measure/bench_run.h"
#include "tools/command.h"

#define DEFAULT_SECONDS 5.0

struct bench_args {
    struct mr_bench_args common;
    const char *plot;
};

static const struct mr_arg list[] = {
    {"plot", "FILE.png", "Plot throughput against workers (needs gnuplot)",
     MR_ARG_PATH(struct bench_args, plot, ".png")},
    {"trace", "FILE",
     "Write a Chrome trace of workers, copier and devices; --workers must have one value",
     MR_ARG_TEXT(struct bench_args, common.common.loader.trace)},
    {0},
};

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    static const uint32_t workers[] = {MR_NO_WORKERS, 1, 2, 4};
    struct bench_args *args = state->input;
    struct mr_loader_args *loader = &args->common.common;

    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &args->common; return 0;
    case ARGP_KEY_END:
        if (loader->n_workers == 0) {
            memcpy(loader->workers, workers, sizeof workers);
            loader->n_workers = sizeof workers / sizeof *workers;
        }
        if (loader->loader.trace != NULL && loader->n_workers > 1)
            argp_error(
                state,
                "--trace needs a single value of --workers: each run would overwrite the file");
        return 0;
    default: return mr_arg_list_parse(state, list, key, value);
    }
}

static int store_results(struct mr_bench_run *run, const struct bench_args *args,
                         const struct mr_bench_row *rows, size_t n)
{
    bool good = true;

    if (args->common.json != NULL)
        good = mr_bench_json_store(&run->json, &run->meta, rows, n, NULL);
    if (args->plot != NULL)
        good = mr_bench_plot_store(args->plot, &run->meta, rows, n) && good;
    return good ? MR_EXIT_OK : MR_EXIT_FAILED;
}

static int run_bench(const struct bench_args *args, int argc, char **argv)
{
    const struct mr_loader_args *loader = &args->common.common;
    struct mr_bench_row rows[MR_LOADER_ARGS_MAX_WORKERS];
    struct mr_bench_run run;
    int exit_status = mr_bench_run_open(&run, &args->common, argc, argv);

    if (exit_status != MR_EXIT_OK)
        return exit_status;
    for (size_t i = 0; i < loader->n_workers && exit_status == MR_EXIT_OK; i++)
        exit_status = mr_bench_run_row(&run, loader->workers[i], 0, &rows[i]);
    if (exit_status == MR_EXIT_OK)
        exit_status = store_results(&run, args, rows, loader->n_workers);
    return mr_bench_run_close(&run, exit_status);
}

int mr_cmd_bench_run(int argc, char **argv)
{
    struct argp_child children[] = {{mr_bench_args_argp(), 0, NULL, 0}, {0}};
    struct argp_option options[sizeof list / sizeof *list];
    const struct argp argp = {
        .options = mr_arg_list_options(list, options),
        .parser = parse_option,
        .args_doc = MR_LOADER_ARGS_DOC,
        .doc = "Measure the throughput for each number of workers. --workers takes a list (here by "
               "default 0,1,2,4)."
               "\v"
               "Example:\n"
               "  millrace bench imagefolder:train --workers 0,1,2,4 \\\n"
               "    --json bench.json --plot bench.png",
        .children = children,
    };
    struct bench_args args = {0};
    int exit_status = MR_EXIT_FAILED;

    mr_bench_args_init(&args.common, DEFAULT_SECONDS);
    if (mr_command_parse(&argp, argc, argv, 0, &args) &&
        (args.plot == NULL || (mr_bench_plot_check() && mr_temporary_file_check(args.plot))))
        exit_status = run_bench(&args, argc, argv);
    mr_bench_args_free(&args.common);
    return exit_status;
}
