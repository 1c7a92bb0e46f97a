/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state after any call of the copier has failed, on scripted devices: a status with the text of
 * the call, and everything given back once. The order of the calls is tested in
 * test_copier_order.c.
 */
#include "tests/pinned/copier_rig.h"
#include "tests/pinned/scripted_device.h"
#include "tests/support/assert_words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void end(struct copier_rig *rig)
{
    copier_rig_fini(rig);
    assert_int_equal(scripted_n_taken(), 0);
}

/* Begin with images and labels on one scripted device. */
static void begin_one(struct copier_rig *rig, bool floats)
{
    scripted_reset();
    copier_rig_init(rig, 4, floats);
    copier_rig_place(rig, &scripted_table, 0, 1);
}

static void after_a_failed_device_each_release_is_tried_once(void **state)
{
    (void)state;
    struct scripted_stream streams[2][3];
    mr_error error = {0};
    struct copier_rig rig;
    scripted_reset();
    copier_rig_init(&rig, 4, false);
    copier_rig_place(&rig, &scripted_table, 0, 2);
    copier_rig_do_create(&rig);
    struct mr_slot_view slot = copier_rig_fill(&rig, 0, 1);
    assert_int_equal(mr_copier_issue(rig.copier, 0, &slot, 4, NULL), MR_OK);
    (void)copier_rig_do_await(&rig, 0);
    for (int32_t part = 0; part < 2; part++)
        for (int i = 0; i < 3; i++) {
            streams[part][i] = (struct scripted_stream){.name = (char)('s' + i), .device = part};
            copier_rig_do_use(&rig, 0, (uint32_t)part, &streams[part][i]);
        }
    uint32_t before = scripted_count(SCRIPTED_RECORD);
    scripted_fail(SCRIPTED_RECORD, before + 1, true);
    assert_int_equal(mr_copier_release(rig.copier, 0, &error), MR_ERR_DEVICE);
    assert_string_equal(error.text, "scripted failure of record");
    assert_int_equal(scripted_count(SCRIPTED_RECORD), before + 6);
    memset(&error, 0, sizeof error);
    assert_int_equal(mr_copier_issue(rig.copier, 0, &slot, 4, &error), MR_ERR_DEVICE);
    assert_string_equal(error.text, "scripted failure of record");
    assert_int_equal(error.status, MR_ERR_DEVICE);
    end(&rig);
}

/*
 * One of many records fails: the others are made, and nothing is copied into the buffer any more.
 */
static void a_buffer_whose_release_was_lost_is_not_overwritten(void **state)
{
    (void)state;
    struct scripted_stream s = {.name = 's'}, t = {.name = 't'};
    struct copier_rig rig;
    begin_one(&rig, false);
    copier_rig_do_create(&rig);
    copier_rig_do_issue(&rig, 0, 4);
    copier_rig_do_use(&rig, 0, 0, &s);
    copier_rig_do_use(&rig, 0, 0, &t);
    (void)copier_rig_do_await(&rig, 0);
    scripted_fail(SCRIPTED_RECORD, scripted_count(SCRIPTED_RECORD) + 1, false);
    scripted_clear();
    assert_int_equal(mr_copier_release(rig.copier, 0, NULL), MR_ERR_DEVICE);
    scripted_expect("check0@s check0@t record0:D@s record0:E@t");
    struct mr_slot_view slot = copier_rig_fill(&rig, 0, 1);
    assert_int_equal(mr_copier_issue(rig.copier, 0, &slot, 4, NULL), MR_ERR_DEVICE);
    scripted_expect("");
    mr_copier_destroy(rig.copier);
    rig.copier = NULL;
    scripted_expect("sync0:E sync0:C record0:F@c sync0:F unpin0");
    end(&rig);
}

/* Whatever the error is, it is not MR_ERR_STATE, which would mean that the batch is still lent. */
static void a_stream_that_became_another_devices_is_a_failed_device(void **state)
{
    (void)state;
    struct scripted_stream s = {.name = 's'};
    mr_error error = {0};
    struct copier_rig rig;
    begin_one(&rig, false);
    copier_rig_do_create(&rig);
    copier_rig_do_issue(&rig, 0, 4);
    copier_rig_do_use(&rig, 0, 0, &s);
    copier_rig_do_await(&rig, 0);
    s.device = 1;
    assert_error(mr_copier_release(rig.copier, 0, &error), MR_ERR_DEVICE, &error, "device 1");
    end(&rig);
}

/* The placements of the sweeps below. */
static void place(struct copier_rig *rig, int i)
{
    copier_rig_place(rig, &scripted_table, 0, i < 2 ? 1 : 2);
    if (i == 1)
        copier_rig_place_labels(rig, &scripted_table, 1);
    if (i == 3)
        copier_rig_place_labels(rig, &mr_device_host, 0);
}

enum { N_PLACEMENTS = 4 };

static mr_status pass_batch(struct copier_rig *rig, uint32_t i, struct scripted_stream *streams,
                            mr_error *error)
{
    struct mr_copy_report report;
    struct mr_copier *copier = rig->copier;
    struct mr_slot_view slot = copier_rig_fill(rig, i % COPIER_RIG_SLOTS, i);
    mr_status status = mr_copier_issue(copier, i % 2, &slot, 4 - i % 2, error);
    if (!status)
        status = mr_copier_use(copier, i % 2, 0, &streams[0], true, error);
    for (uint32_t part = 0; part < mr_copier_n_parts(copier, i % 2) && !status; part++)
        status = mr_copier_use(copier, i % 2, part, part ? &streams[1] : NULL, false, error);
    if (!status)
        status = mr_copier_await(copier, i % 2, &report, error);
    if (!status)
        status = mr_copier_remember(copier, i % 2, 0, &streams[2], error);
    return status ? status : mr_copier_release(copier, i % 2, error);
}

/* Words of the log differ by their events, so a word that comes twice is a repeated call. */
static void assert_no_word_twice(const char *log)
{
    for (const char *word = log; *word;) {
        size_t len = strcspn(word, " ");
        const char *rest = word + len;
        for (const char *at = rest; *at;) {
            at++;
            size_t other = strcspn(at, " ");
            if (other == len && memcmp(at, word, len) == 0)
                fail_msg("'%.*s' comes twice in '%s'", (int)len, word, log);
            at += other;
        }
        word = *rest ? rest + 1 : rest;
    }
}

/* The life of a copier in which one call fails; false if the life ended before that call. */
static bool live_and_fail(int placement, bool floats, enum scripted_call call, uint32_t n,
                          bool is_sticky)
{
    struct scripted_stream streams[3] = {
        {.name = 's', .device = 0}, {.name = 't', .device = 1}, {.name = 'u', .device = 0}};
    char words[64];
    mr_error error = {0};
    struct copier_rig rig;
    scripted_reset();
    scripted_fail(call, n, is_sticky);
    copier_rig_init(&rig, 4, floats);
    place(&rig, placement);
    mr_status status = copier_rig_create(&rig, 2, &error);
    for (uint32_t i = 0; i < 4 && !status; i++)
        status = pass_batch(&rig, i, streams, &error);
    assert_int_equal(status != MR_OK, scripted_has_failed());
    if (status) {
        snprintf(words, sizeof words, "scripted failure of %s", scripted_names[call]);
        assert_string_equal(error.text, words);
        assert_int_equal(error.status, status);
        assert_true(status == MR_ERR_DEVICE || status == MR_ERR_NO_MEMORY ||
                    status == MR_ERR_NO_DEVICE);
    }
    scripted_clear();
    copier_rig_fini(&rig);
    assert_int_equal(scripted_n_taken(), 0);
    assert_no_word_twice(scripted_log());
    return scripted_has_failed();
}

static void any_call_may_fail_and_everything_is_given_back(void **state)
{
    (void)state;
    uint32_t n_failures[SCRIPTED_CALLS] = {0};
    for (int placement = 0; placement < N_PLACEMENTS; placement++)
        for (int floats = 0; floats < 2; floats++)
            for (int call = 0; call < SCRIPTED_CALLS; call++)
                for (int sticky = 0; sticky < 2; sticky++) {
                    uint32_t n = 1;
                    while (live_and_fail(placement, floats, (enum scripted_call)call, n, sticky))
                        n++;
                    n_failures[call] += n - 1;
                }
    for (int call = 0; call < SCRIPTED_CALLS; call++)
        if (n_failures[call] == 0)
            fail_msg("no %s has failed", scripted_names[call]);
}

static void steady_state_takes_nothing_and_sleeps_only_in_await(void **state)
{
    (void)state;
    struct scripted_stream streams[3] = {
        {.name = 's', .device = 0}, {.name = 't', .device = 1}, {.name = 'u', .device = 0}};
    /* the placement on the host has to sleep, see above */
    for (int placement = 0; placement < 3; placement++) {
        struct copier_rig rig;
        scripted_reset();
        copier_rig_init(&rig, 4, true);
        place(&rig, placement);
        copier_rig_do_create(&rig);
        uint32_t n_taken = scripted_n_taken();
        uint32_t n_events = scripted_count(SCRIPTED_EVENT_CREATE);
        uint32_t n_allocs = scripted_count(SCRIPTED_ALLOC);
        uint32_t n_syncs = scripted_count(SCRIPTED_SYNC);
        for (uint32_t i = 0; i < 100; i++) {
            scripted_clear();
            assert_int_equal(pass_batch(&rig, i, streams, NULL), MR_OK);
        }
        assert_int_equal(scripted_n_taken(), n_taken);
        assert_int_equal(scripted_count(SCRIPTED_EVENT_CREATE), n_events);
        assert_int_equal(scripted_count(SCRIPTED_ALLOC), n_allocs);
        assert_int_equal(scripted_count(SCRIPTED_SYNC) - n_syncs, 100 * rig.placement.n_devices);
        end(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_a_failed_device_each_release_is_tried_once),
        cmocka_unit_test(a_buffer_whose_release_was_lost_is_not_overwritten),
        cmocka_unit_test(a_stream_that_became_another_devices_is_a_failed_device),
        cmocka_unit_test(any_call_may_fail_and_everything_is_given_back),
        cmocka_unit_test(steady_state_takes_nothing_and_sleeps_only_in_await),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
