/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slot's life: publishing, the wake-up hint, cancelling, and recovery after a death at any
 * instruction.
 */
#include "pinned/slot.h"
#include "tests/pinned/plain_columns.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { BATCH = 4, N_SAMPLES = 100, N_WORKERS = 21 };

struct rig {
    struct mr_slot_layout layout;
    void *memory;
    struct mr_slot_view view;
};

static int make(void **state)
{
    struct rig *rig = calloc(1, sizeof *rig);
    mr_error error;
    const struct mr_slot_shape shape = {
        .n_slots = 2, .n_workers = N_WORKERS, .batch_size = BATCH, .columns = PLAIN_COLUMNS(16, 8)};
    if (!rig || mr_slot_layout_init(&rig->layout, &shape, &error) != MR_OK)
        return -1;
    rig->memory = aligned_alloc(4096, rig->layout.slab_bytes);
    if (!rig->memory)
        return -1;
    memset(rig->memory, 0, rig->layout.slab_bytes);
    rig->view = mr_slot_at(&rig->layout, rig->memory, 1);
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

static void publish(struct rig *rig, uint64_t sequence, uint32_t n_places)
{
    for (uint32_t i = 0; i < n_places; i++)
        atomic_store(&rig->view.want[i], (int64_t)(90 + i * 5));
    mr_slot_publish(&rig->view, BATCH, sequence, 3, sequence, n_places);
}

static uint64_t take(struct rig *rig, uint32_t i, uint32_t worker)
{
    uint64_t held;
    assert_true(
        mr_place_take(&rig->view.places[i], mr_place_load(&rig->view.places[i]), worker, &held));
    return held;
}

/* Take and finish a place; returns the result of the count-down. */
static bool make_place(struct rig *rig, uint32_t i, uint32_t worker)
{
    assert_true(mr_place_finish(&rig->view.places[i], take(rig, i, worker)));
    return mr_slot_count_down(&rig->view);
}

static enum mr_place_state place_state(const struct rig *rig, uint32_t i)
{
    return mr_place_state(mr_place_load(&rig->view.places[i]));
}

static void publishing_opens_its_places_and_shuts_the_rest(void **state)
{
    struct rig *rig = *state;
    atomic_store(&rig->view.skipped[0], 7);
    atomic_store(&rig->view.outcome[1], MR_OUTCOME_FAILED);
    atomic_store(&rig->view.slot->n_warnings, 5);
    publish(rig, 11, 3);
    const struct mr_slot *slot = rig->view.slot;
    assert_int_equal(mr_slot_state(slot), MR_SLOT_FILLING);
    assert_int_equal(slot->sequence, 11);
    assert_int_equal(slot->epoch, 3);
    assert_int_equal(slot->batch, 11);
    assert_int_equal(slot->n_places, 3);
    assert_int_equal(slot->missing, 3);
    assert_int_equal(slot->n_warnings, 0);
    assert_int_equal(rig->view.skipped[0], 0);
    assert_int_equal(rig->view.outcome[1], MR_OUTCOME_NONE);
    for (uint32_t i = 0; i < BATCH; i++) {
        assert_int_equal(place_state(rig, i), i < 3 ? MR_PLACE_OPEN : MR_PLACE_CLOSED);
        assert_int_equal(mr_place_generation(mr_place_load(&rig->view.places[i])),
                         slot->generation);
    }
}

static void the_last_place_wakes_the_host(void **state)
{
    struct rig *rig = *state;
    publish(rig, 0, 3);
    assert_false(make_place(rig, 2, 1));
    assert_false(make_place(rig, 0, 2));
    assert_false(mr_slot_is_filled(&rig->view));
    assert_true(make_place(rig, 1, 1));
    assert_true(mr_slot_is_filled(&rig->view));
}

static void an_empty_batch_is_filled_at_once(void **state)
{
    struct rig *rig = *state;
    publish(rig, 0, 0);
    assert_true(mr_slot_is_filled(&rig->view));
    assert_false(mr_slot_is_busy(&rig->view));
}

static void a_slot_is_busy_while_a_place_is(void **state)
{
    struct rig *rig = *state;
    publish(rig, 0, 3);
    assert_false(mr_slot_is_busy(&rig->view));
    uint64_t held = take(rig, 1, 1);
    assert_true(mr_slot_is_busy(&rig->view));
    assert_true(mr_place_finish(&rig->view.places[1], held));
    assert_false(mr_slot_is_busy(&rig->view));
}

static void a_new_generation_follows_each_publishing(void **state)
{
    struct rig *rig = *state;
    publish(rig, 0, 2);
    uint64_t seen = mr_place_load(&rig->view.places[0]), held;
    assert_false(make_place(rig, 1, 1));
    assert_true(make_place(rig, 0, 1));
    mr_slot_move(rig->view.slot, MR_SLOT_FILLING, MR_SLOT_FILLED);
    mr_slot_move(rig->view.slot, MR_SLOT_FILLED, MR_SLOT_LENT);
    mr_slot_move(rig->view.slot, MR_SLOT_LENT, MR_SLOT_FREE);
    publish(rig, 1, 2);
    assert_false(mr_place_take(&rig->view.places[0], seen, 1, &held));
    assert_int_equal(mr_place_generation(mr_place_load(&rig->view.places[0])),
                     mr_place_generation(seen) + 1);
}

/* The late count of a worker from an earlier generation makes the hint too low, never too high. */
static void a_late_count_does_not_lose_the_wake_up(void **state)
{
    struct rig *rig = *state;
    publish(rig, 0, 2);
    uint64_t held = take(rig, 0, 1);
    assert_true(mr_place_finish(&rig->view.places[0], held)); /* and sleeps before it counts */
    assert_false(make_place(rig, 1, 2));
    assert_true(mr_slot_is_filled(&rig->view));
    mr_slot_move(rig->view.slot, MR_SLOT_FILLING, MR_SLOT_FILLED);
    mr_slot_move(rig->view.slot, MR_SLOT_FILLED, MR_SLOT_FREE);
    publish(rig, 1, 2);
    assert_false(mr_slot_count_down(&rig->view)); /* and counts now */
    assert_false(make_place(rig, 0, 2));
    assert_true(make_place(rig, 1, 2));
}

static void cancelling_closes_what_is_open_and_leaves_what_is_held(void **state)
{
    struct rig *rig = *state;
    publish(rig, 0, 4);
    uint64_t held = take(rig, 1, 1);
    assert_false(make_place(rig, 2, 2));
    mr_slot_cancel(&rig->view);
    assert_int_equal(mr_slot_state(rig->view.slot), MR_SLOT_CANCELED);
    assert_int_equal(place_state(rig, 0), MR_PLACE_CLOSED);
    assert_int_equal(place_state(rig, 1), MR_PLACE_BUSY);
    assert_int_equal(place_state(rig, 2), MR_PLACE_DONE);
    assert_true(mr_slot_is_busy(&rig->view));
    assert_true(mr_place_finish(&rig->view.places[1], held));
    assert_true(mr_slot_count_down(&rig->view)); /* the slot may be free now: wake the host */
    assert_false(mr_slot_is_busy(&rig->view));
    mr_slot_move(rig->view.slot, MR_SLOT_CANCELED, MR_SLOT_FREE);
    publish(rig, 1, 4);
    assert_int_equal(place_state(rig, 1), MR_PLACE_OPEN);
}

static void a_filled_slot_can_be_canceled(void **state)
{
    struct rig *rig = *state;
    publish(rig, 0, 1);
    assert_true(make_place(rig, 0, 1));
    mr_slot_move(rig->view.slot, MR_SLOT_FILLING, MR_SLOT_FILLED);
    mr_slot_cancel(&rig->view);
    assert_int_equal(mr_slot_state(rig->view.slot), MR_SLOT_CANCELED);
}

static void describe(void *user, int64_t index, mr_error *error_out)
{
    (*(int *)user)++;
    mr_error_set(error_out, MR_ERR_DAMAGED, "sample %lld kills", (long long)index);
    error_out->index = index;
}

static uint32_t die(struct rig *rig, uint32_t worker, uint32_t blame, int *n_described)
{
    struct mr_death death = {.worker = worker,
                             .blame = blame,
                             .n_samples = N_SAMPLES,
                             .describe = describe,
                             .user = n_described};
    return mr_slot_recover(&rig->view, BATCH, &death);
}

static void a_death_gives_back_its_own_places_only(void **state)
{
    struct rig *rig = *state;
    int n = 0;
    publish(rig, 0, 4);
    take(rig, 0, 1);
    take(rig, 1, 2);
    assert_false(make_place(rig, 2, 1));
    assert_int_equal(die(rig, 1, MR_BLAME_CRASH, &n), 1);
    assert_int_equal(place_state(rig, 0), MR_PLACE_OPEN);
    assert_int_equal(mr_place_blame(mr_place_load(&rig->view.places[0])), MR_BLAME_CRASH);
    assert_int_equal(place_state(rig, 1), MR_PLACE_BUSY);
    assert_int_equal(place_state(rig, 2), MR_PLACE_DONE);
    assert_int_equal(place_state(rig, 3), MR_PLACE_OPEN);
    assert_int_equal(n, 0);
}

static void a_death_between_done_and_the_count_loses_no_wake_up(void **state)
{
    struct rig *rig = *state;
    int n = 0;
    publish(rig, 0, 3);
    uint64_t held = take(rig, 0, 1);
    assert_true(mr_place_finish(&rig->view.places[0], held)); /* dies here: never counts */
    assert_int_equal(die(rig, 1, MR_BLAME_KILL, &n), 0);
    assert_false(make_place(rig, 1, 2));
    assert_true(make_place(rig, 2, 2));
}

static void a_death_after_the_other_places_were_done_is_seen_in_the_words(void **state)
{
    struct rig *rig = *state;
    int n = 0;
    publish(rig, 0, 2);
    uint64_t held = take(rig, 0, 1);
    assert_true(mr_place_finish(&rig->view.places[0], held));
    assert_false(make_place(rig, 1, 2)); /* the hint says that one is missing */
    die(rig, 1, MR_BLAME_KILL, &n);
    /* the host checks the words when the supervisor wakes it */
    assert_true(mr_slot_is_filled(&rig->view));
}

/* The error of a place's wanted sample has this text. */
static void expect_words(const struct rig *rig, uint32_t place, int64_t index, const char *words)
{
    const mr_error *error = mr_slot_recorded(&rig->view, place, true);
    assert_non_null(error);
    assert_int_equal(error->index, index);
    assert_string_equal(error->text, words);
}

static void the_second_crash_makes_the_sample_damaged(void **state)
{
    struct rig *rig = *state;
    int n = 0;
    publish(rig, 0, 4);
    take(rig, 3, 1); /* wants 105, which wraps to 5 */
    die(rig, 1, MR_BLAME_CRASH, &n);
    assert_int_equal(rig->view.skipped[3], 0);
    take(rig, 3, 2);
    die(rig, 2, MR_BLAME_CRASH, &n);
    assert_int_equal(n, 1);
    assert_int_equal(rig->view.skipped[3], 1);
    assert_int_equal(place_state(rig, 3), MR_PLACE_OPEN);
    assert_int_equal(mr_place_blame(mr_place_load(&rig->view.places[3])), 0);
    expect_words(rig, 3, 5, "sample 5 kills");
}

static void the_next_candidate_is_blamed_for_itself(void **state)
{
    struct rig *rig = *state;
    int n = 0;
    publish(rig, 0, 1); /* wants 90 */
    for (int i = 0; i < 4; i++) {
        take(rig, 0, 1);
        die(rig, 1, MR_BLAME_CRASH, &n);
    }
    assert_int_equal(n, 2);
    assert_int_equal(rig->view.skipped[0], 2);
    expect_words(rig, 0, 90, "sample 90 kills");
    assert_int_equal(rig->view.slot->n_errors, 1); /* a substitute leaves no text */
}

static void twenty_kills_make_the_sample_damaged(void **state)
{
    struct rig *rig = *state;
    int n = 0;
    publish(rig, 0, 1);
    for (uint32_t i = 1; i <= 20; i++) {
        assert_int_equal(n, 0);
        take(rig, 0, i);
        die(rig, i, MR_BLAME_KILL, &n);
        assert_int_equal(mr_place_blame(mr_place_load(&rig->view.places[0])), i < 20 ? i : 0);
    }
    assert_int_equal(n, 1);
    assert_int_equal(rig->view.skipped[0], 1);
}

static void ten_kills_and_a_crash_make_the_sample_damaged(void **state)
{
    struct rig *rig = *state;
    int n = 0;
    publish(rig, 0, 1);
    for (uint32_t i = 0; i < 10; i++) {
        take(rig, 0, 1);
        die(rig, 1, MR_BLAME_KILL, &n);
    }
    assert_int_equal(n, 0);
    take(rig, 0, 1);
    die(rig, 1, MR_BLAME_CRASH, &n);
    assert_int_equal(n, 1);
}

static void a_death_in_a_canceled_slot_closes_the_place_without_blame(void **state)
{
    struct rig *rig = *state;
    int n = 0;
    publish(rig, 0, 2);
    for (int i = 0; i < 2; i++)
        take(rig, (uint32_t)i, 1);
    mr_slot_cancel(&rig->view);
    assert_int_equal(die(rig, 1, MR_BLAME_LIMIT, &n), 2);
    assert_int_equal(place_state(rig, 0), MR_PLACE_CLOSED);
    assert_int_equal(place_state(rig, 1), MR_PLACE_CLOSED);
    assert_false(mr_slot_is_busy(&rig->view));
    assert_int_equal(n, 0);
    assert_int_equal(rig->view.slot->n_errors, 0);
}

/* The legal moves of slot.h, written here a second time. */
static bool is_legal(int from, int to)
{
    switch (from * 10 + to) {
    case MR_SLOT_FREE * 10 + MR_SLOT_FILLING:
    case MR_SLOT_FILLING * 10 + MR_SLOT_FILLED:
    case MR_SLOT_FILLING * 10 + MR_SLOT_CANCELED:
    case MR_SLOT_FILLED * 10 + MR_SLOT_LENT:
    case MR_SLOT_FILLED * 10 + MR_SLOT_FREE:
    case MR_SLOT_FILLED * 10 + MR_SLOT_CANCELED:
    case MR_SLOT_FILLED * 10 + MR_SLOT_COPYING:
    case MR_SLOT_COPYING * 10 + MR_SLOT_FREE:
    case MR_SLOT_COPYING * 10 + MR_SLOT_FILLED:
    case MR_SLOT_LENT * 10 + MR_SLOT_FREE:
    case MR_SLOT_LENT * 10 + MR_SLOT_COPYING:
    case MR_SLOT_CANCELED * 10 + MR_SLOT_FREE: return true;
    default: return false;
    }
}

/* The signal that ends a child that makes this move of a slot in this state; 0 if it survives. */
static int signal_of_move(struct rig *rig, int actual, int from, int to)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit none = {0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL);
        if (!freopen("/dev/null", "w", stderr))
            _exit(99);
        atomic_store(&rig->view.slot->state, (uint32_t)actual);
        mr_slot_move(rig->view.slot, (enum mr_slot_state)from, (enum mr_slot_state)to);
        _exit(mr_slot_state(rig->view.slot) == (enum mr_slot_state)to ? 0 : 98);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status))
        assert_int_equal(WEXITSTATUS(status), 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void illegal_moves_of_a_slot_abort(void **state)
{
    for (int from = 0; from < MR_SLOT_N_STATES; from++)
        for (int to = 0; to < MR_SLOT_N_STATES; to++)
            assert_int_equal(signal_of_move(*state, from, from, to),
                             is_legal(from, to) ? 0 : SIGABRT);
}

static void a_move_from_a_state_other_than_the_present_aborts(void **state)
{
    assert_int_equal(signal_of_move(*state, MR_SLOT_FREE, MR_SLOT_LENT, MR_SLOT_FREE), SIGABRT);
    assert_int_equal(signal_of_move(*state, MR_SLOT_CANCELED, MR_SLOT_FILLING, MR_SLOT_FILLED),
                     SIGABRT);
}

#define ON_SLOT(test) cmocka_unit_test_setup_teardown(test, make, destroy)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_SLOT(publishing_opens_its_places_and_shuts_the_rest),
        ON_SLOT(the_last_place_wakes_the_host),
        ON_SLOT(an_empty_batch_is_filled_at_once),
        ON_SLOT(a_slot_is_busy_while_a_place_is),
        ON_SLOT(a_new_generation_follows_each_publishing),
        ON_SLOT(a_late_count_does_not_lose_the_wake_up),
        ON_SLOT(cancelling_closes_what_is_open_and_leaves_what_is_held),
        ON_SLOT(a_filled_slot_can_be_canceled),
        ON_SLOT(a_death_gives_back_its_own_places_only),
        ON_SLOT(a_death_between_done_and_the_count_loses_no_wake_up),
        ON_SLOT(a_death_after_the_other_places_were_done_is_seen_in_the_words),
        ON_SLOT(the_second_crash_makes_the_sample_damaged),
        ON_SLOT(the_next_candidate_is_blamed_for_itself),
        ON_SLOT(twenty_kills_make_the_sample_damaged),
        ON_SLOT(ten_kills_and_a_crash_make_the_sample_damaged),
        ON_SLOT(a_death_in_a_canceled_slot_closes_the_place_without_blame),
        ON_SLOT(illegal_moves_of_a_slot_abort),
        ON_SLOT(a_move_from_a_state_other_than_the_present_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
