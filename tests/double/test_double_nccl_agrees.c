/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares a header of NCCL with the lists of double_nccl_names.h. Compiled with NCCL's own header
 * and linked with its library if they are installed, and once more with the double's. Constants are
 * asserted; functions are declared again, so that a different type does not compile.
 */
#include <nccl.h>

#include "tests/double/double_nccl_names.h"

#include <assert.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define DOUBLE_ASSERT(name, value, ...) static_assert((int)(name) == (value), #name);
DOUBLE_NCCL_RESULTS(DOUBLE_ASSERT)
DOUBLE_NCCL_OPS(DOUBLE_ASSERT)
DOUBLE_NCCL_TYPES(DOUBLE_ASSERT)

#define DOUBLE_DECLARE_AGAIN(type, name, parameters) extern type name parameters;
DOUBLE_NCCL_FUNCTIONS(DOUBLE_DECLARE_AGAIN)

static_assert(sizeof(ncclUniqueId) == 128, "the unique id");
static_assert(NCCL_UNIQUE_ID_BYTES == 128, "the unique id");
static_assert(sizeof(ncclComm_t) == sizeof(void *), "a handle");
static_assert(offsetof(ncclConfig_t, size) == 0, "size");
static_assert(offsetof(ncclConfig_t, magic) == 8, "magic");
static_assert(offsetof(ncclConfig_t, version) == 12, "version");
static_assert(offsetof(ncclConfig_t, blocking) == 16, "blocking");
static_assert(NCCL_VERSION_CODE >= 21800, "2.18 is the oldest that is used");
static_assert(NCCL_VERSION(2, 18, 3) == 21803, "NCCL_VERSION");

static void a_config_begins_undefined(void **state)
{
    (void)state;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    assert_int_equal(config.size, sizeof config);
    assert_int_equal(config.magic, 0xcafebeef);
    assert_int_equal(config.version, NCCL_VERSION_CODE);
    assert_int_equal(config.blocking, INT_MIN);
    assert_int_equal(NCCL_CONFIG_UNDEF_INT, INT_MIN);
}

#define DOUBLE_NAME(name, value, text) {name, text},

static const struct {
    ncclResult_t result;
    const char *text;
} results[] = {DOUBLE_NCCL_RESULTS(DOUBLE_NAME)};

static void results_have_the_same_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        assert_string_equal(ncclGetErrorString(results[i].result), results[i].text);
}

static void the_library_is_not_older_than_its_header(void **state)
{
    (void)state;
    int version = 0;
    assert_int_equal(ncclGetVersion(&version), ncclSuccess);
    assert_in_range(version, NCCL_VERSION_CODE, INT_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_config_begins_undefined),
        cmocka_unit_test(results_have_the_same_words),
        cmocka_unit_test(the_library_is_not_older_than_its_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
