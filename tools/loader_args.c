/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the loader's options, most of them by mr_loader_options_set(), so that names, limits and words are the
 * library's. Zero means "default" in the library's struct, but "none" in --workers and --cache-slowdown.
 */
#include "tools/loader_args.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "tools/arg_value.h"
#include "tools/sampler_args.h"

enum {
    KEY_DATA = 256,
    KEY_EMPTY_CLASSES,
    KEY_TRANSFORM,
    KEY_MEAN,
    KEY_STD,
    KEY_DTYPE,
    KEY_LAYOUT,
    KEY_BATCH_SIZE,
    KEY_SOFT_LABELS,
    KEY_DROP_LAST,
    KEY_ON_ERROR,
    KEY_WORKERS,
    KEY_START,
    KEY_READER,
    KEY_JPEG,
    KEY_SLOTS,
    KEY_READ_AHEAD,
    KEY_NICE,
    KEY_AFFINITY,
    KEY_TIME_LIMIT,
    KEY_MAX_PIXELS,
    KEY_MAX_FILE_BYTES,
    KEY_VERIFY_PACKS,
    KEY_CACHE,
    KEY_CACHE_BYTES,
    KEY_CACHE_SLOWDOWN,
    KEY_CACHE_FORM,
};

static const struct mr_arg_field fields[] = {
    {KEY_DTYPE, "dtype", "dtype"},
    {KEY_LAYOUT, "layout", "layout"},
    {KEY_BATCH_SIZE, "batch-size", "batch_size"},
    {KEY_SOFT_LABELS, "soft-labels", "soft_labels"},
    {KEY_DROP_LAST, "drop-last", "drop_last"},
    {KEY_ON_ERROR, "on-error", "on_error"},
    {KEY_START, "start", "start"},
    {KEY_READER, "reader", "reader"},
    {KEY_JPEG, "jpeg", "jpeg_decoder"},
    {KEY_SLOTS, "slots", "n_slots"},
    {KEY_READ_AHEAD, "read-ahead", "read_ahead"},
    {KEY_NICE, "nice", "nice"},
    {KEY_MAX_PIXELS, "max-pixels", "max_pixels"},
    {KEY_MAX_FILE_BYTES, "max-file-bytes", "max_file_bytes"},
    {KEY_VERIFY_PACKS, "verify-packs", "verify_packs"},
    {KEY_CACHE, "cache", "cache"},
    {KEY_CACHE_BYTES, "cache-bytes", "cache_bytes"},
    {KEY_CACHE_SLOWDOWN, "cache-slowdown", "cache_slowdown"},
    {KEY_CACHE_FORM, "cache-form", "cache_form"},
    {0, NULL, NULL},
};

static const struct argp_option options[] = {
    {NULL, 0, NULL, 0, "Samples:", 1},
    {"data", KEY_DATA, "SPEC", 0, MR_LOADER_ARGS_DATA_HELP, 0},
    {"allow-empty-classes", KEY_EMPTY_CLASSES, NULL, 0, "imagefolder: accept a class without an image", 0},
    {"transform", KEY_TRANSFORM, "T", 0,
     "train:224, eval:232:224, cifar, none, a recipe like resnet50_v2, or operations with + between them (default "
     "train:224 for files, none for pixels and records)",
     0},
    {"mean", KEY_MEAN, "M[,M,M]", 0,
     "Normalise with this mean per channel, in units of 0 to 1 (default: the transform's)", 0},
    {"std", KEY_STD, "S[,S,S]", 0, "Standard deviation per channel, together with --mean (default: the transform's)",
     0},
    {"dtype", KEY_DTYPE, "u8|f32|f16|bf16", 0, "Type of the images' elements (default u8)", 0},
    {"layout", KEY_LAYOUT, "nchw|nhwc", 0, "Layout of the images (default nchw)", 0},
    {"batch-size", KEY_BATCH_SIZE, "B", 0, "Samples in a batch, 1 to 65535 (default 64)", 0},
    {"soft-labels", KEY_SOFT_LABELS, "CLASSES", 0,
     "Recipes that mix: make the array of soft labels too, of this many classes", 0},
    {"drop-last", KEY_DROP_LAST, NULL, 0, "Leave out a last batch with fewer samples", 0},
    {"on-error", KEY_ON_ERROR, "fail|skip|zero", 0,
     "A damaged sample is an error, is replaced by the next good one, or becomes zeros with mask 0 (default fail)", 0},
    {NULL, 0, NULL, 0, "Workers:", 3},
    {"workers", KEY_WORKERS, "N", 0,
     "Worker processes; 0 decodes in this process (default: the CPUs that this process may use)", 0},
    {"start", KEY_START, "exec|fork|thread", 0, "How workers are started (default exec)", 0},
    {"reader", KEY_READER, "auto|uring|pread", 0, "How files are read (default auto: io_uring where allowed)", 0},
    {"jpeg", KEY_JPEG, "auto|stock", 0,
     "How JPEGs are decoded (default auto: by millrace's own decoder where libjpeg-turbo allows it)", 0},
    {"slots", KEY_SLOTS, "N", 0,
     "Decoded batches in memory at the same time, 2 to 1024 (default 4; more where batches are too small to keep the "
     "workers' reads in flight)",
     0},
    {"read-ahead", KEY_READ_AHEAD, "N", 0, "Reads in flight per worker, 1 to 64 (default 4)", 0},
    {"nice", KEY_NICE, "N", 0, "Added to the workers' nice level, 0 to 19 (default 0)", 0},
    {"affinity", KEY_AFFINITY, "none|spread|CPU,...", 0,
     "CPUs of this process on which the workers run (default none: all of them)", 0},
    {"time-limit", KEY_TIME_LIMIT, "SECONDS", 0, "Treat a sample that takes longer as damaged (default 60)", 0},
    {"max-pixels", KEY_MAX_PIXELS, "N", 0, "Treat larger images as damaged (default 178956970)", 0},
    {"max-file-bytes", KEY_MAX_FILE_BYTES, "N", 0,
     "Treat larger files as damaged, with K, M, G or T for powers of 1024 (default 1 GiB)", 0},
    {"cache", KEY_CACHE, "DIR", 0,
     "Keep image files packed or indexed in this directory, and read them with its help the next time (default: none)",
     0},
    {"cache-bytes", KEY_CACHE_BYTES, "B", 0,
     "Largest size of the cache, with K, M, G or T for powers of 1024 (default: what the disk has)", 0},
    {"cache-slowdown", KEY_CACHE_SLOWDOWN, "P", 0,
     "Percent of the workers' time, in addition to idle time, for filling the cache, 0 to 100 (default 25)", 0},
    {"cache-form", KEY_CACHE_FORM, "auto|index|dct", 0,
     "What the cache keeps: an index of each JPEG file, about 2.5 % of its bytes, or coefficients, about 132 % "
     "(default "
     "auto: coefficients where --cache-bytes or the disk has room for them)",
     0},
    {"verify-packs", KEY_VERIFY_PACKS, NULL, 0,
     "Packs: read each sample completely and compare its checksum before using it; otherwise altered bytes of jpeg and "
     "raw packs mostly decode to other pixels without an error",
     0},
    {0}};

void mr_loader_args_init(struct mr_loader_args *args, size_t max_workers)
{
    *args = (struct mr_loader_args){
        .dataset = MR_DATASET_OPTIONS_INIT, .loader = MR_LOADER_OPTIONS_INIT, .max_workers = max_workers};
}

static void parse_workers(struct mr_loader_args *args, const char *value, struct argp_state *state)
{
    uint64_t values[MR_LOADER_ARGS_MAX_WORKERS];

    args->n_workers = mr_arg_value_list(state, "workers", value, 0, MR_MAX_WORKERS, values, args->max_workers);
    for (size_t i = 0; i < args->n_workers; i++)
        args->workers[i] = values[i] == 0 ? MR_NO_WORKERS : (uint32_t)values[i];
}

static void parse_affinity(struct mr_loader_args *args, const char *value, struct argp_state *state)
{
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

void mr_loader_args_take_path(const char **data, const char *value, struct argp_state *state)
{
    if (*data != NULL)
        argp_error(state, "'%s' is one argument too many", value);
    *data = value;
}

const char *mr_loader_args_check_data(const char *data, char spec[MR_PACK_WATCH_SPEC_BYTES], struct argp_state *state)
{
    if (data == NULL)
        argp_error(state, "PATH, SPEC or --data is missing");
    return mr_pack_watch_spec(data, spec);
}

static void check_complete(struct mr_loader_args *args, struct argp_state *state)
{
    args->data = mr_loader_args_check_data(args->data, args->spec, state);
    if ((args->n_mean == 0) != (args->n_std == 0))
        argp_error(state, "--mean and --std belong together");
    if (args->n_mean != args->n_std)
        argp_error(state, "--mean has %u values and --std has %u", args->n_mean, args->n_std);
    args->n_channels = args->n_mean;
}

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    static char idle[] = "idle"; /* what 0 percent means */
    struct mr_loader_args *args = state->input;
    mr_loader_options *loader = &args->loader;

    if (key == KEY_CACHE_SLOWDOWN && strcmp(value, "0") == 0)
        value = idle;
    if (mr_arg_value_field(state, fields, key, value, loader))
        return 0;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = loader; return 0;
    case KEY_DATA: args->data = value; return 0;
    case KEY_EMPTY_CLASSES: args->dataset.allow_empty_classes = true; return 0;
    case KEY_TRANSFORM: args->transform = value; return 0;
    case KEY_MEAN: args->n_mean = mr_arg_value_channels(state, "mean", value, -1e30, args->mean); return 0;
    case KEY_STD: args->n_std = mr_arg_value_channels(state, "std", value, 0, args->std); return 0;
    case KEY_WORKERS: parse_workers(args, value, state); return 0;
    case KEY_AFFINITY: parse_affinity(args, value, state); return 0;
    case KEY_TIME_LIMIT:
        loader->time_limit_ms = (uint32_t)(1000 * mr_arg_value_real(state, "time-limit", value, 0.001, 86400));
        return 0;
    case ARGP_KEY_ARG: mr_loader_args_take_path(&args->data, value, state); return 0;
    case ARGP_KEY_END: check_complete(args, state); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

const struct argp *mr_loader_args_argp(void)
{
    static struct argp_child children[] = {{NULL, 0, "Order and shard:", 2}, {0}};
    static const struct argp argp = {options, parse_option, NULL, NULL, children, NULL, NULL};

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
