/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins the IDAT chunks, inflates them, and undoes the filters of the rows in place.
 *
 * Invariant: what is read here, libpng would read too, with the same pixels. So all sums are
 * checked, nothing may follow the image but the end of the file, and the stream has exactly the
 * bytes of the image. zlib also refuses codes with more symbols than deflate has, and bits that a
 * code of a single symbol does not have; libdeflate does not, but no encoder writes them.
 */
#include "transforms/masks/mask_inflate.h"

#include <string.h>

#include <libdeflate.h>

#define CHUNK_OVERHEAD 12 /* length, type, CRC */

void mr_mask_inflate_fini(struct mr_mask_pixels *pixels)
{
    libdeflate_free_decompressor(pixels->inflater);
    mr_scratch_fini(&pixels->rows);
    mr_scratch_fini(&pixels->stream);
}

static uint32_t read_u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Join the IDAT chunks up to the end of the image, which must follow them. Returns their length. */
static size_t join_chunks(const uint8_t *at, size_t len, uint8_t *stream)
{
    size_t n_joined = 0, n;
    for (; len >= CHUNK_OVERHEAD; at += n + CHUNK_OVERHEAD, len -= n + CHUNK_OVERHEAD) {
        n = read_u32(at);
        if (n > len - CHUNK_OVERHEAD || libdeflate_crc32(0, at + 4, n + 4) != read_u32(at + 8 + n))
            return 0;
        if (memcmp(at + 4, "IDAT", 4) != 0)
            return n == 0 && memcmp(at + 4, "IEND", 4) == 0 ? n_joined : 0;
        memcpy(stream + n_joined, at + 8, n);
        n_joined += n;
    }
    return 0;
}

/*
 * The stream's header names the longest distance to bytes that are repeated. zlib refuses longer
 * ones, libdeflate does not.
 */
static bool has_window(const uint8_t *stream, size_t len, size_t n_inflated)
{
    return len > 0 && stream[0] >> 4 <= 7 &&
           (stream[0] >> 4 == 7 || (size_t)256 << (stream[0] >> 4) >= n_inflated);
}

static bool inflate_rows(struct mr_mask_pixels *pixels, const uint8_t *stream, size_t len,
                         uint8_t *rows, size_t n)
{
    size_t n_used;
    if (!has_window(stream, len, n))
        return false;
    if (!pixels->inflater)
        pixels->inflater = libdeflate_alloc_decompressor();
    return pixels->inflater &&
           libdeflate_zlib_decompress_ex(pixels->inflater, stream, len, rows, n, &n_used, NULL) ==
               LIBDEFLATE_SUCCESS &&
           n_used == len;
}

/* PNG's filters. `step` is the size of a pixel; each of its bytes is a sequence of its own. */

static void undo_left(uint8_t *row, size_t n, size_t step)
{
    uint8_t left = 0;
    for (size_t i = 0; i < n; i += step)
        left = row[i] = (uint8_t)(row[i] + left);
}

static void undo_above(uint8_t *row, const uint8_t *above, size_t n, size_t step)
{
    for (size_t i = 0; i < n; i += step)
        row[i] = (uint8_t)(row[i] + above[i]);
}

static void undo_average(uint8_t *row, const uint8_t *above, size_t n, size_t step)
{
    uint8_t left = 0;
    for (size_t i = 0; i < n; i += step)
        left = row[i] = (uint8_t)(row[i] + (left + above[i]) / 2);
}

/*
 * Whichever of the three is nearest to left + above - corner, in this order: the smaller one of
 * left and above if the corner is large, the larger one if it is small, otherwise the corner.
 */
static inline int predict_paeth(int left, int above, int corner)
{
    int small = left < above ? left : above, large = left < above ? above : left;
    int bound = 3 * corner - left - above;
    int nearest = large <= bound ? small : corner;
    return bound <= small ? large : nearest;
}

/* The last pixel of a row that is decoded, and the one above it. */
struct paeth {
    int left;
    int corner;
};

static inline uint8_t take_paeth(struct paeth *at, uint8_t byte, uint8_t above)
{
    at->left = (uint8_t)(byte + predict_paeth(at->left, above, at->corner));
    at->corner = above;
    return (uint8_t)at->left;
}

static void undo_paeth(uint8_t *row, const uint8_t *above, size_t n, size_t step)
{
    struct paeth at = {0};
    for (size_t i = 0; i < n; i += step)
        row[i] = take_paeth(&at, row[i], above[i]);
}

/* Two rows at once. Each pixel waits for the one to its left, but the rows hardly wait. */
static void undo_paeth_twice(uint8_t *row, const uint8_t *above, uint8_t *below, size_t n,
                             size_t step)
{
    struct paeth at = {0}, at_below = {0};
    for (size_t i = 0; i < n; i += step) {
        row[i] = take_paeth(&at, row[i], above[i]);
        below[i] = take_paeth(&at_below, below[i], row[i]);
    }
}

enum filter { NONE, LEFT, ABOVE, AVERAGE, PAETH };

static bool undo_filter(enum filter filter, uint8_t *row, const uint8_t *above, size_t n,
                        size_t step)
{
    switch (filter) {
    case NONE: return true;
    case LEFT: undo_left(row, n, step); return true;
    case ABOVE: undo_above(row, above, n, step); return true;
    case AVERAGE: undo_average(row, above, n, step); return true;
    case PAETH: undo_paeth(row, above, n, step); return true;
    }
    return false;
}

/*
 * Undo the filter of the row, or those of two rows; returns how many, 0 if it is not a filter. The
 * byte before a row is its filter.
 */
static uint32_t undo_filters(uint8_t *row, uint32_t n_rows, size_t row_bytes, size_t step)
{
    const uint8_t *above = row - row_bytes - 1;
    uint8_t *below = row + row_bytes + 1;
    bool twice = n_rows > 1 && row[-1] == PAETH && below[-1] == PAETH, good = true;
    for (size_t k = 0; k < step && good; k++) {
        if (twice)
            undo_paeth_twice(row + k, above + k, below + k, row_bytes - k, step);
        else
            good = undo_filter(row[-1], row + k, above + k, row_bytes - k, step);
    }
    return good ? 1 + twice : 0;
}

bool mr_mask_inflate_run(struct mr_mask_pixels *pixels, const uint8_t *chunks, size_t len,
                         uint32_t width, uint32_t height)
{
    size_t row_bytes = width * pixels->pixel_bytes, stride = row_bytes + 1;
    size_t n = stride * height; /* at most MR_CODEC_MAX_PIXELS pixels */
    mr_error unused;
    if (mr_scratch_reserve(&pixels->stream, len, 1, &unused) != MR_OK ||
        mr_scratch_reserve(&pixels->rows, n + stride, 1, &unused) != MR_OK)
        return false;
    uint8_t *rows = (uint8_t *)pixels->rows.memory + stride; /* after the row above the first */
    size_t n_joined = join_chunks(chunks, len, pixels->stream.memory);
    if (!inflate_rows(pixels, pixels->stream.memory, n_joined, rows, n))
        return false;
    memset(rows - stride, 0, stride);
    for (uint32_t y = 0, n_done; y < height; y += n_done) {
        n_done = undo_filters(rows + y * stride + 1, height - y, row_bytes, pixels->pixel_bytes);
        if (n_done == 0)
            return false;
    }
    pixels->first = rows + 1;
    pixels->row_bytes = stride;
    return true;
}
