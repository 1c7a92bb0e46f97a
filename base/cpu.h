/* SPDX-License-Identifier: Apache-2.0 */
/* The number of CPUs of this process, and the instruction sets that inner loops may use. */
#ifndef BASE_CPU_H
#define BASE_CPU_H

#include <stdbool.h>
#include <stdint.h>

/* Number of CPUs that this process may run on, at least 1. */
uint32_t mr_cpu_count(void);

enum mr_cpu {
    MR_CPU_C,      /* plain C, compiled for the build's target */
    MR_CPU_AVX2,   /* AVX2, FMA, F16C, BMI2. On other machines than x86-64 the same loops run with
                      the machine's vectors */
    MR_CPU_AVX512, /* F, BW, DQ, VL, VBMI, VBMI2, VNNI */
    MR_CPU_N
};

/* "c", "avx2" or "avx512". */
const char *mr_cpu_name(enum mr_cpu cpu);

/* Do the processor and the system support it? */
bool mr_cpu_has(enum mr_cpu cpu);

/*
 * The best available set, limited by MR_CPU in the environment (c, avx2 or avx512). Each call reads
 * the environment.
 */
enum mr_cpu mr_cpu_best(void);

#endif
