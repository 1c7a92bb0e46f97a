/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Normal numbers of mean 0 and deviation 1, by a table of the inverse distribution, for the host
 * and for kernels. They are made with one subtraction and one fmaf(), so every processor gives the
 * same bits.
 *
 * A word's bit 31 is the sign; the others are the tail's probability, from 1/2 down to 0, as a
 * number with leading zeros: their count is the octave, the 6 bits behind the first one are the
 * step, and the rest lies between two nodes.
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
 * Node s of octave o is the quantile of 1 - (1 - s / 128) / 2^(o + 1); the last one is that of 1 -
 * 2^-25.
 */
extern const float mr_normal_nodes[MR_NORMAL_NODES];

/* Of a number that is not 0. */
MR_HOST_DEVICE uint32_t mr_normal_zeros(uint32_t number)
{
#ifdef __CUDA_ARCH__
    return (uint32_t)__clz((int)number);
#else
    return (uint32_t)__builtin_clz(number);
#endif
}

/*
 * The normal number of 32 random bits; of magnitude below 5.5. nodes: mr_normal_nodes, or a
 * device's copy of them.
 */
MR_HOST_DEVICE float mr_normal_of(const float *nodes, uint32_t word)
{
    uint32_t tail = word & 0x7fffffffu;
    uint32_t octave = mr_normal_zeros(tail | 1u) - 1; /* of the tail 0, one that is none */
    float value = nodes[MR_NORMAL_NODES - 1];
    if (octave < MR_NORMAL_OCTAVES) {
        /* 30 bits behind the first one; the tail falls as they do */
        uint32_t below = (tail << octave) & 0x3fffffffu;
        uint32_t up = 0x3fffffffu - below;
        const float *node = &nodes[octave * MR_NORMAL_STEPS + (up >> 24)];
        float part = (float)(up & 0xffffffu) * 0x1p-24f;
        value = fmaf(part, node[1] - node[0], node[0]);
    }
    uint32_t sign = word & 0x80000000u; /* no branch: half of the guesses would be wrong */
    return mr_half_float(mr_half_bits(value) ^ sign);
}

#endif
