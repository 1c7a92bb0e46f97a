/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mixing of a batch's rows (MixUp, CutMix), one value at a time. The host and a device's kernel use
 * the same code (nvcc compiles it for both).
 *
 * Invariant: each product and the sum are rounded separately, as in torch and NumPy. They never
 * become one fma.
 */
#ifndef BASE_MIX_H
#define BASE_MIX_H

#include "base/half.h"

#include <assert.h>
#include <stdbool.h>

enum mr_mix_kind {
    MR_MIX_NONE, /* rows are not mixed */
    MR_MIX_UP,   /* row x lambda + partner x rest, at every pixel */
    MR_MIX_CUT   /* the partner's pixels inside the box, the row's pixels outside */
};

/* How a row's partner is chosen, and which values are mixed. */
enum mr_mix_rule {
    MR_MIX_FLOATS, /* as torchvision: row i with i - 1, row 0 with the last; finished floats, after
                      erasing */
    MR_MIX_BYTES   /* as timm: row i with n - 1 - i; u8 with rounding, before normalising and
                      erasing */
};

/* The numbers drawn for one batch. The host writes them into the batch's slot. */
struct mr_mix {
    uint32_t kind; /* enum mr_mix_kind */
    uint32_t rule; /* enum mr_mix_rule */
    float lambda;  /* weight of the row itself: of its label, and with MR_MIX_UP of its pixels */
    float rest;    /* weight of the partner: 1 - lambda, rounded once */
    int32_t x1;    /* the box of MR_MIX_CUT: columns x1 to x2 - 1, rows y1 to y2 - 1; may be
                      empty */
    int32_t y1;
    int32_t x2;
    int32_t y2;
};
static_assert(sizeof(struct mr_mix) == 32, "shared between host, workers and devices");

/* The partner of row i of n; may be i itself. */
MR_HOST_DEVICE uint32_t mr_mix_partner(uint32_t rule, uint32_t i, uint32_t n)
{
    if (rule == MR_MIX_BYTES)
        return n - 1 - i;
    return i > 0 ? i - 1 : n - 1;
}

/* The row whose partner is i. Each of the n rows is the partner of exactly one. */
MR_HOST_DEVICE uint32_t mr_mix_partner_of(uint32_t rule, uint32_t i, uint32_t n)
{
    if (rule == MR_MIX_BYTES)
        return n - 1 - i;
    return i + 1 < n ? i + 1 : 0;
}

MR_HOST_DEVICE bool mr_mix_in_box(const struct mr_mix *mix, int32_t x, int32_t y)
{
    return x >= mix->x1 && x < mix->x2 && y >= mix->y1 && y < mix->y2;
}

/* MR_MIX_UP of finished values. */
MR_HOST_DEVICE float mr_mix_floats(const struct mr_mix *mix, float own, float partner)
{
#ifdef __CUDA_ARCH__
    return __fadd_rn(__fmul_rn(partner, mix->rest), __fmul_rn(own, mix->lambda));
#else
    float from_partner = partner * mix->rest;
    float from_own = own * mix->lambda;
    return from_partner + from_own; /* built with -ffp-contract=off */
#endif
}

/*
 * MR_MIX_UP of bytes, to nearest, ties to even. Adding 1.5 * 2^23 rounds to an integer, which is
 * then the float's lowest byte.
 */
MR_HOST_DEVICE uint8_t mr_mix_bytes(const struct mr_mix *mix, uint8_t own, uint8_t partner)
{
    return (uint8_t)(mr_half_bits(mr_mix_floats(mix, (float)own, (float)partner) + 0x1.8p23f) &
                     255u);
}

#endif
