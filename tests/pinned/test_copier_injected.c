/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Injects an error into each call that a copier makes, one after the other, once or for good. Each
 * must end in a status with the function's name and CUDA's message, unless the call only gives
 * something back. Nothing may be left behind, and no wrong order may follow.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/pinned/copier_fixture.h"

enum { N_BATCHES = 4, MAX_GPUS = 2 };

/* Functions that take and give back. */
static const char *const pairs[][2] = {{"cudaMalloc", "cudaFree"},
                                       {"cudaEventCreateWithFlags", "cudaEventDestroy"},
                                       {"cudaStreamCreateWithPriority", "cudaStreamDestroy"},
                                       {"cudaHostRegister", "cudaHostUnregister"}};
enum { N_PAIRS = sizeof pairs / sizeof *pairs, PAIR_REGISTER = 3 };

/* One life of a copier, with the consumer's streams. */
struct life {
    struct copier_fixture fixture;
    cudaStream_t streams[MAX_GPUS];
    mr_status status; /* of the first step that failed; also its name and text */
    const char *step;
    mr_error error;
    uint64_t n_taken[N_PAIRS];
    uint64_t n_given[N_PAIRS]; /* by destroy */
    uint64_t n_end_calls;      /* all of destroy's */
    uint32_t n_failed;         /* injected errors: in all, and before destroy */
    uint32_t n_failed_before;
    char failed_in[64]; /* the function that returned the last injected error */
    uint32_t n_found;   /* findings of the double */
    char report[512];
};

static const char *const two[] = {"cuda:0", "cuda:1"};
static const struct mr_placement_names placements[] = {
    {.device = "cuda:0"},
    {.device = "cuda:0", .label_device = "cuda:1"},
    {.device = "cuda:1", .label_device = "host"},
    {.devices = two, .n_devices = 2},
};

static bool step(struct life *life, const char *name, mr_status status)
{
    if (life->status == MR_OK && status != MR_OK) {
        life->status = status;
        life->step = name;
        life->error = life->fixture.error;
    }
    return status == MR_OK;
}

static bool use_parts(struct life *life, uint32_t buffer)
{
    struct copier_fixture *f = &life->fixture;
    for (uint32_t i = 0; i < mr_copier_n_parts(f->copier, buffer); i++) {
        struct mr_copied_part part = mr_copier_part(f->copier, buffer, i);
        if (!step(life, "use", fixture_use(f, buffer, i, life->streams[part.image_device.id])))
            return false;
        if (part.label_device.kind == MR_DEVICE_CUDA &&
            part.label_device.id != part.image_device.id &&
            !step(life, "use", fixture_use(f, buffer, i, life->streams[part.label_device.id])))
            return false;
    }
    return true;
}

/* Like a loader: after a failure only the end follows, and a lent batch is still released. */
static void live(struct life *life)
{
    struct copier_fixture *f = &life->fixture;
    bool ok = step(life, "create", fixture_create(f)) && step(life, "pin", fixture_pin(f));
    for (uint32_t i = 0; i < N_BATCHES && ok; i++) {
        uint32_t buffer;
        ok = step(life, "issue", fixture_issue(f, &buffer));
        if (!ok)
            break;
        ok = use_parts(life, buffer) && step(life, "await", fixture_await(f, buffer));
        ok &= step(life, "release", fixture_release(f, buffer));
    }
}

static void open_streams(struct life *life, uint32_t n_gpus)
{
    for (uint32_t gpu = 0; gpu < n_gpus; gpu++) {
        assert_int_equal(cudaSetDevice((int)gpu), cudaSuccess);
        assert_int_equal(cudaStreamCreateWithFlags(&life->streams[gpu], cudaStreamNonBlocking),
                         cudaSuccess);
    }
    assert_int_equal(cudaSetDevice(0), cudaSuccess);
}

static void close_streams(struct life *life)
{
    for (uint32_t gpu = 0; gpu < MAX_GPUS; gpu++)
        if (life->streams[gpu] != NULL)
            (void)cudaStreamDestroy(life->streams[gpu]); /* on a device that may be broken */
}

enum how { HOW_NONE, HOW_ONCE, HOW_FOR_GOOD };

static void run_life(struct life *life, const struct mr_placement_names *names, enum how how,
                     const char *function, uint64_t nth, cudaError_t code)
{
    memset(life, 0, sizeof *life);
    struct copier_fixture *f = &life->fixture;
    fixture_open(
        f, &(struct double_options){.n_devices = MAX_GPUS, .policy = DOUBLE_RANDOM, .seed = nth},
        names);
    open_streams(life, MAX_GPUS);
    double_mark();
    if (how == HOW_ONCE)
        double_fail_at(function, nth, code);
    else if (how == HOW_FOR_GOOD)
        double_fail_from(function, nth, code);
    live(life);
    life->n_failed_before = double_n_failed();
    for (uint32_t i = 0; i < N_PAIRS; i++)
        life->n_taken[i] = double_calls(pairs[i][0]);
    double_mark();
    mr_copier_destroy(f->copier);
    f->copier = NULL;
    life->n_end_calls = double_count(DOUBLE_ALL_THREADS).calls;
    for (uint32_t i = 0; i < N_PAIRS; i++)
        life->n_given[i] = double_calls(pairs[i][1]);
    life->n_failed = double_n_failed();
    if (life->n_failed > 0)
        snprintf(life->failed_in, sizeof life->failed_in, "%s", double_failed_in());
    double_fail_never();
    close_streams(life);
    life->n_found = fixture_close(f);
    snprintf(life->report, sizeof life->report, "%s", double_report());
}

/* True for functions that only give back or restore: their errors are not reported. */
static bool is_quiet(const char *function)
{
    static const char *const quiet[] = {"cudaFree",          "cudaEventDestroy",
                                        "cudaStreamDestroy", "cudaHostUnregister",
                                        "cudaSetDevice",     "cudaThreadExchangeStreamCaptureMode"};
    for (size_t i = 0; i < sizeof quiet / sizeof *quiet; i++)
        if (strcmp(function, quiet[i]) == 0)
            return true;
    return false;
}

/* True if the text has "cuda" and a capital letter. */
static bool has_function(const char *text)
{
    const char *at = strstr(text, "cuda");
    while (at != NULL && !(at[4] >= 'A' && at[4] <= 'Z'))
        at = strstr(at + 4, "cuda");
    return at != NULL && strncmp(at, "cudaError", 9) != 0;
}

/*
 * For an error that came once the function is known; for one that came repeatedly it is the first
 * one that mattered.
 */
static void check_words(const struct life *life, uint64_t nth, cudaError_t code)
{
    const char *text = life->error.text;
    bool once = life->n_failed == 1 && !double_is_sticky(code);
    bool is_named = once ? strstr(text, life->failed_in) != NULL : has_function(text);
    bool is_launch = strstr(text, "finishing kernel") != NULL;
    if ((!is_named && !is_launch) || strstr(text, cudaGetErrorString(code)) == NULL ||
        strstr(text, cudaGetErrorName(code)) == NULL)
        fail_msg("call %llu, %s in %s: '%s' does not name it", (unsigned long long)nth,
                 cudaGetErrorName(code), life->failed_in, text);
    mr_status expected = code == cudaErrorMemoryAllocation ? MR_ERR_NO_MEMORY : MR_ERR_DEVICE;
    bool is_search = strstr(text, "cudaGetDeviceCount") != NULL && life->status == MR_ERR_NO_DEVICE;
    bool is_release = strcmp(life->step, "release") == 0 && life->status == MR_ERR_DEVICE;
    if (life->status != expected && !is_search && !is_release)
        fail_msg("call %llu, %s in %s: %s of %s: %s", (unsigned long long)nth,
                 cudaGetErrorName(code), life->failed_in, mr_status_name(life->status), life->step,
                 text);
}

static void check_life(const struct life *life, uint64_t nth, cudaError_t code)
{
    if (life->n_found != 0)
        fail_msg("call %llu, %s in %s, %s: %s", (unsigned long long)nth, cudaGetErrorName(code),
                 life->failed_in, life->step != NULL ? life->step : "no step failed", life->report);
    if (life->status != MR_OK)
        check_words(life, nth, code);
}

typedef void check_fn(const struct life *life, const struct life *whole, uint64_t nth,
                      cudaError_t code);

/*
 * For every n until a life has no nth call; check compares with a life without failures. Returns
 * the number of calls.
 */
static uint64_t for_every_call(const struct mr_placement_names *names, enum how how,
                               cudaError_t code, check_fn *check)
{
    enum { MANY = 20000 };
    struct life *life = malloc(2 * sizeof *life);
    assert_non_null(life);
    struct life *whole = life + 1;
    uint64_t nth = 0;
    run_life(whole, names, HOW_NONE, NULL, 0, cudaSuccess);
    if (whole->status != MR_OK || whole->n_found > 0)
        fail_msg("%s: %s", whole->error.text, whole->report);
    do {
        run_life(life, names, how, NULL, ++nth, code);
        if (life->n_failed > 0)
            check(life, whole, nth, code);
    } while (life->n_failed > 0 && nth < MANY);
    assert_int_equal(life->status, MR_OK);
    assert_int_equal(life->n_found, 0);
    assert_true(nth < MANY);
    free(life);
    return nth - 1;
}

static void check_once(const struct life *life, const struct life *whole, uint64_t nth,
                       cudaError_t code)
{
    check_life(life, nth, code);
    /* and all pieces were accepted */
    bool in_pieces = life->n_taken[PAIR_REGISTER] > whole->n_taken[PAIR_REGISTER];
    if (life->status == MR_OK && life->n_failed_before > 0 && !is_quiet(life->failed_in) &&
        !in_pieces)
        fail_msg("call %llu, %s in %s: no status", (unsigned long long)nth, cudaGetErrorName(code),
                 life->failed_in);
}

/* Whatever was taken before is given back once; what surrounds each call may be tried twice. */
static void check_end(const struct life *life, const struct life *whole, uint64_t nth,
                      cudaError_t code)
{
    check_life(life, nth, code);
    if (life->n_end_calls > 2 * whole->n_end_calls)
        fail_msg("call %llu, %s in %s: destroy makes %llu calls, not %llu", (unsigned long long)nth,
                 cudaGetErrorName(code), life->failed_in, (unsigned long long)life->n_end_calls,
                 (unsigned long long)whole->n_end_calls);
    bool was_whole =
        life->step == NULL || (strcmp(life->step, "create") != 0 && strcmp(life->step, "pin") != 0);
    for (uint32_t i = 0; was_whole && i < N_PAIRS; i++)
        if (life->n_given[i] != whole->n_given[i])
            fail_msg(
                "call %llu, %s in %s: %s was called %llu times in destroy, %s %llu times before",
                (unsigned long long)nth, cudaGetErrorName(code), life->failed_in, pairs[i][1],
                (unsigned long long)life->n_given[i], pairs[i][0],
                (unsigned long long)life->n_taken[i]);
}

static void any_call_that_fails_once_ends_in_its_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof placements / sizeof *placements; i++) {
        uint64_t n = for_every_call(&placements[i], HOW_ONCE, cudaErrorNotSupported, check_once);
        uint64_t same =
            for_every_call(&placements[i], HOW_ONCE, cudaErrorMemoryAllocation, check_once);
        printf("placement %zu: %llu calls\n", i, (unsigned long long)n);
        assert_true(n > 100);
        assert_int_equal(n, same);
    }
}

static void a_device_that_breaks_is_given_back_in_one_try_each(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof placements / sizeof *placements; i++)
        (void)for_every_call(&placements[i], HOW_ONCE, cudaErrorIllegalAddress, check_end);
}

static void calls_that_fail_for_good_end_as_well(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof placements / sizeof *placements; i++)
        (void)for_every_call(&placements[i], HOW_FOR_GOOD, cudaErrorLaunchFailure, check_end);
}

/* A failure on the device is reported by a later call, with the device's error. */
static void a_device_that_breaks_while_it_runs_is_reported(void **state)
{
    (void)state;
    struct life *life = malloc(sizeof *life);
    assert_non_null(life);
    uint64_t n_reported = 0;
    uint64_t nth;
    for (nth = 1;; nth++) {
        run_life(life, &placements[3], HOW_ONCE, DOUBLE_RUN, nth, cudaErrorECCUncorrectable);
        if (life->n_failed == 0)
            break;
        if (life->n_found != 0)
            fail_msg("operation %llu: %s", (unsigned long long)nth, life->report);
        n_reported += life->status != MR_OK;
        if (life->status != MR_OK && strstr(life->error.text, "cudaErrorECCUncorrectable") == NULL)
            fail_msg("operation %llu: %s", (unsigned long long)nth, life->error.text);
    }
    /* no step waits for the last releases */
    assert_true(nth > 20 && n_reported > nth * 3 / 4);
    free(life);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_call_that_fails_once_ends_in_its_words),
        cmocka_unit_test(a_device_that_breaks_is_given_back_in_one_try_each),
        cmocka_unit_test(calls_that_fail_for_good_end_as_well),
        cmocka_unit_test(a_device_that_breaks_while_it_runs_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
