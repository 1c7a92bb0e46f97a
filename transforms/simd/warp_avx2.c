/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of warps for AVX2: four positions at a time, with the doubles of plain C. A load takes
 * the taps of a row at once. If it would read past the image, plain C takes the pixel.
 *
 * To make a double of a byte, the byte replaces the lowest bits of 2^52. The difference of two such
 * numbers is the difference of the bytes.
 */
#include "transforms/simd/simd_avx2.h"
#include "transforms/simd/warp_grid.h"

#include <string.h>

#define LANES 4
#define STRIP 256 /* pixels */

/* Size of the image in bytes. */
static size_t count_bytes(const struct mr_warp *warp)
{
    return (warp->height - 1) * warp->stride + (size_t)warp->width * warp->step;
}

/*
 * True if the vectors can be used: three values per pixel, n_taps pixels in a row, offsets of 31
 * bits.
 */
static bool has_vectors(const struct mr_warp *warp, uint32_t n_taps)
{
    return warp->step == 3 && warp->width >= n_taps && count_bytes(warp) < INT32_MAX;
}

/*
 * Offsets of the n pixels of a line, and of up to 7 more after them; `last` is the largest offset.
 */
INLINE void find_offsets(const struct mr_warp *warp, __m256i x, __m256i y,
                         const struct mr_warp_line *line, uint32_t n, int32_t last,
                         int32_t *offsets)
{
    const __m256i step_x = _mm256_set1_epi32((int32_t)(8u * (uint32_t)line->step_x));
    const __m256i step_y = _mm256_set1_epi32((int32_t)(8u * (uint32_t)line->step_y));
    const __m256i factors = _mm256_set1_epi32((int32_t)((uint32_t)warp->stride | 3u << 16));
    const __m256i most = _mm256_set1_epi32(last);
    for (uint32_t i = 0; i < n; i += 8) {
        __m256i pairs = _mm256_blend_epi16(_mm256_srli_epi32(y, 16), x, 0xaa);
        store256(offsets + i, _mm256_min_epi32(_mm256_madd_epi16(pairs, factors), most));
        x = _mm256_add_epi32(x, step_x);
        y = _mm256_add_epi32(y, step_y);
    }
}

INLINE int32_t read_dword(const uint8_t *from)
{
    int32_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

/* Three bytes of each of four dwords. */
INLINE __m128i pack_pixels(__m128i dwords)
{
    return _mm_shuffle_epi8(dwords,
                            _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
}

static void copy_strip(const uint8_t *pixels, const int32_t *offsets, uint32_t n, uint8_t *out)
{
    uint32_t i = 0;
    for (; i + 6 <= n; i += 4) { /* a store also writes bytes of the next two pixels */
        __m128i v = _mm_cvtsi32_si128(read_dword(pixels + offsets[i]));
        v = _mm_insert_epi32(v, read_dword(pixels + offsets[i + 1]), 1);
        v = _mm_insert_epi32(v, read_dword(pixels + offsets[i + 2]), 2);
        v = _mm_insert_epi32(v, read_dword(pixels + offsets[i + 3]), 3);
        _mm_storeu_si128((__m128i *)(void *)(out + 3 * (size_t)i), pack_pixels(v));
    }
    for (; i < n; i++)
        memcpy(out + 3 * (size_t)i, pixels + offsets[i], 3);
}

/*
 * Copy pixels one by one, because the four bytes of the image's last pixel would end past the
 * image.
 */
static void copy_corner(const struct mr_warp *warp, const struct mr_warp_line *line, uint32_t n,
                        uint8_t *out)
{
    const int64_t right = (int64_t)warp->width - 1, bottom = (int64_t)warp->height - 1;
    const int64_t end_x = line->x + (int64_t)(n - 1) * line->step_x,
                  end_y = line->y + (int64_t)(n - 1) * line->step_y;
    if ((line->x >> 16 < right && end_x >> 16 < right) ||
        (line->y >> 16 < bottom && end_y >> 16 < bottom))
        return;
    for (uint32_t i = 0; i < n; i++)
        if ((line->x + (int64_t)i * line->step_x) >> 16 == right &&
            (line->y + (int64_t)i * line->step_y) >> 16 == bottom)
            memcpy(out + 3 * (size_t)i, warp->pixels + count_bytes(warp) - 3, 3);
}

static void copy(const struct mr_warp *warp, const struct mr_warp_line *line, uint32_t n,
                 uint8_t *out)
{
    const __m256i places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    if (!has_vectors(warp, 2) || warp->stride > INT16_MAX || n < 8) {
        mr_warp_loops_c.copy(warp, line, n, out);
        return;
    }
    const int32_t last = (int32_t)count_bytes(warp) - 4;
    for (uint32_t i = 0; i < n; i += STRIP) {
        int32_t offsets[STRIP];
        uint32_t part = n - i < STRIP ? n - i : STRIP;
        uint32_t x = (uint32_t)line->x + i * (uint32_t)line->step_x,
                 y = (uint32_t)line->y + i * (uint32_t)line->step_y;
        __m256i along_x = _mm256_mullo_epi32(places, _mm256_set1_epi32(line->step_x));
        __m256i along_y = _mm256_mullo_epi32(places, _mm256_set1_epi32(line->step_y));
        find_offsets(warp, _mm256_add_epi32(_mm256_set1_epi32((int32_t)x), along_x),
                     _mm256_add_epi32(_mm256_set1_epi32((int32_t)y), along_y), line, part, last,
                     offsets);
        copy_strip(warp->pixels, offsets, part, out + 3 * (size_t)i);
    }
    copy_corner(warp, line, n, out);
}

/* The image, in registers. */
struct frame {
    const uint8_t *pixels;
    int32_t len;
    __m256d stride;
    __m256d right; /* the last column and row */
    __m256d bottom;
};

/* Positions of four pixels in it. */
struct places {
    __m256d x, y;
};

INLINE struct frame make_frame(const struct mr_warp *warp)
{
    return (struct frame){.pixels = warp->pixels,
                          .len = (int32_t)count_bytes(warp),
                          .stride = _mm256_set1_pd((double)warp->stride),
                          .right = _mm256_set1_pd(warp->width - 1.0),
                          .bottom = _mm256_set1_pd(warp->height - 1.0)};
}

INLINE __m256d clamp_places(__m256d v, __m256d most)
{
    return _mm256_min_pd(_mm256_max_pd(v, _mm256_setzero_pd()), most);
}

/* 3 * x + stride * y, for whole numbers. */
INLINE __m128i find_places(const struct frame *f, __m256d x, __m256d y)
{
    return _mm256_cvttpd_epi32(
        _mm256_add_pd(_mm256_mul_pd(x, _mm256_set1_pd(3.0)), _mm256_mul_pd(y, f->stride)));
}

INLINE void store_lanes(int32_t to[LANES], __m128i v)
{
    _mm_storeu_si128((__m128i *)(void *)to, v);
}

/* 8 bytes for each pixel; the last two become the upper bits of 2^52. */
INLINE __m256i load_pairs(const uint8_t *pixels, const int32_t offsets[LANES])
{
    const __m256i exponent = _mm256_set1_epi64x(0x4330000000000000);
    int64_t value[LANES];
    for (int i = 0; i < LANES; i++)
        memcpy(&value[i], pixels + offsets[i], sizeof value[i]);
    return _mm256_blend_epi16(_mm256_setr_epi64x(value[0], value[1], value[2], value[3]), exponent,
                              0x88);
}

/* 2^52 plus the byte at `place` of each qword. */
INLINE __m256d spread_byte(__m256i qwords, const int place)
{
    const char p = (char)place, q = (char)(place + 8), no = (char)-1;
    const __m256i shuffle =
        _mm256_setr_epi8(p, no, no, no, no, no, 6, 7, q, no, no, no, no, no, 14, 15, p, no, no, no,
                         no, no, 6, 7, q, no, no, no, no, no, 14, 15);
    return _mm256_castsi256_pd(_mm256_shuffle_epi8(qwords, shuffle));
}

/* The byte itself. */
INLINE __m256d to_value(__m256d spread)
{
    return _mm256_sub_pd(spread, _mm256_set1_pd(0x1p52));
}

INLINE __m128i join_channels(__m128i r, __m128i g, __m128i b)
{
    return pack_pixels(_mm_or_si128(r, _mm_or_si128(_mm_slli_epi32(g, 8), _mm_slli_epi32(b, 16))));
}

INLINE __m256d mix_pair(__m256i qwords, const int channel, __m256d dx)
{
    __m256d left = spread_byte(qwords, channel), right = spread_byte(qwords, channel + 3);
    return _mm256_add_pd(to_value(left), _mm256_mul_pd(_mm256_sub_pd(right, left), dx));
}

INLINE __m128i mix_square(__m256i above, __m256i below, const int channel, __m256d dx, __m256d dy)
{
    __m256d p = mix_pair(above, channel, dx), q = mix_pair(below, channel, dx);
    return _mm256_cvttpd_epi32(_mm256_add_pd(p, _mm256_mul_pd(_mm256_sub_pd(q, p), dy)));
}

/* Make 12 bytes of the four pixels. False if a load would read past the image. */
INLINE bool take_bilinear(const struct frame *f, struct places at, __m128i *pixels_out)
{
    const __m256d half = _mm256_set1_pd(0.5), one = _mm256_set1_pd(1.0), zero = _mm256_setzero_pd();
    __m256d x = _mm256_sub_pd(at.x, half), y = _mm256_sub_pd(at.y, half);
    __m256d left = _mm256_floor_pd(x), top = _mm256_floor_pd(y);
    __m256d dx = _mm256_sub_pd(x, left), dy = _mm256_sub_pd(y, top);
    /* On the border both taps are the same pixel: giving it all the weight changes no bit. */
    dx = _mm256_andnot_pd(_mm256_cmp_pd(left, zero, _CMP_LT_OQ), dx);
    dx = _mm256_blendv_pd(dx, one, _mm256_cmp_pd(left, f->right, _CMP_GE_OQ));
    left = clamp_places(left, _mm256_sub_pd(f->right, one));
    int32_t above[LANES], below[LANES];
    __m128i lower = find_places(f, left, clamp_places(_mm256_add_pd(top, one), f->bottom));
    store_lanes(above, find_places(f, left, clamp_places(top, f->bottom)));
    store_lanes(below, lower);
    if (_mm_movemask_epi8(_mm_cmpgt_epi32(lower, _mm_set1_epi32(f->len - 8))))
        return false;
    __m256i upper_pairs = load_pairs(f->pixels, above), lower_pairs = load_pairs(f->pixels, below);
    *pixels_out = join_channels(mix_square(upper_pairs, lower_pairs, 0, dx, dy),
                                mix_square(upper_pairs, lower_pairs, 1, dx, dy),
                                mix_square(upper_pairs, lower_pairs, 2, dx, dy));
    return true;
}

/* The four taps of a row, for four pixels: left ones and right ones. */
struct taps {
    __m256i left, right;
};

/* For taps outside of the image, and loads that would read past it. */
static struct taps load_border(const struct frame *f, const int32_t columns[LANES],
                               const int32_t rows[LANES])
{
    static const int32_t places[2][LANES] = {{0, 16, 32, 48}, {6, 22, 38, 54}};
    uint8_t bytes[16 * LANES] = {0};
    const int32_t last = (int32_t)_mm256_cvtsd_f64(f->right);
    for (int i = 0; i < 4 * LANES; i++) {
        int32_t x = columns[i / 4] + i % 4;
        x = x < 0 ? 0 : x < last ? x : last;
        memcpy(bytes + 16 * (i / 4) + 3 * (i % 4), f->pixels + rows[i / 4] + 3 * (ptrdiff_t)x, 3);
    }
    return (struct taps){load_pairs(bytes, places[0]), load_pairs(bytes, places[1])};
}

INLINE __m256d mix_cubic_bytes(const struct taps *taps, const int channel, __m256d t)
{
    __m256d a = spread_byte(taps->left, channel), b = spread_byte(taps->left, channel + 3);
    __m256d c = spread_byte(taps->right, channel), d = spread_byte(taps->right, channel + 3);
    __m256d ab = _mm256_sub_pd(a, b), cd = _mm256_sub_pd(c, d), both = _mm256_add_pd(ab, cd);
    /* whole numbers, so any order is exact */
    __m256d sum = _mm256_sub_pd(_mm256_add_pd(ab, both), _mm256_mul_pd(t, both));
    sum = _mm256_add_pd(_mm256_sub_pd(c, a), _mm256_mul_pd(t, sum));
    return _mm256_add_pd(to_value(b), _mm256_mul_pd(t, sum));
}

INLINE __m256d mix_cubic(const __m256d v[4], __m256d t)
{
    __m256d twice = _mm256_sub_pd(v[0], v[1]);
    __m256d p3 = _mm256_sub_pd(_mm256_add_pd(_mm256_add_pd(twice, twice), v[2]), v[3]);
    __m256d p4 = _mm256_add_pd(_mm256_sub_pd(_mm256_sub_pd(v[1], v[0]), v[2]), v[3]);
    __m256d sum = _mm256_add_pd(_mm256_sub_pd(v[2], v[0]),
                                _mm256_mul_pd(t, _mm256_add_pd(p3, _mm256_mul_pd(t, p4))));
    return _mm256_add_pd(v[1], _mm256_mul_pd(t, sum));
}

INLINE __m128i mix_grid(const struct taps taps[4], const int channel, __m256d dx, __m256d dy)
{
    __m256d rows[4];
    for (int i = 0; i < 4; i++)
        rows[i] = mix_cubic_bytes(&taps[i], channel, dx);
    return _mm256_cvttpd_epi32(clamp_places(mix_cubic(rows, dy), _mm256_set1_pd(255.0)));
}

INLINE __m128i take_bicubic(const struct frame *f, struct places at)
{
    const __m256d half = _mm256_set1_pd(0.5), one = _mm256_set1_pd(1.0),
                  three = _mm256_set1_pd(3.0);
    __m256d x = _mm256_sub_pd(at.x, half), y = _mm256_sub_pd(at.y, half);
    __m256d left = _mm256_floor_pd(x), top = _mm256_floor_pd(y);
    __m256d dx = _mm256_sub_pd(x, left), dy = _mm256_sub_pd(y, top);
    __m256d first = _mm256_sub_pd(left, one), row = _mm256_sub_pd(top, one);
    __m256d outside =
        _mm256_or_pd(_mm256_cmp_pd(first, _mm256_setzero_pd(), _CMP_LT_OQ),
                     _mm256_cmp_pd(_mm256_add_pd(first, three), f->right, _CMP_GT_OQ));
    __m128i lowest = find_places(f, first, clamp_places(_mm256_add_pd(row, three), f->bottom));
    __m128i ends_past = _mm_cmpgt_epi32(lowest, _mm_set1_epi32(f->len - 14));
    bool is_border = _mm256_movemask_pd(outside) || _mm_movemask_epi8(ends_past);
    int32_t columns[LANES];
    struct taps taps[4];
    store_lanes(columns, _mm256_cvttpd_epi32(first));
    for (int i = 0; i < 4; i++, row = _mm256_add_pd(row, one)) {
        int32_t offsets[LANES];
        __m256d clamped = clamp_places(row, f->bottom);
        store_lanes(offsets, find_places(f, is_border ? _mm256_setzero_pd() : first, clamped));
        if (is_border)
            taps[i] = load_border(f, columns, offsets);
        else
            taps[i] =
                (struct taps){load_pairs(f->pixels, offsets), load_pairs(f->pixels + 6, offsets)};
    }
    return join_channels(mix_grid(taps, 0, dx, dy), mix_grid(taps, 1, dx, dy),
                         mix_grid(taps, 2, dx, dy));
}

INLINE void store_pixels(uint8_t *out, __m128i pixels)
{
    int32_t last = _mm_extract_epi32(pixels, 2);
    _mm_storel_epi64((__m128i *)(void *)out, pixels);
    memcpy(out + 8, &last, sizeof last);
}

/* a[0] * u + v + a[2], where v is a[1] * (y + 0.5) */
INLINE __m256d find_line(const double a[3], __m256d u, double v)
{
    __m256d sum = _mm256_add_pd(_mm256_mul_pd(_mm256_set1_pd(a[0]), u), _mm256_set1_pd(v));
    return _mm256_add_pd(sum, _mm256_set1_pd(a[2]));
}

/* x + 0.5 of four pixels */
INLINE __m256d find_columns(uint32_t x)
{
    return _mm256_add_pd(_mm256_set1_pd(x), _mm256_setr_pd(0.5, 1.5, 2.5, 3.5));
}

INLINE void map_affine(const struct mr_warp *warp, const bool is_cubic, uint32_t y, uint32_t first,
                       uint32_t end, uint8_t *out)
{
    const struct frame f = make_frame(warp);
    double a[6];
    memcpy(a, warp->a, sizeof a);
    const double v = y + 0.5, along[2] = {a[1] * v, a[4] * v};
    for (uint32_t x = first; x < end; x += LANES) {
        __m128i pixels;
        x = x < end - LANES
                ? x
                : end - LANES; /* repeats some of the last pixels instead of doing fewer */
        __m256d u = find_columns(x);
        struct places at = {find_line(a, u, along[0]), find_line(a + 3, u, along[1])};
        uint8_t *to = out + 3 * (size_t)(x - first);
        if (is_cubic)
            store_pixels(to, take_bicubic(&f, at));
        else if (take_bilinear(&f, at, &pixels))
            store_pixels(to, pixels);
        else
            mr_warp_loops_c.affine(warp, y, x, x + LANES, to);
    }
}

static void affine(const struct mr_warp *warp, uint32_t y, uint32_t first, uint32_t end,
                   uint8_t *out)
{
    if (!has_vectors(warp, 4) || end - first < LANES)
        mr_warp_loops_c.affine(warp, y, first, end, out);
    else if (warp->filter == MR_WARP_BICUBIC)
        map_affine(warp, true, y, first, end, out);
    else
        map_affine(warp, false, y, first, end, out);
}

/* Write the pixels whose bit in mask is set. */
static void store_some(const struct mr_warp *warp, struct places at, int mask, uint8_t *out)
{
    double x[LANES], y[LANES];
    _mm256_storeu_pd(x, at.x);
    _mm256_storeu_pd(y, at.y);
    for (int i = 0; i < LANES; i++)
        if (mask >> i & 1)
            mr_warp_take(warp, x[i], y[i], out + 3 * i);
}

static void copy_lanes(const struct frame *f, struct places at, uint8_t *out)
{
    int32_t offsets[LANES];
    store_lanes(offsets, find_places(f, _mm256_floor_pd(at.x), _mm256_floor_pd(at.y)));
    for (int i = 0; i < LANES; i++)
        memcpy(out + 3 * i, f->pixels + offsets[i], 3);
}

static void map_perspective(const struct mr_warp *warp, uint32_t y, uint8_t *row)
{
    const struct frame f = make_frame(warp);
    const uint32_t filter = warp->filter, width = warp->width;
    const __m256d zero = _mm256_setzero_pd(), one = _mm256_set1_pd(1.0);
    const __m256d columns = _mm256_set1_pd(width), rows = _mm256_set1_pd(warp->height);
    double a[8];
    memcpy(a, warp->a, sizeof a);
    const double v = y + 0.5, along[3] = {a[1] * v, a[4] * v, a[7] * v};
    for (uint32_t x = 0; x < width; x += LANES) {
        __m128i pixels;
        x = x < width - LANES ? x : width - LANES;
        __m256d u = find_columns(x);
        __m256d sum =
            _mm256_add_pd(_mm256_mul_pd(_mm256_set1_pd(a[6]), u), _mm256_set1_pd(along[2]));
        __m256d divisor = _mm256_add_pd(sum, one);
        struct places at = {_mm256_div_pd(find_line(a, u, along[0]), divisor),
                            _mm256_div_pd(find_line(a + 3, u, along[1]), divisor)};
        __m256d inside = _mm256_and_pd(_mm256_and_pd(_mm256_cmp_pd(at.x, zero, _CMP_GE_OQ),
                                                     _mm256_cmp_pd(at.x, columns, _CMP_LT_OQ)),
                                       _mm256_and_pd(_mm256_cmp_pd(at.y, zero, _CMP_GE_OQ),
                                                     _mm256_cmp_pd(at.y, rows, _CMP_LT_OQ)));
        int mask = _mm256_movemask_pd(inside);
        uint8_t *to = row + 3 * (size_t)x;
        if (mask != 15)
            store_some(warp, at, mask, to);
        else if (filter == MR_WARP_NEAREST)
            copy_lanes(&f, at, to);
        else if (filter == MR_WARP_BICUBIC)
            store_pixels(to, take_bicubic(&f, at));
        else if (take_bilinear(&f, at, &pixels))
            store_pixels(to, pixels);
        else
            store_some(warp, at, mask, to);
    }
}

static void perspective(const struct mr_warp *warp, uint32_t y, uint8_t *row)
{
    if (has_vectors(warp, 4))
        map_perspective(warp, y, row);
    else
        mr_warp_loops_c.perspective(warp, y, row);
}

static void grid(const struct mr_warp_grid *grid, uint32_t y, uint8_t *row)
{
    warp_grid_row(grid, y, row);
}

const struct mr_warp_loops mr_warp_loops_avx2 = {
    .copy = copy, .affine = affine, .perspective = perspective, .grid = grid};
