/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the parts of slots are: aligned, inside the slab, without overlap, for many shapes. Sizes
 * that overflow are errors.
 */
#include "pinned/slot.h"
#include "tests/pinned/plain_columns.h"
#include "tests/support/assert_words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

struct part {
    uint64_t from;
    uint64_t to;
};

static int by_start(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    return x->from < y->from ? -1 : x->from > y->from;
}

/* Parts are in order: none before `from`, none overlaps the next, none ends past `to`. */
static void assert_apart(struct part *parts, unsigned n, uint64_t from, uint64_t to)
{
    qsort(parts, n, sizeof *parts, by_start);
    for (unsigned i = 0; i < n; i++) {
        assert_true(parts[i].from >= from);
        assert_true(parts[i].to >= parts[i].from);
        from = parts[i].to;
    }
    assert_true(from <= to);
}

static struct part part_at(const void *base, const void *start, uint64_t count, uint64_t bytes)
{
    uint64_t from = (uint64_t)((const char *)start - (const char *)base);
    return (struct part){from, from + count * bytes};
}

static void check_alignment(const struct mr_slot_layout *l, uint64_t page)
{
    assert_int_equal(l->book_off % 64, 0);
    assert_int_equal(l->book_bytes % 64, 0);
    assert_int_equal(l->places_off % 64, 0);
    assert_int_equal(l->want_off % 8, 0);
    assert_int_equal(l->skipped_off % 4, 0);
    assert_int_equal(l->records_off % _Alignof(struct mr_record), 0);
    assert_int_equal(l->data_off % page, 0);
    assert_int_equal(l->data_bytes % page, 0);
    assert_int_equal(l->small_off % 64, 0);
    for (uint32_t i = MR_COLUMN_LABEL; i < l->columns.n; i++)
        assert_int_equal(l->columns.column[i].off % 64, 0);
    assert_int_equal(l->erase_off % 64, 0);
}

/* The parts of a slot as offsets into a slab that is never touched. */
static unsigned gather(const struct mr_slot_layout *l, char *base, uint32_t i, struct part *parts)
{
    struct mr_slot_view v = mr_slot_at(l, base, i);
    uint64_t n = l->batch_size;
    const struct part all[] = {
        part_at(base, v.slot, 1, sizeof *v.slot),
        part_at(base, v.places, n, sizeof *v.places),
        part_at(base, v.want, n, sizeof(int64_t)),
        part_at(base, v.occurrence, n, sizeof(uint32_t)),
        part_at(base, v.skipped, n, sizeof(uint32_t)),
        part_at(base, v.outcome, n, 1),
        part_at(base, v.records, v.n_records, sizeof *v.records),
        part_at(base, v.data, n, l->sample_bytes),
        part_at(base, v.erases, n, sizeof *v.erases),
    };
    unsigned n_parts = sizeof all / sizeof *all - !v.erases;
    memcpy(parts, all, n_parts * sizeof *all);
    for (uint32_t c = MR_COLUMN_LABEL; c < l->columns.n; c++) {
        parts[n_parts] = part_at(base, mr_slot_row(&v, c, 0), n, l->columns.column[c].row_bytes);
        assert_true(parts[n_parts++].to - part_at(base, v.data, 0, 0).from <= l->used_bytes);
    }
    return n_parts;
}

static void check_layout(const struct mr_slot_shape *shape)
{
    uint32_t n_slots = shape->n_slots;
    struct mr_slot_layout l;
    struct part parts[64];
    mr_error error;
    unsigned n = 0;
    static char base[1]; /* only addresses are computed */
    assert_int_equal(mr_slot_layout_init(&l, shape, &error), MR_OK);
    assert_int_equal(l.n_slots, n_slots);
    assert_int_equal(l.batch_size, shape->batch_size);
    assert_int_equal(l.sample_bytes, shape->columns.column[MR_COLUMN_IMAGE].row_bytes);
    check_alignment(&l, shape->page_bytes ? shape->page_bytes : (uint64_t)sysconf(_SC_PAGESIZE));
    assert_true(l.used_bytes <= l.data_bytes);
    n += gather(&l, base, 0, parts + n);
    if (n_slots > 1)
        n += gather(&l, base, 1, parts + n);
    if (n_slots > 2)
        n += gather(&l, base, n_slots - 1, parts + n);
    assert_apart(parts, n, shape->head_bytes, l.slab_bytes);
    assert_int_equal(l.slab_bytes, l.data_off + (uint64_t)n_slots * l.data_bytes);
}

static void parts_are_aligned_and_apart(void **state)
{
    (void)state;
    const uint32_t slots[] = {1, 2, 7, 1024}, batches[] = {1, 2, 63, 64, 65, 1000, 65535};
    const uint64_t samples[] = {1, 3, 48, 150528, 4096, 602112}, labels[] = {1, 4, 8, 100};
    for (unsigned s = 0; s < 4; s++)
        for (unsigned b = 0; b < 7; b++)
            for (unsigned x = 0; x < 6; x++)
                for (unsigned y = 0; y < 4; y++)
                    check_layout(
                        &(struct mr_slot_shape){.head_bytes = 1000 * (s + b) + x,
                                                .n_slots = slots[s],
                                                .n_workers = 1 + 31 * b,
                                                .batch_size = batches[b],
                                                .erases = y % 2,
                                                .columns = PLAIN_COLUMNS(samples[x], labels[y])});
}

static void rows_follow_each_other_without_a_gap(void **state)
{
    (void)state;
    struct mr_slot_layout l;
    mr_error error;
    assert_int_equal(mr_slot_layout_init(&l,
                                         &(struct mr_slot_shape){.n_slots = 2,
                                                                 .n_workers = 1,
                                                                 .batch_size = 3,
                                                                 .columns = PLAIN_COLUMNS(5, 8)},
                                         &error),
                     MR_OK);
    assert_int_equal(l.sample_bytes, 5);
    assert_int_equal(l.small_off, 64);
    assert_int_equal(l.data_bytes, 4096);
}

static void boxes_are_copied_with_the_small_block_and_cost_nothing_if_not_deferred(void **state)
{
    (void)state;
    struct mr_slot_layout plain, erasing;
    struct mr_slot_shape shape = {
        .n_slots = 1, .n_workers = 1, .batch_size = 64, .columns = PLAIN_COLUMNS(1, 8)};
    mr_error error;
    char base[1];
    assert_int_equal(mr_slot_layout_init(&plain, &shape, &error), MR_OK);
    assert_null(mr_slot_at(&plain, base, 0).erases);
    assert_int_equal(plain.small_off + plain.small_bytes, plain.erase_off);
    shape.erases = true;
    assert_int_equal(mr_slot_layout_init(&erasing, &shape, &error), MR_OK);
    assert_int_equal(erasing.small_bytes, plain.small_bytes + 64 * sizeof(struct mr_erase));
}

static void sizes_that_overflow_are_refused_with_their_numbers(void **state)
{
    (void)state;
    const struct mr_slot_shape hostile[] = {
        {.n_slots = 2, .batch_size = 64, .columns = PLAIN_COLUMNS(UINT64_MAX, 8)},
        {.n_slots = 2, .batch_size = 64, .columns = PLAIN_COLUMNS(UINT64_MAX / 64, 8)},
        {.n_slots = 2, .batch_size = 64, .columns = PLAIN_COLUMNS(UINT64_C(1) << 56, 8)},
        {.n_slots = 1024, .batch_size = 65535, .columns = PLAIN_COLUMNS(UINT64_C(1) << 37, 8)},
        {.n_slots = 2, .batch_size = 64, .columns = PLAIN_COLUMNS(1, UINT64_MAX)},
        {.n_slots = 2, .batch_size = 64, .columns = PLAIN_COLUMNS(1, UINT64_C(1) << 57)},
        {.head_bytes = UINT64_MAX, .n_slots = 2, .batch_size = 64, .columns = PLAIN_COLUMNS(1, 8)},
        {.head_bytes = UINT64_MAX - 4095,
         .n_slots = 2,
         .batch_size = 64,
         .columns = PLAIN_COLUMNS(1, 8)},
        {.head_bytes = UINT64_C(1) << 62,
         .n_slots = 2,
         .batch_size = 64,
         .columns = PLAIN_COLUMNS(1, 8)},
        {.n_slots = UINT32_MAX, .batch_size = UINT32_MAX, .columns = PLAIN_COLUMNS(1, 8)},
        {.n_slots = 2, .batch_size = 3, .columns = PLAIN_COLUMNS(UINT64_MAX / 3 + 1, 8)},
    };
    for (unsigned i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        struct mr_slot_layout l;
        mr_error error;
        assert_error(mr_slot_layout_init(&l, &hostile[i], &error), MR_ERR_NO_MEMORY, &error,
                     "more than 2^62 bytes");
        assert_words(error.text, " slots of ");
    }
}

static void the_largest_that_fits_is_computed_exactly(void **state)
{
    (void)state;
    struct mr_slot_layout l;
    mr_error error;
    uint64_t sample = UINT64_C(1) << 50;
    assert_int_equal(
        mr_slot_layout_init(&l,
                            &(struct mr_slot_shape){.n_slots = 16,
                                                    .n_workers = 1,
                                                    .batch_size = 128,
                                                    .columns = PLAIN_COLUMNS(sample, 8)},
                            &error),
        MR_OK);
    assert_true(l.slab_bytes > 16 * 128 * sample);
    assert_true(l.slab_bytes < 16 * 128 * sample + (UINT64_C(1) << 32));
}

/* 64 KiB, as on GH200: page-locking two neighbouring slots must not page-lock one page twice. */
static void slots_share_no_page_of_the_system(void **state)
{
    (void)state;
    const uint64_t pages[] = {4096, 16384, 65536};
    for (unsigned p = 0; p < 3; p++)
        for (uint32_t n = 1; n < 1000; n += 37)
            check_layout(&(struct mr_slot_shape){.head_bytes = 77 * n,
                                                 .n_slots = 3,
                                                 .n_workers = 2,
                                                 .batch_size = n,
                                                 .columns = PLAIN_COLUMNS(48, 8),
                                                 .page_bytes = pages[p]});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_aligned_and_apart),
        cmocka_unit_test(rows_follow_each_other_without_a_gap),
        cmocka_unit_test(boxes_are_copied_with_the_small_block_and_cost_nothing_if_not_deferred),
        cmocka_unit_test(sizes_that_overflow_are_refused_with_their_numbers),
        cmocka_unit_test(the_largest_that_fits_is_computed_exactly),
        cmocka_unit_test(slots_share_no_page_of_the_system),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
