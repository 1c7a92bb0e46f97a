/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The errors that a batch records: the most important ones, in whichever order they occur, with
 * workers at the same time, and after deaths between any two steps.
 */
#include "pinned/slot.h"
#include "tests/pinned/plain_columns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every second place has an error that is not damage ("trouble"), and all places have damage. */
enum { BATCH = 101, N_WORKERS = 4, N_TROUBLES = BATCH / 2 };

struct rig {
    struct mr_slot_layout layout;
    void *memory;
    struct mr_slot_view view;
};

static void publish(struct rig *rig, uint64_t sequence)
{
    if (mr_slot_state(rig->view.slot) != MR_SLOT_FREE) {
        mr_slot_cancel(&rig->view);
        mr_slot_move(rig->view.slot, MR_SLOT_CANCELED, MR_SLOT_FREE);
    }
    mr_slot_publish(&rig->view, BATCH, sequence, 0, sequence, BATCH);
}

static int make(void **state)
{
    struct rig *rig = calloc(1, sizeof *rig);
    const struct mr_slot_shape shape = {
        .n_slots = 2, .n_workers = N_WORKERS, .batch_size = BATCH, .columns = PLAIN_COLUMNS(16, 8)};
    if (!rig || mr_slot_layout_init(&rig->layout, &shape, NULL) != MR_OK)
        return -1;
    rig->memory = aligned_alloc(4096, rig->layout.slab_bytes);
    if (!rig->memory)
        return -1;
    memset(rig->memory, 0, rig->layout.slab_bytes);
    rig->view = mr_slot_at(&rig->layout, rig->memory, 0);
    publish(rig, 0);
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

static void record(struct rig *rig, uint32_t place, mr_status status, const char *words)
{
    mr_error error;
    mr_error_set(&error, status, "%s", words);
    mr_slot_record(&rig->view, place, &error);
}

/* words NULL: no error is recorded. */
static void expect(const struct rig *rig, uint32_t place, bool is_damage, const char *words)
{
    const mr_error *error = mr_slot_recorded(&rig->view, place, is_damage);
    if (!words)
        assert_null(error);
    else
        assert_string_equal(error ? error->text : "none", words);
}

static void a_place_has_its_errors_until_the_next_batch(void **state)
{
    struct rig *rig = *state;
    record(rig, 3, MR_ERR_DAMAGED, "damage of place 3");
    record(rig, 1, MR_ERR_DAMAGED, "damage of place 1");
    rig->view.skipped[1] = 1; /* what follows is about a substitute */
    record(rig, 1, MR_ERR_DAMAGED, "a substitute");
    record(rig, 1, MR_ERR_IO, "a substitute's trouble");
    expect(rig, 3, true, "damage of place 3");
    expect(rig, 3, false, NULL);
    expect(rig, 1, true, "damage of place 1");
    expect(rig, 1, false, "a substitute's trouble");
    publish(rig, 1);
    for (uint32_t place = 0; place < BATCH; place++) {
        expect(rig, place, true, NULL);
        expect(rig, place, false, NULL);
    }
}

static void record_all_of(struct rig *rig, uint32_t place)
{
    char words[32];
    snprintf(words, sizeof words, "damage of %u", place);
    record(rig, place, MR_ERR_DAMAGED, words);
    snprintf(words, sizeof words, "trouble of %u", place);
    if (place % 2)
        record(rig, place, MR_ERR_IO, words);
}

/* All trouble is recorded, and the damage of the lowest places. */
static void expect_most_important(const struct rig *rig)
{
    char words[32];
    static_assert(N_TROUBLES < MR_SLOT_RECORDS && BATCH > MR_SLOT_RECORDS + N_WORKERS,
                  "records are short");
    for (uint32_t place = 0; place < BATCH; place++) {
        snprintf(words, sizeof words, "trouble of %u", place);
        expect(rig, place, false, place % 2 ? words : NULL);
    }
    for (uint32_t place = 0; place < MR_SLOT_RECORDS - N_TROUBLES; place++) {
        snprintf(words, sizeof words, "damage of %u", place);
        expect(rig, place, true, words);
    }
    expect(rig, BATCH - 1, true, NULL);
}

static void the_most_important_errors_are_recorded_in_any_order(void **state)
{
    struct rig *rig = *state;
    for (uint32_t step = 1; step < BATCH; step++) { /* upwards, mixed, downwards */
        publish(rig, step);
        for (uint32_t i = 0; i < BATCH; i++)
            record_all_of(rig, i * step % BATCH);
        expect_most_important(rig);
    }
}

/* Threads play workers: each records errors of the places that it holds. */
struct recorder {
    struct rig *rig;
    uint32_t worker;
};

static void *record_many(void *arg)
{
    const struct recorder *recorder = arg;
    for (uint32_t place = BATCH; place-- > 0;)
        if (place % N_WORKERS == recorder->worker)
            record_all_of(recorder->rig, place);
    return NULL;
}

static void the_most_important_errors_are_recorded_by_workers_at_the_same_time(void **state)
{
    struct rig *rig = *state;
    for (uint32_t round = 1; round <= 200; round++) {
        pthread_t threads[N_WORKERS];
        struct recorder recorders[N_WORKERS];
        publish(rig, round);
        for (uint32_t k = 0; k < N_WORKERS; k++) {
            recorders[k] = (struct recorder){.rig = rig, .worker = k};
            assert_int_equal(pthread_create(&threads[k], NULL, record_many, &recorders[k]), 0);
        }
        for (uint32_t k = 0; k < N_WORKERS; k++)
            pthread_join(threads[k], NULL);
        expect_most_important(rig);
    }
}

/* A worker dies before the text is complete: the record has its weight, without the lowest bit. */
static void a_half_written_record_belongs_to_its_place(void **state)
{
    struct rig *rig = *state;
    struct mr_record *half = &rig->view.records[0];
    record(rig, 30, MR_ERR_DAMAGED, "half");
    atomic_fetch_sub(&half->weight, 1);
    memset(half->error.text, 'x', sizeof half->error.text);
    for (uint32_t place = 0; place < BATCH; place++)
        if (place != 30)
            record_all_of(rig, place); /* with more weight, and with less */
    expect(rig, 30, true, NULL);
    expect(rig, 29, true, NULL);
    record(rig, 30, MR_ERR_DAMAGED, "whole");
    expect(rig, 30, true, "whole");
    assert_string_equal(half->error.text, "whole");
}

/* It dies after that, and the place's next holder finds the same error again. */
static void complete_records_are_not_doubled(void **state)
{
    struct rig *rig = *state;
    for (uint32_t k = 0; k < 2 * BATCH; k++)
        record(rig, 3, MR_ERR_DAMAGED, k % 2 ? "again" : "first");
    expect(rig, 3, true, "again");
    for (uint32_t i = 1; i < rig->view.n_records; i++)
        assert_int_equal(rig->view.records[i].weight, 0);
}

/* In the largest batch each place has a different weight, above that of a free record. */
static void the_last_place_of_the_largest_batch_has_a_record(void **state)
{
    struct rig *rig = *state;
    rig->view.skipped = calloc(UINT16_MAX, sizeof *rig->view.skipped);
    assert_non_null(rig->view.skipped);
    record(rig, UINT16_MAX - 1, MR_ERR_DAMAGED, "the last");
    record(rig, UINT16_MAX - 2, MR_ERR_DAMAGED, "the last but one");
    expect(rig, UINT16_MAX - 1, true, "the last");
    expect(rig, UINT16_MAX - 2, true, "the last but one");
    for (uint32_t place = 0; place < BATCH; place++)
        record(rig, place, MR_ERR_DAMAGED, "more important");
    expect(rig, UINT16_MAX - 1, true, NULL);
    expect(rig, 0, true, "more important");
    free((void *)rig->view.skipped);
}

#define ON_SLOT(test) cmocka_unit_test_setup_teardown(test, make, destroy)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_SLOT(a_place_has_its_errors_until_the_next_batch),
        ON_SLOT(the_most_important_errors_are_recorded_in_any_order),
        ON_SLOT(the_most_important_errors_are_recorded_by_workers_at_the_same_time),
        ON_SLOT(a_half_written_record_belongs_to_its_place),
        ON_SLOT(complete_records_are_not_doubled),
        ON_SLOT(the_last_place_of_the_largest_batch_has_a_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
