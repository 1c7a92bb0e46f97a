/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the processors that this process may use, and detects instruction sets.
 *
 * An instruction set can be used only if the processor has it (CPUID) and the system saves its wide
 * registers (XGETBV). The compiler's built-in detection is not used, because the clang in PyPI's
 * ziglang detects nothing.
 */
#include "base/cpu.h"

#include <sched.h>
#include <stdatomic.h>
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
/* Bits of XGETBV: the system saves the registers of AVX, and those of AVX-512. */
enum { SAVES_AVX = 0x6, SAVES_AVX512 = 0xe6 };
enum { DETECTED = 1, HAS_AVX2 = 2, HAS_AVX512 = 4 };

static bool has_all(unsigned word, unsigned bits)
{
    return (word & bits) == bits;
}

static unsigned detect_cpu(void)
{
    const unsigned avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    const unsigned avx512_more = bit_AVX512VBMI | bit_AVX512VBMI2 | bit_AVX512VNNI;
    unsigned a, b, c, d, saves, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has_all(c, bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C))
        return DETECTED;
    __asm__ volatile("xgetbv" : "=a"(saves), "=d"(high) : "c"(0));
    if (!has_all(saves, SAVES_AVX) || !__get_cpuid_count(7, 0, &a, &b, &c, &d) ||
        !has_all(b, bit_AVX2 | bit_BMI2))
        return DETECTED;
    if (!has_all(saves, SAVES_AVX512) || !has_all(b, avx512) || !has_all(c, avx512_more))
        return DETECTED | HAS_AVX2;
    return DETECTED | HAS_AVX2 | HAS_AVX512;
}

/*
 * Detects once, because CPUID may take microseconds on a virtual machine. Threads that detect at
 * the same time get the same flags.
 */
static unsigned cpu_flags(void)
{
    static _Atomic unsigned flags;
    unsigned known = atomic_load_explicit(&flags, memory_order_relaxed);
    if (!known) {
        known = detect_cpu();
        atomic_store_explicit(&flags, known, memory_order_relaxed);
    }
    return known;
}

static bool has_avx2(void)
{
    return cpu_flags() & HAS_AVX2;
}

static bool has_avx512(void)
{
    return cpu_flags() & HAS_AVX512;
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
