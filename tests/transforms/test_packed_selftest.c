/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The self-test must notice an inverse DCT that differs from libjpeg's, whichever coefficient shows
 * the difference. The linker replaces mr_kernels_best() here (--wrap), so the codec gets loops that
 * are wrong on purpose.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#include "base/error.h"
#include "transforms/simd/kernels.h"
#include "transforms/packed_selftest.h"

enum { NONE = 64 };

static struct mr_kernel_ops table;
static const struct mr_kernel_ops *whole;
static int wrong_at; /* blocks that have this coefficient are transformed wrongly */

const struct mr_kernel_ops *__real_mr_kernels_best(void);
const struct mr_kernel_ops *__wrap_mr_kernels_best(void);

const struct mr_kernel_ops *__wrap_mr_kernels_best(void)
{
    return &table;
}

static uint32_t wrong_blocks(int16_t *const *blocks, uint32_t n, const uint16_t quant[64],
                             uint8_t *const *rows, size_t at)
{
    uint32_t done = whole->idct_blocks(blocks, n, quant, rows, at);
    for (uint32_t i = 0; i < done && wrong_at < NONE; i++)
        if (blocks[i][wrong_at] != 0)
            rows[3][at + 8 * i + 2] ^= 64;
    return done;
}

static void a_transform_that_is_wrong_for_any_one_coefficient_is_found(void **state)
{
    mr_error error;
    (void)state;
    for (wrong_at = 0; wrong_at < NONE; wrong_at++) {
        if (mr_packed_selftest_run(false, &error) != MR_ERR_UNSUPPORTED)
            fail_msg("coefficient %d is not tried", wrong_at);
        assert_string_equal(
            error.text,
            "packed JPEGs cannot be decoded here: this libjpeg gives different pixels for "
            "a packed JPEG");
    }
    assert_int_equal(mr_packed_selftest_run(false, &error), MR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_transform_that_is_wrong_for_any_one_coefficient_is_found),
    };
    whole = __real_mr_kernels_best();
    table = *whole;
    wrong_at = NONE;
    if (!whole->idct_blocks || mr_packed_selftest_run(false, NULL) != MR_OK) {
        printf("libjpeg's own inverse DCT is used here\n");
        return 77;
    }
    table.idct_blocks = wrong_blocks;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
