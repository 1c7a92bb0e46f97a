/* SPDX-License-Identifier: Apache-2.0 */
/*
 * millrace preview: draws the first batch of an epoch as a contact sheet, with exactly the pixels
 * that training would receive, the boxes and masks over them, and the calls that made each image.
 * The views of a sample are side by side. Normalised floats are not colours, so the batch is always
 * u8.
 */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/arg_list.h"
#include "tools/temporary_file.h"
#include "tools/command.h"
#include "tools/explain_boxes.h"
#include "tools/feed.h"
#include "tools/say.h"
#include "tools/sheet.h"

enum { TEXT_BYTES = 8192, GEOMETRY_ARRAY = 4, MAX_PICTURES = 512 };

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

/* Format a class: "zebra", or "17" if the classes have no names. */
static void format_class(const mr_dataset *dataset, int64_t value, char text_out[TEXT_BYTES])
{
    const char *name = NULL;

    if (value >= 0 && value < (int64_t)mr_dataset_n_classes(dataset))
        name = mr_dataset_class_name(dataset, (uint32_t)value);
    if (name != NULL)
        snprintf(text_out, TEXT_BYTES, "%s", name);
    else
        snprintf(text_out, TEXT_BYTES, "%" PRId64, value);
}

/* Format the label, or the name of a file whose classes are those of its annotations. */
static void format_label(const mr_dataset *dataset, const mr_batch *batch, uint32_t row,
                         char text_out[TEXT_BYTES])
{
    const mr_array *label = mr_batch_array(batch, "label");
    const int64_t *indices = mr_batch_data(batch, "index");
    int64_t value;

    text_out[0] = '\0';
    if (mr_dataset_annotations(dataset) > MR_ANNOTATIONS_BOXES) {
        mr_dataset_relative_name(dataset, indices[row], text_out, TEXT_BYTES);
        return;
    }
    if (label == NULL || label->dtype != MR_I64 || label->ndim != 1)
        return;
    memcpy(&value, (const char *)label->data + (int64_t)row * label->strides[0], sizeof value);
    format_class(dataset, value, text_out);
}

/* The source of the text below an image. */
struct calls {
    const mr_dataset *dataset;
    const mr_batch *batch;
    mr_transform *transform;
    uint64_t seed;
};

/* Picture k of each row of an array. */
struct place {
    const mr_array *array;
    int64_t k;
};

/* The pictures of a sample, which has one or more for each view. */
struct pictures {
    uint32_t n;
    struct place at[MAX_PICTURES];
};

/*
 * Format the calls that made a sample; "" for a hole. The size in the batch is that of the upright
 * image, so a turn by EXIF is not among the calls.
 */
static void format_sample(const struct calls *calls, uint32_t row, char text_out[TEXT_BYTES])
{
    mr_explain_options options = MR_EXPLAIN_OPTIONS_INIT;
    const int64_t *indices = mr_batch_data(calls->batch, "index");
    const mr_array *geometry = mr_batch_array_at(calls->batch, GEOMETRY_ARRAY);
    mr_error error;

    text_out[0] = '\0';
    if (indices == NULL || geometry == NULL)
        return;
    const int32_t *size =
        (const void *)((const char *)geometry->data + (int64_t)row * geometry->strides[0]);
    options.seed = calls->seed;
    options.epoch = mr_batch_epoch(calls->batch);
    options.index = indices[row];
    options.width = (uint32_t)size[0];
    options.height = (uint32_t)size[1];
    options.form = MR_EXPLAIN_BRIEF;
    if (mr_explain_boxes_read(calls->dataset, &options, &error) != MR_OK ||
        mr_transform_explain(calls->transform, &options, text_out, TEXT_BYTES, NULL, &error) !=
            MR_OK)
        text_out[0] = '\0';
    free((float *)options.boxes);
}

/* The calls of one picture; those of the pictures are separated by "; ". */
static void format_calls(const struct calls *calls, uint32_t row, uint32_t picture,
                         char text_out[TEXT_BYTES])
{
    char *from = text_out, *end;

    format_sample(calls, row, text_out);
    for (; picture > 0 && (end = strstr(from, "; ")) != NULL; picture--)
        from = end + 2;
    if ((end = strstr(from, "; ")) != NULL)
        *end = '\0';
    memmove(text_out, from, strlen(from) + 1);
}

/* Interleaved u8 pixels of 1 or 3 channels, of one or several pictures in a row. */
static bool is_picture(const mr_array *image)
{
    uint32_t last = image->ndim - 1;

    if ((image->ndim != 4 && image->ndim != 5) || image->dtype != MR_U8 || image->row_offsets)
        return false;
    int64_t channels = image->shape[last];
    return (channels == 1 || channels == 3) && image->strides[last] == 1 &&
           image->strides[last - 1] == channels &&
           image->strides[last - 2] == channels * image->shape[last - 1];
}

/* "image", or the arrays of views, which have a geometry of their own. */
static void find_pictures(const mr_batch *batch, struct pictures *found)
{
    char geometry[64];

    found->n = 0;
    for (uint32_t i = 0; i < mr_batch_n_arrays(batch); i++) {
        const mr_array *array = mr_batch_array_at(batch, i);
        snprintf(geometry, sizeof geometry, "%s.geometry", array->name);
        bool is_view = strcmp(array->name, "image") == 0 || mr_batch_array(batch, geometry) != NULL;
        int64_t n = !is_view || !is_picture(array) ? 0 : array->ndim == 5 ? array->shape[1] : 1;
        for (int64_t k = 0; k < n && found->n < MAX_PICTURES; k++, found->n++) {
            found->at[found->n].array = array;
            found->at[found->n].k = k;
        }
    }
}

/* Picture p of a row. */
static struct mr_sheet_picture take_picture(const struct pictures *pictures, uint32_t row,
                                            uint32_t p)
{
    const mr_array *array = pictures->at[p].array;
    int64_t offset = (int64_t)row * array->strides[0];

    if (array->ndim == 5)
        offset += pictures->at[p].k * array->strides[1];
    return (struct mr_sheet_picture){.pixels = (const uint8_t *)array->data + offset,
                                     .width = (uint32_t)array->shape[array->ndim - 2],
                                     .height = (uint32_t)array->shape[array->ndim - 3]};
}

/* All but the number of text lines. With one picture a sample, the columns are chosen. */
static struct mr_sheet_shape find_shape(const struct pictures *pictures, uint32_t n_rows)
{
    const mr_array *first = pictures->at[0].array;
    struct mr_sheet_shape shape = {.n_tiles = n_rows * pictures->n,
                                   .n_columns = pictures->n > 1 ? pictures->n : 0,
                                   .channels = (uint32_t)first->shape[first->ndim - 1]};

    for (uint32_t p = 0; p < pictures->n; p++) {
        struct mr_sheet_picture picture = take_picture(pictures, 0, p);
        if (picture.width > shape.tile_width)
            shape.tile_width = picture.width;
        if (picture.height > shape.tile_height)
            shape.tile_height = picture.height;
    }
    return shape;
}

/* The largest number of text lines that an image needs. */
static uint32_t count_lines(const struct mr_sheet_shape *shape, const struct calls *calls,
                            uint32_t n_pictures)
{
    char words[TEXT_BYTES];
    uint32_t most = 0;

    for (uint32_t i = 0; i < shape->n_tiles; i++) {
        format_calls(calls, i / n_pictures, i % n_pictures, words);
        uint32_t n = mr_sheet_count_lines(shape, words);
        most = n > most ? n : most;
    }
    return most;
}

/* An array that belongs to "image", or to a view under the view's name. */
static const mr_array *find_array(const mr_batch *batch, const struct place *place,
                                  const char *what)
{
    char name[128];

    if (strcmp(place->array->name, "image") == 0)
        return mr_batch_array(batch, what);
    snprintf(name, sizeof name, "%s.%s", place->array->name, what);
    return mr_batch_array(batch, name);
}

static void add_mask(const mr_batch *batch, uint32_t row, const struct place *place,
                     struct mr_sheet_picture *picture)
{
    const mr_array *mask = find_array(batch, place, "mask_image");
    uint32_t last = place->array->ndim - 2;

    if (mask == NULL || mask->row_offsets || mask->ndim != last + 1 ||
        mask->shape[last - 1] != (int64_t)picture->height ||
        mask->shape[last] != (int64_t)picture->width)
        return;
    picture->mask = (const char *)mask->data + (int64_t)row * mask->strides[0] +
                    (mask->ndim == 4 ? place->k * mask->strides[1] : 0);
    picture->mask_bytes = (uint32_t)mr_dtype_size(mask->dtype);
}

/* A further member may be called "boxes" too, but is bytes. */
static void draw_boxes(struct mr_sheet *sheet, uint32_t tile, const mr_dataset *dataset,
                       const mr_batch *batch, uint32_t row, const struct place *place)
{
    const mr_array *boxes = find_array(batch, place, "boxes"),
                   *classes = find_array(batch, place, "box_label");
    char text[TEXT_BYTES];

    if (boxes == NULL || boxes->dtype != MR_F32 || classes == NULL)
        return;
    for (int64_t i = boxes->row_offsets[row]; i < boxes->row_offsets[row + 1]; i++) {
        int64_t class_ = ((const int64_t *)classes->data)[i];
        format_class(dataset, class_, text);
        mr_sheet_put_box(sheet, tile, (const float *)boxes->data + 4 * i, class_, text);
    }
}

static void draw_tiles(struct mr_sheet *sheet, const mr_dataset *dataset, const struct calls *calls,
                       const struct pictures *pictures)
{
    const mr_batch *batch = calls->batch;
    const uint8_t *mask = mr_batch_data(batch, "mask");
    char label[TEXT_BYTES], words[TEXT_BYTES];

    for (uint32_t i = 0; i < mr_batch_size(batch) * pictures->n; i++) {
        uint32_t row = i / pictures->n, p = i % pictures->n;
        bool real = mask == NULL || mask[row] != 0;
        struct mr_sheet_picture picture = {0};
        if (real)
            picture = take_picture(pictures, row, p);
        if (real)
            add_mask(batch, row, &pictures->at[p], &picture);
        format_label(dataset, batch, row, label);
        format_calls(calls, row, p, words);
        mr_sheet_put(sheet, i, &picture, real ? label : "(damaged)", words);
        if (real)
            draw_boxes(sheet, i, dataset, batch, row, &pictures->at[p]);
    }
}

static int draw_batch(const mr_dataset *dataset, const struct calls *calls, const char *out)
{
    struct pictures pictures;
    uint32_t width, height;

    find_pictures(calls->batch, &pictures);
    if (mr_batch_size(calls->batch) == 0 || pictures.n == 0) {
        mr_say_error("the first batch has no images");
        return MR_EXIT_FAILED;
    }
    struct mr_sheet_shape shape = find_shape(&pictures, mr_batch_size(calls->batch));
    shape.n_lines = count_lines(&shape, calls, pictures.n);
    struct mr_sheet *sheet = mr_sheet_create(&shape);
    if (sheet == NULL)
        return MR_EXIT_FAILED;
    draw_tiles(sheet, dataset, calls, &pictures);
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
    struct calls calls = {
        .dataset = feed->dataset, .batch = batch, .seed = mr_loader_resolved(feed->loader)->seed};
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
        .doc =
            "Draw a contact sheet of the first batch, with the label, the calls, the boxes and the "
            "mask of each image; at most 256 images, always u8 nhwc."
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
