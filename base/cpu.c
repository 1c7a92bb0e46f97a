/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many processors the process may use, and which instruction sets processor and system offer.
 *
 * A processor that has the instructions is not enough: the system must save the wide registers too.
 * __builtin_cpu_supports() looks at both (CPUID and XGETBV), but needs a run-time library of the compiler, and zig's
 * finds nothing.
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
/* CPUID's words about instructions, and the registers that the system saves (XGETBV's low word). */
struct cpu_words {
    unsigned ecx_1;
    unsigned ebx_7;
    unsigned ecx_7;
    unsigned saved;
};

enum { SAVES_YMM = 0x6, SAVES_ZMM = 0xe6 };

static struct cpu_words read_words(void)
{
    struct cpu_words words = {0};
    unsigned a, b, d, high;
    if (!__get_cpuid(1, &a, &b, &words.ecx_1, &d) || !(words.ecx_1 & bit_OSXSAVE) ||
        !__get_cpuid_count(7, 0, &a, &words.ebx_7, &words.ecx_7, &d))
        return (struct cpu_words){0};
    __asm__ volatile("xgetbv" : "=a"(words.saved), "=d"(high) : "c"(0));
    return words;
}

static bool has_all(unsigned word, unsigned bits)
{
    return (word & bits) == bits;
}

static bool has_avx2(void)
{
    struct cpu_words words = read_words();
    return has_all(words.saved, SAVES_YMM) && has_all(words.ecx_1, bit_FMA | bit_F16C) &&
           has_all(words.ebx_7, bit_AVX2 | bit_BMI2);
}

static bool has_avx512(void)
{
    struct cpu_words words = read_words();
    return has_avx2() && has_all(words.saved, SAVES_ZMM) &&
           has_all(words.ebx_7, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL) &&
           has_all(words.ecx_7, bit_AVX512VBMI | bit_AVX512VBMI2 | bit_AVX512VNNI);
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
