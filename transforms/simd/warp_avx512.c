/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bilinear warps for AVX-512: like warp_avx2.c, but eight positions at a time. Bicubic and nearest
 * warps are limited by loads and shuffles, so they use AVX2's loops.
 */
#include "transforms/simd/simd_avx512.h"
#include "transforms/simd/warp_grid.h"

#include <string.h>

#define LANES 8
#define DOWN (_MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)

/* The image, in registers. */
struct frame {
    const uint8_t *pixels;
    int32_t len;
    __m512d stride;
    __m512d right; /* the last column and row */
    __m512d bottom;
};

/* Positions of eight pixels in it. */
struct places {
    __m512d x, y;
};

/* Size of the image in bytes. */
static size_t count_bytes(const struct mr_warp *warp)
{
    return (warp->height - 1) * warp->stride + (size_t)warp->width * warp->step;
}

/*
 * True if the vectors can be used: three values per pixel, all lanes in a row, offsets of 31 bits.
 */
static bool has_vectors(const struct mr_warp *warp)
{
    return warp->filter == MR_WARP_BILINEAR && warp->step == 3 && warp->width >= LANES &&
           count_bytes(warp) < INT32_MAX;
}

INLINE struct frame make_frame(const struct mr_warp *warp)
{
    return (struct frame){.pixels = warp->pixels,
                          .len = (int32_t)count_bytes(warp),
                          .stride = _mm512_set1_pd((double)warp->stride),
                          .right = _mm512_set1_pd(warp->width - 1.0),
                          .bottom = _mm512_set1_pd(warp->height - 1.0)};
}

INLINE __m512d clamp_places(__m512d v, __m512d most)
{
    return _mm512_min_pd(_mm512_max_pd(v, _mm512_setzero_pd()), most);
}

/* 3 * x + stride * y, for whole numbers. */
INLINE __m256i find_places(const struct frame *f, __m512d x, __m512d y)
{
    return _mm512_cvttpd_epi32(
        _mm512_add_pd(_mm512_mul_pd(x, _mm512_set1_pd(3.0)), _mm512_mul_pd(y, f->stride)));
}

/* 8 bytes for each pixel; the last two become the upper bits of 2^52. */
INLINE __m512i load_pairs(const uint8_t *pixels, const int32_t offsets[LANES])
{
    int64_t v[LANES];
    for (int i = 0; i < LANES; i++)
        memcpy(&v[i], pixels + offsets[i], sizeof v[i]);
    __m512i qwords = _mm512_setr_epi64(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
    return _mm512_mask_mov_epi16(qwords, 0x88888888, _mm512_set1_epi64(0x4330000000000000));
}

/* 2^52 plus the byte at `place` of each qword. */
INLINE __m512d spread_byte(__m512i qwords, const int place)
{
    const char p = (char)place, q = (char)(place + 8), no = (char)-1;
    const __m128i shuffle =
        _mm_setr_epi8(p, no, no, no, no, no, 6, 7, q, no, no, no, no, no, 14, 15);
    return _mm512_castsi512_pd(_mm512_shuffle_epi8(qwords, _mm512_broadcast_i32x4(shuffle)));
}

/* Not fused: a fused operation would round once where Pillow rounds twice. */
INLINE __m512d mix_pair(__m512i qwords, const int channel, __m512d dx)
{
    __m512d left = spread_byte(qwords, channel), right = spread_byte(qwords, channel + 3);
    __m512d product = _mm512_mul_pd(_mm512_sub_pd(right, left), dx);
    return _mm512_add_pd(_mm512_sub_pd(left, _mm512_set1_pd(0x1p52)), product);
}

INLINE __m256i mix_square(__m512i above, __m512i below, const int channel, __m512d dx, __m512d dy)
{
    __m512d p = mix_pair(above, channel, dx), q = mix_pair(below, channel, dx);
    return _mm512_cvttpd_epi32(_mm512_add_pd(p, _mm512_mul_pd(_mm512_sub_pd(q, p), dy)));
}

/* Three bytes of each of eight dwords. */
INLINE __m256i pack_pixels(__m256i dwords)
{
    const __m256i three = _mm256_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 16, 17, 18, 20,
                                           21, 22, 24, 25, 26, 28, 29, 30, 0, 0, 0, 0, 0, 0, 0, 0);
    return _mm256_permutexvar_epi8(three, dwords);
}

/* Make 24 bytes of the eight pixels. False if a load would read past the image. */
INLINE bool take_bilinear(const struct frame *f, struct places at, __m256i *pixels_out)
{
    const __m512d half = _mm512_set1_pd(0.5), one = _mm512_set1_pd(1.0);
    __m512d x = _mm512_sub_pd(at.x, half), y = _mm512_sub_pd(at.y, half);
    __m512d left = _mm512_roundscale_pd(x, DOWN), top = _mm512_roundscale_pd(y, DOWN);
    __m512d dx = _mm512_sub_pd(x, left), dy = _mm512_sub_pd(y, top);
    /* On the border both taps are the same pixel: giving it all the weight changes no bit. */
    dx = _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(left, _mm512_setzero_pd(), _CMP_GE_OQ), dx);
    dx = _mm512_mask_mov_pd(dx, _mm512_cmp_pd_mask(left, f->right, _CMP_GE_OQ), one);
    left = clamp_places(left, _mm512_sub_pd(f->right, one));
    int32_t above[LANES], below[LANES];
    __m256i lower = find_places(f, left, clamp_places(_mm512_add_pd(top, one), f->bottom));
    _mm256_storeu_si256((void *)above, find_places(f, left, clamp_places(top, f->bottom)));
    _mm256_storeu_si256((void *)below, lower);
    if (_mm256_cmpgt_epi32_mask(lower, _mm256_set1_epi32(f->len - 8)))
        return false;
    __m512i upper_pairs = load_pairs(f->pixels, above), lower_pairs = load_pairs(f->pixels, below);
    __m256i r = mix_square(upper_pairs, lower_pairs, 0, dx, dy),
            g = mix_square(upper_pairs, lower_pairs, 1, dx, dy);
    __m256i b = mix_square(upper_pairs, lower_pairs, 2, dx, dy);
    b = _mm256_or_si256(r, _mm256_or_si256(_mm256_slli_epi32(g, 8), _mm256_slli_epi32(b, 16)));
    *pixels_out = pack_pixels(b);
    return true;
}

INLINE void store_pixels(uint8_t *out, __m256i pixels)
{
    _mm_storeu_si128((void *)out, _mm256_castsi256_si128(pixels));
    _mm_storel_epi64((void *)(out + 16), _mm256_extracti128_si256(pixels, 1));
}

/* a[0] * u + v + a[2], where v is a[1] * (y + 0.5) */
INLINE __m512d find_line(const double a[3], __m512d u, double v)
{
    __m512d sum = _mm512_add_pd(_mm512_mul_pd(_mm512_set1_pd(a[0]), u), _mm512_set1_pd(v));
    return _mm512_add_pd(sum, _mm512_set1_pd(a[2]));
}

/* x + 0.5 of eight pixels */
INLINE __m512d find_columns(uint32_t x)
{
    return _mm512_add_pd(_mm512_set1_pd(x), _mm512_setr_pd(0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5));
}

static void map_affine(const struct mr_warp *warp, uint32_t y, uint32_t first, uint32_t end,
                       uint8_t *out)
{
    const struct frame f = make_frame(warp);
    double a[6];
    memcpy(a, warp->a, sizeof a);
    const double v = y + 0.5, along[2] = {a[1] * v, a[4] * v};
    for (uint32_t x = first; x < end; x += LANES) {
        __m256i pixels;
        x = x < end - LANES
                ? x
                : end - LANES; /* repeats some of the last pixels instead of doing fewer */
        __m512d u = find_columns(x);
        struct places at = {find_line(a, u, along[0]), find_line(a + 3, u, along[1])};
        uint8_t *to = out + 3 * (size_t)(x - first);
        if (take_bilinear(&f, at, &pixels))
            store_pixels(to, pixels);
        else
            mr_warp_loops_c.affine(warp, y, x, x + LANES, to);
    }
}

static void affine(const struct mr_warp *warp, uint32_t y, uint32_t first, uint32_t end,
                   uint8_t *out)
{
    if (has_vectors(warp) && end - first >= LANES)
        map_affine(warp, y, first, end, out);
    else
        mr_warp_loops_avx2.affine(warp, y, first, end, out);
}

/* Write the pixels whose bit in mask is set. */
static void store_some(const struct mr_warp *warp, struct places at, uint32_t mask, uint8_t *out)
{
    double x[LANES], y[LANES];
    _mm512_storeu_pd(x, at.x);
    _mm512_storeu_pd(y, at.y);
    for (int i = 0; i < LANES; i++)
        if (mask >> i & 1)
            mr_warp_take(warp, x[i], y[i], out + 3 * i);
}

static void map_perspective(const struct mr_warp *warp, uint32_t y, uint8_t *row)
{
    const struct frame f = make_frame(warp);
    const uint32_t width = warp->width;
    const __m512d zero = _mm512_setzero_pd(), columns = _mm512_set1_pd(width),
                  rows = _mm512_set1_pd(warp->height);
    double a[8];
    memcpy(a, warp->a, sizeof a);
    const double v = y + 0.5, along[3] = {a[1] * v, a[4] * v, a[7] * v};
    for (uint32_t x = 0; x < width; x += LANES) {
        __m256i pixels;
        x = x < width - LANES ? x : width - LANES;
        __m512d u = find_columns(x);
        __m512d sum =
            _mm512_add_pd(_mm512_mul_pd(_mm512_set1_pd(a[6]), u), _mm512_set1_pd(along[2]));
        __m512d divisor = _mm512_add_pd(sum, _mm512_set1_pd(1.0));
        struct places at = {_mm512_div_pd(find_line(a, u, along[0]), divisor),
                            _mm512_div_pd(find_line(a + 3, u, along[1]), divisor)};
        uint32_t mask = _mm512_cmp_pd_mask(at.x, zero, _CMP_GE_OQ) &
                        _mm512_cmp_pd_mask(at.x, columns, _CMP_LT_OQ) &
                        _mm512_cmp_pd_mask(at.y, zero, _CMP_GE_OQ) &
                        _mm512_cmp_pd_mask(at.y, rows, _CMP_LT_OQ);
        uint8_t *to = row + 3 * (size_t)x;
        if (mask == 255 && take_bilinear(&f, at, &pixels))
            store_pixels(to, pixels);
        else if (mask)
            store_some(warp, at, mask, to);
    }
}

static void perspective(const struct mr_warp *warp, uint32_t y, uint8_t *row)
{
    if (has_vectors(warp))
        map_perspective(warp, y, row);
    else
        mr_warp_loops_avx2.perspective(warp, y, row);
}

/* AVX2's loop copies nearest pixels. */
static void copy(const struct mr_warp *warp, const struct mr_warp_line *line, uint32_t n,
                 uint8_t *out)
{
    mr_warp_loops_avx2.copy(warp, line, n, out);
}

static void grid(const struct mr_warp_grid *grid, uint32_t y, uint8_t *row)
{
    warp_grid_row(grid, y, row);
}

const struct mr_warp_loops mr_warp_loops_avx512 = {
    .copy = copy, .affine = affine, .perspective = perspective, .grid = grid};
