/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `millrace tune`, with storage and consumers that are slow on purpose: the picked number, the
 * reason, the last line and the JSON. test_tune_pick.c tests the decisions themselves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <jansson.h>

#include "tests/support/assert_words.h"
#include "tests/tools/run_command.h"

static int set_up(void **state)
{
    mr_run_enter_folder(state);
    mr_run_make_images("photos", 2, 8);
    return 0;
}

static const char *last_line(const struct mr_run *run)
{
    size_t len = strlen(run->out);

    assert_true(len > 1 && run->out[len - 1] == '\n');
    const char *line = run->out + len - 1;
    while (line > run->out && line[-1] != '\n')
        line--;
    return line;
}

static void assert_ends_with(const struct mr_run *run, const char *begin, const char *part)
{
    if (run->status != 0)
        fail_msg("exits with %d: %s", run->status, run->err);
    const char *line = last_line(run);
    if (strncmp(line, begin, strlen(begin)) != 0 || strstr(line, part) == NULL)
        fail_msg("not '%s...%s': %s", begin, part, run->out);
}

static json_t *load_answer(const char *path, json_t **all_out)
{
    json_error_t error;

    *all_out = json_load_file(path, 0, &error);
    assert_non_null(*all_out);
    json_t *answer = json_object_get(*all_out, "answer");
    assert_non_null(answer);
    return answer;
}

static void cpus_that_are_busy_are_called_decode_bound(void **state)
{
    struct mr_run run = {0};
    json_t *all;

    (void)state;
    mr_run_command(&run, "tune", "--data", "photos", "--workers", "1,0,1", "--seconds", "0.3",
                   "--batch-size", "4", "--json", "decode.json", NULL);
    assert_ends_with(&run, "workers ", "; decode-bound: 1 worker work");
    assert_string_equal(run.err, "");
    const json_t *answer = load_answer("decode.json", &all);
    const json_t *counts = json_object_get(answer, "counts");
    assert_int_equal(json_array_size(counts), 2); /* each once, rising */
    assert_string_equal(json_string_value(json_object_get(answer, "reason")), "decode-bound");
    assert_true(json_array_size(json_object_get(all, "rows")) >= 4); /* two rounds over both */
    for (size_t i = 0; i < 2; i++) {
        const json_t *count = json_array_get(counts, i);
        assert_int_equal(json_integer_value(json_object_get(count, "workers")), i);
        double cpu = json_number_value(json_object_get(count, "cpu_share")) +
                     json_number_value(json_object_get(count, "queue_share"));
        assert_true(cpu > 0.3);
        assert_true(json_number_value(json_object_get(count, "consumer_wait_share")) > 0.5);
    }
    json_decref(all);
    mr_run_free(&run);
}

/*
 * On a loaded machine pauses of 300 ms are common. They must not decide which number of workers is
 * the best, though its rate may be within their noise, which the last line then says.
 */
static void waiting_for_storage_is_called_read_bound(void **state)
{
    struct mr_run run = {0};
    json_t *all;

    (void)state;
    setenv("MR_TEST_READ_MS", "60", 1);
    mr_run_command(&run, "tune", "--data", "photos", "--transform", "train:32", "--max-workers",
                   "2", "--seconds", "0.6", "--batch-size", "2", "--start", "thread", "--reader",
                   "pread", "--json", "read.json", NULL);
    unsetenv("MR_TEST_READ_MS");
    assert_ends_with(&run, "workers 2: ", "; read-bound: 2 workers wait for bytes");
    assert_words(last_line(&run), " img/s, the best");
    assert_words(last_line(&run), "more workers may be faster: --max-workers");
    const json_t *answer = load_answer("read.json", &all);
    assert_int_equal(json_integer_value(json_object_get(answer, "workers")), 2);
    assert_int_equal(json_integer_value(json_object_get(answer, "best_workers")), 2);
    assert_string_equal(json_string_value(json_object_get(answer, "reason")), "read-bound");
    json_decref(all);
    mr_run_free(&run);
}

/*
 * On a loaded machine two workers may be 3 % better than one. test_tune_pick.c tests which number
 * is chosen then.
 */
static void slow_consumer_is_called_so(void **state)
{
    struct mr_run run = {0};
    json_t *all;

    (void)state;
    mr_run_command(&run, "tune", "--data", "photos", "--transform", "train:32", "--workers", "1,2",
                   "--seconds", "0.5", "--batch-size", "4", "--step", "150", "--json", "step.json",
                   NULL);
    assert_ends_with(&run, "workers ", "; consumer-bound: the consumer waits for 2 workers");
    const json_t *answer = load_answer("step.json", &all);
    assert_true(json_number_value(json_object_get(answer, "of_best")) >= 0.97);
    assert_true(json_number_value(json_object_get(answer, "img_s")) <= 4 / 0.15 * 1.001);
    const json_t *meta = json_object_get(all, "meta");
    assert_float_equal(json_number_value(json_object_get(meta, "step_ms")), 150, 1e-6);
    json_decref(all);
    mr_run_free(&run);
}

static void damaged_sample_is_an_error_of_the_data(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_make_images("damaged", 1, 8);
    mr_run_write_file("damaged/class_0/0.jpg", "\xff\xd8\xff\xdb no image", 13);
    mr_run_command(&run, "tune", "--data", "damaged", "--workers", "1", "--seconds", "0.05",
                   "--batch-size", "4", NULL);
    assert_int_equal(run.status, 1);
    assert_words(run.err, "damaged/class_0/0.jpg");
    mr_run_free(&run);
}

static void wrong_calls_are_refused_before_measuring(void **state)
{
    static const struct {
        const char *args[8];
        int status;
        const char *words;
    } cases[] = {
        {{"tune"}, 2, "--data is missing"},
        {{"tune", "--data", "photos", "--max-workers", "x"}, 2, "--max-workers: 'x'"},
        {{"tune", "--data", "photos", "--max-workers", "2", "--workers", "1"},
         2,
         "--max-workers cannot be combined with --workers"},
        {{"tune", "--data", "photos", "--step", "-1"}, 2, "--step: '-1'"},
        {{"tune", "--data", "photos", "left"}, 2, "unexpected argument 'left'"},
        {{"tune", "--data", "photos", "--json", "missing/t.json"}, 1, "missing/t.json"},
        {{"tune", "--data", "nowhere"}, 1, "nowhere"},
    };
    struct mr_run run = {0};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mr_run_command_to(&run, ".stdout", 0, cases[i].args);
        assert_int_equal(run.status, cases[i].status);
        assert_words(run.err, cases[i].words);
    }
    mr_run_free(&run);
}

static void interrupt_ends_also_a_long_step(void **state)
{
    const char *const args[] = {"tune", "--data", "photos", "--workers", "1",      "--seconds",
                                "60",   "--step", "50000",  "--json",    "i.json", NULL};
    struct timespec before, after;
    struct mr_run run = {0};

    (void)state;
    clock_gettime(CLOCK_MONOTONIC, &before);
    mr_run_command_to(&run, ".stdout", 1500, args);
    clock_gettime(CLOCK_MONOTONIC, &after);
    if (run.status != 128 + 2)
        fail_msg("ends with %d: %s", run.status, run.err);
    assert_true(after.tv_sec - before.tv_sec < 20);
    assert_int_equal(mr_run_count_entries("i.json"), 0);
    mr_run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cpus_that_are_busy_are_called_decode_bound),
        cmocka_unit_test(waiting_for_storage_is_called_read_bound),
        cmocka_unit_test(slow_consumer_is_called_so),
        cmocka_unit_test(damaged_sample_is_an_error_of_the_data),
        cmocka_unit_test(wrong_calls_are_refused_before_measuring),
        cmocka_unit_test(interrupt_ends_also_a_long_step),
    };

    return cmocka_run_group_tests(tests, set_up, mr_run_leave_folder);
}
