/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage: making the marks of whole photographs, and decoding the boxes of train:224 with them, from
 * the bytes that a loader would have read. Marks are made before the clock starts, and are in
 * different memory than the photographs.
 */
#include "bench/stages.h"

#include "base/clock.h"
#include "base/packed_image.h"

#include <stdlib.h>
#include <string.h>

/* A photograph's marks, and the other memory that its image points to. */
struct marked {
    struct mr_packed_image image;
    struct mr_packed_template template;
    uint32_t *rows;
    uint8_t *marks; /* NULL if the file can have none */
};

static bool keep_image(struct marked *marked, const struct mr_packed_image *image)
{
    size_t rows_bytes = (image->n_rows + (size_t)1) * sizeof *marked->rows;
    marked->image = *image;
    marked->template = *image->template;
    marked->rows = malloc(rows_bytes);
    marked->marks = malloc(image->marks_len);
    if (!marked->rows || !marked->marks)
        return false;
    memcpy(marked->rows, image->rows, rows_bytes);
    memcpy(marked->marks, image->marks, image->marks_len);
    marked->image.template = &marked->template;
    marked->image.rows = marked->rows;
    marked->image.marks = marked->marks;
    return true;
}

static mr_status make_marks(struct mr_codec *codec, const struct mr_photos *photos,
                            struct marked *marked)
{
    for (uint64_t i = 0; i < photos->n; i++) {
        struct mr_packed_image image;
        mr_status status =
            mr_codec_mark(codec, photos->photo[i].bytes, photos->photo[i].len, &image, NULL);
        if (status == MR_OK && !keep_image(&marked[i], &image))
            status = MR_ERR_NO_MEMORY;
        if (status != MR_OK && status != MR_ERR_UNSUPPORTED)
            return status;
    }
    return MR_OK;
}

static mr_status run_making(void *user, struct mr_run *run, mr_error *error)
{
    const struct mr_photos *photos = user;
    struct mr_codec *codec;
    mr_status status = mr_codec_create(&mr_photos_limits, &codec, error);
    if (status != MR_OK)
        return status;
    uint64_t start = mr_clock_now_ns();
    for (uint64_t i = 0; i < photos->n; i++) {
        struct mr_packed_image image;
        status = mr_codec_mark(codec, photos->photo[i].bytes, photos->photo[i].len, &image, NULL);
        run->n_wrong += status != MR_OK && status != MR_ERR_UNSUPPORTED;
    }
    run->seconds = (double)(mr_clock_now_ns() - start) / 1e9;
    run->n_items = photos->n;
    mr_codec_destroy(codec);
    return MR_OK;
}

static void decode_boxes(struct mr_codec *codec, const struct mr_photos *photos,
                         const struct marked *marked, struct mr_run *run)
{
    uint64_t start = mr_clock_now_ns();
    for (uint64_t i = 0; i < photos->n; i++) {
        const struct mr_packed_image *image = marked[i].marks ? &marked[i].image : NULL;
        run->n_wrong += !mr_stage_decode_right(codec, &photos->photo[i], image,
                                               photos->photo[i].stage.need, run->check);
    }
    run->seconds = (double)(mr_clock_now_ns() - start) / 1e9;
    run->n_items = photos->n;
}

static mr_status run_marks(void *user, struct mr_run *run, mr_error *error)
{
    const struct mr_photos *photos = user;
    struct mr_codec *codec;
    mr_status status = mr_codec_create(&mr_photos_limits, &codec, error);
    if (status != MR_OK)
        return status;
    struct marked *marked = calloc(photos->n, sizeof *marked);
    status = marked ? make_marks(codec, photos, marked) : MR_ERR_NO_MEMORY;
    if (status == MR_OK)
        decode_boxes(codec, photos, marked, run);
    else
        mr_error_set(error, status, "marks could not be made");
    for (uint64_t i = 0; marked && i < photos->n; i++) {
        free(marked[i].rows);
        free(marked[i].marks);
    }
    free(marked);
    mr_codec_destroy(codec);
    return status;
}

void mr_stage_marks_add(struct mr_engine *engine, struct mr_photos *photos)
{
    mr_engine_add(engine, "make marks", run_making, photos);
    mr_engine_add(engine, "decode, box, marks", run_marks, photos);
}
