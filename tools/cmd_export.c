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

/* Suffixes of files that are not ".NAME.npy". */
static const struct {
    const char *array;
    const char *suffix;
} suffixes[] = {
    {"image", ".npy"},         {"data", ".npy"},
    {"label", ".labels.npy"},  {"mix_label", ".mix_labels.npy"},
    {"index", ".indices.npy"}, {"soft_label", ".soft_labels.npy"},
};

enum { MAX_FILES = 80 };

/* One file for each array of a batch, in the same order: the samples are the first. */
struct output {
    const char *path;
    bool is_nhwc;
    struct mr_npy npy[MAX_FILES];
    uint32_t n_files;              /* 1 before the first batch */
    struct mr_explain_lines lines; /* not used if file.path is NULL */
    struct mr_progress progress;
    double start_s;
    int64_t n_rows;
};

static const struct mr_arg list[] = {
    {"out", "X.npy",
     "File for the images; the other arrays of a batch go to files beside it: X.labels.npy, "
     "X.indices.npy, X.mask.npy, X.geometry.npy, and an extra array 'txt' to X.txt.npy and "
     "X.txt.offsets.npy (required)",
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

/* The file of one array. */
static bool open_file(struct mr_npy *npy, const char *out, const char *array)
{
    int stem = (int)(strlen(out) - strlen(".npy"));
    const char *suffix = NULL;
    char *path;

    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        if (strcmp(array, suffixes[i].array) == 0)
            suffix = suffixes[i].suffix;
    }
    int len = suffix != NULL ? asprintf(&path, "%.*s%s", stem, out, suffix)
                             : asprintf(&path, "%.*s.%s.npy", stem, out, array);
    if (len < 0) {
        mr_say_errno(ENOMEM, "%s", out);
        return false;
    }
    bool good = mr_npy_open(npy, path);
    free(path);
    return good;
}

/* Open the file for the samples, so that an unwritable folder is reported at once. */
static bool open_output(struct output *output, const struct mr_feed *feed,
                        const struct export_args *args)
{
    *output = (struct output){.path = args->out,
                              .is_nhwc = args->common.loader.layout == MR_NHWC,
                              .start_s = mr_progress_now()};
    mr_progress_init(&output->progress);
    output->n_files = 1;
    return open_file(&output->npy[0], args->out, "image") &&
           (args->explain == NULL || mr_explain_lines_open(&output->lines, feed, args->explain));
}

static void close_output(struct output *output)
{
    mr_progress_clear(&output->progress);
    for (uint32_t i = 0; i < output->n_files; i++)
        mr_temporary_file_close(&output->npy[i].file);
    mr_explain_lines_close(&output->lines);
}

/* Open the files of the other arrays, when the first batch shows which there are. */
static bool open_arrays(struct output *output, const mr_batch *batch)
{
    bool good = true;

    for (uint32_t i = output->n_files; good && i < mr_batch_n_arrays(batch); i++) {
        good = i < MAX_FILES &&
               open_file(&output->npy[i], output->path, mr_batch_array_at(batch, i)->name);
        output->n_files += good;
    }
    return good;
}

/* Images or masks that differ in size: the arrays of their values and of their offsets. */
static const char *const sized[][2] = {{"image", "image.offsets"},
                                       {"mask_image", "mask_image.offsets"}};
enum { N_SIZED = sizeof sized / sizeof *sized };

struct pictures {
    const int32_t *sides;   /* height and width of each */
    const int64_t *offsets; /* NULL: they are padded */
    int64_t n_planes;
    int64_t n_values;   /* of a pixel, in a plane */
    uint32_t dimension; /* that of the height, if they are padded */
};

static bool find_pictures(const struct output *output, const mr_batch *batch, const char *name,
                          struct pictures *found)
{
    int k = 0;

    while (k < N_SIZED && strcmp(name, sized[k][0]) != 0 && strcmp(name, sized[k][1]) != 0)
        k++;
    found->sides = mr_batch_data(batch, "image.shape");
    if (k == N_SIZED || found->sides == NULL)
        return false;
    int64_t channels = k == 0 ? mr_batch_channels(batch) : 1;
    found->offsets = mr_batch_data(batch, sized[k][1]);
    found->n_planes = output->is_nhwc ? 1 : channels;
    found->n_values = output->is_nhwc ? channels : 1;
    found->dimension = k == 0 && !output->is_nhwc ? 2 : 1;
    return true;
}

static int64_t count_values(const struct pictures *pictures, int64_t i)
{
    return pictures->n_planes * pictures->sides[2 * i] * pictures->sides[2 * i + 1] *
           pictures->n_values;
}

static bool append_values(struct mr_npy *npy, const mr_array *array, int64_t first, int64_t n)
{
    int64_t bytes = (int64_t)mr_dtype_size(array->dtype);
    mr_array values = {.name = array->name,
                       .dtype = array->dtype,
                       .ndim = 1,
                       .shape = {n},
                       .strides = {bytes},
                       .data = (char *)array->data + first * bytes};

    return mr_npy_append(npy, &values);
}

/* A picture without its padding. */
static bool append_picture(struct mr_npy *npy, const mr_array *array,
                           const struct pictures *pictures, int64_t i)
{
    int64_t height = pictures->sides[2 * i], width = pictures->sides[2 * i + 1];
    const int64_t *padded = array->shape + pictures->dimension;
    bool good = true;

    if (pictures->offsets != NULL)
        return append_values(npy, array, pictures->offsets[i], count_values(pictures, i));
    for (int64_t line = 0; good && line < pictures->n_planes * height; line++) {
        int64_t plane = i * pictures->n_planes + line / height;
        int64_t row = plane * padded[0] + line % height;
        good = append_values(npy, array, row * padded[1] * pictures->n_values,
                             width * pictures->n_values);
    }
    return good;
}

/* Rows of different size, one after the other, or where each of them begins. */
static bool append_pictures(struct mr_npy *npy, const mr_array *array,
                            const struct pictures *pictures, int64_t n)
{
    bool is_offsets = array->data == pictures->offsets;
    bool good = append_values(npy, array, 0, 0);

    for (int64_t i = 0; good && i < n; i++) {
        mr_array begin = {.name = array->name, .dtype = MR_I64, .data = &npy->end};
        good =
            is_offsets ? append_values(npy, &begin, 0, 1) : append_picture(npy, array, pictures, i);
        npy->end += count_values(pictures, i);
    }
    return good;
}

/* The lengths of rows of tokens that are padded; NULL: the array has none. */
static const int32_t *find_lengths(const mr_batch *batch, const mr_array *array)
{
    bool is_row = array->ndim == 2 && strcmp(array->name, "geometry") != 0;

    return is_row && strcmp(mr_batch_array_at(batch, 0)->name, "tokens") == 0
               ? mr_batch_data(batch, "length")
               : NULL;
}

/* Rows without their padding, one after the other. */
static bool append_padded(struct mr_npy *npy, const mr_array *array, const int32_t *lengths,
                          int64_t n)
{
    bool good = append_values(npy, array, 0, 0);

    for (int64_t i = 0; good && i < n; i++)
        good = append_values(npy, array, i * array->shape[1], lengths[i]);
    return good;
}

static bool append_array(struct output *output, const mr_batch *batch, uint32_t i, bool has_rows)
{
    const mr_array *before = i > 0 ? mr_batch_array_at(batch, i - 1) : NULL;
    mr_array array = *mr_batch_array_at(batch, i);
    bool is_offsets = before != NULL && before->row_offsets == array.data;
    struct pictures pictures;

    if (find_pictures(output, batch, array.name, &pictures))
        return append_pictures(&output->npy[i], &array, &pictures,
                               has_rows ? mr_batch_size(batch) : 0);
    if (find_lengths(batch, &array) != NULL)
        return append_padded(&output->npy[i], &array, find_lengths(batch, &array),
                             has_rows ? mr_batch_size(batch) : 0);
    if (!has_rows)
        array.shape[0] = is_offsets ? 1 : 0;
    return is_offsets ? mr_npy_append_offsets(&output->npy[i], &array)
                      : mr_npy_append(&output->npy[i], &array);
}

/* Without has_rows, only the dtypes and shapes of the arrays count. */
static bool append_arrays(struct output *output, const mr_batch *batch, bool has_rows)
{
    bool good = open_arrays(output, batch);

    for (uint32_t i = 0; good && i < output->n_files; i++)
        good = append_array(output, batch, i, has_rows);
    return good;
}

static bool append_batch(struct output *output, const mr_batch *batch)
{
    output->n_rows += mr_batch_size(batch);
    return append_arrays(output, batch, true) &&
           (output->lines.file.path == NULL || mr_explain_lines_append(&output->lines, batch));
}

static void show_progress(struct output *output, int64_t n_samples)
{
    int64_t rows = output->n_rows;
    double seconds = mr_progress_now() - output->start_s;

    if (mr_progress_due(&output->progress))
        mr_progress_draw(&output->progress, "%" PRId64 " of %" PRId64 " samples, %.0f/s, %.0f s",
                         rows, n_samples, seconds > 0 ? (double)rows / seconds : 0.0, seconds);
}

#define ENDLESS (INT64_C(1) << 40) /* samples of a mixture without a stop */

static int write_epoch(struct mr_feed *feed, struct output *output)
{
    mr_batch *batch;
    mr_status status;
    bool good = true;

    if (mr_loader_n_samples(feed->loader) >=
        ENDLESS / (int64_t)mr_loader_resolved(feed->loader)->world_size) {
        mr_say_error("an epoch of the mixture has no end: give --mix-samples or --mix-stop");
        return MR_EXIT_FAILED;
    }
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

    loader_options.world_size = 1;
    loader_options.rank = 0;
    loader_options.tail = MR_TAIL_PAD;
    loader_options.repeat = 0;              /* it would drop the samples beyond a multiple of 256 */
    loader_options.batch_size = 2;          /* timm's mixing accepts only even sizes */
    loader_options.aspect_ratio_groups = 0; /* they have whole batches only */
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
    bool good = append_arrays(output, batch, false);
    mr_batch_release(batch);
    return good ? MR_EXIT_OK : MR_EXIT_FAILED;
}

/* The files get their names: the samples are the last. */
static int finish_output(struct output *output, const char *out)
{
    const struct mr_npy *images = &output->npy[0];
    struct mr_temporary_file *all[MAX_FILES + 1];
    size_t n = 0;
    bool good = output->lines.file.path == NULL || mr_temporary_file_sync(&output->lines.file);

    for (uint32_t i = 0; good && i < output->n_files; i++)
        good = mr_npy_finish(&output->npy[i]);
    if (output->lines.file.path != NULL)
        all[n++] = &output->lines.file;
    for (uint32_t i = 1; i <= output->n_files; i++)
        all[n++] = &output->npy[i % output->n_files].file;
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
    if (exit_status == MR_EXIT_OK && output.npy[0].header_bytes == 0)
        exit_status = append_no_rows(&feed, &output, loader_options);
    if (exit_status == MR_EXIT_OK)
        exit_status = finish_output(&output, args->out);
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
