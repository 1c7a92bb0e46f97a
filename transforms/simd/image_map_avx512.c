/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of 256 bytes for AVX-512: two permutations of 128 entries each, and bit 7 of the index
 * chooses between them. Interleaved pixels are mapped 192 bytes at a time. The bytes of a channel
 * are blended into one vector without moving them: byte j of vector m belongs to channel (j + m)
 * modulo 3.
 */
#include "transforms/simd/image_loops.h"
#include "transforms/simd/simd_avx512.h"

#define BLOCK 192
#define EVERY_THIRD UINT64_C(0x9249249249249249) /* bits 0, 3, 6 to 63 */

struct table {
    __m512i quarter[4];
};

INLINE struct table load_table(const uint8_t bytes[256])
{
    struct table table;
    for (int i = 0; i < 4; i++)
        table.quarter[i] = _mm512_loadu_si512(bytes + 64 * i);
    return table;
}

INLINE __m512i look_up(const struct table *table, __m512i x)
{
    __m512i low = _mm512_permutex2var_epi8(table->quarter[0], x, table->quarter[1]);
    __m512i high = _mm512_permutex2var_epi8(table->quarter[2], x, table->quarter[3]);
    return _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(x), high);
}

/* a, with b and c where the masks are set; the two masks have no bit in common. */
INLINE __m512i mix(__m512i a, __mmask64 of_b, __m512i b, __mmask64 of_c, __m512i c)
{
    return _mm512_mask_mov_epi8(_mm512_mask_mov_epi8(a, of_b, b), of_c, c);
}

INLINE void map_block(const struct table tables[3], __m512i v[3])
{
    const __mmask64 m0 = EVERY_THIRD, m1 = m0 << 1, m2 = m0 << 2;
    __m512i r = look_up(&tables[0], mix(v[0], m2, v[1], m1, v[2]));
    __m512i g = look_up(&tables[1], mix(v[0], m0, v[1], m2, v[2]));
    __m512i b = look_up(&tables[2], mix(v[0], m1, v[1], m0, v[2]));
    v[0] = mix(r, m1, g, m2, b);
    v[1] = mix(r, m0, g, m1, b);
    v[2] = mix(r, m2, g, m0, b);
}

static void map_pixels(const uint8_t bytes_of[3][256], uint8_t *bytes, size_t len)
{
    const struct table tables[3] = {load_table(bytes_of[0]), load_table(bytes_of[1]),
                                    load_table(bytes_of[2])};
    __m512i v[3];
    size_t i = 0;
    for (; len - i >= BLOCK; i += BLOCK) {
        for (int k = 0; k < 3; k++)
            v[k] = _mm512_loadu_si512(bytes + i + 64 * k);
        map_block(tables, v);
        for (int k = 0; k < 3; k++)
            _mm512_storeu_si512(bytes + i + 64 * k, v[k]);
    }
    if (i == len)
        return;
    __mmask64 mask[3];
    for (size_t k = 0; k < 3; k++) {
        size_t before = i + 64 * k;
        mask[k] = first_bytes(before < len ? (uint32_t)(len - before) : 0);
        v[k] = _mm512_maskz_loadu_epi8(mask[k], bytes + i + 64 * k);
    }
    map_block(tables, v);
    for (int k = 0; k < 3; k++)
        _mm512_mask_storeu_epi8(bytes + i + 64 * k, mask[k], v[k]);
}

void mr_image_map_avx512(const uint8_t tables[3][256], uint32_t step, uint8_t *bytes, size_t len)
{
    if (step == 3) {
        map_pixels(tables, bytes, len);
        return;
    }
    const struct table table = load_table(tables[0]);
    size_t i = 0;
    for (; len - i >= 64; i += 64)
        _mm512_storeu_si512(bytes + i, look_up(&table, _mm512_loadu_si512(bytes + i)));
    __mmask64 mask = first_bytes((uint32_t)(len - i));
    if (mask)
        _mm512_mask_storeu_epi8(bytes + i, mask,
                                look_up(&table, _mm512_maskz_loadu_epi8(mask, bytes + i)));
}
