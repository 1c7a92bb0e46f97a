/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mr_loader_next() and releases: time-outs, the end, lent batches in any order and from any thread,
 * after destroy.
 */
#include "tests/loader/rig.h"
#include "tests/support/devices.h"
#include "tests/support/assert_words.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

static uint64_t now_ms(void)
{
    return mr_clock_now_ns() / 1000000;
}

static void a_poll_is_pending_until_the_batch_is_there(void **state)
{
    struct rig *rig = *state;
    for (unsigned m = 1; m < rig_n_modes; m++) {
        mr_loader_options options = rig_options_of(&rig_modes[m]);
        mr_batch *batch = (void *)rig;
        atomic_store(&rig->shared->gate, 1);
        mr_loader *loader = rig_loader(rig, &options);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(mr_loader_next(loader, 0, &batch), MR_PENDING);
            assert_null(batch);
        }
        uint64_t begin = now_ms();
        assert_int_equal(mr_loader_next(loader, 60, &batch), MR_PENDING);
        assert_true(now_ms() - begin >= 59 && now_ms() - begin < 5000);
        atomic_store(&rig->shared->gate, 0);
        assert_int_equal(mr_loader_next(loader, 20000, &batch), MR_OK);
        assert_int_equal(mr_batch_number(batch), 0);
        rig_check(batch);
        mr_batch_release(batch);
        mr_loader_destroy(loader);
    }
}

/* Polling alone is enough, even if the polls have to make the samples. */
static void polling_alone_gets_every_batch(void **state)
{
    struct rig *rig = *state;
    for (unsigned m = 0; m < rig_n_modes; m++) {
        mr_loader_options options = rig_options_of(&rig_modes[m]);
        mr_loader *loader = rig_loader(rig, &options);
        uint64_t begin = now_ms(), n = 0;
        for (;;) {
            mr_batch *batch;
            mr_status status = mr_loader_next(loader, 0, &batch);
            if (status == MR_END)
                break;
            if (now_ms() - begin > 10000)
                fail_msg("mode %s: %llu batches after ten seconds of polling", rig_modes[m].name,
                         (unsigned long long)n);
            if (status == MR_PENDING)
                continue;
            assert_int_equal(status, MR_OK);
            assert_int_equal(mr_batch_number(batch), n++);
            rig_check(batch);
            mr_batch_release(batch);
        }
        assert_int_equal(n, 13);
        mr_loader_destroy(loader);
    }
}

static void without_workers_the_time_is_checked_between_samples(void **state)
{
    struct rig *rig = *state;
    mr_loader_options options = rig_options_of(&rig_modes[0]);
    mr_batch *batch;
    rig->shared->slow_us = 20000;
    mr_loader *loader = rig_loader(rig, &options);
    assert_int_equal(mr_loader_next(loader, 50, &batch), MR_PENDING);
    uint32_t done = atomic_load(&rig->shared->n_gets);
    assert_true(done >= 1 && done < 8);
    assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_OK);
    assert_true(atomic_load(&rig->shared->n_gets) >= 8);
    rig_check(batch);
    mr_batch_release(batch);
    mr_loader_destroy(loader);
}

static void the_end_stays_the_end_until_another_epoch(void **state)
{
    for (unsigned m = 0; m < rig_n_modes; m++) {
        mr_loader_options options = rig_options_of(&rig_modes[m]);
        int64_t indices[100];
        mr_loader *loader = rig_loader(*state, &options);
        assert_int_equal(rig_drain(loader, false, indices, 100), 100);
        for (int i = 0; i < 3; i++)
            rig_expect(loader, MR_END);
        assert_int_equal(mr_loader_epoch(loader), 0);
        assert_int_equal(mr_loader_set_epoch(loader, 1), MR_OK);
        assert_int_equal(mr_loader_epoch(loader), 1);
        mr_batch *batch = rig_next(loader);
        assert_int_equal(mr_batch_epoch(batch), 1);
        assert_int_equal(mr_batch_number(batch), 0);
        mr_batch_release(batch);
        mr_loader_destroy(loader);
    }
}

static void when_all_slots_are_lent_next_says_so_and_continues_after_a_release(void **state)
{
    for (unsigned m = 0; m < rig_n_modes; m++) {
        mr_loader_options options = rig_options_of(&rig_modes[m]);
        options.n_slots = 3;
        mr_loader *loader = rig_loader(*state, &options);
        mr_batch *lent[3], *batch;
        for (int i = 0; i < 3; i++)
            lent[i] = rig_next(loader);
        assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_ERR_STATE);
        assert_null(batch);
        const char *words = mr_test_copies() ? "all 3 buffers are lent" : "all 3 slots are lent";
        assert_words(mr_loader_error(loader)->text, words);
        assert_int_equal(mr_loader_next(loader, 0, &batch), MR_ERR_STATE);
        mr_batch_release(lent[1]);
        batch = rig_next(loader);
        assert_int_equal(mr_batch_number(batch), 3);
        rig_check(batch);
        rig_check(lent[0]);
        rig_check(lent[2]);
        mr_batch_release(lent[2]);
        mr_batch_release(lent[0]);
        mr_batch_release(batch);
        batch = rig_next(loader);
        assert_int_equal(mr_batch_number(batch), 4);
        mr_batch_release(batch);
        mr_loader_destroy(loader);
    }
}

/* A thread that, after a pause, releases a batch, or cancels if it has none. */
struct helper {
    pthread_t thread;
    mr_loader *loader;
    mr_batch *batch;
    _Atomic uint64_t acted_ms;
};

static void *help_later(void *arg)
{
    struct helper *helper = arg;
    usleep(50000);
    atomic_store(&helper->acted_ms, now_ms());
    if (helper->batch)
        mr_batch_release(helper->batch);
    else
        mr_loader_cancel(helper->loader);
    return NULL;
}

/*
 * While all are lent, next() with MR_FOREVER returns because of another thread: promptly, and not
 * before.
 */
static void expect_help(mr_loader *loader, mr_batch *released, mr_status expected,
                        mr_batch **batch_out)
{
    struct helper helper = {.loader = loader, .batch = released};
    assert_int_equal(pthread_create(&helper.thread, NULL, help_later, &helper), 0);
    mr_status status = mr_loader_next(loader, MR_FOREVER, batch_out);
    uint64_t acted = atomic_load(&helper.acted_ms);
    if (status != expected)
        fail_msg("%s: %s", mr_status_name(status), mr_loader_error(loader)->text);
    assert_true(acted != 0 && now_ms() - acted < 5000);
    pthread_join(helper.thread, NULL);
}

static uint64_t thread_cpu_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

static void when_all_slots_are_lent_next_waits_for_a_release_if_it_may(void **state)
{
    for (unsigned m = 0; m < rig_n_modes; m++) {
        mr_loader_options options = rig_options_of(&rig_modes[m]);
        options.n_slots = 3;
        options.wait_when_lent = true;
        mr_loader *loader = rig_loader(*state, &options);
        assert_true(mr_loader_resolved(loader)->wait_when_lent);
        mr_batch *lent[3], *batch = NULL;
        for (int i = 0; i < 3; i++)
            lent[i] = rig_next(loader);
        assert_int_equal(mr_loader_next(loader, 0, &batch), MR_PENDING);
        uint64_t begin = now_ms(), cpu = thread_cpu_ms();
        assert_int_equal(mr_loader_next(loader, 300, &batch), MR_PENDING);
        assert_true(now_ms() - begin >= 299);
        assert_true(thread_cpu_ms() - cpu < 150); /* it has slept */
        expect_help(loader, NULL, MR_ERR_CANCELED, &batch);
        expect_help(loader, lent[1], MR_OK, &batch);
        assert_int_equal(mr_batch_number(batch), 3);
        rig_check(batch);
        rig_check(lent[0]);
        rig_check(lent[2]);
        mr_batch_release(lent[0]);
        mr_batch_release(lent[2]);
        mr_batch_release(batch);
        int64_t indices[100];
        assert_int_equal(rig_drain(loader, false, indices, 100), 100 - 4 * 8);
        mr_loader_destroy(loader);
    }
}

static void the_end_is_the_end_also_with_all_slots_lent(void **state)
{
    for (unsigned waits = 0; waits < 2; waits++) {
        mr_loader_options options = rig_options();
        options.batch_size = 50;
        options.n_slots = 2;
        options.wait_when_lent = waits;
        mr_loader *loader = rig_loader(*state, &options);
        mr_batch *a = rig_next(loader), *b = rig_next(loader);
        rig_expect(loader, MR_END);
        mr_batch_release(b);
        mr_batch_release(a);
        mr_loader_destroy(loader);
    }
}

/* A thread that releases the batches that it is given, in another order. */
struct releaser {
    pthread_t thread;
    mr_batch *batches[8];
    unsigned n;
};

static void *release_backwards(void *arg)
{
    struct releaser *r = arg;
    for (unsigned i = r->n; i-- > 0;) {
        const int64_t *index = mr_test_data(r->batches[i], "index");
        const uint8_t *image = mr_test_data(r->batches[i], "image");
        if (image[1] != rig_byte(index[0], 1))
            return r;
        mr_batch_release(r->batches[i]);
    }
    return NULL;
}

static void batches_are_released_from_any_thread_in_any_order(void **state)
{
    for (unsigned m = 0; m < rig_n_modes; m++) {
        mr_loader_options options = rig_options_of(&rig_modes[m]);
        options.batch_size = 2;
        options.n_slots = 16;
        options.n_buffers = 16;
        mr_loader *loader = rig_loader(*state, &options);
        struct releaser releasers[2] = {{.n = 0}};
        unsigned running = 0;
        uint64_t number = 0;
        for (unsigned round = 0; round < 12; round++) {
            struct releaser *r = &releasers[round % 2];
            if (running == 2) {
                void *wrong;
                pthread_join(r->thread, &wrong);
                assert_null(wrong);
                running--;
            }
            for (r->n = 0; r->n < 4; r->n++) {
                r->batches[r->n] = rig_next(loader);
                assert_int_equal(mr_batch_number(r->batches[r->n]), number++);
            }
            assert_int_equal(pthread_create(&r->thread, NULL, release_backwards, r), 0);
            running++;
        }
        for (unsigned i = 0; i < running; i++) {
            void *wrong;
            pthread_join(releasers[i].thread, &wrong);
            assert_null(wrong);
        }
        mr_loader_destroy(loader);
    }
}

static void lent_batches_outlive_the_loader_and_the_dataset(void **state)
{
    for (unsigned m = 0; m < rig_n_modes; m++) {
        struct rig *rig = rig_create(100);
        (void)state;
        mr_loader_options options = rig_options_of(&rig_modes[m]);
        mr_loader *loader = rig_loader(rig, &options);
        mr_batch *a = rig_next(loader), *b = rig_next(loader);
        mr_loader_destroy(loader);
        rig_destroy(rig);
        rig_check(b);
        mr_batch_release(a);
        rig_check(b);
        assert_string_equal(mr_batch_array_at(b, 0)->name, "image");
        mr_batch_release(b);
    }
}

static void releasing_nothing_does_nothing(void **state)
{
    (void)state;
    mr_batch_release(NULL);
}

static void a_null_batch_out_is_refused(void **state)
{
    mr_loader_options options = rig_options();
    mr_loader *loader = rig_loader(*state, &options);
    assert_int_equal(mr_loader_next(loader, 0, NULL), MR_ERR_INVALID);
    assert_words(mr_loader_error(loader)->text, "batch_out is NULL");
    mr_batch_release(rig_next(loader));
    mr_loader_destroy(loader);
}

/*
 * Also while samples are being decoded: every get is followed by a release, and destroy does not
 * hang.
 */
static void a_loader_can_be_destroyed_at_any_time(void **state)
{
    struct rig *rig = *state;
    rig->shared->slow_us = 200;
    for (unsigned i = 0; i < 40; i++) {
        mr_loader_options options = rig_options_of(&rig_modes[i % 2]);
        mr_loader *loader = rig_loader(rig, &options);
        mr_batch *batch;
        if (i % 5 == 1 && mr_loader_next(loader, 1, &batch) == MR_OK)
            mr_batch_release(batch);
        mr_loader_destroy(loader);
        assert_int_equal(atomic_load(&rig->shared->n_live), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(a_poll_is_pending_until_the_batch_is_there),
        RIG_TEST(polling_alone_gets_every_batch),
        RIG_TEST(without_workers_the_time_is_checked_between_samples),
        RIG_TEST(the_end_stays_the_end_until_another_epoch),
        RIG_TEST(when_all_slots_are_lent_next_says_so_and_continues_after_a_release),
        RIG_TEST(when_all_slots_are_lent_next_waits_for_a_release_if_it_may),
        RIG_TEST(the_end_is_the_end_also_with_all_slots_lent),
        RIG_TEST(batches_are_released_from_any_thread_in_any_order),
        RIG_TEST(lent_batches_outlive_the_loader_and_the_dataset),
        RIG_TEST(releasing_nothing_does_nothing),
        RIG_TEST(a_null_batch_out_is_refused),
        RIG_TEST(a_loader_can_be_destroyed_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
