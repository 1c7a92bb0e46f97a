/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the loader's options, most of them by mr_loader_options_set(), so values, limits and
 * messages are the library's. Zero means "default" in the library's struct, but "none" in --workers
 * and --cache-slowdown.
 */
#include "tools/loader_args.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "tools/arg_list.h"
#include "tools/arg_value.h"
#include "tools/sampler_args.h"

static void parse_mean(struct argp_state *state, const char *value)
{
    struct mr_loader_args *args = state->input;

    args->n_mean = mr_arg_value_channels(state, "mean", value, -1e30, args->mean);
}

static void parse_std(struct argp_state *state, const char *value)
{
    struct mr_loader_args *args = state->input;

    args->n_std = mr_arg_value_channels(state, "std", value, 0, args->std);
}

static void parse_workers(struct argp_state *state, const char *value)
{
    struct mr_loader_args *args = state->input;
    uint64_t values[MR_LOADER_ARGS_MAX_WORKERS];

    args->n_workers =
        mr_arg_value_list(state, "workers", value, 0, MR_MAX_WORKERS, values, args->max_workers);
    for (size_t i = 0; i < args->n_workers; i++)
        args->workers[i] = values[i] == 0 ? MR_NO_WORKERS : (uint32_t)values[i];
}

static void parse_affinity(struct argp_state *state, const char *value)
{
    struct mr_loader_args *args = state->input;
    uint64_t cpus[MR_MAX_WORKERS];

    args->loader.n_affinity_cpus = 0;
    if (strcasecmp(value, "none") == 0) {
        args->loader.affinity = MR_AFFINITY_NONE;
    } else if (strcasecmp(value, "spread") == 0) {
        args->loader.affinity = MR_AFFINITY_SPREAD;
    } else {
        size_t n = mr_arg_value_list(state, "affinity", value, 0, INT32_MAX, cpus, MR_MAX_WORKERS);
        for (size_t i = 0; i < n; i++)
            args->cpus[i] = (int32_t)cpus[i];
        args->loader.affinity = MR_AFFINITY_LIST;
        args->loader.n_affinity_cpus = (uint32_t)n;
    }
}

static void parse_time_limit(struct argp_state *state, const char *value)
{
    struct mr_loader_args *args = state->input;

    args->loader.time_limit_ms =
        (uint32_t)(1000 * mr_arg_value_real(state, "time-limit", value, 0.001, 86400));
}

/* 0 percent means MR_CACHE_WHEN_IDLE. */
static void parse_cache_slowdown(struct argp_state *state, const char *value)
{
    struct mr_loader_args *args = state->input;

    mr_arg_value_field(state, "cache-slowdown", "cache_slowdown",
                       strcmp(value, "0") == 0 ? "idle" : value, &args->loader);
}

#define FIELD(name) MR_ARG_FIELD(offsetof(struct mr_loader_args, loader), name)

static const struct mr_arg list[] = {
    {.help = "Samples:", .group = 1},
    {"data", "SPEC", MR_LOADER_ARGS_DATA_HELP, MR_ARG_TEXT(struct mr_loader_args, data)},
    {"allow-empty-classes", NULL, "imagefolder: accept a class without an image",
     MR_ARG_SWITCH(struct mr_loader_args, dataset.allow_empty_classes)},
    {"transform", "T",
     "train:224, eval:232:224, cifar, none, a recipe like resnet50_v2, or operations joined by + "
     "(default train:224 for files, none for pixels and records)",
     MR_ARG_TEXT(struct mr_loader_args, transform)},
    {"mean", "M[,M,M]",
     "Normalise with this mean per channel, in units of 0 to 1 (default: the transform's)",
     MR_ARG_CALL(parse_mean)},
    {"std", "S[,S,S]",
     "Standard deviation per channel, together with --mean (default: the transform's)",
     MR_ARG_CALL(parse_std)},
    {"dtype", "u8|f32|f16|bf16", "Type of the images' elements (default u8)", FIELD(dtype)},
    {"layout", "nchw|nhwc", "Layout of the images (default nchw)", FIELD(layout)},
    {"batch-size", "B", "Samples in a batch, 1 to 65535 (default 64)", FIELD(batch_size)},
    {"soft-labels", "CLASSES",
     "For recipes that mix: also make the array of soft labels, with this many classes",
     FIELD(soft_labels)},
    {"ragged", NULL, "Images keep their own sizes; needs --max-row-bytes", FIELD(ragged)},
    {"max-row-bytes", "N",
     "With --ragged: treat an image with more bytes after the transform as damaged; K, M or G are "
     "powers of 1024 (required with --ragged)",
     FIELD(max_row_bytes)},
    {"pad-batch", "SIDE",
     "Pad the images of a batch to its largest height and width, and treat an image with a larger "
     "side than this as damaged, 1 to 65535 (default: images have one size)",
     FIELD(pad_batch)},
    {"aspect-ratio-groups", "K",
     "Batches of images of a similar shape, as create_aspect_ratio_groups(k=K) of torchvision's "
     "references makes them, 1 to 100 (default: no groups)",
     FIELD(aspect_ratio_groups)},
    {"mix-stop", "none|first|all",
     "With mix:...: an epoch ends when the first source is used up, or when all are (default none: "
     "it has no end)",
     FIELD(mix_stop)},
    {"mix-samples", "N", "With mix:...: samples of an epoch (default: --mix-stop says)",
     FIELD(mix_samples)},
    {"mix-order", "even|megatron",
     "With mix:...: less than one sample from the weights at every position, or Megatron-Core's "
     "order (default even)",
     FIELD(mix_order)},
    {"group-by-length", "N",
     "Shuffle into batches of similar length, as LengthGroupedSampler of transformers does with a "
     "batch_size of N batches (default: no groups)",
     FIELD(group_by_length)},
    {"max-tokens", "N",
     "Batches of different size, as fairseq makes them: samples times the longest are at most N "
     "(default: all have --batch-size samples)",
     FIELD(max_tokens)},
    {"batch-multiple", "N",
     "With --max-tokens: batches have a multiple of N samples, or fewer than N (default 1)",
     FIELD(batch_multiple)},
    {"lengths", "FILE.npy", "The length of each sample (default: that of tokens:...?pack=none)",
     FIELD(lengths)},
    {"drop-last", NULL, "Drop a last batch that is not full", FIELD(drop_last)},
    {"on-error", "fail|skip|zero",
     "A damaged sample is an error, is replaced by the next good one, or becomes zeros with mask 0 "
     "(default fail)",
     FIELD(on_error)},
    {.help = "Workers:", .group = 3},
    {"workers", "N",
     "Worker processes; 0 decodes in this process (default: the CPUs that this process may use)",
     MR_ARG_CALL(parse_workers)},
    {"start", "exec|fork|thread", "How workers are started (default exec)", FIELD(start)},
    {"reader", "auto|uring|pread", "How files are read (default auto: io_uring where allowed)",
     FIELD(reader)},
    {"jpeg", "auto|stock",
     "JPEG decoder: millrace's own if libjpeg-turbo allows it, or libjpeg-turbo alone (default "
     "auto)",
     FIELD(jpeg_decoder)},
    {"slots", "N",
     "Decoded batches in memory at the same time, 2 to 1024 (default 4; more if batches are too "
     "small to keep the workers' reads in flight)",
     FIELD(n_slots)},
    {"read-ahead", "N",
     "Reads in flight per worker, 1 to 128 (default 4; for URLs as many as the measured delay "
     "needs)",
     FIELD(read_ahead)},
    {"connections", "N", "For URLs: connections of all workers together, 1 to 4096 (default 64)",
     FIELD(connections)},
    {"retry-ms", "MS",
     "For URLs: try a request that fails in a way that may pass again for this time (default "
     "30000)",
     FIELD(retry_ms)},
    {"nice", "N", "Added to the workers' nice level, 0 to 19 (default 0)", FIELD(nice)},
    {"affinity", "none|spread|CPU,...",
     "CPUs on which the workers run (default none: all CPUs of this process)",
     MR_ARG_CALL(parse_affinity)},
    {"time-limit", "SECONDS", "Treat a sample that takes longer as damaged (default 60)",
     MR_ARG_CALL(parse_time_limit)},
    {"max-pixels", "N", "Treat larger images as damaged (default 178956970)", FIELD(max_pixels)},
    {"max-boxes", "N", "Treat samples with more boxes as damaged (default 1024)", FIELD(max_boxes)},
    {"max-file-bytes", "N",
     "Treat larger files as damaged; K, M, G or T are powers of 1024 (default 1 GiB)",
     FIELD(max_file_bytes)},
    {"cache", "DIR",
     "Store packed images or indexes of image files in this directory and use them the next time "
     "(default: none)",
     FIELD(cache)},
    {"cache-bytes", "B",
     "Largest size of the cache; K, M, G or T are powers of 1024 (default: the free space of the "
     "disk)",
     FIELD(cache_bytes)},
    {"cache-slowdown", "P",
     "Percent of the workers' time, in addition to idle time, for filling the cache, 0 to 100 "
     "(default 25)",
     MR_ARG_CALL(parse_cache_slowdown)},
    {"cache-form", "auto|index|dct",
     "What the cache stores: an index of each JPEG file, about 2.3 % of its bytes, or "
     "coefficients, about 132 % (default auto: coefficients if --cache-bytes or the disk has room "
     "for them)",
     FIELD(cache_form)},
    {"verify-packs", NULL,
     "For packs: read each sample completely and compare its checksum before using it; without "
     "this, altered bytes of jpeg and raw packs mostly decode to wrong pixels without an error",
     FIELD(verify_packs)},
    {0},
};

void mr_loader_args_init(struct mr_loader_args *args, size_t max_workers)
{
    *args = (struct mr_loader_args){.dataset = MR_DATASET_OPTIONS_INIT,
                                    .loader = MR_LOADER_OPTIONS_INIT,
                                    .max_workers = max_workers};
}

const char *mr_loader_args_check_data(const char *data, char spec[MR_PACK_WATCH_SPEC_BYTES],
                                      struct argp_state *state)
{
    if (data == NULL)
        argp_error(state, "PATH, SPEC or --data is missing");
    return mr_pack_watch_spec(data, spec);
}

static void check_complete(struct mr_loader_args *args, struct argp_state *state)
{
    args->data = mr_loader_args_check_data(args->data, args->spec, state);
    if ((args->n_mean == 0) != (args->n_std == 0))
        argp_error(state, "--mean and --std must be given together");
    if (args->n_mean != args->n_std)
        argp_error(state, "--mean has %u values and --std has %u", args->n_mean, args->n_std);
    args->n_channels = args->n_mean;
}

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct mr_loader_args *args = state->input;

    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &args->loader; return 0;
    case ARGP_KEY_ARG: mr_arg_list_take(state, &args->data, NULL, value); return 0;
    case ARGP_KEY_END: check_complete(args, state); return 0;
    default: return mr_arg_list_parse(state, list, key, value);
    }
}

const struct argp *mr_loader_args_argp(void)
{
    static struct argp_child children[] = {{NULL, 0, "Order and shard:", 2}, {0}};
    static struct argp_option options[sizeof list / sizeof *list];
    static const struct argp argp = {
        .options = options, .parser = parse_option, .children = children};

    mr_arg_list_options(list, options);
    children[0].argp = mr_sampler_args_argp();
    return &argp;
}

mr_loader_options mr_loader_args_options(const struct mr_loader_args *args, uint32_t workers)
{
    mr_loader_options loader = args->loader;

    loader.num_workers = workers;
    loader.affinity_cpus = loader.n_affinity_cpus > 0 ? args->cpus : NULL;
    return loader;
}
