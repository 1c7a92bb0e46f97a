/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage: the library's codec on whole photographs, and on the boxes of train:224 only, which
 * libjpeg-turbo alone decodes too. Bytes come from memory.
 */
#include "bench/stages.h"

#include "base/clock.h"
#include "bench/roi_decode.h"
#include "transforms/packed.h"

enum { ROWS = 8 };
enum how { FULL, BOX, BOX_STOCK };

static mr_status open_photo(struct mr_codec *codec, const struct mr_photo *photo,
                            const struct mr_packed_image *image, struct mr_box box, mr_error *error)
{
    struct mr_image_head head;
    uint64_t offset, len;
    if (!image)
        return mr_codec_open(codec, photo->bytes, photo->len, &head, error);
    mr_packed_range(image, box, &offset, &len);
    return mr_codec_open_packed(codec, image, photo->bytes + offset, len, offset, &head, error);
}

mr_status mr_stage_decode_box(struct mr_codec *codec, const struct mr_photo *photo,
                              const struct mr_packed_image *image, struct mr_box box,
                              mr_stage_rows_fn take, void *user, mr_error *error)
{
    mr_status status = open_photo(codec, photo, image, box, error);
    if (status != MR_OK)
        return status;
    status = mr_codec_begin(codec, (uint32_t)box.x, (uint32_t)box.y, (uint32_t)box.width,
                            (uint32_t)box.height, error);
    for (int64_t done = 0; status == MR_OK && done < box.height;) {
        const uint8_t *rows[ROWS];
        uint32_t n = 0, want = box.height - done < ROWS ? (uint32_t)(box.height - done) : ROWS;
        status = mr_codec_rows(codec, rows, want, &n, error);
        if (status == MR_OK && take)
            take(user, rows, n);
        done += n;
    }
    mr_codec_close(codec);
    return status;
}

struct sum {
    uint64_t value;
    size_t row_bytes;
};

static void sum_rows(void *user, const uint8_t *const *rows, uint32_t n_rows)
{
    struct sum *sum = user;
    for (uint32_t i = 0; i < n_rows; i++)
        sum->value = mr_roi_decode_sum(sum->value, rows[i], sum->row_bytes);
}

bool mr_stage_decode_right(struct mr_codec *codec, const struct mr_photo *photo,
                           const struct mr_packed_image *image, struct mr_box box, bool compare)
{
    struct sum sum = {.row_bytes = (size_t)box.width * 3};
    return mr_stage_decode_box(codec, photo, image, box, compare ? sum_rows : NULL, &sum, NULL) ==
               MR_OK &&
           (!compare || sum.value == photo->box_sum);
}

static mr_status run_boxes(struct mr_photos *photos, enum how how, struct mr_run *run,
                           mr_error *error)
{
    struct mr_codec *codec;
    mr_status status = mr_codec_create(&mr_photos_limits, &codec, error);
    if (status != MR_OK)
        return status;
    if (how == BOX_STOCK)
        mr_codec_use_stock_jpeg(codec);
    uint64_t start = mr_clock_now_ns();
    for (uint64_t i = 0; i < photos->n; i++) {
        const struct mr_photo *photo = &photos->photo[i];
        struct mr_box whole = {.width = photo->width, .height = photo->height};
        struct mr_box box = how == FULL ? whole : photo->stage.need;
        run->n_wrong += !mr_stage_decode_right(codec, photo, NULL, box, run->check && how != FULL);
    }
    run->seconds = (double)(mr_clock_now_ns() - start) / 1e9;
    run->n_items = photos->n;
    mr_codec_destroy(codec);
    return MR_OK;
}

static mr_status run_full(void *user, struct mr_run *run, mr_error *error)
{
    return run_boxes(user, FULL, run, error);
}

static mr_status run_roi(void *user, struct mr_run *run, mr_error *error)
{
    return run_boxes(user, BOX, run, error);
}

static mr_status run_stock(void *user, struct mr_run *run, mr_error *error)
{
    return run_boxes(user, BOX_STOCK, run, error);
}

void mr_stage_decode_add(struct mr_engine *engine, struct mr_photos *photos)
{
    mr_engine_add(engine, "decode, full", run_full, photos);
    mr_engine_add(engine, "decode, box", run_roi, photos);
    mr_engine_add(engine, "decode, box, stock", run_stock, photos);
}
