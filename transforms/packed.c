/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the layout of a packed sample, and checks whether a description from a file is valid. A
 * lone component's MCU is one block, whatever its factors were in the JPEG.
 *
 * Invariant: the rows that a box needs include those that only its margin touches, as
 * codec_packed.c expects.
 */
#include "transforms/packed.h"

#include "base/checked.h"
#include "transforms/codec_ops.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#define BLOCK_SIDE 8u
#define MAX_FACTOR 4
/* JPEG's sides have 16 bits. */
#define MAX_JPEG_SIDE 65535u
#define RAW_CHANNELS 3u
/*
 * How far a marked row reads from the byte where the next row begins: that byte, and a zero that
 * may belong to it.
 */
#define ROW_END_BYTES 2u

static uint32_t round_up_division(uint32_t a, uint32_t b)
{
    return a / b + (a % b != 0);
}

void mr_packed_layout(const struct mr_packed_image *image, struct mr_packed_layout *layout_out)
{
    const struct mr_packed_template *template = image->template;
    uint32_t h = 1, v = 1, n_blocks = 0;
    for (uint32_t c = 0; c < template->n_components; c++) {
        h = template->h[c] > h ? template->h[c] : h;
        v = template->v[c] > v ? template->v[c] : v;
        n_blocks += template->h[c] * template->v[c];
    }
    layout_out->mcu_width = BLOCK_SIDE * h;
    layout_out->mcu_height = BLOCK_SIDE * v;
    layout_out->n_columns = round_up_division(image->width, layout_out->mcu_width);
    layout_out->n_rows = round_up_division(image->height, layout_out->mcu_height);
    layout_out->n_tiles = round_up_division(layout_out->n_columns, MR_PACKED_TILE_MCUS);
    layout_out->n_blocks = n_blocks;
}

const struct mr_packed_image *mr_packed_copy(struct mr_packed_copy *copy,
                                             const struct mr_packed_image *image)
{
    copy->image = *image;
    if (!mr_packed_image_has_rows(image->encoding))
        return &copy->image;
    if (image->template) {
        copy->template = *image->template;
        copy->image.template = &copy->template;
    }
    if (image->rows && image->n_rows <= MR_PACKED_MAX_ROWS) {
        memcpy(copy->rows, image->rows, (image->n_rows + (size_t)1) * sizeof *copy->rows);
        copy->image.rows = copy->rows;
        if (image->sums) {
            memcpy(copy->sums, image->sums, image->n_rows * sizeof *copy->sums);
            copy->image.sums = copy->sums;
        }
    }
    return &copy->image;
}

static bool colour_has(uint8_t colour, uint8_t n_components)
{
    switch (colour) {
    case MR_PACKED_GREY: return n_components == 1;
    case MR_PACKED_RGB:
    case MR_PACKED_YCC: return n_components == 3;
    case MR_PACKED_CMYK:
    case MR_PACKED_YCCK: return n_components == 4;
    default: return false;
    }
}

/* Any value of a quantisation table is valid: libjpeg accepts all. */
static mr_status check_template(const struct mr_packed_template *template, mr_error *error)
{
    uint32_t n = template->n_components, n_blocks = 0;
    if (!colour_has(template->colour, template->n_components))
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "the pack says colour %u with %" PRIu32 " components", template->colour,
                            n);
    for (uint32_t c = 0; c < n; c++) {
        uint32_t h = template->h[c], v = template->v[c], most = n == 1 ? 1 : MAX_FACTOR;
        if (h < 1 || h > most || v < 1 || v > most)
            return mr_error_set(error, MR_ERR_DAMAGED,
                                "the pack says sampling factors %" PRIu32 "x%" PRIu32
                                " for component %" PRIu32 " of %" PRIu32,
                                h, v, c, n);
        n_blocks += h * v;
    }
    if (n_blocks > MR_PACKED_MAX_MCU_BLOCKS)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "the pack says %" PRIu32 " blocks to an MCU; the limit is %d", n_blocks,
                            MR_PACKED_MAX_MCU_BLOCKS);
    return MR_OK;
}

/* Each row has at least a size for each of its tiles. */
static bool rows_fit_tiles(const struct mr_packed_image *image,
                           const struct mr_packed_layout *layout)
{
    const uint32_t *rows = image->rows;
    uint32_t least = layout->n_tiles * (uint32_t)sizeof(uint16_t);
    bool fits = rows[0] == 0 && rows[image->n_rows] == image->len;
    for (uint32_t r = 0; r < image->n_rows; r++)
        fits &= rows[r + 1] > rows[r] && rows[r + 1] - rows[r] >= least;
    return fits;
}

static bool rows_fit_file(const struct mr_packed_image *image)
{
    const uint32_t *rows = image->rows;
    bool fits = rows[image->n_rows] <= image->len;
    for (uint32_t r = 0; r < image->n_rows; r++)
        fits &= rows[r + 1] >= rows[r];
    return fits;
}

static mr_status check_rows(const struct mr_packed_image *image, mr_error *error)
{
    struct mr_packed_layout layout;
    mr_packed_layout(image, &layout);
    if (image->n_rows != layout.n_rows)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "the pack says %" PRIu32 " rows of MCUs; its size makes %" PRIu32,
                            image->n_rows, layout.n_rows);
    bool tiles = mr_packed_image_has_tiles(image->encoding);
    bool fits = tiles ? rows_fit_tiles(image, &layout) : rows_fit_file(image);
    return fits ? MR_OK
                : mr_error_set(error, MR_ERR_DAMAGED,
                               "the pack's table of the sample's rows is damaged");
}

static mr_status check_coefficients(const struct mr_packed_image *image, mr_error *error)
{
    if (image->width > MAX_JPEG_SIDE || image->height > MAX_JPEG_SIDE)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "the pack says %" PRIu32 " x %" PRIu32 " pixels for a JPEG",
                            image->width, image->height);
    if (!image->template || !image->rows)
        return mr_error_set(error, MR_ERR_DAMAGED, "the pack has no %s for the sample",
                            image->template ? "table of rows" : "template");
    mr_status status = check_template(image->template, error);
    return status == MR_OK ? check_rows(image, error) : status;
}

static mr_status check_pixels(const struct mr_packed_image *image, mr_error *error)
{
    uint64_t need;
    bool fits = image->width <= MR_MAX_RESIZED && image->height <= MR_MAX_RESIZED &&
                mr_checked_mul_u64((uint64_t)image->width * image->height, RAW_CHANNELS, &need) &&
                need == image->len;
    if (fits)
        return MR_OK;
    return mr_error_set(error, MR_ERR_DAMAGED,
                        "the pack says %" PRIu64 " bytes for %" PRIu32 " x %" PRIu32
                        " pixels of %u",
                        image->len, image->width, image->height, RAW_CHANNELS);
}

mr_status mr_packed_check(const struct mr_packed_image *image, const struct mr_codec_limits *limits,
                          mr_error *error)
{
    if (image->encoding == MR_PACKED_JPEG)
        return MR_OK; /* the file's own header counts */
    bool raw = image->encoding == MR_PACKED_RAW;
    if (!raw && !mr_packed_image_has_rows(image->encoding))
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "the pack says encoding %" PRIu32 ", which is unknown",
                            image->encoding);
    if (image->width == 0 || image->height == 0)
        return mr_error_set(error, MR_ERR_DAMAGED, "the pack says %" PRIu32 " x %" PRIu32 " pixels",
                            image->width, image->height);
    if (image->orientation < 1 || image->orientation > 8)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "the pack says orientation %" PRIu32 "; it must be 1 to 8",
                            image->orientation);
    struct mr_codec_limits resolved = mr_codec_limits_resolve(limits);
    mr_status status = mr_codec_limits_check_pixels(&resolved, image->width, image->height, error);
    if (status != MR_OK)
        return status;
    return raw ? check_pixels(image, error) : check_coefficients(image, error);
}

void mr_packed_rows(const struct mr_packed_image *image, const struct mr_packed_layout *layout,
                    struct mr_box box, uint32_t *first_out, uint32_t *last_out)
{
    int64_t top = box.y > MR_CODEC_JPEG_MARGIN ? box.y - MR_CODEC_JPEG_MARGIN : 0;
    int64_t bottom = box.y + box.height - 1 + MR_CODEC_JPEG_MARGIN;
    if (bottom > (int64_t)image->height - 1)
        bottom = (int64_t)image->height - 1;
    *first_out = (uint32_t)(top / layout->mcu_height);
    *last_out = (uint32_t)(bottom / layout->mcu_height);
}

void mr_packed_range(const struct mr_packed_image *image, struct mr_box box, uint64_t *offset_out,
                     uint64_t *len_out)
{
    struct mr_packed_layout layout;
    uint32_t first, last;
    uint64_t end;
    switch (image->encoding) {
    case MR_PACKED_RAW:
        *offset_out = (uint64_t)box.y * image->width * RAW_CHANNELS;
        *len_out = (uint64_t)box.height * image->width * RAW_CHANNELS;
        break;
    case MR_PACKED_DCT:
    case MR_PACKED_MARKED:
        mr_packed_layout(image, &layout);
        mr_packed_rows(image, &layout, box, &first, &last);
        *offset_out = image->rows[first];
        end = (uint64_t)image->rows[last + 1] +
              (image->encoding == MR_PACKED_MARKED ? ROW_END_BYTES : 0);
        *len_out = (end < image->len ? end : image->len) - *offset_out;
        break;
    default: *offset_out = 0; *len_out = image->len;
    }
}
