/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the image size of a batch if the transform does not set one: the size of the first image
 * that is not damaged. A pack's index has the size; only a packed file that is stored unchanged is
 * read.
 */
#include "loader/image_size.h"

#include "base/packed_image.h"
#include "dataset/reader/reader.h"
#include "loader/workers/sample_fetch.h"
#include "transforms/codec.h"
#include "transforms/packed.h"
#include "transforms/plan_compile.h"

enum { MAX_TRIES = 16 };

struct probe {
    const struct mr_catalog *catalog;
    struct mr_reader *reader;
    struct mr_codec *codec;
    struct mr_codec_limits limits;
    uint64_t max_bytes;
};

static mr_status read_head(const struct probe *probe, int64_t index, struct mr_image_head *head_out,
                           mr_error *error)
{
    struct mr_read read;
    struct mr_part_list list;
    mr_catalog_parts(probe->catalog, index, probe->max_bytes, &list);
    list.n = 1; /* the image alone */
    mr_reader_submit(probe->reader, 0, index, &list);
    if (!mr_reader_reap(probe->reader, true, &read))
        return mr_error_set(error, MR_ERR_IO, "the reader lost index %lld", (long long)index);
    mr_status status = read.status;
    if (status != MR_OK)
        mr_error_copy(error, read.error);
    else
        status = mr_codec_open(probe->codec, read.part[0].bytes, read.part[0].len, head_out, error);
    if (read.status == MR_OK && status == MR_OK)
        mr_codec_close(probe->codec);
    mr_reader_recycle(probe->reader, &read);
    return status;
}

/*
 * The size from a pack's index. MR_PENDING: the sample is stored as a file's bytes, whose header
 * must be read.
 */
static mr_status look_up_head(const struct probe *probe, int64_t index,
                              struct mr_image_head *head_out, mr_error *error)
{
    struct mr_packed_image image;
    mr_status status = mr_catalog_packed(probe->catalog, index, &image, error);
    if (status != MR_OK)
        return status;
    if (image.encoding == MR_PACKED_JPEG)
        return MR_PENDING;
    mr_error words;
    status = mr_packed_check(&image, &probe->limits, &words);
    if (status != MR_OK) {
        mr_sample_fetch_name(probe->catalog, index, &words);
        mr_error_copy(error, &words);
        return status;
    }
    *head_out = (struct mr_image_head){image.width, image.height, image.orientation};
    return MR_OK;
}

static mr_status find_head(const struct probe *probe, int64_t index, struct mr_image_head *head_out,
                           mr_error *error)
{
    mr_status status = MR_PENDING;
    if (mr_catalog_is_described(probe->catalog))
        status = look_up_head(probe, index, head_out, error);
    return status == MR_PENDING ? read_head(probe, index, head_out, error) : status;
}

static mr_status probe_table(struct probe *probe, struct mr_plan *plan, mr_error *error)
{
    struct mr_image_head head;
    struct mr_reader_options reader_options = {.kind = MR_READER_PREAD, .depth = 1};
    mr_status status = mr_reader_create(probe->catalog, &reader_options, &probe->reader, error);
    if (status != MR_OK)
        return status;
    int64_t n = mr_catalog_count(probe->catalog);
    for (int64_t i = 0; i < n && i < MAX_TRIES; i++) {
        status = find_head(probe, i, &head, error);
        if (status == MR_OK)
            break;
    }
    mr_reader_destroy(probe->reader);
    if (status != MR_OK)
        return status;
    bool turned = plan->use_exif && head.orientation >= 5;
    return mr_plan_compile_fix_size(plan, turned ? head.height : head.width,
                                    turned ? head.width : head.height, error);
}

mr_status mr_image_size_fix(mr_dataset *dataset, struct mr_plan *plan,
                            const mr_loader_options *options, mr_error *error)
{
    struct probe probe = {.catalog = mr_dataset_catalog(dataset),
                          .max_bytes = options->max_file_bytes};
    if (!probe.catalog)
        return mr_error_set(error, MR_ERR_INVALID,
                            "the transform does not fix the size of encoded images from callbacks; "
                            "add a resize or crop");
    struct mr_codec_limits limits = {.max_pixels = options->max_pixels};
    probe.limits = mr_codec_limits_resolve(&limits);
    mr_status status = mr_codec_create(&limits, &probe.codec, error);
    if (status != MR_OK)
        return status;
    status = probe_table(&probe, plan, error);
    mr_codec_destroy(probe.codec);
    return status;
}
