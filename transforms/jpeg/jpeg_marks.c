/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes marks. */
#include "transforms/jpeg/jpeg_marks.h"

#include "base/packed_image.h"
#include "base/xxh3.h"

#include <string.h>

#define SUM_BYTES 8
#define FIXED_BYTES (SUM_BYTES + 4 * 4)
#define POSITION_BYTES 4
#define PREDICTOR_BYTES 2

static uint32_t load_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static int32_t load_i16(const uint8_t *at)
{
    return (int16_t)((uint32_t)at[0] | (uint32_t)at[1] << 8);
}

static void store_bytes(uint8_t *at, uint64_t value, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static size_t find_position(const struct mr_jpeg_marks *marks, uint32_t number)
{
    return FIXED_BYTES + (size_t)marks->head_len + (size_t)number * POSITION_BYTES;
}

static size_t find_predictors(const struct mr_jpeg_marks *marks, uint32_t number)
{
    return find_position(marks, marks->n_marks) +
           (size_t)number * marks->n_components * PREDICTOR_BYTES;
}

uint64_t mr_jpeg_marks_bytes(const struct mr_jpeg_marks *marks)
{
    uint64_t each = POSITION_BYTES + (uint64_t)PREDICTOR_BYTES * marks->n_components;
    return FIXED_BYTES + (uint64_t)marks->head_len + each * marks->n_marks;
}

/* Read. */

static uint64_t load_sum(const uint8_t *at)
{
    return (uint64_t)load_u32(at) | (uint64_t)load_u32(at + 4) << 32;
}

bool mr_jpeg_marks_parse(const uint8_t *bytes, size_t len, struct mr_jpeg_marks *marks_out)
{
    if (len < FIXED_BYTES)
        return false;
    const uint8_t *at = bytes + SUM_BYTES;
    *marks_out = (struct mr_jpeg_marks){.bytes = bytes,
                                        .head_len = load_u32(at),
                                        .scan_at = load_u32(at + 4),
                                        .n_marks = load_u32(at + 8),
                                        .n_components = load_u32(at + 12)};
    return marks_out->n_components >= 1 && marks_out->n_components <= MR_PACKED_MAX_COMPONENTS &&
           mr_jpeg_marks_bytes(marks_out) == len && mr_xxh3(at, len - SUM_BYTES) == load_sum(bytes);
}

const uint8_t *mr_jpeg_marks_head(const struct mr_jpeg_marks *marks)
{
    return marks->bytes + FIXED_BYTES;
}

uint64_t mr_jpeg_marks_byte(const struct mr_jpeg_marks *marks, uint32_t number)
{
    return (uint64_t)marks->scan_at + load_u32(marks->bytes + find_position(marks, number)) / 8;
}

struct mr_jpeg_mark mr_jpeg_marks_get(const struct mr_jpeg_marks *marks, uint32_t number)
{
    const uint8_t *predictors = marks->bytes + find_predictors(marks, number);
    struct mr_jpeg_mark mark = {.at = mr_jpeg_marks_byte(marks, number),
                                .bit = load_u32(marks->bytes + find_position(marks, number)) % 8};
    for (uint32_t c = 0; c < marks->n_components; c++)
        mark.predict[c] = load_i16(predictors + (size_t)c * PREDICTOR_BYTES);
    return mark;
}

/* Write. */

uint8_t *mr_jpeg_marks_begin(const struct mr_jpeg_marks *marks, uint8_t *to)
{
    const uint32_t numbers[] = {marks->head_len, marks->scan_at, marks->n_marks,
                                marks->n_components};
    for (uint32_t i = 0; i < 4; i++)
        store_bytes(to + SUM_BYTES + 4 * (size_t)i, numbers[i], 4);
    return to + FIXED_BYTES;
}

void mr_jpeg_marks_put(const struct mr_jpeg_marks *marks, uint8_t *to, uint32_t number,
                       const struct mr_jpeg_mark *mark)
{
    uint8_t *predictors = to + find_predictors(marks, number);
    store_bytes(to + find_position(marks, number), (mark->at - marks->scan_at) * 8 + mark->bit,
                POSITION_BYTES);
    for (uint32_t c = 0; c < marks->n_components; c++)
        store_bytes(predictors + (size_t)c * PREDICTOR_BYTES, (uint32_t)mark->predict[c],
                    PREDICTOR_BYTES);
}

void mr_jpeg_marks_end(const struct mr_jpeg_marks *marks, uint8_t *to)
{
    size_t len = (size_t)mr_jpeg_marks_bytes(marks);
    store_bytes(to, mr_xxh3(to + SUM_BYTES, len - SUM_BYTES), SUM_BYTES);
}
