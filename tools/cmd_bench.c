/* SPDX-License-Identifier: Apache-2.0 */
/*
 * millrace bench: throughput against the number of workers, one loader after the other over the same dataset. Easy to
 * get wrong: what the options cannot deliver (a plot without gnuplot) is said before minutes of measuring, not after.
 */
#include <argp.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/arg_value.h"
#include "tools/aside.h"
#include "tools/bench_json.h"
#include "tools/bench_plot.h"
#include "tools/bench_row.h"
#include "tools/command.h"
#include "tools/say.h"

#define DEFAULT_SECONDS 5.0

enum { KEY_SECONDS = 256, KEY_JSON, KEY_PLOT, KEY_DEVICE, KEY_BUFFERS, KEY_TRACE };

struct bench_args {
    struct mr_loader_args common;
    double seconds;
    const char *json;
    const char *plot;
    const char *device;                  /* as given; NULL: the default */
    char *device_names;                  /* of it, cut at the commas */
    const char *devices[MR_MAX_DEVICES]; /* into device_names */
};

struct bench {
    struct mr_feed feed;
    struct mr_bench_meta meta;
    struct mr_progress progress;
    struct mr_bench_row rows[MR_LOADER_ARGS_MAX_WORKERS];
    size_t n_rows;
    bool damage_told;
    bool failed; /* a sample failed under policy fail */
};

static const struct argp_option options[] = {
    {"seconds", KEY_SECONDS, "S", 0, "Time to measure for each number of workers, after the first batch (default 5)",
     0},
    {"json", KEY_JSON, "FILE", 0, "Write the results as JSON too", 0},
    {"plot", KEY_PLOT, "FILE.png", 0, "Draw throughput against workers (needs gnuplot)", 0},
    {"device", KEY_DEVICE, "NAME[,NAME...]", 0,
     "Where batches lie: host, cuda:N, cuda:local, auto, host:N (stands for a device); several split each batch "
     "(default "
     "host)",
     0},
    {"buffers", KEY_BUFFERS, "N", 0, "Batches that lie on a device at once, 2 to 64 (default 3)", 0},
    {"trace", KEY_TRACE, "FILE", 0, "Write a Chrome trace of workers, copier and devices; needs one value of --workers",
     0},
    {0}};

/* One name is a device, several are devices to split batches over. */
static void parse_device(struct bench_args *args, const char *value, struct argp_state *state)
{
    mr_loader_options *loader = &args->common.loader;
    uint32_t n = 0;

    free(args->device_names);
    args->device_names = strdup(value);
    if (args->device_names == NULL)
        argp_failure(state, MR_EXIT_FAILED, 0, "out of memory");
    char *rest = args->device_names;
    for (char *name; (name = strsep(&rest, ",")) != NULL; n++) {
        if (n == MR_MAX_DEVICES)
            argp_error(state, "--device: '%s' names more than %d devices", value, MR_MAX_DEVICES);
        args->devices[n] = name;
    }
    args->device = value;
    loader->device = n == 1 ? args->devices[0] : NULL;
    loader->devices = n == 1 ? NULL : args->devices;
    loader->n_devices = n == 1 ? 0 : n;
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    static const uint32_t workers[] = {MR_NO_WORKERS, 1, 2, 4};
    struct bench_args *args = state->input;

    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &args->common; return 0;
    case KEY_SECONDS: args->seconds = mr_arg_value_real(state, "seconds", value, 0.01, 86400); return 0;
    case KEY_JSON: args->json = value; return 0;
    case KEY_PLOT: args->plot = mr_arg_value_path(state, "plot", value, ".png"); return 0;
    case KEY_DEVICE: parse_device(args, value, state); return 0;
    case KEY_BUFFERS:
        args->common.loader.n_buffers = (uint32_t)mr_arg_value_number(state, "buffers", value, 2, 64);
        return 0;
    case KEY_TRACE: args->common.loader.trace = value; return 0;
    case ARGP_KEY_ARG: argp_error(state, "'%s' is not an option", value); return 0;
    case ARGP_KEY_END:
        if (args->common.n_workers == 0) {
            memcpy(args->common.workers, workers, sizeof workers);
            args->common.n_workers = sizeof workers / sizeof *workers;
        }
        if (args->common.loader.trace != NULL && args->common.n_workers > 1)
            argp_error(state, "--trace needs one value of --workers: each would write the file anew");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* As it was given, or the long form where --mean and --std were added to it. */
static char *transform_text(const struct mr_feed *feed, bool added)
{
    if (!added)
        return strdup(feed->transform_name);
    size_t size = mr_transform_format(feed->transform, NULL, 0) + 1;
    char *text = malloc(size);
    if (text != NULL)
        mr_transform_format(feed->transform, text, size);
    return text;
}

/* What the loader made of the options; known as soon as one loader has been there. */
static bool complete_meta(struct bench *bench, const struct bench_args *args)
{
    bench->meta.data = args->common.data;
    bench->meta.device = args->device != NULL ? args->device : "host";
    bench->meta.seconds = args->seconds;
    bench->meta.n_samples = mr_dataset_count(bench->feed.dataset);
    bench->meta.options = *mr_loader_resolved(bench->feed.loader);
    bench->meta.options.dtype = bench->rows[0].dtype;
    bench->meta.transform = transform_text(&bench->feed, args->common.n_channels > 0);
    if (bench->meta.transform == NULL)
        mr_say_error("out of memory");
    return bench->meta.transform != NULL;
}

static void tell_failures(struct bench *bench, const struct mr_bench_row *row)
{
    if (row->failure[0] != '\0') {
        mr_say_error("--workers %" PRIu32 ": %" PRIu64 " batches failed; the first: %s", row->workers, row->n_failed,
                     row->failure);
        bench->failed = true;
    } else if (row->n_failed > 0 && !bench->damage_told) {
        mr_feed_report_damage(&bench->feed); /* the same samples in every row */
        bench->damage_told = true;
    }
}

static int run_row(struct bench *bench, const struct bench_args *args, uint32_t workers)
{
    mr_loader_options loader_options = mr_loader_args_options(&args->common, workers);
    struct mr_bench_row *row = &bench->rows[bench->n_rows];
    int exit_status = mr_bench_row_measure(&bench->feed, &loader_options, args->seconds, &bench->progress, row);
    bool good = exit_status == MR_EXIT_OK;

    if (good && bench->n_rows == 0)
        good = complete_meta(bench, args) && mr_bench_report_head(&bench->meta);
    if (good) {
        row->ratio = bench->rows[0].img_s > 0 ? row->img_s / bench->rows[0].img_s : 0;
        good = mr_bench_report_row(row);
        tell_failures(bench, row);
        bench->n_rows++;
    }
    mr_feed_stop(&bench->feed);
    return good || exit_status != MR_EXIT_OK ? exit_status : MR_EXIT_FAILED;
}

static int store_results(const struct bench *bench, const struct bench_args *args)
{
    bool good = true;

    if (args->json != NULL)
        good = mr_bench_json_store(args->json, &bench->meta, bench->rows, bench->n_rows);
    if (args->plot != NULL)
        good = mr_bench_plot_store(args->plot, &bench->meta, bench->rows, bench->n_rows) && good;
    return good ? MR_EXIT_OK : MR_EXIT_FAILED;
}

static int run_bench(struct bench *bench, const struct bench_args *args)
{
    int exit_status = mr_feed_open(&bench->feed, &args->common);

    if (exit_status != MR_EXIT_OK)
        return exit_status;
    mr_progress_init(&bench->progress);
    for (size_t i = 0; exit_status == MR_EXIT_OK && i < args->common.n_workers; i++)
        exit_status = run_row(bench, args, args->common.workers[i]);
    if (exit_status == MR_EXIT_OK)
        exit_status = store_results(bench, args);
    mr_feed_close(&bench->feed);
    return exit_status == MR_EXIT_OK && bench->failed ? MR_EXIT_FAILED : exit_status;
}

int mr_cmd_bench_run(int argc, char **argv)
{
    struct argp_child children[] = {{mr_loader_args_argp(), 0, NULL, 0}, {0}};
    const struct argp argp = {
        options,
        parse,
        NULL,
        "Measure throughput against the number of workers: --workers takes a list (here by default 0,1,2,4)."
        "\v"
        "Example:\n"
        "  millrace bench --data imagefolder:train --workers 0,1,2,4 \\\n"
        "    --json bench.json --plot bench.png",
        children,
        NULL,
        NULL};
    struct bench_args args = {.seconds = DEFAULT_SECONDS};
    struct bench bench = {0};

    mr_loader_args_init(&args.common, MR_LOADER_ARGS_MAX_WORKERS);
    if (argp_parse(&argp, argc, argv, 0, NULL, &args) != 0)
        return MR_EXIT_FAILED;
    if ((args.json != NULL && !mr_bench_json_check()) || (args.plot != NULL && !mr_bench_plot_check()))
        return MR_EXIT_FAILED;
    if ((args.json != NULL && !mr_aside_check(args.json)) || (args.plot != NULL && !mr_aside_check(args.plot)))
        return MR_EXIT_FAILED;
    if (!mr_bench_report_meta(&bench.meta, argc, argv))
        return MR_EXIT_FAILED;
    int exit_status = run_bench(&bench, &args);
    mr_bench_report_free(&bench.meta);
    return exit_status;
}
