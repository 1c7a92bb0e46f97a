/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which device a copier opens, what it reports if there is none, and what a machine may refuse:
 * memory, page-locking.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/pinned/copier_fixture.h"
#include "tests/support/assert_words.h"

static void expect_words(const mr_error *error, const char *words)
{
    assert_words(error->text, words);
}

/* Creation fails like this on this machine, and leaves nothing behind. */
static void refuse(const struct double_options *options, const char *device, mr_status expected,
                   const char *words)
{
    struct copier_fixture f;
    fixture_open(&f, options, &(struct mr_placement_names){.device = device});
    mr_status status = fixture_create(&f);
    if (status != expected)
        fail_msg("%s, not %s: %s", mr_status_name(status), mr_status_name(expected), f.error.text);
    expect_words(&f.error, words);
    assert_null(strchr(f.error.text, '\n'));
    assert_null(f.copier);
    assert_int_equal(fixture_close(&f), 0);
}

static void a_missing_driver_is_reported(void **state)
{
    (void)state;
    refuse(&(struct double_options){.driver_version = -1}, "cuda:0", MR_ERR_NO_DEVICE,
           "no NVIDIA driver");
}

static void an_old_driver_is_named_with_what_is_needed(void **state)
{
    (void)state;
    char needed[64];
    snprintf(needed, sizeof needed, "needs %d.", CUDART_VERSION / 1000);
    refuse(&(struct double_options){.driver_version = 11040}, "cuda:0", MR_ERR_NO_DEVICE, "11.4");
    refuse(&(struct double_options){.driver_version = 11040}, "cuda:0", MR_ERR_NO_DEVICE, needed);
}

static void a_missing_device_is_reported_with_the_variable_that_may_hide_it(void **state)
{
    (void)state;
    unsetenv("CUDA_VISIBLE_DEVICES");
    refuse(&(struct double_options){.no_device = true}, "cuda:0", MR_ERR_NO_DEVICE,
           "no CUDA device");
    setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
    refuse(&(struct double_options){.no_device = true}, "cuda:0", MR_ERR_NO_DEVICE,
           "CUDA_VISIBLE_DEVICES=-1");
    unsetenv("CUDA_VISIBLE_DEVICES");
}

static void an_ordinal_out_of_range_is_named_with_how_many_there_are(void **state)
{
    (void)state;
    refuse(&(struct double_options){.n_devices = 2}, "cuda:2", MR_ERR_NO_DEVICE,
           "'cuda:2' does not exist; 2 visible");
    refuse(&(struct double_options){.n_devices = 1}, "cuda:7", MR_ERR_NO_DEVICE,
           "'cuda:7' does not exist; 1 visible");
}

/* Open, copy a batch, and check on which device. */
static void accept(const struct double_options *options, const char *device, int32_t expected)
{
    struct copier_fixture f;
    uint32_t buffer;
    fixture_open(&f, options, &(struct mr_placement_names){.device = device});
    fixture_begin(&f, &buffer);
    fixture_check(&f, buffer, 0);
    struct mr_copied_part part = mr_copier_part(f.copier, buffer, 0);
    assert_int_equal(part.image_device.id, expected);
    assert_int_equal(double_device_of(part.image), expected);
    assert_int_equal(double_device_of(part.small), expected);
    if (fixture_close(&f) != 0)
        fail_msg("%s", double_report());
}

static void local_is_local_rank_or_the_only_one(void **state)
{
    (void)state;
    const struct double_options one = {.n_devices = 1}, four = {.n_devices = 4};
    setenv("LOCAL_RANK", "3", 1);
    accept(&four, "cuda:local", 3);
    accept(&one, "cuda:local", 0); /* the launcher shows each rank only its own */
    setenv("LOCAL_RANK", "4", 1);
    refuse(&four, "cuda:local", MR_ERR_NO_DEVICE, "LOCAL_RANK is 4, but only 4 GPUs");
    setenv("LOCAL_RANK", "", 1);
    refuse(&four, "cuda:local", MR_ERR_NO_DEVICE, "LOCAL_RANK is ''");
    setenv("LOCAL_RANK", "1x", 1);
    refuse(&four, "cuda:local", MR_ERR_NO_DEVICE, "LOCAL_RANK is '1x'");
    setenv("LOCAL_RANK", "-1", 1);
    refuse(&four, "cuda:local", MR_ERR_NO_DEVICE, "LOCAL_RANK is '-1'");
    setenv("LOCAL_RANK", "99999999999999999999", 1);
    refuse(&four, "cuda:local", MR_ERR_NO_DEVICE, "LOCAL_RANK is ");
    unsetenv("LOCAL_RANK");
    accept(&one, "cuda:local", 0);
    refuse(&four, "cuda:local", MR_ERR_NO_DEVICE, "4 GPUs are visible and LOCAL_RANK is not set");
}

static void missing_memory_is_reported_with_its_size(void **state)
{
    (void)state;
    struct copier_fixture f;
    uint32_t buffer;
    fixture_open(&f, &(struct double_options){0}, NULL);
    fixture_begin(&f, &buffer);
    uint64_t needed = double_device_used(0);
    assert_int_equal(fixture_close(&f), 0);
    assert_true(needed > 0);
    for (uint64_t have = 1; have < needed; have += 1 + needed / 40) {
        refuse(&(struct double_options){.device_bytes = have}, "cuda:0", MR_ERR_NO_MEMORY,
               "cudaMalloc of ");
        refuse(&(struct double_options){.device_bytes = have}, "cuda:0", MR_ERR_NO_MEMORY,
               "cudaErrorMemoryAllocation");
    }
    accept(&(struct double_options){.device_bytes = needed}, "cuda:0", 0);
}

static void pass_batches(struct copier_fixture *f)
{
    uint32_t buffer;
    for (uint32_t i = 0; i < 2 * FIXTURE_SLOTS; i++) {
        assert_int_equal(fixture_issue(f, &buffer), MR_OK);
        assert_int_equal(fixture_await(f, buffer), MR_OK);
        fixture_check(f, buffer, i);
        assert_int_equal(fixture_release(f, buffer), MR_OK);
    }
}

static void a_slab_that_is_refused_as_a_whole_is_pinned_in_pieces(void **state)
{
    (void)state;
    for (uint64_t n_slots = 1; n_slots < FIXTURE_SLOTS; n_slots++) {
        struct copier_fixture f;
        fixture_open(&f, &(struct double_options){0}, NULL);
        uint64_t slot_bytes = f.oracle.layout.data_bytes;
        assert_int_equal(fixture_close(&f), 0);
        fixture_open(&f, &(struct double_options){.registration_bytes = n_slots * slot_bytes},
                     NULL);
        assert_int_equal(fixture_create(&f), MR_OK);
        double_mark();
        assert_int_equal(fixture_pin(&f), MR_OK);
        assert_true(double_calls("cudaHostRegister") > 2);
        pass_batches(&f);
        assert_int_equal(double_count(DOUBLE_ALL_THREADS).pageable, 0);
        if (fixture_close(&f) != 0)
            fail_msg("%s", double_report());
    }
}

static void a_slot_that_is_refused_is_named_with_size_and_place(void **state)
{
    (void)state;
    struct copier_fixture f;
    char words[128];
    fixture_open(&f, &(struct double_options){0}, NULL);
    uint64_t slot_bytes = f.oracle.layout.data_bytes;
    assert_int_equal(fixture_close(&f), 0);

    fixture_open(&f, &(struct double_options){.registration_bytes = slot_bytes - 1}, NULL);
    assert_int_equal(fixture_create(&f), MR_OK);
    assert_int_equal(fixture_pin(&f), MR_ERR_UNSUPPORTED);
    snprintf(words, sizeof words, "cudaHostRegister of %llu bytes at 0 of",
             (unsigned long long)slot_bytes);
    expect_words(&f.error, words);
    expect_words(&f.error, "cudaErrorMemoryAllocation");
    assert_int_equal(fixture_close(&f), 0);

    /* The whole is refused, the first slot accepted, the rest refused, and then its first slot. */
    fixture_open(&f, &(struct double_options){.registration_bytes = slot_bytes}, NULL);
    assert_int_equal(fixture_create(&f), MR_OK);
    double_fail_at("cudaHostRegister", 4, cudaErrorNotPermitted);
    assert_int_equal(fixture_pin(&f), MR_ERR_UNSUPPORTED);
    snprintf(words, sizeof words, "cudaHostRegister of %llu bytes at %llu of",
             (unsigned long long)slot_bytes, (unsigned long long)slot_bytes);
    expect_words(&f.error, words);
    expect_words(&f.error, "operation not permitted");
    assert_int_equal(fixture_close(&f), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_driver_is_reported),
        cmocka_unit_test(an_old_driver_is_named_with_what_is_needed),
        cmocka_unit_test(a_missing_device_is_reported_with_the_variable_that_may_hide_it),
        cmocka_unit_test(an_ordinal_out_of_range_is_named_with_how_many_there_are),
        cmocka_unit_test(local_is_local_rank_or_the_only_one),
        cmocka_unit_test(missing_memory_is_reported_with_its_size),
        cmocka_unit_test(a_slab_that_is_refused_as_a_whole_is_pinned_in_pieces),
        cmocka_unit_test(a_slot_that_is_refused_is_named_with_size_and_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
