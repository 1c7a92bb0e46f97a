/* SPDX-License-Identifier: Apache-2.0 */
/* torch.randperm(n, generator=torch.Generator().manual_seed(seed)) on the CPU, index for index. */
#ifndef SAMPLER_RANDPERM_H
#define SAMPLER_RANDPERM_H

#include <stdbool.h>
#include <stdint.h>

/* From this n on torch draws 64 bits per element, and shuffles in another way. */
#define MR_RANDPERM_WIDE (UINT32_MAX / 20)

/*
 * Write a permutation of 0 .. n - 1, n up to 2^32. wide_draws must be n >= MR_RANDPERM_WIDE, except
 * in tests.
 */
void mr_randperm_u32(uint32_t *values, uint64_t n, uint64_t seed, bool wide_draws);
/* The same for n from MR_RANDPERM_WIDE on, always with 64-bit draws. */
void mr_randperm_u64(uint64_t *values, uint64_t n, uint64_t seed);

#endif
