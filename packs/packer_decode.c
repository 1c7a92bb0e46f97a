/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes whole images. The codec counts warnings but drops their messages, so a second pass gets
 * the message of the first warning.
 */
#include "packs/packer_decode.h"

#include "base/image_format.h"
#include "transforms/codec_ops.h"
#include "transforms/packed.h"
#include "transforms/tile.h"

#include <inttypes.h>
#include <string.h>

#define CHANNELS 3

/* What to do with decoded rows. */
enum use { USE_NONE, USE_COPY, USE_COMPARE };

mr_status mr_packer_decode_init(struct mr_packer_decode *decode,
                                const struct mr_codec_limits *limits, mr_error *error)
{
    decode->limits = mr_codec_limits_resolve(limits);
    mr_status status = mr_codec_create(&decode->limits, &decode->codec, error);
    if (status == MR_OK)
        status = mr_packer_jpeg_create(&decode->limits, &decode->jpeg, error);
    return status;
}

void mr_packer_decode_fini(struct mr_packer_decode *decode)
{
    mr_codec_destroy(decode->codec);
    mr_packer_jpeg_destroy(decode->jpeg);
    mr_scratch_fini(&decode->pixels);
}

mr_status mr_packer_decode_reserve(struct mr_packer_decode *decode,
                                   const struct mr_image_head *head, mr_error *error)
{
    return mr_scratch_reserve(&decode->pixels, (size_t)head->width * head->height + MR_TILE_SLACK,
                              CHANNELS, error);
}

/*
 * Decode all rows of the open image. same_out is written only for USE_COMPARE, which stops at the
 * first difference.
 */
static mr_status read_rows(struct mr_codec *codec, const struct mr_image_head *head, enum use use,
                           uint8_t *pixels, bool *same_out, mr_error *error)
{
    const uint8_t *rows[MR_CODEC_ROWS];
    size_t stride = (size_t)head->width * CHANNELS;
    bool same = true;
    mr_status status = mr_codec_begin(codec, 0, 0, head->width, head->height, error);
    for (uint32_t y = 0; status == MR_OK && same && y < head->height;) {
        uint32_t n = 0;
        status = mr_codec_rows(codec, rows, MR_CODEC_ROWS, &n, error);
        for (uint32_t i = 0; status == MR_OK && use != USE_NONE && i < n; i++, pixels += stride) {
            if (use == USE_COPY)
                memcpy(pixels, rows[i], stride);
            else
                same &= memcmp(pixels, rows[i], stride) == 0;
        }
        y += n;
    }
    if (use == USE_COMPARE)
        *same_out = same;
    return status;
}

mr_status mr_packer_decode_head(struct mr_packer_decode *decode, const uint8_t *bytes, size_t len,
                                struct mr_image_head *head_out, mr_error *error)
{
    mr_status status = mr_codec_open(decode->codec, bytes, len, head_out, error);
    if (status == MR_OK)
        mr_codec_close(decode->codec);
    return status;
}

static mr_status find_warning(struct mr_packer_decode *decode, const uint8_t *bytes, size_t len,
                              uint32_t n_warnings, mr_error *error)
{
    struct mr_image_head head;
    struct mr_packed_template template;
    bool gives_pixels;
    mr_status status =
        mr_packer_jpeg_open(decode->jpeg, bytes, len, MR_PACKER_JPEG_WHOLE, &head, error);
    if (status == MR_OK) {
        status = mr_packer_jpeg_start(decode->jpeg, &template, &gives_pixels, error);
        mr_packer_jpeg_close(decode->jpeg);
    }
    if (status == MR_ERR_DAMAGED || status == MR_ERR_NO_MEMORY)
        return status;
    return mr_error_set(error, MR_ERR_DAMAGED, "libjpeg gave %" PRIu32 " warnings", n_warnings);
}

mr_status mr_packer_decode_file(struct mr_packer_decode *decode, const uint8_t *bytes, size_t len,
                                bool to_pixels, struct mr_image_head *head_out, mr_error *error)
{
    mr_status status = mr_codec_open(decode->codec, bytes, len, head_out, error);
    if (status != MR_OK)
        return status;
    if (to_pixels)
        status = mr_packer_decode_reserve(decode, head_out, error);
    if (status == MR_OK)
        status = read_rows(decode->codec, head_out, to_pixels ? USE_COPY : USE_NONE,
                           decode->pixels.memory, NULL, error);
    uint32_t n_warnings = mr_codec_close(decode->codec);
    if (status == MR_OK && n_warnings > 0 &&
        strcmp(mr_image_format_sniff(bytes, len), MR_IMAGE_FORMAT_JPEG) == 0)
        status = find_warning(decode, bytes, len, n_warnings, error);
    return status;
}

mr_status mr_packer_decode_sample(struct mr_packer_decode *decode,
                                  const struct mr_packed_image *image, const uint8_t *bytes,
                                  bool *same_out, mr_error *error)
{
    struct mr_image_head head;
    mr_status status = mr_packed_check(image, &decode->limits, error);
    if (status != MR_OK || image->encoding == MR_PACKED_RAW)
        return status;
    status = mr_codec_open_packed(decode->codec, image, bytes, image->len, 0, &head, error);
    if (status != MR_OK)
        return status;
    status = read_rows(decode->codec, &head, same_out ? USE_COMPARE : USE_NONE,
                       decode->pixels.memory, same_out, error);
    mr_codec_close(decode->codec);
    return status;
}
