/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes PBM, PGM and PPM as Pillow does: a colour is scaled to 255 by the header's largest value,
 * and so is a grey one of one byte. Grey of two bytes is scaled to 65535 and clipped at 255.
 */
#include "transforms/formats/codec_ppm.h"

#include "base/checked.h"
#include "base/image_format.h"
#include "base/ppm_header.h"
#include "transforms/formats/box_rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define CHANNELS 3

struct ppm {
    struct mr_codec_limits limits;
    const uint8_t *bytes;
    size_t len;
    struct mr_ppm_header header;
    uint64_t row_bytes;  /* of the file, unless it is plain */
    uint8_t scaled[256]; /* indexed by values of one byte */
    struct mr_box_rows rows;
};

static mr_status ppm_create(const struct mr_codec_limits *limits, void **state_out, mr_error *error)
{
    struct ppm *ppm = calloc(1, sizeof *ppm);
    if (!ppm)
        return mr_error_memory(error, sizeof *ppm);
    ppm->limits = *limits;
    *state_out = ppm;
    return MR_OK;
}

static void ppm_destroy(void *state)
{
    struct ppm *ppm = state;
    mr_box_rows_fini(&ppm->rows);
    free(ppm);
}

static uint32_t ppm_close(void *state)
{
    struct ppm *ppm = state;
    mr_box_rows_clear(&ppm->rows);
    return 0;
}

static bool is_plain(const struct ppm *ppm)
{
    return ppm->header.kind <= 3;
}

static bool is_bitmap(const struct ppm *ppm)
{
    return ppm->header.kind == 1 || ppm->header.kind == 4;
}

static bool is_wide(const struct ppm *ppm)
{
    return ppm->header.maxval > 255;
}

/* Python's round(value / maxval * out_max), clipped. */
static uint8_t scale_value(const struct ppm *ppm, uint32_t value)
{
    double out_max = is_wide(ppm) && ppm->header.channels == 1 ? 65535.0 : 255.0;
    double scaled = nearbyint((double)value / ppm->header.maxval * out_max);
    return scaled < 255.0 ? (uint8_t)scaled : 255;
}

/*
 * A plain file has at least one byte for each pixel of a bitmap, and otherwise two for each value
 * except the last.
 */
static mr_status check_len(const struct ppm *ppm, mr_error *error)
{
    const struct mr_ppm_header *header = &ppm->header;
    uint64_t need, n_values = (uint64_t)header->width * header->channels;
    uint64_t row_bytes = !is_plain(ppm) ? ppm->row_bytes : is_bitmap(ppm) ? n_values : n_values * 2;
    if (!mr_checked_mul_u64(row_bytes, header->height, &need))
        need = UINT64_MAX;
    if (is_plain(ppm) && !is_bitmap(ppm))
        need--;
    if (need <= ppm->len - header->data_at)
        return MR_OK;
    return mr_error_set(error, MR_ERR_DAMAGED,
                        "PPM: %zu bytes of pixels where %s%" PRIu64 " are needed",
                        ppm->len - header->data_at, is_plain(ppm) ? "at least " : "", need);
}

static mr_status ppm_open(void *state, const uint8_t *bytes, size_t len,
                          struct mr_image_head *head_out, mr_error *error)
{
    struct ppm *ppm = state;
    const char *wrong = mr_ppm_header_read(bytes, len, &ppm->header);
    if (wrong)
        return mr_error_set(error, MR_ERR_DAMAGED, "PPM: %s", wrong);
    const struct mr_ppm_header *header = &ppm->header;
    mr_status status =
        mr_codec_limits_check_pixels(&ppm->limits, header->width, header->height, error);
    if (status == MR_OK)
        status = mr_codec_limits_check_image(&ppm->limits, header->width, header->height, CHANNELS,
                                             0, error);
    if (status != MR_OK)
        return status;
    ppm->bytes = bytes;
    ppm->len = len;
    uint64_t n_values = (uint64_t)header->width * header->channels;
    ppm->row_bytes = is_bitmap(ppm) ? (n_values + 7) / 8 : is_wide(ppm) ? n_values * 2 : n_values;
    for (uint32_t i = 0; i < 256 && !is_wide(ppm); i++)
        ppm->scaled[i] = scale_value(ppm, i);
    status = check_len(ppm, error);
    if (status == MR_OK)
        *head_out = (struct mr_image_head){header->width, header->height, 1};
    return status;
}

/* One value of a raw file; x counts values. */
static uint8_t read_value(const struct ppm *ppm, const uint8_t *row, size_t x)
{
    if (is_bitmap(ppm))
        return row[x / 8] & 0x80 >> x % 8 ? 0 : 255;
    if (is_wide(ppm))
        return scale_value(ppm, (uint32_t)row[2 * x] << 8 | row[2 * x + 1]);
    return ppm->scaled[row[x]];
}

static void copy_row(const struct ppm *ppm, uint32_t y, uint32_t x, uint32_t width, uint8_t *out)
{
    const uint8_t *row = ppm->bytes + ppm->header.data_at + y * ppm->row_bytes;
    if (ppm->header.channels == 1) {
        for (uint32_t i = 0; i < width; i++, out += CHANNELS)
            memset(out, read_value(ppm, row, (size_t)x + i), CHANNELS);
    } else if (ppm->header.maxval == 255) {
        memcpy(out, row + (size_t)x * CHANNELS, (size_t)width * CHANNELS);
    } else {
        for (size_t i = 0; i < (size_t)width * CHANNELS; i++)
            out[i] = read_value(ppm, row, (size_t)x * CHANNELS + i);
    }
}

/* The digits of a plain bitmap need no white space between them. */
static const char *read_bit(const struct ppm *ppm, size_t *at, uint32_t *value_out)
{
    for (bool comment = false; *at < ppm->len;) {
        uint8_t byte = ppm->bytes[(*at)++];
        if (comment || byte == '#') {
            comment = byte != '\n' && byte != '\r';
        } else if (byte == '0' || byte == '1') {
            *value_out = byte - '0';
            return NULL;
        } else if (byte != ' ' && (byte < '\t' || byte > '\r')) {
            return "a pixel is neither 0 nor 1";
        }
    }
    return "the file ends before its pixels";
}

static const char *read_plain_value(const struct ppm *ppm, size_t *at, uint8_t *value_out)
{
    uint32_t value = 0;
    const char *wrong = is_bitmap(ppm) ? read_bit(ppm, at, &value)
                                       : mr_ppm_header_number(ppm->bytes, ppm->len, at, &value);
    if (!wrong && value > ppm->header.maxval)
        wrong = "a value is above the header's largest one";
    if (!wrong && is_bitmap(ppm))
        *value_out = value ? 0 : 255;
    else if (!wrong)
        *value_out = is_wide(ppm) ? scale_value(ppm, value) : ppm->scaled[value];
    return wrong;
}

/*
 * Reads all values up to the box's last row, because nothing in the file says where a row begins.
 */
static const char *read_plain(const struct ppm *ppm, uint32_t x, uint32_t y, uint32_t width,
                              uint32_t height, uint8_t *out)
{
    size_t at = ppm->header.data_at;
    for (uint32_t row = 0; row < y + height; row++) {
        for (uint32_t column = 0; column < ppm->header.width; column++) {
            uint8_t values[CHANNELS];
            for (uint32_t i = 0; i < ppm->header.channels; i++) {
                const char *wrong = read_plain_value(ppm, &at, &values[i]);
                if (wrong)
                    return wrong;
            }
            if (row < y || column < x || column - x >= width)
                continue;
            for (uint32_t i = 0; i < CHANNELS; i++)
                *out++ = values[ppm->header.channels == 1 ? 0 : i];
        }
    }
    return NULL;
}

static mr_status ppm_begin(void *state, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                           mr_error *error)
{
    struct ppm *ppm = state;
    size_t stride = (size_t)width * CHANNELS;
    mr_status status = mr_box_rows_reserve(&ppm->rows, (uint64_t)stride * height, error);
    if (status != MR_OK)
        return status;
    const char *wrong =
        is_plain(ppm) ? read_plain(ppm, x, y, width, height, ppm->rows.bytes) : NULL;
    if (wrong)
        return mr_error_set(error, MR_ERR_DAMAGED, "PPM: %s", wrong);
    for (uint32_t i = 0; i < height && !is_plain(ppm); i++)
        copy_row(ppm, y + i, x, width, ppm->rows.bytes + i * stride);
    mr_box_rows_place(&ppm->rows, 0, stride, height);
    return MR_OK;
}

static mr_status ppm_rows(void *state, const uint8_t **rows_out, uint32_t max_rows, uint32_t *n_out,
                          mr_error *error)
{
    struct ppm *ppm = state;
    return mr_box_rows_give(&ppm->rows, rows_out, max_rows, n_out, error);
}

const struct mr_codec_ops mr_codec_ppm = {
    .name = MR_IMAGE_FORMAT_PPM,
    .create = ppm_create,
    .destroy = ppm_destroy,
    .open = ppm_open,
    .begin = ppm_begin,
    .rows = ppm_rows,
    .close = ppm_close,
};
