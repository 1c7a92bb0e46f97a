/* SPDX-License-Identifier: Apache-2.0 */
/* Byte arrays of slots: their layout, and rows that are moved together. */
#include "pinned/slot_extra.h"
#include "tests/pinned/plain_columns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

enum { BATCH = 37, N_KEPT = 3 };

static const uint64_t max_bytes[N_KEPT] = {1, 40, 333};

static struct mr_slot_shape make_shape(void)
{
    struct mr_slot_shape shape = {
        .n_slots = 2, .n_workers = 1, .batch_size = BATCH, .columns = PLAIN_COLUMNS(16, 8)};
    for (unsigned k = 0; k < N_KEPT; k++) {
        const int64_t most = (int64_t)max_bytes[k];
        char name[8];
        snprintf(name, sizeof name, "e%u", k);
        mr_columns_add_ragged(&shape.columns, name, MR_U8, 1, &most);
    }
    return shape;
}

static struct mr_slot_layout make_layout(void)
{
    struct mr_slot_layout layout;
    const struct mr_slot_shape shape = make_shape();
    assert_int_equal(mr_slot_layout_init(&layout, &shape, NULL), MR_OK);
    return layout;
}

static const struct mr_column *column_at(const struct mr_slot_layout *l, unsigned k)
{
    return &l->columns.column[MR_COLUMNS_FIXED + k];
}

static void arrays_end_the_small_block_and_are_copied_with_it(void **state)
{
    (void)state;
    struct mr_slot_layout l = make_layout();
    uint64_t end = l.erase_off;
    for (unsigned k = 0; k < N_KEPT; k++) {
        assert_int_equal(column_at(&l, k)->offsets_off % 64, 0);
        assert_int_equal(column_at(&l, k)->off % 64, 0);
        assert_true(column_at(&l, k)->offsets_off >= end);
        assert_true(column_at(&l, k)->off >=
                    column_at(&l, k)->offsets_off + (BATCH + 1) * sizeof(int64_t));
        end = column_at(&l, k)->off + BATCH * max_bytes[k];
    }
    assert_int_equal(l.small_bytes, end - l.small_off);
    for (unsigned k = 0; k < N_KEPT; k++) {
        assert_true(column_at(&l, k)->lengths_off >= end);
        end = column_at(&l, k)->lengths_off + BATCH * sizeof(uint32_t);
    }
    assert_true(end <= l.used_bytes);
}

static void sizes_that_overflow_are_refused(void **state)
{
    (void)state;
    struct mr_slot_layout l;
    struct mr_slot_shape large = make_shape();
    large.columns.column[MR_COLUMNS_FIXED].row_bytes = UINT64_MAX / 2;
    assert_int_equal(mr_slot_layout_init(&l, &large, NULL), MR_ERR_NO_MEMORY);
}

/* Byte b of row i of array k. A row that is written twice, as after a death, has the last bytes. */
static uint8_t make_byte(unsigned k, unsigned i, uint64_t b)
{
    return (uint8_t)(k * 100 + i * 7 + b);
}

static void write_row(const struct mr_slot_view *view, unsigned k, unsigned i, uint64_t len)
{
    uint8_t bytes[512];
    for (uint64_t b = 0; b < sizeof bytes; b++)
        bytes[b] = make_byte(k, i, b);
    mr_slot_extra_put(view, MR_COLUMNS_FIXED + k, i, bytes, sizeof bytes);
    mr_slot_extra_put(view, MR_COLUMNS_FIXED + k, i, len > 0 ? bytes : NULL, len);
}

static void check_rows(const struct mr_slot_view *view, unsigned k, unsigned n,
                       const uint64_t *lens)
{
    const int64_t *offsets = mr_slot_extra_offsets(view, MR_COLUMNS_FIXED + k);
    const uint8_t *values = view->data + column_at(view->layout, k)->off;
    uint64_t at = 0;
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(offsets[i], at);
        for (uint64_t b = 0; b < lens[i]; b++)
            assert_int_equal(values[at + b], make_byte(k, i, b));
        at += lens[i];
    }
    for (unsigned i = n; i <= BATCH; i++)
        assert_int_equal(offsets[i], at);
}

static void rows_are_moved_together(void **state)
{
    (void)state;
    struct mr_slot_layout l = make_layout();
    uint8_t *slab = aligned_alloc(4096, l.slab_bytes);
    uint64_t lens[N_KEPT][BATCH];
    unsigned seed = (unsigned)time(NULL);
    assert_non_null(slab);
    memset(slab, 0x5a, l.slab_bytes);
    for (unsigned round = 0; round < 200; round++) {
        srand(seed + round);
        printf("seed %u\n", seed + round);
        struct mr_slot_view view = mr_slot_at(&l, slab, round % 2);
        unsigned n = (unsigned)rand() % (BATCH + 1);
        for (unsigned k = 0; k < N_KEPT; k++)
            for (unsigned i = 0; i < n; i++) {
                uint64_t len = (uint64_t)rand() % (max_bytes[k] + 1);
                lens[k][i] = rand() % 4 == 0 ? 0 : rand() % 4 == 0 ? max_bytes[k] : len;
                write_row(&view, k, i, lens[k][i]);
            }
        mr_slot_extra_join(&view, n);
        for (unsigned k = 0; k < N_KEPT; k++)
            check_rows(&view, k, n, lens[k]);
    }
    free(slab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_end_the_small_block_and_are_copied_with_it),
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(rows_are_moved_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
