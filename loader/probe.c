/* SPDX-License-Identifier: Apache-2.0 */
/* The size of a batch whose images bring their own size: that of the first image that is not damaged. */
#include "loader/probe.h"

#include "dataset/reader.h"
#include "transforms/codec.h"

enum { MAX_TRIES = 16 };

static mr_status read_head(struct mr_reader *reader, struct mr_codec *codec, int64_t index,
                           struct mr_image_head *head_out, mr_error *error)
{
    struct mr_read read;
    mr_reader_submit(reader, 0, index);
    if (!mr_reader_reap(reader, true, &read))
        return mr_error_set(error, MR_ERR_IO, "the reader lost index %lld", (long long)index);
    mr_status status = read.status;
    if (status != MR_OK)
        mr_error_copy(error, read.error);
    else
        status = mr_codec_open(codec, read.bytes, read.len, head_out, error);
    if (read.status == MR_OK && status == MR_OK)
        mr_codec_close(codec);
    mr_reader_recycle(reader, &read);
    return status;
}

static mr_status probe_table(mr_dataset *dataset, struct mr_codec *codec, struct mr_plan *plan,
                             const mr_loader_options *options, mr_error *error)
{
    struct mr_reader *reader;
    struct mr_image_head head;
    struct mr_reader_options reader_options = {
        .kind = MR_READER_PREAD, .depth = 1, .max_bytes = options->max_file_bytes};
    mr_status status = mr_reader_create(mr_dataset_table(dataset), &reader_options, &reader, error);
    if (status != MR_OK)
        return status;
    int64_t n = mr_dataset_count(dataset);
    for (int64_t i = 0; i < n && i < MAX_TRIES; i++) {
        status = read_head(reader, codec, i, &head, error);
        if (status == MR_OK)
            break;
    }
    mr_reader_destroy(reader);
    if (status != MR_OK)
        return status;
    bool turned = plan->use_exif && head.orientation >= 5;
    return mr_plan_fix_size(plan, turned ? head.height : head.width, turned ? head.width : head.height, error);
}

mr_status mr_probe_size(mr_dataset *dataset, struct mr_plan *plan, const mr_loader_options *options, mr_error *error)
{
    if (!mr_dataset_table(dataset))
        return mr_error_set(
            error, MR_ERR_INVALID,
            "the transform does not fix the size of encoded images from callbacks; add a resize or crop");
    struct mr_codec *codec;
    struct mr_codec_limits limits = {.max_pixels = options->max_pixels};
    mr_status status = mr_codec_create(&limits, &codec, error);
    if (status != MR_OK)
        return status;
    status = probe_table(dataset, codec, plan, options, error);
    mr_codec_destroy(codec);
    return status;
}
