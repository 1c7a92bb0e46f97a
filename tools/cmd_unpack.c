/* SPDX-License-Identifier: Apache-2.0 */
/*
 * millrace unpack: writes the samples of a pack to files. A damaged sample makes the command fail,
 * but only after all other files are written.
 */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tools/arg_list.h"
#include "tools/command.h"
#include "tools/pack_watch.h"
#include "tools/say.h"

enum { MAX_WORKERS = 256 };

struct unpack_args {
    const char *source;
    const char *out;
    mr_pack_options pack;
};

static const struct mr_arg list[] = {
    {"workers", "N", "Threads (default: the CPUs that this process may use)",
     MR_ARG_U32(struct unpack_args, pack.num_workers, 1, MAX_WORKERS)},
    {"max-pixels", "N", "Treat larger images as damaged (default 178956970)",
     MR_ARG_U64(struct unpack_args, pack.max_pixels, 1, UINT64_MAX)},
    {0},
};

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct unpack_args *args = state->input;

    switch (key) {
    case ARGP_KEY_ARG: mr_arg_list_take(state, &args->source, &args->out, value); return 0;
    case ARGP_KEY_END:
        if (args->out == NULL)
            argp_error(state, "%s is missing", args->source == NULL ? "PACK" : "DIR");
        return 0;
    default: return mr_arg_list_parse(state, list, key, value);
    }
}

static int unpack_files(struct unpack_args *args)
{
    struct mr_pack_watch watch = {.verb = "unpacking", .resumes = true};
    mr_pack_report report = MR_PACK_REPORT_INIT;
    mr_dataset *dataset;
    mr_error error = {0};
    char spec[MR_PACK_WATCH_SPEC_BYTES];

    if (access(args->source, F_OK) == 0 && mr_pack_watch_spec(args->source, spec) == args->source) {
        mr_say_error("%s is not a pack: it has no index written by millrace pack", args->source);
        return MR_EXIT_USAGE;
    }
    int exit_status = mr_pack_watch_open(&watch, args->source, NULL, &dataset);

    if (exit_status != MR_EXIT_OK)
        return exit_status;
    mr_pack_watch_begin(&watch, &args->pack);
    mr_status status = mr_pack_unpack(dataset, args->out, &args->pack, &report, &error);
    exit_status = mr_pack_watch_end(&watch, status, &error);
    mr_dataset_destroy(dataset);
    if (exit_status == MR_EXIT_OK)
        printf("%s: %" PRIu64 " files, wrote %s in %.1f s\n", args->out, report.n_samples,
               mr_pack_watch_bytes(report.bytes_written).text, report.seconds);
    return exit_status;
}

int mr_cmd_unpack_run(int argc, char **argv)
{
    struct argp_option options[sizeof list / sizeof *list];
    const struct argp argp = {
        .options = mr_arg_list_options(list, options),
        .parser = parse_option,
        .args_doc = "PACK DIR",
        .doc = "Write the samples of a pack to files in the folder DIR, which is created. Files "
               "that the pack holds unchanged are restored byte for byte; the others become JPEGs "
               "with the same pixels. Raw samples become PNG. Existing files are not replaced."
               "\v"
               "Example:\n"
               "  millrace unpack --workers 8 train-pack train-again",
    };
    struct unpack_args args = {.pack = MR_PACK_OPTIONS_INIT};

    if (!mr_command_parse(&argp, argc, argv, 0, &args))
        return MR_EXIT_FAILED;
    return unpack_files(&args);
}
