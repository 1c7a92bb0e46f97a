/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares a header with the lists of double_names.h. Compiled with a toolkit's header and linked
 * with its runtime (DOUBLE_AGAINST_TOOLKIT), and once more with the double's own header. Constants
 * are asserted; functions are declared again, so that a different type does not compile.
 */
#include <cuda_runtime_api.h>

#include "tests/double/double_names.h"

#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define DOUBLE_ASSERT(name, value, ...) static_assert((name) == (value), #name);
DOUBLE_ERRORS(DOUBLE_ASSERT)
DOUBLE_COPY_KINDS(DOUBLE_ASSERT)
DOUBLE_CAPTURE_STATUSES(DOUBLE_ASSERT)
DOUBLE_CAPTURE_MODES(DOUBLE_ASSERT)
DOUBLE_ENTRY_POINTS(DOUBLE_ASSERT)
DOUBLE_ATTRIBUTES(DOUBLE_ASSERT)
DOUBLE_FLAGS(DOUBLE_ASSERT)

#define DOUBLE_DECLARE_AGAIN(type, name, parameters) extern type name parameters;
DOUBLE_FUNCTIONS(DOUBLE_DECLARE_AGAIN)

#define DOUBLE_NAME(name, value, text) {name, #name, text},

static const struct {
    cudaError_t error;
    const char *name;
    const char *text;
} errors[] = {DOUBLE_ERRORS(DOUBLE_NAME)};

static void the_special_streams_are_cudas(void **state)
{
    (void)state;
    assert_ptr_equal(cudaStreamLegacy, (void *)1);
    assert_ptr_equal(cudaStreamPerThread, (void *)2);
}

/* Texts change between versions; the double's are those of 13. */
static void errors_are_called_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        assert_string_equal(cudaGetErrorName(errors[i].error), errors[i].name);
        if (CUDART_VERSION / 1000 == 13)
            assert_string_equal(cudaGetErrorString(errors[i].error), errors[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_special_streams_are_cudas),
        cmocka_unit_test(errors_are_called_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
