/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the text of mr_transform_explain() for each row. The size of a row's image comes from the
 * batch's "geometry", where the image is already upright. A file's orientation is looked up only if
 * the transform turns images.
 */
#include "tools/explain_lines.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/command.h"
#include "tools/explain_boxes.h"
#include "tools/sampler_args.h"
#include "tools/say.h"

enum { GEOMETRY_ARRAY = 4, /* of a batch; with views it is that of the first */ NAME_BYTES = 8192 };

/*
 * Find out whether the samples are raw. If the first one cannot be read, the loader will report it.
 */
static bool find_kind(const struct mr_feed *feed, uint32_t *raw_channels_out)
{
    mr_sample_info info = MR_SAMPLE_INFO_INIT;
    mr_error error;

    *raw_channels_out = 0;
    if (mr_dataset_inspect(feed->dataset, 0, &info, &error) != MR_OK || info.orientation > 0)
        return true;
    if (info.channels != 1 && info.channels != 3) {
        mr_say_error("--explain: the samples are not images");
        return false;
    }
    *raw_channels_out = info.channels;
    return true;
}

bool mr_explain_lines_open(struct mr_explain_lines *lines, const struct mr_feed *feed,
                           const char *path)
{
    *lines = (struct mr_explain_lines){.feed = feed};
    if (!find_kind(feed, &lines->raw_channels))
        return false;
    lines->turns = lines->raw_channels == 0 && mr_transform_turns(feed->transform);
    return mr_temporary_file_open(&lines->file, path);
}

static bool grow_text(struct mr_explain_lines *lines, size_t needed)
{
    size_t size = 2 * (lines->len + needed);
    char *text = realloc(lines->text, size);

    if (text == NULL) {
        mr_say_errno(ENOMEM, "%s", lines->file.path);
        return false;
    }
    lines->text = text;
    lines->size = size;
    return true;
}

/* Make the loader's order again, if an index can occur several times in it. */
static bool prepare_sampler(struct mr_explain_lines *lines, uint64_t epoch)
{
    const mr_loader_options *options = mr_loader_resolved(lines->feed->loader);
    mr_sampler_options wanted =
        mr_sampler_args_options(options, mr_dataset_n_samples(lines->feed->dataset));
    mr_error error;
    mr_status status;

    if (options->repeat == 0 && options->weights == NULL)
        return true;
    wanted.epoch = epoch;
    status = lines->sampler ? mr_sampler_set_epoch(lines->sampler, epoch, &error)
                            : mr_sampler_create(&wanted, &lines->sampler, &error);
    if (status != MR_OK)
        mr_say_status(status, &error);
    return status == MR_OK;
}

/* Append the line of a row whose boxes are set. */
static bool append_text(struct mr_explain_lines *lines, const mr_explain_options *row)
{
    mr_error error;
    size_t len = 0;

    for (;;) {
        size_t room = lines->size - lines->len;
        mr_status status =
            mr_transform_explain(lines->feed->transform, row,
                                 room > 0 ? lines->text + lines->len : NULL, room, &len, &error);
        if (status != MR_OK) {
            mr_say_status(status, &error);
            return false;
        }
        if (len + 1 < room)
            break;
        if (!grow_text(lines, len + 2))
            return false;
    }
    lines->len += len;
    lines->text[lines->len++] = '\n';
    return true;
}

static bool append_line(struct mr_explain_lines *lines, mr_explain_options *row)
{
    mr_error error;
    mr_status status = row->hole ? MR_OK : mr_explain_boxes_read(lines->feed->dataset, row, &error);
    bool is_done = status == MR_OK && append_text(lines, row);

    if (status != MR_OK)
        mr_say_status(status, &error);
    free((float *)row->boxes);
    return is_done;
}

/* Set orientation and size of the image as it is stored. */
static bool use_stored_size(const struct mr_explain_lines *lines, mr_explain_options *row)
{
    mr_sample_info info = MR_SAMPLE_INFO_INIT;
    mr_error error;
    mr_status status = mr_dataset_inspect(lines->feed->dataset, row->index, &info, &error);

    if (status != MR_OK) {
        mr_say_status(status, &error);
        return false;
    }
    row->orientation = (uint32_t)info.orientation;
    if (info.orientation >= 5) {
        uint32_t width = row->width;
        row->width = row->height;
        row->height = width;
    }
    return true;
}

bool mr_explain_lines_append(struct mr_explain_lines *lines, const mr_batch *batch)
{
    const int64_t *indices = mr_batch_data(batch, "index");
    const uint8_t *mask = mr_batch_data(batch, "mask");
    const mr_array *geometry = mr_batch_array_at(batch, GEOMETRY_ARRAY);
    const int32_t *sizes = geometry->data;
    int64_t step = geometry->strides[0] / (int64_t)sizeof *sizes;
    const float *lambda = mr_batch_data(batch, "mix_lambda");
    char name[NAME_BYTES];

    uint64_t first = mr_batch_number(batch) * mr_loader_resolved(lines->feed->loader)->batch_size;

    lines->len = 0;
    if (!prepare_sampler(lines, mr_batch_epoch(batch)))
        return false;
    for (uint32_t i = 0; i < mr_batch_size(batch); i++, sizes += step) {
        mr_explain_options row = MR_EXPLAIN_OPTIONS_INIT;
        row.seed = mr_loader_resolved(lines->feed->loader)->seed;
        row.epoch = mr_batch_epoch(batch);
        row.index = indices[i];
        row.occurrence = mr_sampler_occurrence(lines->sampler, (int64_t)(first + i));
        if (mr_dataset_relative_name(lines->feed->dataset, row.index, name, sizeof name) > 0)
            row.name = name;
        row.raw_channels = lines->raw_channels;
        row.hole = mask[i] == 0;
        row.width = (uint32_t)sizes[0];
        row.height = (uint32_t)sizes[1];
        row.batch = mr_batch_number(batch);
        row.n_rows = mr_batch_size(batch);
        row.row = i;
        row.rank = mr_loader_resolved(lines->feed->loader)->rank;
        row.partner_is_hole = lambda != NULL && mask[i] != 0 && lambda[i] == 1;
        if (lines->turns && !row.hole && !use_stored_size(lines, &row))
            return false;
        if (!append_line(lines, &row))
            return false;
    }
    return lines->len == 0 || mr_temporary_file_write(&lines->file, lines->text, lines->len);
}

void mr_explain_lines_close(struct mr_explain_lines *lines)
{
    mr_temporary_file_close(&lines->file);
    mr_sampler_destroy(lines->sampler);
    free(lines->text);
    *lines = (struct mr_explain_lines){0};
}
