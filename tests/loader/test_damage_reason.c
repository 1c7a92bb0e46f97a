/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of a batch's errors takes its place, independent of what else its workers have recorded,
 * and in which order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/damage.h"
#include "tests/pinned/plain_columns.h"

enum { BATCH = 100, N_WORKERS = 4, N_SAMPLES = 1000 };

struct rig {
    struct mr_slot_layout layout;
    void *memory;
    struct mr_slot_view view;
};

static const struct mr_control control; /* damaged samples are not replaced */

static int make(void **state)
{
    struct rig *rig = calloc(1, sizeof *rig);
    const struct mr_slot_shape shape = {
        .n_slots = 1, .n_workers = N_WORKERS, .batch_size = BATCH, .columns = PLAIN_COLUMNS(16, 8)};
    if (!rig || mr_slot_layout_init(&rig->layout, &shape, NULL) != MR_OK)
        return -1;
    rig->memory = aligned_alloc(4096, rig->layout.slab_bytes);
    if (!rig->memory)
        return -1;
    memset(rig->memory, 0, rig->layout.slab_bytes);
    rig->view = mr_slot_at(&rig->layout, rig->memory, 0);
    for (uint32_t i = 0; i < BATCH; i++)
        atomic_store(&rig->view.want[i], 10 * (int64_t)i);
    mr_slot_publish(&rig->view, BATCH, 0, 0, 0, BATCH);
    *state = rig;
    return 0;
}

static int destroy(void **state)
{
    struct rig *rig = *state;
    free(rig->memory);
    free(rig);
    return 0;
}

/* A candidate of a place fails; the place fails too, unless another candidate may replace it. */
static void fail_candidate(struct rig *rig, uint32_t place, uint32_t worker, mr_status status,
                           bool for_good)
{
    mr_error error;
    struct mr_place *word = &rig->view.places[place];
    uint64_t held;
    uint32_t skipped = atomic_load(&rig->view.skipped[place]);
    mr_error_set(&error, status, "place %u, candidate %u", place, skipped);
    error.index = atomic_load(&rig->view.want[place]) + skipped;
    assert_true(mr_place_take(word, mr_place_load(word), worker, &held));
    mr_slot_record(&rig->view, place, &error);
    if (status == MR_ERR_DAMAGED)
        atomic_store(&rig->view.skipped[place], skipped + 1);
    if (for_good)
        atomic_store(&rig->view.outcome[place],
                     status == MR_ERR_DAMAGED ? MR_OUTCOME_DAMAGED : MR_OUTCOME_FAILED);
    assert_true(mr_place_reopen(word, held, 0));
}

static void expect_reason(const struct rig *rig, mr_status status, const char *words)
{
    mr_error error;
    assert_true(mr_damage_has_failure(&rig->view));
    assert_true(mr_damage_first_failure(&control, &rig->view, NULL, &error));
    assert_int_equal(error.status, status);
    assert_string_equal(error.text, words);
}

static void a_batch_without_a_failed_place_has_no_reason(void **state)
{
    struct rig *rig = *state;
    mr_error error;
    fail_candidate(rig, 3, 0, MR_ERR_DAMAGED, false);
    assert_false(mr_damage_has_failure(&rig->view));
    assert_false(mr_damage_first_failure(&control, &rig->view, NULL, &error));
}

static void a_substitutes_failure_is_not_the_wanted_samples_damage(void **state)
{
    struct rig *rig = *state;
    fail_candidate(rig, 3, 0, MR_ERR_DAMAGED, false);
    fail_candidate(rig, 3, 0, MR_ERR_DAMAGED, false);
    fail_candidate(rig, 3, 0, MR_ERR_IO, true);
    expect_reason(rig, MR_ERR_IO, "place 3, candidate 2");
}

static void a_failure_is_recorded_however_many_samples_are_damaged(void **state)
{
    struct rig *rig = *state;
    for (uint32_t place = 0; place < BATCH; place++)
        fail_candidate(rig, place, place % N_WORKERS, MR_ERR_DAMAGED, false);
    fail_candidate(rig, 90, 1, MR_ERR_NO_MEMORY, true);
    expect_reason(rig, MR_ERR_NO_MEMORY, "place 90, candidate 1");
    fail_candidate(rig, 80, 2, MR_ERR_UNSUPPORTED, true);
    expect_reason(rig, MR_ERR_UNSUPPORTED, "place 80, candidate 1");
}

static void a_failure_takes_precedence_over_damage_of_a_lower_place(void **state)
{
    struct rig *rig = *state;
    fail_candidate(rig, 0, 0, MR_ERR_DAMAGED, true);
    expect_reason(rig, MR_ERR_DAMAGED, "place 0, candidate 0");
    fail_candidate(rig, 99, 0, MR_ERR_IO, true);
    expect_reason(rig, MR_ERR_IO, "place 99, candidate 0");
}

static void damage_of_the_lowest_place_is_the_reason_in_any_order(void **state)
{
    struct rig *rig = *state;
    /* from the highest down: the records are full at place 32 */
    for (uint32_t place = BATCH; place-- > 1;) {
        char words[32];
        fail_candidate(rig, place, place % N_WORKERS, MR_ERR_DAMAGED, true);
        snprintf(words, sizeof words, "place %u, candidate 0", place);
        expect_reason(rig, MR_ERR_DAMAGED, words);
    }
}

static void without_a_record_the_error_has_the_name(void **state)
{
    struct rig *rig = *state;
    mr_error error;
    fail_candidate(rig, 7, 0, MR_ERR_DAMAGED, true);
    atomic_store(&rig->view.records[0].weight, 0);
    assert_true(mr_damage_first_failure(&control, &rig->view, NULL, &error));
    assert_int_equal(error.status, MR_ERR_DAMAGED);
    assert_string_equal(error.text, "callback sample (index 70) is damaged");
    assert_int_equal(error.index, 70);
    fail_candidate(rig, 8, 0, MR_ERR_NO_MEMORY, true);
    atomic_store(&rig->view.records[0].weight, 0);
    assert_true(mr_damage_first_failure(&control, &rig->view, NULL, &error));
    assert_int_equal(error.status, MR_ERR_IO);
    assert_string_equal(error.text, "callback sample (index 80) could not be made");
    assert_int_equal(error.index, 80);
}

/*
 * A worker has recorded its failure and died. The next worker that took the place has made its
 * sample.
 */
static void a_failure_that_did_not_happen_again_is_not_the_reason(void **state)
{
    struct rig *rig = *state;
    mr_error error;
    fail_candidate(rig, 7, 0, MR_ERR_IO, true);
    atomic_store(&rig->view.outcome[7], MR_OUTCOME_GOOD);
    assert_false(mr_damage_first_failure(&control, &rig->view, NULL, &error));
    fail_candidate(rig, 9, 0, MR_ERR_DAMAGED, true);
    expect_reason(rig, MR_ERR_DAMAGED, "place 9, candidate 0");
}

#define ON_SLOT(test) cmocka_unit_test_setup_teardown(test, make, destroy)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_SLOT(a_batch_without_a_failed_place_has_no_reason),
        ON_SLOT(a_substitutes_failure_is_not_the_wanted_samples_damage),
        ON_SLOT(a_failure_is_recorded_however_many_samples_are_damaged),
        ON_SLOT(a_failure_takes_precedence_over_damage_of_a_lower_place),
        ON_SLOT(damage_of_the_lowest_place_is_the_reason_in_any_order),
        ON_SLOT(without_a_record_the_error_has_the_name),
        ON_SLOT(a_failure_that_did_not_happen_again_is_not_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
