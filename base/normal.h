/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Normal numbers of mean 0 and deviation 1, from a table of the inverse distribution, for the host
 * and for kernels. One subtraction and one fmaf() compute a number, so every processor gives the
 * same bits.
 *
 * Bit 31 of a random word is the sign. The other bits are the tail's probability, from 1/2 down to
 * 0. The number of leading zeros is the octave, the 6 bits after the first one bit are the step,
 * and the remaining bits interpolate between two nodes.
 */
#ifndef BASE_NORMAL_H
#define BASE_NORMAL_H

#include "base/half.h"

#include <math.h>

enum {
    MR_NORMAL_OCTAVES = 24,
    MR_NORMAL_STEPS = 64,
    MR_NORMAL_NODES = MR_NORMAL_OCTAVES * MR_NORMAL_STEPS + 1
};

/*
 * Node s of octave o is the quantile of 1 - (1 - s / 128) / 2^(o + 1). The last node is the
 * quantile of 1 - 2^-25.
 */
extern const float mr_normal_nodes[MR_NORMAL_NODES];

/* Leading zeros of a number that is not 0. */
MR_HOST_DEVICE uint32_t mr_normal_zeros(uint32_t number)
{
#ifdef __CUDA_ARCH__
    return (uint32_t)__clz((int)number);
#else
    return (uint32_t)__builtin_clz(number);
#endif
}

/*
 * The normal number for 32 random bits. Its magnitude is below 5.5. nodes: mr_normal_nodes, or a
 * device's copy of them.
 */
MR_HOST_DEVICE float mr_normal_of(const float *nodes, uint32_t word)
{
    uint32_t tail = word & 0x7fffffffu;
    uint32_t octave = mr_normal_zeros(tail | 1u) - 1; /* tail 0 gives an octave past the last */
    float value = nodes[MR_NORMAL_NODES - 1];
    if (octave < MR_NORMAL_OCTAVES) {
        /* the 30 bits after the first one bit; a smaller number is further out in the tail */
        uint32_t below = (tail << octave) & 0x3fffffffu;
        uint32_t up = 0x3fffffffu - below;
        const float *node = &nodes[octave * MR_NORMAL_STEPS + (up >> 24)];
        float part = (float)(up & 0xffffffu) * 0x1p-24f;
        value = fmaf(part, node[1] - node[0], node[0]);
    }
    uint32_t sign = word & 0x80000000u; /* no branch: it would be mispredicted half of the time */
    return mr_half_float(mr_half_bits(value) ^ sign);
}

#endif
