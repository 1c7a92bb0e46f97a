/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes RGB from quantised coefficients in 32-bit integers. Arithmetic is on eight numbers at a
 * time, with the compiler's vectors, or in loops over whole rows that the compiler vectorises. Both
 * are compiled twice, the second time for AVX2.
 *
 * Invariant: sums and products wrap at 32 bits, so they are unsigned and only shifts are signed.
 * libjpeg-turbo upsamples a component of one or two columns by repeating, and uses fancy upsampling
 * for h1v2 however narrow it is.
 */
#include "tests/transforms/jpeg_integer.h"

#include "base/checked.h"
#include "base/cpu.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))
/* Bytes before and after a line, for the samples that are repeated there. */
#define EDGE 64

/* GCC 12 has them, and clang. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define HAS_SHUFFLES 1
#endif
#endif
#ifndef HAS_SHUFFLES
#define HAS_SHUFFLES 0
#endif

typedef uint32_t lanes __attribute__((vector_size(32)));
typedef int32_t signed_lanes __attribute__((vector_size(32)));
typedef uint16_t word_lanes __attribute__((vector_size(16)));

struct mr_jpeg_integer_ops {
    void (*blocks)(struct mr_jpeg_integer *decoder, uint32_t row, uint32_t column, uint32_t n_mcus,
                   const int16_t (*blocks)[64], uint8_t **const *samples);
    const uint8_t *(*row)(struct mr_jpeg_integer *decoder, uint32_t y);
};

/* ---- The inverse DCT ---- */

/* jidctint.c's islow in one dimension, over the index of m. Its constants have 13 fraction bits. */
INLINE void transform_pass(lanes m[8], uint32_t bias, int shift)
{
    lanes z1 = (m[2] + m[6]) * 4433u;
    lanes t2 = z1 - m[6] * 15137u, t3 = z1 + m[2] * 6270u;
    lanes t0 = (m[0] + m[4]) << 13, t1 = (m[0] - m[4]) << 13;
    lanes a0 = t0 + t3 + bias, a3 = t0 - t3 + bias, a1 = t1 + t2 + bias, a2 = t1 - t2 + bias;
    t0 = m[7];
    t1 = m[5];
    t2 = m[3];
    t3 = m[1];
    z1 = (t0 + t3) * (uint32_t)-7373;
    lanes z2 = (t1 + t2) * (uint32_t)-20995, z3 = t0 + t2, z4 = t1 + t3, z5 = (z3 + z4) * 9633u;
    z3 = z3 * (uint32_t)-16069 + z5;
    z4 = z4 * (uint32_t)-3196 + z5;
    t0 = t0 * 2446u + z1 + z3;
    t1 = t1 * 16819u + z2 + z4;
    t2 = t2 * 25172u + z2 + z3;
    t3 = t3 * 12299u + z1 + z4;
    m[0] = (lanes)((signed_lanes)(a0 + t3) >> shift);
    m[7] = (lanes)((signed_lanes)(a0 - t3) >> shift);
    m[1] = (lanes)((signed_lanes)(a1 + t2) >> shift);
    m[6] = (lanes)((signed_lanes)(a1 - t2) >> shift);
    m[2] = (lanes)((signed_lanes)(a2 + t1) >> shift);
    m[5] = (lanes)((signed_lanes)(a2 - t1) >> shift);
    m[3] = (lanes)((signed_lanes)(a3 + t0) >> shift);
    m[4] = (lanes)((signed_lanes)(a3 - t0) >> shift);
}

#if HAS_SHUFFLES

#define PAIR(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)

INLINE void transpose_lanes(lanes m[8])
{
    lanes a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = PAIR(m[i], m[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        a[i + 1] = PAIR(m[i], m[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    for (int i = 0; i < 8; i += i % 4 == 1 ? 3 : 1) {
        b[i] = PAIR(a[i], a[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        b[i + 2] = PAIR(a[i], a[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    for (int i = 0; i < 4; i++) {
        m[i] = PAIR(b[i], b[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        m[i + 4] = PAIR(b[i], b[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

/* Interleave the lanes of in[0] and in[1]. */
INLINE void zip_lanes(const lanes in[2], lanes out[2])
{
    out[0] = PAIR(in[0], in[1], 0, 8, 1, 9, 2, 10, 3, 11);
    out[1] = PAIR(in[0], in[1], 4, 12, 5, 13, 6, 14, 7, 15);
}

#else

INLINE void transpose_lanes(lanes m[8])
{
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < i; j++) {
            uint32_t saved = m[i][j];
            m[i][j] = m[j][i];
            m[j][i] = saved;
        }
}

INLINE void zip_lanes(const lanes in[2], lanes out[2])
{
    for (int i = 0; i < 16; i++)
        out[i / 8][i % 8] = in[i % 2][i / 2];
}

#endif

/* A lane is a row and a vector a column. Converts to bytes, 0 to 255, four columns in each lane. */
INLINE void clamp_columns(const lanes m[4], lanes *out)
{
    lanes bytes = {0};
    for (int i = 0; i < 4; i++) {
        signed_lanes v = (signed_lanes)m[i];
        for (int k = 0; k < 8; k++) {
            v[k] = v[k] > 0 ? v[k] : 0;
            v[k] = v[k] < 255 ? v[k] : 255;
        }
        bytes |= (lanes)v << 8 * i;
    }
    *out = bytes;
}

/* Transform one block to 8 x 8 samples. */
INLINE void inverse_dct(const int16_t block[64], const lanes quant[8], uint8_t *out, size_t stride)
{
    lanes m[8];
    for (int i = 0; i < 8; i++) {
        signed_lanes wide = {0}; /* not convertvector: GCC 12 makes two steps of it */
        for (int k = 0; k < 8; k++)
            wide[k] = block[8 * i + k];
        m[i] = (lanes)wide * quant[i];
    }
    transform_pass(m, 1u << 10, 11);
    transpose_lanes(m);
    transform_pass(m, (1u << 17) + (128u << 18), 18);
    lanes halves[2], rows[2];
    clamp_columns(m, &halves[0]);
    clamp_columns(m + 4, &halves[1]);
    zip_lanes(halves, rows);
    for (int i = 0; i < 8; i++)
        memcpy(out + (size_t)i * stride, (const uint8_t *)rows + (size_t)i * 8, 8);
}

/*
 * 16-bit vectors make the same samples of a block if its dequantised coefficients add up to no more
 * than this. The first pass multiplies their sum by at most 4 x 1.388 (1.388 is sqrt(2) cos(pi /
 * 16)), so neither its results nor a sum of two of them exceeds 31700. The second pass descales
 * more than it multiplies.
 */
#define SMALL 5700

/* quant: at most SMALL + 1. */
INLINE bool is_small(const int16_t block[64], const int16_t quant[64])
{
    int16_t most[64]; /* so 64 products fit into 31 bits */
    int32_t sum = 0;
    for (int k = 0; k < 64; k++) {
        int value = block[k] < 0 ? -block[k] : block[k];
        most[k] = (int16_t)(value < SMALL + 1 ? value : SMALL + 1);
    }
    for (int k = 0; k < 64; k++)
        sum += most[k] * quant[k];
    return sum <= SMALL;
}

INLINE void copy_block(uint8_t *const *rows, size_t at, uint8_t *out, size_t stride)
{
    for (int i = 0; i < 8; i++)
        memcpy(out + (size_t)i * stride, rows[i] + at, 8);
}

/* Dequantisation for the transform, and for is_small(). */
struct factors {
    lanes wide[8];
    int16_t most[64];
};

INLINE void make_factors(const uint16_t quant[64], struct factors *factors)
{
    for (int i = 0; i < 8; i++) {
        word_lanes words;
        memcpy(&words, quant + 8 * i, sizeof words);
        factors->wide[i] = __builtin_convertvector(words, lanes);
    }
    for (int k = 0; k < 64; k++)
        factors->most[k] = (int16_t)(quant[k] < SMALL + 1 ? quant[k] : SMALL + 1);
}

/* Transform the blocks of one component inside the image. mcu: its first block of the first MCU. */
INLINE void make_component(struct mr_jpeg_integer *decoder, uint32_t c, uint32_t row,
                           uint32_t column, uint32_t n_mcus, const int16_t (*mcu)[64],
                           uint8_t *const *samples)
{
    const struct mr_jpeg_integer_plane *plane = &decoder->planes[c];
    const uint32_t h = decoder->template->h[c], v = decoder->template->v[c];
    struct factors factors;
    make_factors(decoder->template->quant[c], &factors);
    for (uint32_t m = 0; m < n_mcus; m++, mcu += decoder->layout.n_blocks)
        for (uint32_t i = 0; i < h * v; i++) {
            size_t x = ((size_t)(column + m) * h + i % h) * 8, y = ((size_t)row * v + i / h) * 8;
            uint8_t *out = plane->at + y * plane->stride + x;
            if (x >= plane->width || y >= plane->height)
                continue;
            if (samples && is_small(mcu[i], factors.most))
                copy_block(samples + 8 * (size_t)(i / h), x, out, plane->stride);
            else
                inverse_dct(mcu[i], factors.wide, out, plane->stride);
        }
}

INLINE void make_blocks(struct mr_jpeg_integer *decoder, uint32_t row, uint32_t column,
                        uint32_t n_mcus, const int16_t (*blocks)[64], uint8_t **const *samples)
{
    const struct mr_packed_template *template = decoder->template;
    for (uint32_t c = 0; c < template->n_components; c++) {
        make_component(decoder, c, row, column, n_mcus, blocks, samples ? samples[c] : NULL);
        blocks += template->h[c] * template->v[c];
    }
}

/* ---- Upsampling ---- */

/*
 * Each sample becomes two: three parts of it and one of its left or right neighbour. The edge is
 * its own neighbour.
 */
INLINE void widen_row(uint16_t *restrict in, uint32_t n, uint32_t bias_left, uint32_t bias_right,
                      int shift, uint8_t *restrict out)
{
    in[-1] = in[0];
    in[n] = in[n - 1];
    for (uint32_t i = 0; i < n; i++) {
        /* at most 4088 */
        uint16_t left = (uint16_t)(3u * in[i] + in[(ptrdiff_t)i - 1] + bias_left);
        uint16_t right = (uint16_t)(3u * in[i] + in[i + 1] + bias_right);
        out[2 * (size_t)i] = (uint8_t)(left >> shift);
        out[2 * (size_t)i + 1] = (uint8_t)(right >> shift);
    }
}

/*
 * With two rows of pixels to a row of samples: the row of samples nearest to row y, and the one
 * next to it.
 */
INLINE void find_rows(const struct mr_jpeg_integer_plane *plane, uint32_t y, const uint8_t **near,
                      const uint8_t **far)
{
    uint32_t j = y / 2, last = plane->height - 1;
    uint32_t other = y % 2 ? (j < last ? j + 1 : last) : (j > 0 ? j - 1 : 0);
    *near = plane->at + j * plane->stride;
    *far = plane->at + other * plane->stride;
}

INLINE const uint8_t *line_h2v1(const struct mr_jpeg_integer_plane *plane, uint32_t y,
                                uint16_t *sums, uint8_t *out)
{
    const uint8_t *row = plane->at + y * plane->stride;
    for (uint32_t i = 0; i < plane->width; i++)
        sums[i] = row[i];
    widen_row(sums, plane->width, 1, 2, 2, out);
    return out;
}

INLINE const uint8_t *line_h2v2(const struct mr_jpeg_integer_plane *plane, uint32_t y,
                                uint16_t *sums, uint8_t *out)
{
    const uint8_t *near, *far;
    find_rows(plane, y, &near, &far);
    for (uint32_t i = 0; i < plane->width; i++)
        sums[i] = (uint16_t)(3u * near[i] + far[i]);
    widen_row(sums, plane->width, 8, 7, 4, out);
    return out;
}

INLINE const uint8_t *line_h1v2(const struct mr_jpeg_integer_plane *plane, uint32_t y,
                                uint8_t *restrict out)
{
    const uint8_t *near, *far;
    uint32_t bias = y % 2 ? 2 : 1;
    find_rows(plane, y, &near, &far);
    for (uint32_t i = 0; i < plane->width; i++)
        out[i] = (uint8_t)((3u * near[i] + far[i] + bias) >> 2);
    return out;
}

INLINE const uint8_t *line_repeated(const struct mr_jpeg_integer_plane *plane, uint32_t y,
                                    uint8_t *out)
{
    const uint8_t *row = plane->at + y / plane->vertical * plane->stride;
    if (plane->horizontal == 1)
        return row;
    for (uint32_t i = 0; i < plane->width; i++)
        memset(out + (size_t)i * plane->horizontal, row[i], plane->horizontal);
    return out;
}

/* Make a component's row y at the width of the image. */
INLINE const uint8_t *make_line(const struct mr_jpeg_integer_plane *plane, uint32_t y,
                                uint16_t *sums, uint8_t *out)
{
    bool wide = plane->horizontal == 2 && plane->width > 2;
    if (wide && plane->vertical == 1)
        return line_h2v1(plane, y, sums, out);
    if (wide && plane->vertical == 2)
        return line_h2v2(plane, y, sums, out);
    if (plane->horizontal == 1 && plane->vertical == 2)
        return line_h1v2(plane, y, out);
    return line_repeated(plane, y, out);
}

/* ---- Colour ---- */

/* In 16 bits, which are enough for the sums, so vectors hold more of them. */
INLINE uint8_t clamp_u8(int16_t value)
{
    value = value > 0 ? value : 0;
    value = value < 255 ? value : 255;
    return (uint8_t)value;
}

/* Interleave three rows of one colour each to pixels. */
INLINE void interleave_rows(const uint8_t *a, const uint8_t *b, const uint8_t *c, uint32_t n,
                            uint8_t *restrict out)
{
    for (uint32_t i = 0; i < n; i++) {
        out[3 * (size_t)i] = a[i];
        out[3 * (size_t)i + 1] = b[i];
        out[3 * (size_t)i + 2] = c[i];
    }
}

/* value * factor / 65536, to the nearest, halves up: in 16 bits, by the upper half of a product. */
INLINE int16_t scale_high(int16_t value, int16_t factor)
{
    int16_t twice = (int16_t)(2 * value);
    return (int16_t)(((int16_t)(twice * factor >> 16) + 1) >> 1);
}

/*
 * jdcolor.c's tables, computed: 1.402 is 65536 + 26345 parts of 65536, 1.772 is 2 * 65536 - 14942.
 */
INLINE void convert_ycc(const uint8_t *restrict y, const uint8_t *restrict cb,
                        const uint8_t *restrict cr, uint32_t n, uint8_t *restrict r,
                        uint8_t *restrict g, uint8_t *restrict b)
{
    for (uint32_t i = 0; i < n; i++) {
        int16_t blue = (int16_t)(cb[i] - 128), red = (int16_t)(cr[i] - 128);
        r[i] = clamp_u8((int16_t)(y[i] + red + scale_high(red, 26345)));
        g[i] = clamp_u8((int16_t)(y[i] + (int16_t)((-22554 * blue - 46802 * red + 32768) >> 16)));
        b[i] = clamp_u8((int16_t)(y[i] + 2 * blue + scale_high(blue, -14942)));
    }
}

INLINE const uint8_t *make_row(struct mr_jpeg_integer *decoder, uint32_t y)
{
    /*
     * lines: one of each component, one of each colour, RGB (three of them), sums (two), each
     * between its edges.
     */
    uint8_t *lines = (uint8_t *)decoder->lines.memory + EDGE;
    const uint8_t *rows[MR_JPEG_INTEGER_COMPONENTS];
    uint8_t *out = lines + 6 * decoder->line_bytes;
    uint16_t *sums = (uint16_t *)(void *)(out + 3 * decoder->line_bytes + EDGE);
    uint32_t n = decoder->template->n_components;
    rows[0] = rows[1] = rows[2] = make_line(&decoder->planes[0], y, sums, lines);
    for (uint32_t c = 1; c < n; c++)
        rows[c] = make_line(&decoder->planes[c], y, sums, lines + c * decoder->line_bytes);
    if (decoder->template->colour == MR_PACKED_YCC) {
        uint8_t *r = lines + 3 * decoder->line_bytes, *g = r + decoder->line_bytes,
                *b = g + decoder->line_bytes;
        convert_ycc(rows[0], rows[1], rows[2], decoder->width, r, g, b);
        interleave_rows(r, g, b, decoder->width, out);
    } else {
        interleave_rows(rows[0], rows[1], rows[2], decoder->width, out);
    }
    return out;
}

/* ---- The same for AVX2 ---- */

static void make_blocks_c(struct mr_jpeg_integer *decoder, uint32_t row, uint32_t column,
                          uint32_t n_mcus, const int16_t (*blocks)[64], uint8_t **const *samples)
{
    make_blocks(decoder, row, column, n_mcus, blocks, samples);
}

static const uint8_t *make_row_c(struct mr_jpeg_integer *decoder, uint32_t y)
{
    return make_row(decoder, y);
}

static const struct mr_jpeg_integer_ops c_loops = {.blocks = make_blocks_c, .row = make_row_c};

#if defined(__x86_64__)

__attribute__((target("avx2"))) static void
make_blocks_avx2(struct mr_jpeg_integer *decoder, uint32_t row, uint32_t column, uint32_t n_mcus,
                 const int16_t (*blocks)[64], uint8_t **const *samples)
{
    make_blocks(decoder, row, column, n_mcus, blocks, samples);
}

__attribute__((target("avx2"))) static const uint8_t *make_row_avx2(struct mr_jpeg_integer *decoder,
                                                                    uint32_t y)
{
    return make_row(decoder, y);
}

static const struct mr_jpeg_integer_ops avx2_loops = {.blocks = make_blocks_avx2,
                                                      .row = make_row_avx2};

static const struct mr_jpeg_integer_ops *best_loops(void)
{
    return mr_cpu_best() >= MR_CPU_AVX2 ? &avx2_loops : &c_loops;
}

#else

static const struct mr_jpeg_integer_ops *best_loops(void)
{
    return &c_loops;
}

#endif

/* ---- One image ---- */

static uint32_t max_factor(const uint8_t *factors, uint32_t n)
{
    uint32_t most = 1;
    for (uint32_t c = 0; c < n; c++)
        most = factors[c] > most ? factors[c] : most;
    return most;
}

bool mr_jpeg_integer_covers(const struct mr_packed_template *template)
{
    uint32_t n = template->n_components;
    if (template->colour != MR_PACKED_GREY && template->colour != MR_PACKED_RGB &&
        template->colour != MR_PACKED_YCC)
        return false;
    for (uint32_t c = 0; c < n; c++)
        if (max_factor(template->h, n) % template->h[c] != 0 ||
            max_factor(template->v, n) % template->v[c] != 0)
            return false;
    return n <= MR_JPEG_INTEGER_COMPONENTS;
}

void mr_jpeg_integer_fini(struct mr_jpeg_integer *decoder)
{
    mr_scratch_fini(&decoder->samples);
    mr_scratch_fini(&decoder->lines);
}

/* Sides are at most 65535 and MCUs 32 pixels wide, so nothing overflows. */
static size_t set_plane(struct mr_jpeg_integer *decoder, uint32_t c)
{
    const struct mr_packed_template *template = decoder->template;
    struct mr_jpeg_integer_plane *plane = &decoder->planes[c];
    uint32_t h = template->h[c], v = template->v[c];
    plane->horizontal = decoder->layout.mcu_width / 8 / h;
    plane->vertical = decoder->layout.mcu_height / 8 / v;
    plane->width = (decoder->width + plane->horizontal - 1) / plane->horizontal;
    plane->height = (decoder->height + plane->vertical - 1) / plane->vertical;
    plane->stride = (size_t)decoder->layout.n_columns * 8 * h;
    return plane->stride * decoder->layout.n_rows * 8 * v;
}

mr_status mr_jpeg_integer_begin(struct mr_jpeg_integer *decoder,
                                const struct mr_packed_image *image, mr_error *error)
{
    size_t offsets[MR_JPEG_INTEGER_COMPONENTS], total = 0;
    decoder->template = image->template;
    decoder->width = image->width;
    decoder->height = image->height;
    if (!decoder->loops)
        decoder->loops = best_loops();
    mr_packed_layout(image, &decoder->layout);
    for (uint32_t c = 0; c < image->template->n_components; c++) {
        offsets[c] = total;
        total += set_plane(decoder, c);
    }
    decoder->line_bytes =
        mr_align_up((size_t)decoder->layout.n_columns * decoder->layout.mcu_width + EDGE, EDGE);
    mr_status status = mr_scratch_reserve(&decoder->samples, total, 1, error);
    if (status == MR_OK)
        status = mr_scratch_reserve(&decoder->lines, 11 * decoder->line_bytes + 4 * EDGE, 1, error);
    if (status != MR_OK)
        return status;
    for (uint32_t c = 0; c < image->template->n_components; c++)
        decoder->planes[c].at = (uint8_t *)decoder->samples.memory + offsets[c];
    return MR_OK;
}

void mr_jpeg_integer_blocks(struct mr_jpeg_integer *decoder, uint32_t row, uint32_t column,
                            uint32_t n_mcus, const int16_t (*blocks)[64], uint8_t **const *samples)
{
    decoder->loops->blocks(decoder, row, column, n_mcus, blocks, samples);
}

const uint8_t *mr_jpeg_integer_row(struct mr_jpeg_integer *decoder, uint32_t y)
{
    return decoder->loops->row(decoder, y);
}
