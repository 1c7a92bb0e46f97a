/* SPDX-License-Identifier: Apache-2.0 */
/* Damaged samples under fail, skip and zero: what is delivered, counted and listed. */
#include "tests/loader/rig.h"
#include "tests/support/devices.h"

#include <stdio.h>
#include <string.h>

static void break_samples(struct rig *rig, const int64_t *indices, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        rig->shared->fails[indices[i]] = true;
}

static uint64_t n_damaged(mr_loader *loader)
{
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    assert_int_equal(mr_loader_get_stats(loader, &stats), MR_OK);
    return stats.n_damaged;
}

static uint64_t n_distinct(mr_loader *loader)
{
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    assert_int_equal(mr_loader_get_stats(loader, &stats), MR_OK);
    return stats.n_damaged_distinct;
}

/* Expect that exactly these indices are listed, in this order, with the callback's text. */
static void expect_listed(const mr_loader *loader, const int64_t *indices, unsigned n)
{
    mr_error error;
    for (unsigned i = 0; i < n; i++) {
        char words[64];
        snprintf(words, sizeof words, "sample %lld is broken", (long long)indices[i]);
        assert_int_equal(mr_loader_damaged(loader, i, &error), MR_OK);
        assert_int_equal(error.status, MR_ERR_DAMAGED);
        assert_int_equal(error.index, indices[i]);
        if (!strstr(error.text, words))
            fail_msg("'%s' lacks '%s'", error.text, words);
        assert_non_null(strstr(error.text, "(index "));
        assert_non_null(strstr(error.text, "get returned 7"));
    }
    assert_int_equal(mr_loader_damaged(loader, n, &error), MR_END);
    assert_int_equal(mr_loader_damaged(loader, UINT64_MAX, &error), MR_END);
}

static void fail_reports_in_place_of_the_batch_and_continues(void **state)
{
    struct rig *rig = *state;
    break_samples(rig, (int64_t[]){17, 20, 99}, 3);
    for (unsigned m = 0; m < rig_n_modes; m++) {
        mr_loader_options options = rig_options_of(&rig_modes[m]);
        mr_loader *loader = rig_loader(rig, &options);
        for (uint64_t number = 0; number < 13; number++) {
            if (number == 2 || number == 12) {
                rig_expect(loader, MR_ERR_DAMAGED);
                const mr_error *error = mr_loader_error(loader);
                assert_int_equal(error->index, number == 2 ? 17 : 99);
                assert_non_null(strstr(error->text, number == 2 ? "(index 17)" : "(index 99)"));
                assert_non_null(strstr(error->text, "is broken"));
                continue;
            }
            mr_batch *batch = rig_next(loader);
            assert_int_equal(mr_batch_number(batch), number);
            assert_int_equal(mr_batch_valid(batch), 8);
            rig_check(batch);
            mr_batch_release(batch);
        }
        rig_expect(loader, MR_END);
        expect_listed(loader, (int64_t[]){17, 20, 99}, 3);
        mr_loader_destroy(loader);
    }
}

static void zero_leaves_masked_holes(void **state)
{
    struct rig *rig = *state;
    const int64_t broken[] = {0, 9, 15, 98, 99};
    break_samples(rig, broken, 5);
    for (unsigned m = 0; m < rig_n_modes; m++) {
        mr_loader_options options = rig_options_of(&rig_modes[m]);
        options.on_error = MR_ON_ERROR_ZERO;
        mr_loader *loader = rig_loader(rig, &options);
        for (unsigned k = 0; k < 13; k++) {
            mr_batch *batch = rig_next(loader);
            const int64_t *index = mr_test_data(batch, "index");
            const uint8_t *mask = mr_test_data(batch, "mask");
            const int32_t *geometry = mr_test_data(batch, "geometry");
            rig_check(batch); /* zeros in image and label */
            for (uint32_t i = 0; i < mr_batch_size(batch); i++) {
                assert_int_equal(index[i], k * 8 + i);
                assert_int_equal(mask[i], !rig->shared->fails[index[i]]);
                assert_int_equal(geometry[8 * i], mask[i] ? RIG_WIDTH : 0);
            }
            assert_int_equal(mr_batch_valid(batch), k == 0 ? 7 : k == 1 ? 6 : k == 12 ? 2 : 8);
            mr_batch_release(batch);
        }
        rig_expect(loader, MR_END);
        assert_int_equal(n_damaged(loader), 5);
        expect_listed(loader, broken, 5);
        mr_loader_destroy(loader);
    }
}

static void skip_takes_the_next_good_index_and_wraps(void **state)
{
    struct rig *rig = *state;
    break_samples(rig, (int64_t[]){5, 6, 7, 40, 99}, 5);
    for (unsigned m = 0; m < rig_n_modes; m++) {
        mr_loader_options options = rig_options_of(&rig_modes[m]);
        int64_t got[100];
        options.on_error = MR_ON_ERROR_SKIP;
        mr_loader *loader = rig_loader(rig, &options);
        /* labels and pixels are those of the substitutes */
        assert_int_equal(rig_drain(loader, false, got, 100), 100);
        for (int64_t i = 0; i < 100; i++)
            assert_int_equal(got[i], i >= 5 && i <= 7 ? 8 : i == 40 ? 41 : i == 99 ? 0 : i);
        assert_int_equal(n_distinct(loader), 5);
        assert_int_equal(n_damaged(loader), 5);
        expect_listed(loader, (int64_t[]){5, 6, 7, 40, 99}, 5);
        mr_loader_destroy(loader);
    }
}

/*
 * One good sample among a thousand. Each damaged one is tried in its own place, and at most once
 * more by each worker that looks for a substitute at the same time. The counts do not depend on
 * which worker tried.
 */
static void skip_tries_a_run_of_damaged_samples_once(void **state)
{
    (void)state;
    enum { N = 1000, GOOD = 500 };
    for (unsigned k = 0; k < 2 * rig_n_modes; k++) {
        struct rig *rig = rig_create(N);
        mr_loader_options options = rig_options_of(&rig_modes[k % rig_n_modes]);
        mr_error error;
        int64_t got[N];
        uint32_t n_workers = 1;
        if (options.num_workers != MR_NO_WORKERS)
            n_workers = options.num_workers = k < rig_n_modes ? 2 : 8;
        options.on_error = MR_ON_ERROR_SKIP;
        options.no_shuffle = k < rig_n_modes;
        memset(rig->shared->fails, 1, sizeof rig->shared->fails);
        rig->shared->fails[GOOD] = false;
        mr_loader *loader = rig_loader(rig, &options);
        assert_int_equal(rig_drain(loader, false, got, N), N);
        for (unsigned i = 0; i < N; i++) {
            assert_int_equal(got[i], GOOD);
            uint32_t n_gets = atomic_load(&rig->shared->gets[i]);
            if (i != GOOD && n_gets > 2 * (1 + n_workers)) /* workers have begun the next epoch */
                fail_msg("sample %u was tried %u times by %u workers", i, n_gets, n_workers);
        }
        assert_int_equal(n_distinct(loader), N - 1);
        assert_int_equal(n_damaged(loader), N - 1);
        for (unsigned i = 0; i < N - 1; i++)
            assert_int_equal(mr_loader_damaged(loader, i, &error), MR_OK);
        assert_int_equal(mr_loader_damaged(loader, N - 1, &error), MR_END);
        mr_loader_destroy(loader);
        rig_destroy(rig);
    }
}

/*
 * A sample that is damaged in one epoch may be good in another: the marks are cleared with each
 * epoch, and with each change of epoch.
 */
static void a_sample_that_is_good_again_is_used_in_the_next_epoch(void **state)
{
    struct rig *rig = *state;
    for (unsigned m = 0; m < rig_n_modes; m++) {
        /* its workers may read `fails` while it changes */
        if (rig_modes[m].start == MR_START_THREAD)
            continue;
        mr_loader_options options = rig_options_of(&rig_modes[m]);
        const uint64_t epochs[] = {7, 3, 5}; /* not made in advance: 0 is followed by 1 */
        int64_t got[100];
        options.on_error = MR_ON_ERROR_SKIP;
        mr_loader *loader = rig_loader(rig, &options);
        for (unsigned k = 0; k < 3; k++) {
            for (unsigned i = 10; i < 30; i++)
                rig->shared->fails[i] = k != 1 || i == 10;
            assert_int_equal(mr_loader_set_epoch(loader, epochs[k]), MR_OK);
            assert_int_equal(rig_drain(loader, false, got, 100), 100);
            assert_int_equal(got[10], k == 1 ? 11 : 30);
            assert_int_equal(got[29], k == 1 ? 29 : 30);
        }
        mr_loader_destroy(loader);
    }
}

static void the_same_sample_is_listed_once_and_counted_per_epoch(void **state)
{
    struct rig *rig = *state;
    const int64_t broken[] = {3, 50};
    break_samples(rig, broken, 2);
    mr_loader_options options = rig_options();
    int64_t got[100];
    options.on_error = MR_ON_ERROR_ZERO;
    mr_loader *loader = rig_loader(rig, &options);
    for (uint64_t epoch = 0; epoch < 4; epoch++) {
        assert_int_equal(mr_loader_set_epoch(loader, epoch), MR_OK);
        assert_int_equal(rig_drain(loader, false, got, 100), 100);
        assert_int_equal(n_damaged(loader), 2 * (epoch + 1));
        assert_int_equal(n_distinct(loader), 2);
        expect_listed(loader, broken, 2);
    }
    mr_loader_destroy(loader);
}

/* Expect that the next batch is an error with this text, about this index. */
static void expect_error(mr_loader *loader, int64_t index, const char *words)
{
    rig_expect(loader, MR_ERR_DAMAGED);
    assert_string_equal(mr_loader_error(loader)->text, words);
    assert_int_equal(mr_loader_error(loader)->index, index);
}

/* The ways to make a batch, each with its number of workers. */
static mr_loader_options options_of_way(unsigned k)
{
    mr_loader_options options = rig_options_of(&rig_modes[k % rig_n_modes]);
    if (options.num_workers != MR_NO_WORKERS)
        options.num_workers = k < rig_n_modes ? 1 : 8;
    options.n_epochs = 1;
    return options;
}

#define BROKEN(index)                                                                              \
    "callback sample (index " #index "): get returned 7: sample " #index " is broken"
#define NAMED(index) "callback sample (index " #index ")"

static void when_every_sample_is_broken_skip_counts_and_names_the_first(void **state)
{
    (void)state;
    for (unsigned k = 0; k < 2 * rig_n_modes; k++) {
        struct rig *rig = rig_create(20);
        mr_loader_options options = options_of_way(k);
        options.on_error = MR_ON_ERROR_SKIP;
        memset(rig->shared->fails, 1, sizeof rig->shared->fails);
        mr_loader *loader = rig_loader(rig, &options);
#define ALL "all 20 samples of the dataset are damaged: "
        expect_error(loader, 0, ALL BROKEN(0) "; then " NAMED(1) ", " NAMED(2) ", ...");
        expect_error(loader, 8, ALL BROKEN(8) "; then " NAMED(9) ", " NAMED(10) ", ...");
        expect_error(loader, 16, ALL BROKEN(16) "; then " NAMED(17) ", " NAMED(18) ", ...");
#undef ALL
        rig_expect(loader, MR_END);
        mr_loader_destroy(loader);
        rig_destroy(rig);
    }
}

static void when_a_whole_batch_is_broken_fail_counts_and_names_the_first(void **state)
{
    (void)state;
    for (unsigned k = 0; k < 2 * rig_n_modes; k++) {
        struct rig *rig = rig_create(30);
        mr_loader_options options = options_of_way(k);
        memset(rig->shared->fails, 1, sizeof rig->shared->fails);
        rig->shared->fails[15] = false;
        mr_loader *loader = rig_loader(rig, &options);
#define ALL(n) "all " #n " samples of the batch are damaged: "
        expect_error(loader, 0, ALL(8) BROKEN(0) "; then " NAMED(1) ", " NAMED(2) ", ...");
        expect_error(loader, 8, BROKEN(8));
        expect_error(loader, 16, ALL(8) BROKEN(16) "; then " NAMED(17) ", " NAMED(18) ", ...");
        expect_error(loader, 24, ALL(6) BROKEN(24) "; then " NAMED(25) ", " NAMED(26) ", ...");
        rig_expect(loader, MR_END);
        mr_loader_destroy(loader);
        rig_destroy(rig);
    }
}

/* Of two samples there is no third to name, and for one there is no count. */
static void a_few_samples_are_all_named(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 3; n++) {
        struct rig *rig = rig_create(n);
        mr_loader_options options = options_of_way(0);
        memset(rig->shared->fails, 1, sizeof rig->shared->fails);
        mr_loader *loader = rig_loader(rig, &options);
        expect_error(loader, 0,
                     n == 1   ? BROKEN(0)
                     : n == 2 ? ALL(2) BROKEN(0) "; then " NAMED(1)
                              : ALL(3) BROKEN(0) "; then " NAMED(1) ", " NAMED(2));
        rig_expect(loader, MR_END);
        mr_loader_destroy(loader);
        rig_destroy(rig);
    }
}

/* Error texts may be missing, names may not. */
static void more_damage_in_a_batch_than_records_is_listed_by_name(void **state)
{
    (void)state;
    for (unsigned k = 0; k < 2 * rig_n_modes; k++) {
        struct rig *rig = rig_create(200);
        mr_loader_options options = options_of_way(k);
        mr_error error;
        unsigned n_words = 0;
        options.batch_size = 200;
        memset(rig->shared->fails, 1, sizeof rig->shared->fails);
        mr_loader *loader = rig_loader(rig, &options);
        rig_expect(loader, MR_ERR_DAMAGED);
        assert_int_equal(mr_loader_error(loader)->index, 0);
        assert_int_equal(n_damaged(loader), 200);
        assert_int_equal(n_distinct(loader), 200);
        for (int64_t i = 0; i < 200; i++) {
            char words[64];
            snprintf(words, sizeof words, "(index %lld)", (long long)i);
            assert_int_equal(mr_loader_damaged(loader, (uint64_t)i, &error), MR_OK);
            assert_int_equal(error.status, MR_ERR_DAMAGED);
            assert_int_equal(error.index, i);
            assert_non_null(strstr(error.text, words));
            n_words += strstr(error.text, "is broken") != NULL;
        }
        assert_in_range(n_words, 64, 72);
        assert_int_equal(mr_loader_damaged(loader, 200, &error), MR_END);
        mr_loader_destroy(loader);
        rig_destroy(rig);
    }
}

/* The worker that makes the batch's first sample may be the last one to find damage. */
static void fail_has_the_same_words_with_any_number_of_workers(void **state)
{
    (void)state;
    enum { N = 200, FIRST_BROKEN = 3 };
    char words[MR_ERROR_TEXT] = "";
    for (unsigned k = 0; k < 2 * rig_n_modes; k++) {
        struct rig *rig = rig_create(N);
        mr_loader_options options = options_of_way(k);
        options.batch_size = N;
        for (unsigned i = FIRST_BROKEN; i < N; i++)
            rig->shared->fails[i] = true;
        rig->shared->late = FIRST_BROKEN;
        rig->shared->late_gets = options.num_workers == 8 ? N / 2 : 0;
        mr_loader *loader = rig_loader(rig, &options);
        rig_expect(loader, MR_ERR_DAMAGED);
        const mr_error *error = mr_loader_error(loader);
        assert_int_equal(error->index, FIRST_BROKEN);
        assert_non_null(strstr(error->text, "sample 3 is broken"));
        if (k > 0)
            assert_string_equal(error->text, words);
        strcpy(words, error->text);
        assert_int_equal(n_distinct(loader), N - FIRST_BROKEN);
        mr_loader_destroy(loader);
        rig_destroy(rig);
    }
}

static void the_first_thousand_are_kept(void **state)
{
    (void)state;
    struct rig *rig = rig_create(1010);
    mr_loader_options options = rig_options();
    mr_error error;
    int64_t got[RIG_MAX];
    options.batch_size = 10;
    options.on_error = MR_ON_ERROR_ZERO;
    memset(rig->shared->fails, 1, sizeof rig->shared->fails);
    mr_loader *loader = rig_loader(rig, &options);
    assert_int_equal(rig_drain(loader, false, got, RIG_MAX), 1010);
    assert_int_equal(n_damaged(loader), 1010);
    assert_int_equal(n_distinct(loader), 1010);
    for (int64_t i = 0; i < 1000; i++) {
        assert_int_equal(mr_loader_damaged(loader, (uint64_t)i, &error), MR_OK);
        assert_int_equal(error.index, i);
    }
    assert_int_equal(mr_loader_damaged(loader, 1000, &error), MR_END);
    mr_loader_destroy(loader);
    rig_destroy(rig);
}

/*
 * Of three damaged samples in a row, a rank of two wants 0 and 2, and counts these; 1 was only
 * tried. An own order has 2 twice.
 */
static void only_wanted_samples_are_counted_and_listed(void **state)
{
    struct rig *rig = *state;
    break_samples(rig, (int64_t[]){0, 1, 2}, 3);
    for (unsigned m = 0; m < rig_n_modes; m++) {
        mr_loader_options options = rig_options_of(&rig_modes[m]);
        int64_t got[50];
        options.on_error = MR_ON_ERROR_SKIP;
        options.world_size = 2;
        mr_loader *loader = rig_loader(rig, &options);
        assert_int_equal(rig_drain(loader, false, got, 50), 50);
        for (unsigned i = 0; i < 50; i++)
            assert_int_equal(got[i], i < 2 ? 3 : 2 * i);
        assert_int_equal(n_damaged(loader), 2);
        assert_int_equal(n_distinct(loader), 2);
        expect_listed(loader, (int64_t[]){0, 2}, 2);
        assert_int_equal(mr_loader_set_epoch_order(loader, 1, (int64_t[]){2, 60, 2}, 3), MR_OK);
        assert_int_equal(rig_drain(loader, false, got, 50), 3);
        assert_int_equal(n_damaged(loader), 4);
        assert_int_equal(n_distinct(loader), 2);
        expect_listed(loader, (int64_t[]){0, 2}, 2);
        mr_loader_destroy(loader);
    }
}

/* With an exact tail, a substitute would deliver a sample twice. */
static void skip_with_an_exact_tail_leaves_a_hole(void **state)
{
    struct rig *rig = *state;
    break_samples(rig, (int64_t[]){10}, 1);
    mr_loader_options options = rig_options();
    int64_t got[100];
    options.on_error = MR_ON_ERROR_SKIP;
    options.tail = MR_TAIL_EXACT;
    mr_loader *loader = rig_loader(rig, &options);
    assert_int_equal(rig_drain(loader, false, got, 100), 100);
    for (int64_t i = 0; i < 100; i++)
        assert_int_equal(got[i], i == 10 ? -1 : i);
    assert_int_equal(n_damaged(loader), 1);
    mr_loader_destroy(loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(fail_reports_in_place_of_the_batch_and_continues),
        RIG_TEST(zero_leaves_masked_holes),
        RIG_TEST(skip_takes_the_next_good_index_and_wraps),
        cmocka_unit_test(skip_tries_a_run_of_damaged_samples_once),
        RIG_TEST(a_sample_that_is_good_again_is_used_in_the_next_epoch),
        RIG_TEST(the_same_sample_is_listed_once_and_counted_per_epoch),
        cmocka_unit_test(when_every_sample_is_broken_skip_counts_and_names_the_first),
        cmocka_unit_test(when_a_whole_batch_is_broken_fail_counts_and_names_the_first),
        cmocka_unit_test(a_few_samples_are_all_named),
        cmocka_unit_test(more_damage_in_a_batch_than_records_is_listed_by_name),
        cmocka_unit_test(fail_has_the_same_words_with_any_number_of_workers),
        cmocka_unit_test(the_first_thousand_are_kept),
        RIG_TEST(only_wanted_samples_are_counted_and_listed),
        RIG_TEST(skip_with_an_exact_tail_leaves_a_hole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
