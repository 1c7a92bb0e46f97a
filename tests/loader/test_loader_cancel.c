/* SPDX-License-Identifier: Apache-2.0 */
/* mr_loader_cancel(): takes effect promptly, once, from another thread, now or at the next call. */
#include "tests/loader/rig.h"
#include "tests/support/assert_words.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

struct canceler {
    pthread_t thread;
    mr_loader *loader;
    uint32_t after_ms;
    _Atomic uint64_t canceled_ns;
};

static void *cancel_later(void *arg)
{
    struct canceler *c = arg;
    struct timespec pause = {.tv_nsec = (long)c->after_ms * 1000000};
    nanosleep(&pause, NULL);
    atomic_store(&c->canceled_ns, mr_clock_now_ns());
    mr_loader_cancel(c->loader);
    return NULL;
}

static void a_waiting_next_is_woken_at_once_and_once(void **state)
{
    struct rig *rig = *state;
    for (unsigned m = 1; m < rig_n_modes; m++) {
        mr_loader_options options = rig_options_of(&rig_modes[m]);
        atomic_store(&rig->shared->gate, 1);
        mr_loader *loader = rig_loader(rig, &options);
        struct canceler c = {.loader = loader, .after_ms = 50};
        assert_int_equal(pthread_create(&c.thread, NULL, cancel_later, &c), 0);
        rig_expect(loader, MR_ERR_CANCELED);
        uint64_t passed_ms = (mr_clock_now_ns() - atomic_load(&c.canceled_ns)) / 1000000;
        assert_true(passed_ms < 20000);
        assert_words(mr_loader_error(loader)->text, "mr_loader_cancel");
        pthread_join(c.thread, NULL);
        atomic_store(&rig->shared->gate, 0);
        mr_batch *batch = rig_next(loader);
        assert_int_equal(mr_batch_number(batch), 0);
        rig_check(batch);
        mr_batch_release(batch);
        mr_loader_destroy(loader);
    }
}

static void without_workers_it_is_seen_between_samples(void **state)
{
    struct rig *rig = *state;
    mr_loader_options options = rig_options_of(&rig_modes[0]);
    options.batch_size = 100;
    rig->shared->slow_us = 20000;
    mr_loader *loader = rig_loader(rig, &options);
    struct canceler c = {.loader = loader, .after_ms = 50};
    assert_int_equal(pthread_create(&c.thread, NULL, cancel_later, &c), 0);
    rig_expect(loader, MR_ERR_CANCELED);
    pthread_join(c.thread, NULL);
    assert_true(atomic_load(&rig->shared->n_gets) < 90);
    rig->shared->slow_us = 0;
    mr_batch_release(rig_next(loader));
    mr_loader_destroy(loader);
}

static void a_cancel_before_the_call_counts_once_however_often_it_came(void **state)
{
    for (unsigned m = 0; m < rig_n_modes; m++) {
        mr_loader_options options = rig_options_of(&rig_modes[m]);
        mr_loader *loader = rig_loader(*state, &options);
        mr_batch_release(rig_next(loader));
        mr_loader_cancel(loader);
        mr_loader_cancel(loader);
        rig_expect(loader, MR_ERR_CANCELED);
        mr_batch *batch = rig_next(loader);
        assert_int_equal(mr_batch_number(batch), 1);
        mr_batch_release(batch);
        mr_loader_destroy(loader);
    }
}

static void a_cancel_is_reported_at_the_end_of_an_epoch_too(void **state)
{
    mr_loader_options options = rig_options();
    int64_t indices[100];
    mr_loader *loader = rig_loader(*state, &options);
    assert_int_equal(rig_drain(loader, false, indices, 100), 100);
    mr_loader_cancel(loader);
    rig_expect(loader, MR_ERR_CANCELED);
    rig_expect(loader, MR_END);
    mr_loader_destroy(loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(a_waiting_next_is_woken_at_once_and_once),
        RIG_TEST(without_workers_it_is_seen_between_samples),
        RIG_TEST(a_cancel_before_the_call_counts_once_however_often_it_came),
        RIG_TEST(a_cancel_is_reported_at_the_end_of_an_epoch_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
