/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the photographs. Files that are not JPEG are left out and counted, because the speed of
 * light decodes only JPEG.
 */
#include "bench/photos.h"

#include "base/image_format.h"
#include "bench/flat_folder.h"
#include "bench/roi_decode.h"
#include "dataset/reader/reader.h"
#include "transforms/plan_compile.h"

#include <millrace/sampler.h>

#include <stdlib.h>
#include <string.h>

const struct mr_codec_limits mr_photos_limits = {
    .max_pixels = 178956970, .max_scans = 1000, .max_decoder_bytes = UINT64_C(1) << 31};

enum { READABLE_AFTER = 64 }; /* bytes that may be read after the end, as for a reader's */

static mr_status make_plan(const struct mr_photos *photos, const char *text,
                           struct mr_plan *plan_out, mr_error *error)
{
    mr_transform *transform;
    mr_status status = mr_transform_parse(text, &transform, error);
    if (status != MR_OK)
        return status;
    status = mr_plan_compile(transform, mr_dataset_kind(photos->dataset), MR_U8, MR_NCHW, plan_out,
                             error);
    mr_transform_destroy(transform);
    return status;
}

/* Find size and box; MR_ERR_DAMAGED for a file that is not a photograph. */
static mr_status find_box(const struct mr_plan *plan, struct mr_codec *codec,
                          struct mr_photo *photo, mr_error *error)
{
    struct mr_image_head head;
    if (strcmp(mr_image_format_sniff(photo->bytes, photo->len), MR_IMAGE_FORMAT_JPEG) != 0)
        return mr_error_set(error, MR_ERR_DAMAGED, "%s is not a JPEG", photo->path);
    mr_status status = mr_codec_open(codec, photo->bytes, photo->len, &head, error);
    if (status != MR_OK)
        return status;
    mr_codec_close(codec);
    photo->width = head.width;
    photo->height = head.height;
    struct mr_rng rng;
    struct mr_geometry geometry;
    mr_rng_init(&rng, 0, 0, (uint64_t)photo->index);
    status = mr_geometry_make(plan, head.width, head.height, &rng, &geometry, error);
    if (status == MR_OK)
        photo->stage = geometry.stages[0];
    return status;
}

static void free_photo(struct mr_photo *photo)
{
    free(photo->bytes);
    free(photo->path);
    *photo = (struct mr_photo){0};
}

/* Objects needed while loading. */
struct loading {
    struct mr_photos *photos;
    uint64_t max_photos;
    mr_sampler *sampler;
    struct mr_reader *reader;
    struct mr_codec *codec;
    struct mr_roi_decode *decode;
};

static mr_status keep_photo(struct loading *loading, const struct mr_read *read, mr_error *error)
{
    struct mr_photos *photos = loading->photos;
    const struct mr_catalog *catalog = mr_dataset_catalog(photos->dataset);
    struct mr_photo *photo = &photos->photo[photos->n];
    char path[MR_CATALOG_PATH];
    if (read->status != MR_OK ||
        mr_catalog_path(catalog, read->list->part[0].extent.file, path) != 0) {
        photos->n_left_out++;
        return MR_OK;
    }
    *photo = (struct mr_photo){.index = read->index, .len = read->part[0].len};
    photo->path = strdup(path);
    photo->bytes = malloc(read->part[0].len + READABLE_AFTER);
    if (!photo->path || !photo->bytes) {
        free_photo(photo);
        return mr_error_memory(error, read->part[0].len);
    }
    memcpy(photo->bytes, read->part[0].bytes, read->part[0].len);
    memset(photo->bytes + read->part[0].len, 0, READABLE_AFTER);
    if (find_box(&photos->plan, loading->codec, photo, NULL) != MR_OK ||
        !mr_roi_decode_run(loading->decode, photo->bytes, photo->len, photo->stage.need,
                           &photo->box_sum)) {
        free_photo(photo);
        photos->n_left_out++;
        return MR_OK;
    }
    photos->total_bytes += photo->len;
    photos->n++;
    return MR_OK;
}

static mr_status read_all(struct loading *loading, mr_error *error)
{
    mr_status status = MR_OK;
    int64_t n = mr_sampler_length(loading->sampler);
    for (int64_t p = 0; p < n && loading->photos->n < loading->max_photos && status == MR_OK; p++) {
        struct mr_read read;
        int64_t index = mr_sampler_at(loading->sampler, p);
        struct mr_part_list list;
        mr_catalog_parts(mr_dataset_catalog(loading->photos->dataset), index, UINT64_MAX, &list);
        mr_reader_submit(loading->reader, 0, index, &list);
        if (!mr_reader_reap(loading->reader, true, &read))
            return mr_error_set(error, MR_ERR_IO, "the reader lost a read");
        status = keep_photo(loading, &read, error);
        mr_reader_recycle(loading->reader, &read);
    }
    if (status == MR_OK && loading->photos->n == 0)
        status = mr_error_set(error, MR_ERR_INVALID, "no JPEG among %lld files", (long long)n);
    return status;
}

static mr_status load_photos(struct mr_photos *photos, uint64_t max_photos, mr_error *error)
{
    mr_sampler_options options = MR_SAMPLER_OPTIONS_INIT;
    options.n_samples = mr_dataset_n_samples(photos->dataset);
    if ((uint64_t)options.n_samples < max_photos)
        max_photos = (uint64_t)options.n_samples;
    const struct mr_reader_options reader_options = {.kind = MR_READER_PREAD, .depth = 1};
    struct loading loading = {
        .photos = photos, .max_photos = max_photos, .decode = mr_roi_decode_create()};

    photos->photo = calloc(max_photos + 1, sizeof *photos->photo);
    mr_status status = photos->photo && loading.decode
                           ? make_plan(photos, "train:224", &photos->plan, error)
                           : mr_error_memory(error, max_photos);
    if (status == MR_OK)
        status = make_plan(photos, "train(224,interp=bicubic)", &photos->bicubic, error);
    if (status == MR_OK)
        status = mr_sampler_create(&options, &loading.sampler, error);
    if (status == MR_OK)
        status = mr_reader_create(mr_dataset_catalog(photos->dataset), &reader_options,
                                  &loading.reader, error);
    if (status == MR_OK)
        status = mr_codec_create(&mr_photos_limits, &loading.codec, error);
    if (status == MR_OK)
        status = read_all(&loading, error);
    mr_codec_destroy(loading.codec);
    mr_reader_destroy(loading.reader);
    mr_sampler_destroy(loading.sampler);
    mr_roi_decode_destroy(loading.decode);
    return status;
}

mr_status mr_photos_load(const char *spec, uint64_t max_photos, struct mr_photos *photos_out,
                         mr_error *error)
{
    memset(photos_out, 0, sizeof *photos_out);
    mr_status status = mr_flat_folder_is(spec)
                           ? mr_flat_folder_open(spec, &photos_out->dataset, error)
                           : mr_dataset_open(spec, NULL, &photos_out->dataset, error);
    if (status == MR_OK && (mr_dataset_callbacks(photos_out->dataset) ||
                            !mr_dataset_kind(photos_out->dataset)->encoded))
        status = mr_error_set(error, MR_ERR_INVALID, "%s holds no image files", spec);
    if (status == MR_OK)
        status = load_photos(photos_out, max_photos, error);
    if (status != MR_OK)
        mr_photos_free(photos_out);
    return status;
}

void mr_photos_free(struct mr_photos *photos)
{
    for (uint64_t i = 0; i < photos->n; i++)
        free_photo(&photos->photo[i]);
    free(photos->photo);
    mr_dataset_destroy(photos->dataset);
    memset(photos, 0, sizeof *photos);
}
