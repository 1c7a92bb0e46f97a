/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of 256 bytes for AVX2, as 16 parts of 16 bytes. A shuffle gives 0 for a negative index.
 * The part of each index is reached in steps: 16 is subtracted from the index, and the difference
 * to the part before is xored in, until the index is negative. It stays negative, because the
 * subtraction saturates. The upper eight parts work the same way, with the index less 128.
 *
 * Interleaved pixels are mapped 96 bytes at a time. The bytes of a channel are blended into one
 * vector without moving them: byte j of vector m belongs to channel (j + 2 * m) modulo 3.
 */
#include "transforms/simd/image_loops.h"
#include "transforms/simd/simd_avx2.h"

#include <string.h>

#define BLOCK 96

struct table {
    /* Each 16 bytes twice; all but parts 0 and 8 are xored with the part before. */
    __m256i part[16];
};

INLINE struct table load_table(const uint8_t bytes[256])
{
    struct table table;
    for (int i = 0; i < 16; i++) {
        table.part[i] = _mm256_broadcastsi128_si256(load128(bytes + 16 * i));
        if (i % 8)
            table.part[i] = _mm256_xor_si256(
                table.part[i], _mm256_broadcastsi128_si256(load128(bytes + 16 * (i - 1))));
    }
    return table;
}

INLINE __m256i look_up(const struct table *table, __m256i x)
{
    const __m256i sixteen = _mm256_set1_epi8(16);
    __m256i low = x, high = _mm256_xor_si256(x, _mm256_set1_epi8(-128));
    __m256i from_low = _mm256_shuffle_epi8(table->part[0], low);
    __m256i from_high = _mm256_shuffle_epi8(table->part[8], high);
    for (int i = 1; i < 8; i++) {
        low = _mm256_subs_epi8(low, sixteen);
        high = _mm256_subs_epi8(high, sixteen);
        from_low = _mm256_xor_si256(from_low, _mm256_shuffle_epi8(table->part[i], low));
        from_high = _mm256_xor_si256(from_high, _mm256_shuffle_epi8(table->part[8 + i], high));
    }
    return _mm256_or_si256(from_low, from_high);
}

/* A mask of the bytes j with j modulo 3 == phase. */
INLINE __m256i make_mask(int phase)
{
    uint8_t bytes[32];
    for (int j = 0; j < 32; j++)
        bytes[j] = j % 3 == phase ? 255 : 0;
    return load256(bytes);
}

/* a, with b and c where the masks are set; the two masks have no byte in common. */
INLINE __m256i mix(__m256i a, __m256i of_b, __m256i b, __m256i of_c, __m256i c)
{
    return _mm256_blendv_epi8(_mm256_blendv_epi8(a, b, of_b), c, of_c);
}

INLINE void map_block(const struct table tables[3], const __m256i m[3], uint8_t *at)
{
    __m256i v0 = load256(at), v1 = load256(at + 32), v2 = load256(at + 64);
    __m256i r = look_up(&tables[0], mix(v0, m[1], v1, m[2], v2));
    __m256i g = look_up(&tables[1], mix(v0, m[2], v1, m[0], v2));
    __m256i b = look_up(&tables[2], mix(v0, m[0], v1, m[1], v2));
    store256(at, mix(r, m[1], g, m[2], b));
    store256(at + 32, mix(r, m[2], g, m[0], b));
    store256(at + 64, mix(r, m[0], g, m[1], b));
}

static void map_pixels(const uint8_t bytes_of[3][256], uint8_t *bytes, size_t len)
{
    const struct table tables[3] = {load_table(bytes_of[0]), load_table(bytes_of[1]),
                                    load_table(bytes_of[2])};
    const __m256i masks[3] = {make_mask(0), make_mask(1), make_mask(2)};
    size_t i = 0;
    for (; len - i >= BLOCK; i += BLOCK)
        map_block(tables, masks, bytes + i);
    if (i == len)
        return;
    uint8_t copy[BLOCK] = {0};
    memcpy(copy, bytes + i, len - i);
    map_block(tables, masks, copy);
    memcpy(bytes + i, copy, len - i);
}

void mr_image_map_avx2(const uint8_t tables[3][256], uint32_t step, uint8_t *bytes, size_t len)
{
    if (step == 3) {
        map_pixels(tables, bytes, len);
        return;
    }
    const struct table table = load_table(tables[0]);
    size_t i = 0;
    for (; len - i >= 32; i += 32)
        store256(bytes + i, look_up(&table, load256(bytes + i)));
    if (i == len)
        return;
    uint8_t copy[32] = {0};
    memcpy(copy, bytes + i, len - i);
    store256(copy, look_up(&table, load256(copy)));
    memcpy(bytes + i, copy, len - i);
}
