/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Normal numbers of mean 0 and deviation 1, by a table of the inverse distribution. They are made with one subtraction
 * and one fmaf(), so every processor gives the same bits.
 */
#ifndef TRANSFORMS_NORMAL_H
#define TRANSFORMS_NORMAL_H

#include <stdint.h>

enum { MR_NORMAL_OCTAVES = 24, MR_NORMAL_STEPS = 64, MR_NORMAL_NODES = MR_NORMAL_OCTAVES * MR_NORMAL_STEPS + 1 };

/* Node s of octave o is the quantile of 1 - (1 - s / 128) / 2^(o + 1); the last one is that of 1 - 2^-25. */
extern const float mr_normal_nodes[MR_NORMAL_NODES];

/* The normal number of 32 random bits; of magnitude below 5.5. */
float mr_normal_of(uint32_t word);

#endif
