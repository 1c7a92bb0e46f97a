/* SPDX-License-Identifier: Apache-2.0 */
/* An index that is drawn twice in an epoch: the same draws in a caller's order, others by its occurrence. */
#include "loader/loader.h"
#include "tests/loader/rig.h"

#include <string.h>

enum { N_ROWS = 80, FIELDS = 8 };

/* Each index of the order comes twice. A crop of one pixel has 20 places. */
static mr_loader *open_pairs(struct rig *rig)
{
    mr_loader_options options = rig_options_of(&rig_modes[0]);
    int64_t order[N_ROWS];
    mr_transform *transform;
    mr_loader *loader = NULL;
    mr_error error;
    for (int64_t i = 0; i < N_ROWS; i++)
        order[i] = i / 2;
    options.batch_size = N_ROWS;
    if (mr_transform_parse("random_crop(1)", &transform, &error) != MR_OK ||
        mr_loader_create(rig->dataset, transform, &options, &loader, &error) != MR_OK)
        fail_msg("%s", error.text);
    mr_transform_destroy(transform);
    assert_int_equal(mr_loader_set_epoch_order(loader, 3, order, N_ROWS), MR_OK);
    return loader;
}

/* The batch that comes next; it is made by the call that takes it. */
static struct mr_slot_view next_slot(mr_loader *loader)
{
    struct mr_core *core = loader->core;
    return mr_core_slot(core, mr_core_slot_of(core, core->tail - 1));
}

static void take_geometry(mr_loader *loader, int32_t rows_out[N_ROWS][FIELDS])
{
    mr_batch *batch = rig_next(loader);
    memcpy(rows_out, mr_batch_data(batch, "geometry"), sizeof(int32_t[N_ROWS][FIELDS]));
    mr_batch_release(batch);
}

static unsigned count_equal_pairs(int32_t rows[N_ROWS][FIELDS])
{
    unsigned n = 0;
    for (unsigned i = 0; i < N_ROWS; i += 2)
        n += memcmp(rows[i], rows[i + 1], sizeof rows[i]) == 0;
    return n;
}

static void a_callers_order_repeats_the_draws(void **state)
{
    struct rig *rig = *state;
    mr_loader *loader = open_pairs(rig);
    int32_t rows[N_ROWS][FIELDS];
    take_geometry(loader, rows);
    assert_int_equal(count_equal_pairs(rows), N_ROWS / 2);
    mr_loader_destroy(loader);
}

static void the_occurrence_of_a_place_reaches_the_draws(void **state)
{
    struct rig *rig = *state;
    mr_loader *loader = open_pairs(rig);
    int32_t plain[N_ROWS][FIELDS], rows[N_ROWS][FIELDS];
    take_geometry(loader, plain);
    int64_t order[N_ROWS];
    for (int64_t i = 0; i < N_ROWS; i++)
        order[i] = i / 2;
    assert_int_equal(mr_loader_set_epoch_order(loader, 3, order, N_ROWS), MR_OK);
    struct mr_slot_view view = next_slot(loader);
    for (unsigned i = 0; i < N_ROWS; i++) {
        assert_int_equal(atomic_load(&view.want[i]), i / 2);
        atomic_store(&view.occurrence[i], i % 2);
    }
    take_geometry(loader, rows);
    for (unsigned i = 0; i < N_ROWS; i += 2)
        assert_memory_equal(rows[i], plain[i], sizeof rows[i]);
    assert_in_range(count_equal_pairs(rows), 0, N_ROWS / 8);
    mr_loader_destroy(loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(a_callers_order_repeats_the_draws),
        RIG_TEST(the_occurrence_of_a_place_reaches_the_draws),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
