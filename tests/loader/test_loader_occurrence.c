/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caller's own order has an index twice: each occurrence has its own draws, also after a
 * resumption.
 */
#include "tests/loader/rig.h"

#include <string.h>

enum { N_PAIRS = 40, N_ROWS = 2 * N_PAIRS, BATCH = 16, FIELDS = 8 };

typedef int32_t geometry[N_ROWS][FIELDS];

/* A crop of one pixel has 20 possible positions. */
static mr_loader *open_crops(struct rig *rig, const struct rig_mode *mode)
{
    mr_loader_options options = rig_options_of(mode);
    mr_transform *transform;
    mr_loader *loader = NULL;
    mr_error error;
    options.batch_size = BATCH;
    if (mr_transform_parse("random_crop(1)", &transform, &error) != MR_OK ||
        mr_loader_create(rig->dataset, transform, &options, &loader, &error) != MR_OK)
        fail_msg("%s", error.text);
    mr_transform_destroy(transform);
    return loader;
}

/* Each index twice, one after the other. */
static void make_pairs(int64_t order_out[N_ROWS])
{
    for (int64_t i = 0; i < N_ROWS; i++)
        order_out[i] = i / 2;
}

/* Take batches, and store their geometry from this row on. */
static void take_geometry(mr_loader *loader, unsigned first, geometry rows_out)
{
    for (unsigned row = first; row < N_ROWS; row += BATCH) {
        mr_batch *batch = rig_next(loader);
        memcpy(rows_out[row], mr_batch_data(batch, "geometry"), sizeof(int32_t[BATCH][FIELDS]));
        mr_batch_release(batch);
    }
    rig_expect(loader, MR_END);
}

static void each_occurrence_has_its_own_draws(void **state)
{
    int64_t pairs[N_ROWS], halves[N_ROWS];
    geometry rows, wanted;
    unsigned n_equal = 0;
    make_pairs(pairs);
    for (int64_t i = 0; i < N_ROWS; i++)
        halves[i] = i % N_PAIRS;
    mr_loader *loader = open_crops(*state, &rig_modes[0]);
    assert_int_equal(mr_loader_set_epoch_order(loader, 3, pairs, N_ROWS), MR_OK);
    take_geometry(loader, 0, rows);
    assert_int_equal(mr_loader_set_epoch_order(loader, 3, halves, N_ROWS), MR_OK);
    take_geometry(loader, 0, wanted);
    /* nothing is left of the other order */
    assert_int_equal(mr_loader_set_epoch_order(loader, 3, halves, N_PAIRS), MR_OK);
    for (unsigned i = 0; i < N_PAIRS; i++) {
        assert_memory_equal(rows[2 * i], wanted[i], sizeof rows[i]);
        assert_memory_equal(rows[2 * i + 1], wanted[N_PAIRS + i], sizeof rows[i]);
        n_equal += memcmp(rows[2 * i], rows[2 * i + 1], sizeof rows[i]) == 0;
    }
    assert_in_range(n_equal, 0, N_PAIRS / 4);
    mr_loader_destroy(loader);
}

static void a_resumed_order_continues_as_if_it_had_not_stopped(void **state)
{
    int64_t order[N_ROWS];
    geometry whole, rest;
    make_pairs(order);
    for (unsigned m = 0; m < rig_n_modes; m++) {
        mr_loader *loader = open_crops(*state, &rig_modes[m]);
        assert_int_equal(mr_loader_set_epoch_order(loader, 3, order, N_ROWS), MR_OK);
        take_geometry(loader, 0, whole);
        for (int used = 0; used <= N_ROWS; used += 2 * BATCH) {
            assert_int_equal(mr_loader_resume_epoch_order(loader, 3, order, N_ROWS, used), MR_OK);
            assert_int_equal(mr_loader_n_batches(loader), N_ROWS / BATCH);
            take_geometry(loader, (unsigned)used, rest);
            if (used < N_ROWS)
                assert_memory_equal(rest[used], whole[used],
                                    (size_t)(N_ROWS - used) * sizeof *rest);
        }
        mr_loader_destroy(loader);
    }
}

static void a_position_inside_a_batch_is_refused(void **state)
{
    int64_t order[N_ROWS];
    make_pairs(order);
    mr_loader *loader = open_crops(*state, &rig_modes[0]);
    const int64_t wrong[] = {-1, 1, BATCH + 1, N_ROWS - 1, N_ROWS + 1, 2 * N_ROWS};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(mr_loader_resume_epoch_order(loader, 3, order, N_ROWS, wrong[i]),
                         MR_ERR_INVALID);
    assert_string_equal(mr_loader_error(loader)->text,
                        "160 used samples of an order of 80 do not end on a batch of 16");
    /* the end of the order */
    assert_int_equal(mr_loader_resume_epoch_order(loader, 3, order, BATCH + 3, BATCH + 3), MR_OK);
    rig_expect(loader, MR_END);
    mr_loader_destroy(loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(each_occurrence_has_its_own_draws),
        RIG_TEST(a_resumed_order_continues_as_if_it_had_not_stopped),
        RIG_TEST(a_position_inside_a_batch_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
