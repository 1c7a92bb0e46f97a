/* SPDX-License-Identifier: Apache-2.0 */
/*
 * millrace export: writes one epoch of one rank as NumPy files, exactly as a training loop receives
 * it. Invariant: the files form one result. They get their final names when all are complete,
 * either all or none of them, the images last.
 */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/arg_list.h"
#include "tools/command.h"
#include "tools/explain_lines.h"
#include "tools/feed.h"
#include "tools/npy.h"
#include "tools/progress.h"
#include "tools/say.h"

struct export_args {
    struct mr_loader_args common;
    const char *out;
    const char *explain; /* NULL: not asked for */
};

/* The files, in the order in which they get their names. */
enum { LABELS, MIX_LABELS, MIX_LAMBDA, SOFT_LABELS, INDICES, MASK, IMAGES, N_FILES };

static const struct {
    const char *array; /* NULL: the first one of the batch */
    const char *suffix;
    mr_dtype dtype; /* used if no array was written */
    bool optional;  /* no file if the batches do not have this array */
} files[N_FILES] = {
    [LABELS] = {"label", ".labels.npy", MR_I64},
    [MIX_LABELS] = {"mix_label", ".mix_labels.npy", MR_I64, true},
    [MIX_LAMBDA] = {"mix_lambda", ".mix_lambda.npy", MR_F32, true},
    [SOFT_LABELS] = {"soft_label", ".soft_labels.npy", MR_F32, true},
    [INDICES] = {"index", ".indices.npy", MR_I64},
    [MASK] = {"mask", ".mask.npy", MR_U8},
    [IMAGES] = {NULL, ".npy", MR_U8},
};

struct output {
    struct mr_npy npy[N_FILES];
    struct mr_explain_lines lines; /* not used if file.path is NULL */
    struct mr_progress progress;
    double start_s;
};

static const struct mr_arg list[] = {
    {"out", "X.npy",
     "File for the images; labels, indices and mask go to X.labels.npy, X.indices.npy and "
     "X.mask.npy. Mixed batches also have X.mix_labels.npy, X.mix_lambda.npy and, with "
     "--soft-labels, X.soft_labels.npy (required)",
     MR_ARG_PATH(struct export_args, out, ".npy")},
    {"explain", "FILE.jsonl",
     "Write a line of JSON for each row, with the functions of torchvision and Pillow that make "
     "the row from its image",
     MR_ARG_PATH(struct export_args, explain, ".jsonl")},
    {0},
};

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct export_args *args = state->input;

    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &args->common; return 0;
    case ARGP_KEY_END:
        if (args->out == NULL)
            argp_error(state, "--out is missing");
        return 0;
    default: return mr_arg_list_parse(state, list, key, value);
    }
}

static bool open_file(struct mr_npy *npy, const char *out, const char *suffix)
{
    int stem = (int)(strlen(out) - strlen(".npy"));
    char *path;

    if (asprintf(&path, "%.*s%s", stem, out, suffix) < 0) {
        mr_say_errno(ENOMEM, "%s", out);
        return false;
    }
    bool good = mr_npy_open(npy, path);
    free(path);
    return good;
}

static bool open_output(struct output *output, const struct mr_feed *feed,
                        const struct export_args *args)
{
    bool good = true;

    *output = (struct output){.start_s = mr_progress_now()};
    mr_progress_init(&output->progress);
    for (int i = 0; good && i < N_FILES; i++)
        good = open_file(&output->npy[i], args->out, files[i].suffix);
    return good &&
           (args->explain == NULL || mr_explain_lines_open(&output->lines, feed, args->explain));
}

static void close_output(struct output *output)
{
    mr_progress_clear(&output->progress);
    for (int i = 0; i < N_FILES; i++)
        mr_temporary_file_close(&output->npy[i].file);
    mr_explain_lines_close(&output->lines);
}

static const mr_array *find_array(const mr_batch *batch, int file)
{
    return files[file].array != NULL ? mr_batch_array(batch, files[file].array)
                                     : mr_batch_array_at(batch, 0);
}

static bool append_batch(struct output *output, const mr_batch *batch)
{
    bool good = true;

    for (int i = 0; good && i < N_FILES; i++) {
        const mr_array *array = find_array(batch, i);
        if (array != NULL)
            good = mr_npy_append(&output->npy[i], array);
    }
    return good &&
           (output->lines.file.path == NULL || mr_explain_lines_append(&output->lines, batch));
}

static void show_progress(struct output *output, int64_t n_samples)
{
    int64_t rows = output->npy[INDICES].shape[0];
    double seconds = mr_progress_now() - output->start_s;

    if (mr_progress_due(&output->progress))
        mr_progress_draw(&output->progress, "%" PRId64 " of %" PRId64 " samples, %.0f/s, %.0f s",
                         rows, n_samples, seconds > 0 ? (double)rows / seconds : 0.0, seconds);
}

static int write_epoch(struct mr_feed *feed, struct output *output)
{
    mr_batch *batch;
    mr_status status;
    bool good = true;

    while (good && (status = mr_feed_next(feed, NULL, NULL, &batch)) == MR_OK) {
        good = append_batch(output, batch);
        mr_batch_release(batch);
        show_progress(output, mr_loader_n_samples(feed->loader));
    }
    mr_progress_clear(&output->progress);
    if (!good)
        return MR_EXIT_FAILED;
    if (status == MR_END)
        return MR_EXIT_OK;
    return mr_feed_say_status(feed, status);
}

/*
 * The epoch has no batch. Make one, only to get the dtype and shape of its rows; no row is written.
 */
static int append_no_rows(struct mr_feed *feed, struct output *output,
                          mr_loader_options loader_options)
{
    mr_batch *batch;
    bool good = true;

    loader_options.world_size = 1;
    loader_options.rank = 0;
    loader_options.tail = MR_TAIL_PAD;
    loader_options.repeat = 0;     /* it would drop the samples beyond a multiple of 256 */
    loader_options.batch_size = 2; /* timm's mixing accepts only even sizes */
    loader_options.drop_last = false;
    loader_options.num_workers = MR_NO_WORKERS;
    loader_options.on_error = MR_ON_ERROR_ZERO;
    mr_feed_stop(feed);
    int exit_status = mr_feed_start(feed, &loader_options);
    if (exit_status != MR_EXIT_OK)
        return exit_status;
    mr_status status = mr_feed_next(feed, NULL, NULL, &batch);
    if (status != MR_OK)
        return mr_say_status(status, mr_loader_error(feed->loader));
    for (int i = 0; good && i < N_FILES; i++) {
        const mr_array *array = find_array(batch, i);
        if (array != NULL) {
            mr_array none = *array;
            none.shape[0] = 0;
            good = mr_npy_append(&output->npy[i], &none);
        }
    }
    mr_batch_release(batch);
    return good ? MR_EXIT_OK : MR_EXIT_FAILED;
}

/* True if the file is always written, or its array was in the batches. */
static bool is_wanted(const struct output *output, int file)
{
    return !files[file].optional || output->npy[file].header_bytes > 0;
}

static int finish_output(const struct mr_feed *feed, struct output *output, const char *out)
{
    mr_dtype dtype = mr_loader_resolved(feed->loader)->dtype;
    const struct mr_npy *images = &output->npy[IMAGES];
    struct mr_temporary_file *all[N_FILES + 1];
    size_t n = 0;
    bool good = output->lines.file.path == NULL || mr_temporary_file_sync(&output->lines.file);

    for (int i = 0; good && i < N_FILES; i++)
        good = !is_wanted(output, i) ||
               mr_npy_finish(&output->npy[i],
                             i == IMAGES && mr_dtype_size(dtype) > 0 ? dtype : files[i].dtype);
    if (output->lines.file.path != NULL)
        all[n++] = &output->lines.file;
    for (int i = 0; i < N_FILES; i++) {
        if (is_wanted(output, i))
            all[n++] = &output->npy[i].file;
    }
    if (!good || !mr_temporary_file_rename_all(all, n))
        return MR_EXIT_FAILED;
    printf("%s: %s (", out, mr_dtype_name(images->dtype));
    for (uint32_t i = 0; i < images->ndim; i++)
        printf("%s%" PRId64, i > 0 ? ", " : "", images->shape[i]);
    printf(")\n");
    return MR_EXIT_OK;
}

static int export_epoch(const struct export_args *args)
{
    uint32_t workers = args->common.n_workers > 0 ? args->common.workers[0] : 0;
    mr_loader_options loader_options = mr_loader_args_options(&args->common, workers);
    struct output output;
    struct mr_feed feed;

    if (!mr_temporary_file_check(args->out) ||
        (args->explain != NULL && !mr_temporary_file_check(args->explain)))
        return MR_EXIT_FAILED;
    int exit_status = mr_feed_open(&feed, &args->common);
    if (exit_status != MR_EXIT_OK)
        return exit_status;
    loader_options.n_epochs = 1;
    loader_options.allow_empty_epoch = true; /* the files then have no rows */
    exit_status = open_output(&output, &feed, args) ? MR_EXIT_OK : MR_EXIT_FAILED;
    if (exit_status == MR_EXIT_OK)
        exit_status = mr_feed_start(&feed, &loader_options);
    if (exit_status == MR_EXIT_OK) {
        exit_status = write_epoch(&feed, &output);
        mr_feed_report_damage(&feed);
    }
    if (exit_status == MR_EXIT_OK && output.npy[IMAGES].header_bytes == 0)
        exit_status = append_no_rows(&feed, &output, loader_options);
    if (exit_status == MR_EXIT_OK)
        exit_status = finish_output(&feed, &output, args->out);
    close_output(&output);
    mr_feed_close(&feed);
    return exit_status;
}

int mr_cmd_export_run(int argc, char **argv)
{
    struct argp_child children[] = {{mr_loader_args_argp(), 0, NULL, 0}, {0}};
    struct argp_option options[sizeof list / sizeof *list];
    const struct argp argp = {
        .options = mr_arg_list_options(list, options),
        .parser = parse_option,
        .args_doc = MR_LOADER_ARGS_DOC,
        .doc = "Write what a training loop receives in one epoch of one rank as NumPy files."
               "\v"
               "Example: export the evaluation images as floats, with two workers\n"
               "  millrace export imagefolder:val --transform eval:232:224 \\\n"
               "    --dtype f32 --no-shuffle --workers 2 --out val.npy",
        .children = children,
    };
    struct export_args args = {0};

    mr_loader_args_init(&args.common, 1);
    if (!mr_command_parse(&argp, argc, argv, 0, &args))
        return MR_EXIT_FAILED;
    return export_epoch(&args);
}
