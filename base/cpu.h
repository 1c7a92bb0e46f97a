/* SPDX-License-Identifier: Apache-2.0 */
/* How many CPUs this process may use, and which instruction sets its inner loops may use. */
#ifndef BASE_CPU_H
#define BASE_CPU_H

#include <stdbool.h>
#include <stdint.h>

/* CPUs that this process may run on, at least 1. */
uint32_t mr_cpu_count(void);

enum mr_cpu {
    MR_CPU_C,      /* plain C, compiled for the build's target */
    MR_CPU_AVX2,   /* and FMA, F16C, BMI2; other machines than x86-64: loops written for it, as
                      their own vectors */
    MR_CPU_AVX512, /* F, BW, DQ, VL, VBMI, VBMI2, VNNI */
    MR_CPU_N
};

/* c, avx2, avx512 */
const char *mr_cpu_name(enum mr_cpu cpu);

/* Do processor and system support it? */
bool mr_cpu_has(enum mr_cpu cpu);

/*
 * The best set available, at most that of MR_CPU in the environment (c, avx2 or avx512). Looked up
 * at each call.
 */
enum mr_cpu mr_cpu_best(void);

#endif
