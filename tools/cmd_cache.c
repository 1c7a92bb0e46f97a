/* SPDX-License-Identifier: Apache-2.0 */
/*
 * millrace cache: prints what a cache's directory holds, or empties it.
 * Invariant: a directory that is not a cache is never emptied. The library checks for its marker
 * and removes only files with names that it uses.
 */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <millrace/cache.h>

#include "tools/arg_list.h"
#include "tools/command.h"
#include "tools/say.h"
#include "tools/shown_dataset.h"

struct cache_args {
    const char *verb; /* "stat" or "clear" */
    const char *dir;
    const char *data;
    bool verify;
};

static const struct mr_arg list[] = {
    {"data", "SPEC", "stat: how much of this dataset the cache holds",
     MR_ARG_TEXT(struct cache_args, data)},
    {"verify", NULL, "stat: read all bytes and compare their checksums",
     MR_ARG_SWITCH(struct cache_args, verify)},
    {0},
};

static void check_args(const struct cache_args *args, struct argp_state *state)
{
    if (args->verb == NULL)
        argp_error(state, "stat or clear is missing");
    if (strcmp(args->verb, "stat") != 0 && strcmp(args->verb, "clear") != 0)
        argp_error(state, "'%s' is neither stat nor clear", args->verb);
    if (args->dir == NULL)
        argp_error(state, "the cache's directory is missing");
    if (strcmp(args->verb, "clear") == 0 && (args->data != NULL || args->verify))
        argp_error(state, "clear takes no options");
}

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct cache_args *args = state->input;

    switch (key) {
    case ARGP_KEY_ARG: mr_arg_list_take(state, &args->verb, &args->dir, value); return 0;
    case ARGP_KEY_END: check_args(args, state); return 0;
    default: return mr_arg_list_parse(state, list, key, value);
    }
}

static void print_bytes(uint64_t bytes)
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
    double value = (double)bytes;
    size_t unit = 0;

    for (; value >= 1000 && unit + 1 < sizeof units / sizeof *units; unit++)
        value /= 1000;
    printf(unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

static void print_count(const char *what, uint64_t n, uint64_t bytes)
{
    printf("%s: %" PRIu64 ", ", what, n);
    print_bytes(bytes);
    printf("\n");
}

static void print_report(const struct cache_args *args, const mr_cache_report *report)
{
    printf("%s: %" PRIu64 " entries in %" PRIu64 " segments, ", args->dir, report->n_entries,
           report->n_segments);
    print_bytes(report->bytes);
    printf("\n");
    print_count("packed samples", report->n_entries - report->n_index, report->packed_bytes);
    print_count("indexes of files", report->n_index, report->index_bytes);
    printf("files that cannot be packed or indexed: %" PRIu64 "\ndamaged entries: %" PRIu64
           "%s\ntorn ends: %" PRIu64 "\n",
           report->n_as_files, report->n_damaged, args->verify ? "" : " (bytes not read)",
           report->n_torn);
    if (args->data == NULL)
        return;
    double share =
        report->n_samples > 0 ? 100.0 * (double)report->n_filled / (double)report->n_samples : 0;
    printf("%s: %" PRIu64 " of %" PRIu64 " samples (%.1f %%), %" PRIu64
           " of them indexed; of the rest, %" PRIu64 " cannot be packed or indexed, %" PRIu64
           " have changed, %" PRIu64 " are damaged\n",
           args->data, report->n_filled, report->n_samples, share, report->n_filled_index,
           report->n_filled_as_files, report->n_filled_stale, report->n_filled_damaged);
}

static int print_stat(const struct cache_args *args)
{
    mr_dataset *dataset = NULL;
    mr_cache_report report = MR_CACHE_REPORT_INIT;
    struct mr_progress progress;
    mr_error error = {0};
    mr_status status = MR_OK;

    if (args->data != NULL)
        status = mr_shown_dataset_open(&progress, args->data, NULL, &dataset, &error);
    if (status == MR_OK)
        status = mr_cache_stat(args->dir, dataset, args->verify, &report, &error);
    mr_dataset_destroy(dataset);
    if (status < 0)
        return mr_say_status(status, &error);
    print_report(args, &report);
    return MR_EXIT_OK;
}

static int clear_cache(const struct cache_args *args)
{
    mr_cache_report report = MR_CACHE_REPORT_INIT;
    mr_error error = {0};
    mr_status status = mr_cache_clear(args->dir, &report, &error);

    if (status < 0)
        return mr_say_status(status, &error);
    printf("%s: %" PRIu64 " segments removed, ", args->dir, report.n_segments);
    print_bytes(report.bytes);
    printf("\n");
    return MR_EXIT_OK;
}

int mr_cmd_cache_run(int argc, char **argv)
{
    struct argp_option options[sizeof list / sizeof *list];
    const struct argp argp = {
        .options = mr_arg_list_options(list, options),
        .parser = parse_option,
        .args_doc = "stat DIR\nclear DIR",
        .doc = "Print what the cache in DIR holds, or empty it. Loaders store packed samples or "
               "indexes of files in a cache while they work, and use them the next time."
               "\v"
               "Example: print how much of a dataset is in the cache\n"
               "  millrace cache stat cache-dir --data imagefolder:train",
    };
    struct cache_args args = {0};

    if (!mr_command_parse(&argp, argc, argv, 0, &args))
        return MR_EXIT_FAILED;
    return strcmp(args.verb, "stat") == 0 ? print_stat(&args) : clear_cache(&args);
}
