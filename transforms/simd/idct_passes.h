/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The passes of the inverse DCT on vectors of any width, with one block in each part of 128 bits;
 * idct_avx2.c and idct_avx512.c include it. They first define: VEC, a vector; VEC_OP(name), an
 * operation on it; VEC_ZERO().
 *
 * Invariant: static functions only, as in all headers of the vector files.
 */
#ifndef TRANSFORMS_SIMD_IDCT_PASSES_H
#define TRANSFORMS_SIMD_IDCT_PASSES_H

#define CONST_BITS 13
#define PASS1_BITS 2

/* For each block, its eight values with 32 bits: the first four and the last four. */
struct wide {
    VEC lo, hi;
};

INLINE struct wide add(struct wide a, struct wide b)
{
    return (struct wide){VEC_OP(add_epi32)(a.lo, b.lo), VEC_OP(add_epi32)(a.hi, b.hi)};
}

INLINE struct wide sub(struct wide a, struct wide b)
{
    return (struct wide){VEC_OP(sub_epi32)(a.lo, b.lo), VEC_OP(sub_epi32)(a.hi, b.hi)};
}

/* a x + b y */
INLINE struct wide mix(VEC x, int a, VEC y, int b)
{
    const VEC ab = VEC_OP(set1_epi32)((int)((uint32_t)b << 16 | ((uint32_t)a & 0xffff)));
    return (struct wide){VEC_OP(madd_epi16)(VEC_OP(unpacklo_epi16)(x, y), ab),
                         VEC_OP(madd_epi16)(VEC_OP(unpackhi_epi16)(x, y), ab)};
}

/* x 2^CONST_BITS */
INLINE struct wide scale(VEC x)
{
    const VEC zero = VEC_ZERO();
    return (struct wide){VEC_OP(srai_epi32)(VEC_OP(unpacklo_epi16)(zero, x), 16 - CONST_BITS),
                         VEC_OP(srai_epi32)(VEC_OP(unpackhi_epi16)(zero, x), 16 - CONST_BITS)};
}

INLINE VEC descale(struct wide x, int shift)
{
    return VEC_OP(packs_epi32)(VEC_OP(srai_epi32)(x.lo, shift), VEC_OP(srai_epi32)(x.hi, shift));
}

/* Eight one-dimensional transforms of each block at once; v[i] has value i of all of them. */
INLINE void transform(VEC v[8], int shift)
{
    const struct wide half = {VEC_OP(set1_epi32)(1 << (shift - 1)),
                              VEC_OP(set1_epi32)(1 << (shift - 1))};
    struct wide t0 = add(scale(VEC_OP(add_epi16)(v[0], v[4])), half);
    struct wide t1 = add(scale(VEC_OP(sub_epi16)(v[0], v[4])), half);
    struct wide t2 = mix(v[2], 4433, v[6], 4433 - 15137);
    struct wide t3 = mix(v[2], 4433 + 6270, v[6], 4433);
    const struct wide even[4] = {add(t0, t3), add(t1, t2), sub(t1, t2), sub(t0, t3)};

    VEC z3 = VEC_OP(add_epi16)(v[7], v[3]), z4 = VEC_OP(add_epi16)(v[5], v[1]);
    struct wide m3 = mix(z3, 9633 - 16069, z4, 9633), m4 = mix(z3, 9633, z4, 9633 - 3196);
    const struct wide odd[4] = {add(mix(v[7], -7373, v[1], 12299 - 7373), m4),
                                add(mix(v[5], -20995, v[3], 25172 - 20995), m3),
                                add(mix(v[5], 16819 - 20995, v[3], -20995), m4),
                                add(mix(v[7], 2446 - 7373, v[1], -7373), m3)};
    for (int i = 0; i < 4; i++) {
        v[i] = descale(add(even[i], odd[i]), shift);
        v[7 - i] = descale(sub(even[i], odd[i]), shift);
    }
}

/* In each block, rows become columns. */
INLINE void transpose(VEC v[8])
{
    VEC a[8], b[8];
    for (int i = 0; i < 4; i++) {
        a[2 * i] = VEC_OP(unpacklo_epi16)(v[i], v[i + 4]);
        a[2 * i + 1] = VEC_OP(unpackhi_epi16)(v[i], v[i + 4]);
    }
    for (int i = 0; i < 4; i++) {
        b[2 * i] = VEC_OP(unpacklo_epi16)(a[i], a[i + 4]);
        b[2 * i + 1] = VEC_OP(unpackhi_epi16)(a[i], a[i + 4]);
    }
    for (int i = 0; i < 4; i++) {
        v[2 * i] = VEC_OP(unpacklo_epi16)(b[i], b[i + 4]);
        v[2 * i + 1] = VEC_OP(unpackhi_epi16)(b[i], b[i + 4]);
    }
}

#endif
