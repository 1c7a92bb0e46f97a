/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a word to a normal number. Bit 31 is the sign; the others are the tail's probability, from 1/2 down to 0, as a
 * number with leading zeros: their count is the octave, the 6 bits behind the first one are the step, and the rest lies
 * between two nodes.
 */
#include "transforms/normal.h"

#include <math.h>

enum { TAIL_BITS = 31, STEP_BITS = 6 };

float mr_normal_of(uint32_t word)
{
    uint32_t tail = word & 0x7fffffffu;
    uint32_t octave = tail ? (uint32_t)__builtin_clz(tail) - 1 : MR_NORMAL_OCTAVES;
    float value = mr_normal_nodes[MR_NORMAL_NODES - 1];
    if (octave < MR_NORMAL_OCTAVES) {
        uint32_t below = (tail << octave) & 0x3fffffffu; /* 30 bits behind the first one; the tail falls as they do */
        uint32_t up = 0x3fffffffu - below;
        uint32_t step = up >> (TAIL_BITS - 1 - STEP_BITS);
        float part = (float)(up & 0xffffffu) * 0x1p-24f;
        const float *node = &mr_normal_nodes[octave * MR_NORMAL_STEPS + step];
        value = fmaf(part, node[1] - node[0], node[0]);
    }
    return word >> TAIL_BITS ? -value : value;
}
