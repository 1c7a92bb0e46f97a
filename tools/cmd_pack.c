/* SPDX-License-Identifier: Apache-2.0 */
/*
 * millrace pack: makes a pack of a dataset of image files. The library does all of the work. An
 * interrupted pack is not removed, so the same command can continue it.
 */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/arg_list.h"
#include "tools/arg_value.h"
#include "tools/command.h"
#include "tools/pack_watch.h"
#include "tools/say.h"

enum { MAX_SIDE = 65500, MAX_WORKERS = 256, MAX_NAMED = 100 };
enum { ARRANGE_KEEP, ARRANGE_SHUFFLE };

struct pack_args {
    const char *source;
    const char *out;
    bool seed_given;
    mr_dataset_options dataset;
    mr_pack_options pack;
};

static const struct mr_arg_choice encodings[] = {
    {"dct", MR_PACK_DCT}, {"jpeg", MR_PACK_JPEG}, {"raw", MR_PACK_RAW}, {NULL, 0}};
static const struct mr_arg_choice arrangements[] = {
    {"keep", ARRANGE_KEEP}, {"shuffle", ARRANGE_SHUFFLE}, {NULL, 0}};

static void parse_arrange(struct argp_state *state, const char *value)
{
    struct pack_args *args = state->input;

    args->pack.shuffle =
        mr_arg_value_choice(state, "arrange", value, arrangements) == ARRANGE_SHUFFLE;
}

static void parse_seed(struct argp_state *state, const char *value)
{
    struct pack_args *args = state->input;

    args->pack.seed = mr_arg_value_number(state, "seed", value, 0, UINT64_MAX);
    args->seed_given = true;
}

static const struct mr_arg list[] = {
    {"encoding", "NAME",
     "dct: a JPEG's coefficients, about 1.3 times its bytes; jpeg: the unchanged files, with an "
     "index; raw: pixels (default dct)",
     MR_ARG_CHOICE(struct pack_args, pack.encoding, encodings)},
    {"no-index", NULL,
     "jpeg: write no index of the files; then a crop cannot be read and decoded alone",
     MR_ARG_SWITCH(struct pack_args, pack.no_index)},
    {"max-side", "N", "Resize longer images so that their longest side is N",
     MR_ARG_U32(struct pack_args, pack.max_side, 1, MAX_SIDE)},
    {"resize", "N", "Make the shortest side N",
     MR_ARG_U32(struct pack_args, pack.resize, 1, MAX_SIDE)},
    {"quality", "Q",
     "Encode all JPEGs again with this quality, 1 to 100 (default: only resized images, with 90)",
     MR_ARG_U32(struct pack_args, pack.quality, 1, 100)},
    {"shard-size", "BYTES", "Bytes of a shard; K, M, G or T are powers of 1024 (default 1G)",
     MR_ARG_BYTES(struct pack_args, pack.shard_size, 1 << 20)},
    {"workers", "N", "Threads (default: the CPUs that this process may use)",
     MR_ARG_U32(struct pack_args, pack.num_workers, 1, MAX_WORKERS)},
    {"align", NULL, "Begin each sample at a multiple of 4096 bytes",
     MR_ARG_SWITCH(struct pack_args, pack.align)},
    {"arrange", "HOW", "keep: the dataset's order; shuffle: a random one (default keep)",
     MR_ARG_CALL(parse_arrange)},
    {"seed", "S", "Seed of the random order (default 0)", MR_ARG_CALL(parse_seed)},
    {"max-pixels", "N", "Treat larger images as damaged (default 178956970)",
     MR_ARG_U64(struct pack_args, pack.max_pixels, 1, UINT64_MAX)},
    {"jpeg", "auto|stock", MR_PACK_WATCH_JPEG_HELP,
     MR_ARG_CHOICE(struct pack_args, pack.jpeg_decoder, mr_pack_watch_decoders)},
    {"allow-empty-classes", NULL, "imagefolder: accept a class without an image",
     MR_ARG_SWITCH(struct pack_args, dataset.allow_empty_classes)},
    {0},
};

static void check_args(const struct pack_args *args, struct argp_state *state)
{
    if (args->out == NULL)
        argp_error(state, "%s is missing", args->source == NULL ? "SRC" : "OUT");
    if (args->seed_given && !args->pack.shuffle)
        argp_error(state, "--seed needs --arrange shuffle");
}

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct pack_args *args = state->input;

    switch (key) {
    case ARGP_KEY_ARG: mr_arg_list_take(state, &args->source, &args->out, value); return 0;
    case ARGP_KEY_END: check_args(args, state); return 0;
    default: return mr_arg_list_parse(state, list, key, value);
    }
}

static void print_report(const char *out, const mr_pack_report *report)
{
    static const char *const names[] = {"", "jpeg", "raw", "dct"};

    printf("%s: %" PRIu64 " samples:", out, report->n_samples);
    for (size_t i = sizeof names / sizeof *names - 1; i > 0; i--)
        if (report->n_by_encoding[i] > 0)
            printf(" %s %" PRIu64, names[i], report->n_by_encoding[i]);
    if (report->n_marked > 0)
        printf(" (%" PRIu64 " with an index)", report->n_marked);
    if (report->n_resumed == report->n_samples) {
        printf("; the pack was already complete\n");
        return;
    }
    if (report->n_resumed > 0)
        printf("; %" PRIu64 " were already packed", report->n_resumed);
    printf("\nread %s, wrote %s", mr_pack_watch_bytes(report->bytes_read).text,
           mr_pack_watch_bytes(report->bytes_written).text);
    if (report->bytes_read > 0)
        printf(" (%.2f times)", (double)report->bytes_written / (double)report->bytes_read);
    printf(" in %.1f s", report->seconds);
    if (report->seconds > 0)
        printf(", %.0f samples/s",
               (double)(report->n_samples - report->n_resumed) / report->seconds);
    if (report->n_as_files > 0)
        printf("; %" PRIu64 " stored as files", report->n_as_files);
    if (report->n_damaged > 0)
        printf("; %" PRIu64 " damaged", report->n_damaged);
    printf("\n");
}

static int pack_dataset(struct pack_args *args)
{
    struct mr_pack_watch watch = {.verb = "packing", .resumes = true, .max_named = MAX_NAMED};
    mr_pack_report report = MR_PACK_REPORT_INIT;
    mr_dataset *dataset;
    mr_error error = {0};
    int exit_status = mr_pack_watch_open(&watch, args->source, &args->dataset, &dataset);

    if (exit_status != MR_EXIT_OK)
        return exit_status;
    mr_pack_watch_begin(&watch, &args->pack);
    mr_status status = mr_dataset_pack(dataset, args->out, &args->pack, &report, &error);
    exit_status = mr_pack_watch_end(&watch, status, &error);
    mr_dataset_destroy(dataset);
    if (exit_status == MR_EXIT_OK)
        print_report(args->out, &report);
    return exit_status;
}

int mr_cmd_pack_run(int argc, char **argv)
{
    struct argp_option options[sizeof list / sizeof *list];
    const struct argp argp = {
        .options = mr_arg_list_options(list, options),
        .parser = parse_option,
        .args_doc = "SRC OUT",
        .doc =
            "Make a pack of a dataset of image files: the same pixels, decoded several times "
            "faster. SRC is a SPEC or a directory. OUT is a folder, which is created; pack:OUT is "
            "then a SPEC. The same command continues an interrupted pack. Samples that cannot be "
            "packed as requested are stored as files; the first 100 of them are listed on stderr."
            "\v"
            "Example: pack a folder, then train from the pack\n"
            "  millrace pack --workers 8 imagefolder:train train-pack\n"
            "  millrace bench --data pack:train-pack",
    };
    struct pack_args args = {.dataset = MR_DATASET_OPTIONS_INIT, .pack = MR_PACK_OPTIONS_INIT};

    if (!mr_command_parse(&argp, argc, argv, 0, &args))
        return MR_EXIT_FAILED;
    return pack_dataset(&args);
}
