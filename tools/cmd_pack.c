/* SPDX-License-Identifier: Apache-2.0 */
/*
 * millrace pack: makes a pack of a dataset of image files. The library does all of the work. An interrupted pack is
 * kept, so that the same command can continue it.
 */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/arg_value.h"
#include "tools/command.h"
#include "tools/pack_watch.h"
#include "tools/say.h"

enum {
    KEY_ENCODING = 256,
    KEY_MAX_SIDE,
    KEY_RESIZE,
    KEY_QUALITY,
    KEY_SHARD_SIZE,
    KEY_WORKERS,
    KEY_ALIGN,
    KEY_ARRANGE,
    KEY_SEED,
    KEY_MAX_PIXELS,
    KEY_JPEG,
    KEY_NO_MARKS,
    KEY_EMPTY_CLASSES,
};
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
static const struct mr_arg_choice arrangements[] = {{"keep", ARRANGE_KEEP}, {"shuffle", ARRANGE_SHUFFLE}, {NULL, 0}};

static const struct argp_option options[] = {
    {"encoding", KEY_ENCODING, "NAME", 0,
     "dct: a JPEG's coefficients, about 1.3 times its bytes; "
     "jpeg: the files as they are, with marks; raw: pixels (default dct)",
     0},
    {"no-marks", KEY_NO_MARKS, NULL, 0, "jpeg: leave out the marks, by which a crop is read and decoded alone", 0},
    {"max-side", KEY_MAX_SIDE, "N", 0, "Resize longer images so that their longest side is N", 0},
    {"resize", KEY_RESIZE, "N", 0, "Make the shortest side N", 0},
    {"quality", KEY_QUALITY, "Q", 0,
     "Encode all JPEGs anew with this quality, 1 to 100 (default: only those that are resized, with 90)", 0},
    {"shard-size", KEY_SHARD_SIZE, "BYTES", 0, "Bytes of a shard, with K, M, G or T for powers of 1024 (default 1G)",
     0},
    {"workers", KEY_WORKERS, "N", 0, "Threads (default: the CPUs that this process may use)", 0},
    {"align", KEY_ALIGN, NULL, 0, "Begin each sample at a multiple of 4096 bytes", 0},
    {"arrange", KEY_ARRANGE, "HOW", 0, "keep: the dataset's order; shuffle: a random one (default keep)", 0},
    {"seed", KEY_SEED, "S", 0, "Seed of the random order (default 0)", 0},
    {"max-pixels", KEY_MAX_PIXELS, "N", 0, "Treat larger images as damaged (default 178956970)", 0},
    {"jpeg", KEY_JPEG, "auto|stock", 0, MR_PACK_WATCH_JPEG_HELP, 0},
    {"allow-empty-classes", KEY_EMPTY_CLASSES, NULL, 0, "imagefolder: accept a class without an image", 0},
    {0}};

static void take_argument(struct pack_args *args, const char *value, struct argp_state *state)
{
    if (args->source == NULL)
        args->source = value;
    else if (args->out == NULL)
        args->out = value;
    else
        argp_error(state, "'%s' is one argument too many", value);
}

static void check_end(const struct pack_args *args, struct argp_state *state)
{
    if (args->out == NULL)
        argp_error(state, "%s is missing", args->source == NULL ? "SRC" : "OUT");
    if (args->seed_given && !args->pack.shuffle)
        argp_error(state, "--seed needs --arrange shuffle");
}

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct pack_args *args = state->input;
    mr_pack_options *pack = &args->pack;

    switch (key) {
    case KEY_ENCODING: pack->encoding = mr_arg_value_choice(state, "encoding", value, encodings); return 0;
    case KEY_MAX_SIDE: pack->max_side = (uint32_t)mr_arg_value_number(state, "max-side", value, 1, MAX_SIDE); return 0;
    case KEY_RESIZE: pack->resize = (uint32_t)mr_arg_value_number(state, "resize", value, 1, MAX_SIDE); return 0;
    case KEY_QUALITY: pack->quality = (uint32_t)mr_arg_value_number(state, "quality", value, 1, 100); return 0;
    case KEY_SHARD_SIZE: pack->shard_size = mr_arg_value_bytes(state, "shard-size", value, 1 << 20); return 0;
    case KEY_WORKERS:
        pack->num_workers = (uint32_t)mr_arg_value_number(state, "workers", value, 1, MAX_WORKERS);
        return 0;
    case KEY_NO_MARKS: pack->no_marks = true; return 0;
    case KEY_ALIGN: pack->align = true; return 0;
    case KEY_ARRANGE:
        pack->shuffle = mr_arg_value_choice(state, "arrange", value, arrangements) == ARRANGE_SHUFFLE;
        return 0;
    case KEY_SEED:
        pack->seed = mr_arg_value_number(state, "seed", value, 0, UINT64_MAX);
        args->seed_given = true;
        return 0;
    case KEY_MAX_PIXELS: pack->max_pixels = mr_arg_value_number(state, "max-pixels", value, 1, UINT64_MAX); return 0;
    case KEY_JPEG: pack->jpeg_decoder = mr_pack_watch_jpeg(state, value); return 0;
    case KEY_EMPTY_CLASSES: args->dataset.allow_empty_classes = true; return 0;
    case ARGP_KEY_ARG: take_argument(args, value, state); return 0;
    case ARGP_KEY_END: check_end(args, state); return 0;
    default: return ARGP_ERR_UNKNOWN;
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
        printf(" (%" PRIu64 " with marks)", report->n_marked);
    if (report->n_resumed == report->n_samples) {
        printf("; the pack was complete already\n");
        return;
    }
    if (report->n_resumed > 0)
        printf("; %" PRIu64 " were there already", report->n_resumed);
    printf("\nread %s, wrote %s", mr_pack_watch_bytes(report->bytes_read).text,
           mr_pack_watch_bytes(report->bytes_written).text);
    if (report->bytes_read > 0)
        printf(" (%.2f times)", (double)report->bytes_written / (double)report->bytes_read);
    printf(" in %.1f s", report->seconds);
    if (report->seconds > 0)
        printf(", %.0f samples/s", (double)(report->n_samples - report->n_resumed) / report->seconds);
    if (report->n_kept > 0)
        printf("; %" PRIu64 " kept as files", report->n_kept);
    if (report->n_damaged > 0)
        printf("; %" PRIu64 " damaged", report->n_damaged);
    printf("\n");
}

static int pack_dataset(struct pack_args *args)
{
    struct mr_pack_watch watch = {.verb = "packing", .goes_on = true, .max_named = MAX_NAMED};
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
    const struct argp argp = {options,
                              parse_option,
                              "SRC OUT",
                              "Make a pack of a dataset of image files: the same pixels, decoded several times faster. "
                              "SRC is a SPEC or a directory. OUT is a folder, which is made; pack:OUT is then a SPEC. "
                              "The same command continues an interrupted pack. Samples that cannot be packed as "
                              "requested are kept as files; the first 100 of them are listed on stderr."
                              "\v"
                              "Example: pack a folder, then train from the pack\n"
                              "  millrace pack --workers 8 imagefolder:train train-pack\n"
                              "  millrace bench --data pack:train-pack",
                              NULL,
                              NULL,
                              NULL};
    struct pack_args args = {.dataset = MR_DATASET_OPTIONS_INIT, .pack = MR_PACK_OPTIONS_INIT};

    if (!mr_command_parse(&argp, argc, argv, 0, &args))
        return MR_EXIT_FAILED;
    return pack_dataset(&args);
}
