/* SPDX-License-Identifier: Apache-2.0 */
/*
 * millrace preview: draws the first batch of an epoch as a contact sheet, with exactly the pixels
 * that training would receive and the calls that made each image. Normalised floats are not
 * colours, so the batch is always u8.
 */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/arg_list.h"
#include "tools/temporary_file.h"
#include "tools/command.h"
#include "tools/feed.h"
#include "tools/say.h"
#include "tools/sheet.h"

enum { TEXT_BYTES = 1024 };

struct preview_args {
    struct mr_loader_args common;
    const char *out;
};

static const struct mr_arg list[] = {
    {"out", "SHEET.png", "File for the sheet (required)",
     MR_ARG_PATH(struct preview_args, out, ".png")},
    {0},
};

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct preview_args *args = state->input;
    mr_dtype dtype = args->common.loader.dtype;

    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &args->common; return 0;
    case ARGP_KEY_END:
        if (args->out == NULL)
            argp_error(state, "--out is missing");
        if (dtype != MR_DTYPE_DEFAULT && dtype != MR_U8)
            argp_error(state, "--dtype: a sheet is drawn as u8, not %s", mr_dtype_name(dtype));
        return 0;
    default: return mr_arg_list_parse(state, list, key, value);
    }
}

/* Format the label: "zebra", or "17" if the classes have no names. */
static void format_label(const mr_dataset *dataset, const mr_array *label, uint32_t row,
                         char text_out[TEXT_BYTES])
{
    const char *name = NULL;
    int64_t value;

    text_out[0] = '\0';
    if (label == NULL || label->dtype != MR_I64 || label->ndim != 1)
        return;
    memcpy(&value, (const char *)label->data + (int64_t)row * label->strides[0], sizeof value);
    if (value >= 0 && value < (int64_t)mr_dataset_n_classes(dataset))
        name = mr_dataset_class_name(dataset, (uint32_t)value);
    if (name != NULL)
        snprintf(text_out, TEXT_BYTES, "%s", name);
    else
        snprintf(text_out, TEXT_BYTES, "%" PRId64, value);
}

/* The source of the text below an image. */
struct calls {
    const mr_batch *batch;
    mr_transform *transform;
    uint64_t seed;
};

/*
 * Format the calls that made a sample; "" for a hole. The size in the batch is that of the upright
 * image, so a turn by EXIF is not among the calls.
 */
static void format_calls(const struct calls *calls, uint32_t row, char text_out[TEXT_BYTES])
{
    mr_explain_options options = MR_EXPLAIN_OPTIONS_INIT;
    const int64_t *indices = mr_batch_data(calls->batch, "index");
    const int32_t *geometry = mr_batch_data(calls->batch, "geometry");
    mr_error error;

    text_out[0] = '\0';
    if (indices == NULL || geometry == NULL)
        return;
    options.seed = calls->seed;
    options.epoch = mr_batch_epoch(calls->batch);
    options.index = indices[row];
    options.width = (uint32_t)geometry[8 * row];
    options.height = (uint32_t)geometry[8 * row + 1];
    options.form = MR_EXPLAIN_BRIEF;
    if (mr_transform_explain(calls->transform, &options, text_out, TEXT_BYTES, NULL, &error) !=
        MR_OK)
        text_out[0] = '\0';
}

static bool is_picture(const mr_array *image)
{
    int64_t channels = image->ndim == 4 ? image->shape[3] : 0;

    return strcmp(image->name, "image") == 0 && image->dtype == MR_U8 &&
           (channels == 1 || channels == 3) && image->row_offsets == NULL &&
           image->strides[3] == 1 && image->strides[2] == channels &&
           image->strides[1] == channels * image->shape[2];
}

/* The largest number of text lines that an image needs. */
static uint32_t count_lines(const struct mr_sheet_shape *shape, const struct calls *calls)
{
    char words[TEXT_BYTES];
    uint32_t most = 0;

    for (uint32_t i = 0; i < shape->n_tiles; i++) {
        format_calls(calls, i, words);
        uint32_t n = mr_sheet_count_lines(shape, words);
        most = n > most ? n : most;
    }
    return most;
}

static void draw_tiles(struct mr_sheet *sheet, const mr_dataset *dataset, const struct calls *calls)
{
    const mr_batch *batch = calls->batch;
    const mr_array *image = mr_batch_array_at(batch, 0);
    const uint8_t *mask = mr_batch_data(batch, "mask");
    char label[TEXT_BYTES], words[TEXT_BYTES];

    for (uint32_t i = 0; i < mr_batch_size(batch); i++) {
        bool real = mask == NULL || mask[i] != 0;
        format_label(dataset, mr_batch_array(batch, "label"), i, label);
        format_calls(calls, i, words);
        mr_sheet_put(sheet, i,
                     real ? (const uint8_t *)image->data + (int64_t)i * image->strides[0] : NULL,
                     real ? label : "(damaged)", words);
    }
}

static int draw_batch(const mr_dataset *dataset, const struct calls *calls, const char *out)
{
    const mr_array *image = mr_batch_array_at(calls->batch, 0);
    uint32_t width, height;

    if (mr_batch_size(calls->batch) == 0 || !is_picture(image)) {
        mr_say_error("the first batch has no images");
        return MR_EXIT_FAILED;
    }
    struct mr_sheet_shape shape = {.n_tiles = mr_batch_size(calls->batch),
                                   .tile_width = (uint32_t)image->shape[2],
                                   .tile_height = (uint32_t)image->shape[1],
                                   .channels = (uint32_t)image->shape[3]};
    shape.n_lines = count_lines(&shape, calls);
    struct mr_sheet *sheet = mr_sheet_create(&shape);
    if (sheet == NULL)
        return MR_EXIT_FAILED;
    draw_tiles(sheet, dataset, calls);
    bool good = mr_sheet_store(sheet, out);
    mr_sheet_size(sheet, &width, &height);
    mr_sheet_destroy(sheet);
    if (good)
        printf("%s: %" PRIu32 " x %" PRIu32 " pixels\n", out, width, height);
    return good ? MR_EXIT_OK : MR_EXIT_FAILED;
}

/* Draw the batch with the calls of the given transform, or of the default one. */
static int draw_with_calls(struct mr_feed *feed, const mr_batch *batch, const char *out)
{
    struct calls calls = {.batch = batch, .seed = mr_loader_resolved(feed->loader)->seed};
    mr_error error;
    mr_status status = mr_transform_parse(feed->transform_name, &calls.transform, &error);

    if (status != MR_OK)
        return mr_say_status(status, &error);
    int exit_status = draw_batch(feed->dataset, &calls, out);
    mr_transform_destroy(calls.transform);
    return exit_status;
}

static int draw_first(struct mr_feed *feed, const char *out)
{
    mr_batch *batch;
    mr_status status = mr_feed_next(feed, NULL, NULL, &batch);
    int exit_status = MR_EXIT_FAILED;

    if (status == MR_OK)
        exit_status = draw_with_calls(feed, batch, out);
    else
        mr_feed_say_status(feed, status);
    mr_batch_release(batch);
    mr_feed_report_damage(feed);
    return exit_status;
}

int mr_cmd_preview_run(int argc, char **argv)
{
    struct argp_child children[] = {{mr_loader_args_argp(), 0, NULL, 0}, {0}};
    struct argp_option options[sizeof list / sizeof *list];
    const struct argp argp = {
        .options = mr_arg_list_options(list, options),
        .parser = parse_option,
        .args_doc = MR_LOADER_ARGS_DOC,
        .doc = "Draw a contact sheet of the first batch, with the label and the calls of each "
               "image; at most 256 images, always u8 nhwc."
               "\v"
               "Example: draw 32 photographs after RandomResizedCrop and flip\n"
               "  millrace preview imagefolder:train --batch-size 32 \\\n"
               "    --out sheet.png",
        .children = children,
    };
    struct preview_args args = {0};
    struct mr_feed feed;

    mr_loader_args_init(&args.common, 1);
    if (!mr_command_parse(&argp, argc, argv, 0, &args))
        return MR_EXIT_FAILED;
    if (!mr_temporary_file_check(args.out))
        return MR_EXIT_FAILED;
    args.common.loader.layout = MR_NHWC;
    args.common.loader.n_epochs = 1;
    mr_loader_options loader_options = mr_loader_args_options(
        &args.common, args.common.n_workers > 0 ? args.common.workers[0] : 0);
    int exit_status = mr_feed_open(&feed, &args.common);
    if (exit_status != MR_EXIT_OK)
        return exit_status;
    exit_status = mr_feed_start(&feed, &loader_options);
    if (exit_status == MR_EXIT_OK)
        exit_status = draw_first(&feed, args.out);
    mr_feed_close(&feed);
    return exit_status;
}
