/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses a set of loops. Naming a set that was not compiled makes the link fail. */
#include "transforms/simd/kernels.h"

#ifndef MR_WITH_AVX2
#define MR_WITH_AVX2 0
#endif
#ifndef MR_WITH_AVX512
#define MR_WITH_AVX512 0
#endif

static const struct mr_kernel_ops *const sets[MR_CPU_N] = {
    [MR_CPU_C] = &mr_kernels_c,
#if MR_WITH_AVX2
    [MR_CPU_AVX2] = &mr_kernels_avx2,
#endif
#if MR_WITH_AVX512
    [MR_CPU_AVX512] = &mr_kernels_avx512,
#endif
};

const struct mr_kernel_ops *mr_kernels_find(enum mr_cpu cpu)
{
    return mr_cpu_has(cpu) ? sets[cpu] : NULL;
}

const struct mr_kernel_ops *mr_kernels_best(void)
{
    enum mr_cpu cpu = mr_cpu_best();
    while (!sets[cpu])
        cpu--;
    return sets[cpu];
}
