/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many processors the process may use, and which instruction sets processor and system offer.
 *
 * A processor that has the instructions is not enough: the system must save the wide registers too. The compiler's own
 * detection looks at both (CPUID and XGETBV); only F16C has no name there.
 */
#include "base/cpu.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

uint32_t mr_cpu_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int n = CPU_COUNT(&set);
    return n > 0 ? (uint32_t)n : 1;
}

const char *mr_cpu_name(enum mr_cpu cpu)
{
    static const char *const names[MR_CPU_N] = {"c", "avx2", "avx512"};
    return names[cpu];
}

#if defined(__x86_64__)
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static bool has_avx2(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") &&
           has_f16c();
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
           __builtin_cpu_supports("avx512vnni");
}
#else
static bool has_avx2(void)
{
    return true;
}

static bool has_avx512(void)
{
    return false;
}
#endif

bool mr_cpu_has(enum mr_cpu cpu)
{
    switch (cpu) {
    case MR_CPU_C: return true;
    case MR_CPU_AVX2: return has_avx2();
    case MR_CPU_AVX512: return has_avx512();
    default: return false;
    }
}

enum mr_cpu mr_cpu_best(void)
{
    const char *limit = getenv("MR_CPU");
    int best = MR_CPU_N - 1;
    for (int i = 0; limit && i < MR_CPU_N; i++)
        if (strcmp(limit, mr_cpu_name((enum mr_cpu)i)) == 0)
            best = i;
    while (!mr_cpu_has((enum mr_cpu)best))
        best--;
    return (enum mr_cpu)best;
}
