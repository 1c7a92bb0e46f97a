/* SPDX-License-Identifier: Apache-2.0 */
/* Memory is reused for the next image, but a huge block is freed. */
#include "transforms/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void memory_grows_and_is_reused(void **state)
{
    (void)state;
    struct mr_scratch scratch = {0};
    assert_int_equal(mr_scratch_reserve(&scratch, 100, 8, NULL), MR_OK);
    void *first = scratch.memory;
    assert_int_equal(mr_scratch_reserve(&scratch, 1, 8, NULL), MR_OK);
    assert_ptr_equal(scratch.memory, first);
    assert_int_equal(mr_scratch_reserve(&scratch, MR_SCRATCH_KEEP_BYTES, 1, NULL), MR_OK);
    assert_int_equal(mr_scratch_reserve(&scratch, 1, 1, NULL), MR_OK);
    assert_int_equal(scratch.len_allocated, MR_SCRATCH_KEEP_BYTES);
    mr_scratch_fini(&scratch);
    assert_null(scratch.memory);
}

static void memory_of_a_huge_image_is_freed(void **state)
{
    (void)state;
    struct mr_scratch scratch = {0};
    assert_int_equal(mr_scratch_reserve(&scratch, MR_SCRATCH_KEEP_BYTES + 2, 1, NULL), MR_OK);
    assert_int_equal(mr_scratch_reserve(&scratch, MR_SCRATCH_KEEP_BYTES + 1, 1, NULL), MR_OK);
    assert_int_equal(scratch.len_allocated, MR_SCRATCH_KEEP_BYTES + 2);
    assert_int_equal(mr_scratch_reserve(&scratch, 1000, 1, NULL), MR_OK);
    assert_int_equal(scratch.len_allocated, 1000);
    memset(scratch.memory, 1, 1000);
    mr_scratch_fini(&scratch);
}

static void a_size_that_overflows_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    struct mr_scratch scratch = {0};
    mr_error error;
    assert_int_equal(mr_scratch_reserve(&scratch, 7, 3, NULL), MR_OK);
    assert_int_equal(mr_scratch_reserve(&scratch, SIZE_MAX / 2, 3, &error), MR_ERR_NO_MEMORY);
    assert_int_equal(scratch.len_allocated, 21);
    mr_scratch_fini(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_grows_and_is_reused),
        cmocka_unit_test(memory_of_a_huge_image_is_freed),
        cmocka_unit_test(a_size_that_overflows_is_refused_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
