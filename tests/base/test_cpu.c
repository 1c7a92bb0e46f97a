/* SPDX-License-Identifier: Apache-2.0 */
/* Instruction sets are those that the compiler's own detection finds, if it has one. */
#include "base/cpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

static void instruction_sets_are_those_that_the_compiler_finds(void **state)
{
    (void)state;
    assert_true(mr_cpu_has(MR_CPU_C));
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                __builtin_cpu_supports("bmi2");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                  __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
                  __builtin_cpu_supports("avx512vnni");
    assert_int_equal(mr_cpu_has(MR_CPU_AVX2), avx2);
    assert_int_equal(mr_cpu_has(MR_CPU_AVX512), avx512);
#endif
}

static void the_environment_limits_the_best(void **state)
{
    (void)state;
    (void)setenv("MR_CPU", "c", 1);
    assert_int_equal(mr_cpu_best(), MR_CPU_C);
    (void)unsetenv("MR_CPU");
    assert_true(mr_cpu_has(mr_cpu_best()));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instruction_sets_are_those_that_the_compiler_finds),
        cmocka_unit_test(the_environment_limits_the_best),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
