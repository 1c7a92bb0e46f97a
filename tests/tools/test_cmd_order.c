/* SPDX-License-Identifier: Apache-2.0 */
/* `millrace order` prints what PyTorch's DistributedSampler yields. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "tests/tools/run_command.h"

/* The reflected polynomial 0xedb88320, as zlib's crc32(). */
static uint32_t crc32_add(uint32_t crc, int64_t value)
{
    crc = ~crc;
    for (int i = 0; i < 8; i++) {
        crc ^= (uint32_t)((uint64_t)value >> (8 * i)) & 0xff;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

static int64_t get_number(const json_t *row, const char *key)
{
    const json_t *value = json_object_get(row, key);

    assert_non_null(value);
    return json_is_boolean(value) ? json_is_true(value) : json_integer_value(value);
}

/*
 * Read "17\n18\n..." to the last byte. Returns the number of lines. Each line is copied first,
 * because with AddressSanitizer strtoll() would read the rest of the text every time.
 */
static int64_t read_lines(const struct mr_run *run, uint32_t *crc_out)
{
    const char *after = run->out + run->out_len;
    int64_t count = 0;

    *crc_out = 0;
    for (char *at = run->out, *newline, *end; at < after; at = newline + 1) {
        newline = memchr(at, '\n', (size_t)(after - at));
        assert_non_null(newline);
        *newline = '\0';
        *crc_out = crc32_add(*crc_out, strtoll(at, &end, 10));
        assert_true(end > at && end == newline);
        count++;
    }
    return count;
}

static void check_case(const json_t *row)
{
    static const struct {
        const char *option, *key;
    } numbers[] = {{"--samples", "n"},
                   {"--world-size", "num_replicas"},
                   {"--rank", "rank"},
                   {"--seed", "seed"},
                   {"--epoch", "epoch"}};
    const char *args[16] = {"order"};
    char values[5][24];
    struct mr_run run = {0};
    uint32_t crc;
    int n = 1;

    for (int i = 0; i < 5; i++) {
        snprintf(values[i], sizeof values[i], "%" PRId64, get_number(row, numbers[i].key));
        args[n++] = numbers[i].option;
        args[n++] = values[i];
    }
    args[n++] = "--tail";
    args[n++] = get_number(row, "drop_last") ? "DROP" : "pad";
    args[n++] = get_number(row, "shuffle") ? NULL : "--no-shuffle";
    mr_run_command_to(&run, ".stdout", 0, args);
    run.out = mr_run_read_file(".stdout", &run.out_len);
    assert_int_equal(run.status, 0);
    assert_int_equal(read_lines(&run, &crc), get_number(row, "count"));
    assert_int_equal(crc,
                     strtoul(json_string_value(json_object_get(row, "crc32_int64le")), NULL, 16));
    mr_run_free(&run);
}

static void order_prints_the_indices_of_torch(void **state)
{
    json_error_t error;
    json_t *golden = json_load_file(MR_TEST_DATA "/distributed_sampler.json", 0, &error);
    const json_t *row;
    size_t i, checked = 0;

    (void)state;
    assert_non_null(golden);
    json_array_foreach(json_object_get(golden, "cases"), i, row)
    {
        /*
         * The sampler's own test has all cases; this has the small ones and a part of the others.
         */
        if (get_number(row, "n") > 200000 || (i % 4 != 0 && get_number(row, "n") > 20))
            continue;
        check_case(row);
        checked++;
    }
    assert_true(checked >= 50);
    json_decref(golden);
}

static void keyed_order_is_a_permutation_of_its_own(void **state)
{
    struct mr_run torch = {0}, keyed = {0};
    bool seen[1000] = {false};

    (void)state;
    mr_run_command(&torch, "order", "--samples", "1000", NULL);
    mr_run_command(&keyed, "order", "--samples", "1000", "--order", "keyed", NULL);
    assert_int_equal(keyed.status, 0);
    assert_string_not_equal(torch.out, keyed.out);
    for (char *at = keyed.out; *at != '\0'; at = strchr(at, '\n') + 1) {
        long index = strtol(at, NULL, 10);
        assert_in_range(index, 0, 999);
        assert_false(seen[index]);
        seen[index] = true;
    }
    assert_null(memchr(seen, false, sizeof seen));
    mr_run_free(&torch);
    mr_run_free(&keyed);
}

static void a_rank_can_take_slices(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_command(&run, "order", "--samples", "12", "--no-shuffle", "--world-size", "2", "--rank",
                   "1", "--rank-slices", "--batch-size", "2", NULL);
    assert_string_equal(run.out, "2\n3\n6\n7\n10\n11\n");
    mr_run_free(&run);
}

static void no_samples_print_nothing(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_command(&run, "order", "--samples", "0", NULL);
    assert_int_equal(run.status, 0);
    assert_int_equal(run.out_len, 0);
    assert_string_equal(run.err, "");
    mr_run_free(&run);
}

/* An order without an index is correct, but hardly intended. */
static void an_order_of_nothing_says_why(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_command(&run, "order", "--samples", "100", "--repeat", "3", NULL);
    assert_int_equal(run.status, 0);
    assert_int_equal(run.out_len, 0);
    assert_string_equal(
        run.err, "millrace order: no index: --repeat uses a multiple of 256 samples, and of 100 "
                 "this leaves too few for --world-size 1; --repeat-form timm accepts fewer\n");
    mr_run_command(&run, "order", "--samples", "3", "--world-size", "4", "--tail", "drop", NULL);
    assert_int_equal(run.status, 0);
    assert_string_equal(run.err, "millrace order: no index: 3 samples are fewer than --world-size "
                                 "4, and --tail drop drops them\n");
    mr_run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_prints_the_indices_of_torch),
        cmocka_unit_test(keyed_order_is_a_permutation_of_its_own),
        cmocka_unit_test(a_rank_can_take_slices),
        cmocka_unit_test(no_samples_print_nothing),
        cmocka_unit_test(an_order_of_nothing_says_why),
    };

    return cmocka_run_group_tests(tests, mr_run_enter_folder, mr_run_leave_folder);
}
