/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm's node lists and task counts. */
#include "dist/rendezvous/hostlist.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void expect_hosts(const char *list, const char *const *hosts, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        char host[MR_HOSTLIST_HOST] = "";
        uint32_t count = 0;
        mr_error error = {0};
        mr_status status = mr_hostlist_at(list, i, host, &count, &error);
        if (status != MR_OK)
            print_message("%s: %s\n", list, error.text);
        assert_int_equal(status, MR_OK);
        assert_string_equal(host, hosts[i]);
        assert_int_equal(count, n);
    }
    char host[MR_HOSTLIST_HOST] = "before";
    mr_error error;
    assert_int_equal(mr_hostlist_at(list, n, host, NULL, &error), MR_ERR_INVALID);
    assert_string_equal(host, "before");
}

#define EXPECT(list, ...)                                                                                              \
    expect_hosts(list, (const char *const[]){__VA_ARGS__},                                                             \
                 sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static void a_single_host_is_itself(void **state)
{
    (void)state;
    EXPECT("localhost", "localhost");
    EXPECT("gpu-07.cluster.example", "gpu-07.cluster.example");
}

static void hosts_are_separated_by_commas(void **state)
{
    (void)state;
    EXPECT("a,b-1,c_2", "a", "b-1", "c_2");
}

static void a_bracket_holds_ranges_and_numbers(void **state)
{
    (void)state;
    EXPECT("n[01-03,7],m5", "n01", "n02", "n03", "n7", "m5");
    EXPECT("n[5]", "n5");
}

static void zeros_before_a_number_stay(void **state)
{
    (void)state;
    EXPECT("n[008-011]", "n008", "n009", "n010", "n011");
    EXPECT("n[8-11]", "n8", "n9", "n10", "n11");
    EXPECT("n[098-0101]", "n098", "n099", "n100", "n101");
    EXPECT("n[000]", "n000");
}

static void a_bracket_may_be_followed_by_a_word(void **state)
{
    (void)state;
    EXPECT("rack[1-2]-node.ib", "rack1-node.ib", "rack2-node.ib");
}

static void of_several_brackets_the_last_counts_fastest(void **state)
{
    (void)state;
    EXPECT("r[1-2]n[01,3-4]x,z", "r1n01x", "r1n3x", "r1n4x", "r2n01x", "r2n3x", "r2n4x", "z");
    EXPECT("r[1-2][7-8]", "r17", "r18", "r27", "r28");
}

static void what_is_no_list_is_refused_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *list, *text;
    } cases[] = {
        {"", "no host at byte 0 of \"\""},
        {",a", "no host at byte 0 of \",a\""},
        {"a,", "no host at byte 2 of \"a,\""},
        {"a,,b", "no host at byte 2 of \"a,,b\""},
        {"n[", "no number at byte 2 of \"n[\""},
        {"n[]", "no number at byte 2 of \"n[]\""},
        {"n[1", "a bracket that is not closed at byte 3 of \"n[1\""},
        {"n[1-", "no number at byte 4 of \"n[1-\""},
        {"n[1-2", "a bracket that is not closed at byte 5 of \"n[1-2\""},
        {"n[1,]", "no number at byte 4 of \"n[1,]\""},
        {"n[-1]", "no number at byte 2 of \"n[-1]\""},
        {"n[3-1]", "a range that runs backwards at byte 5 of \"n[3-1]\""},
        {"n[a]", "no number at byte 2 of \"n[a]\""},
        {"n1]", "a character that no host name has at byte 2 of \"n1]\""},
        {"n 1", "a character that no host name has at byte 1 of \"n 1\""},
        {"n[[1]]", "no number at byte 2 of \"n[[1]]\""},
        {"n[1-2];reboot", "a character that no host name has at byte 6 of \"n[1-2];reboot\""},
        {"n[1234567890]", "a number of more than 9 digits at byte 11 of \"n[1234567890]\""},
        {"n[0-999999999]", "too many hosts at byte 13 of \"n[0-999999999]\""},
        {"n[0-9999][0-9999]", "too many hosts at byte 17 of \"n[0-9999][0-9999]\""},
        {"a,b[", "no number at byte 4 of \"a,b[\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char host[MR_HOSTLIST_HOST] = "before";
        uint32_t count = 7;
        mr_error error = {0};
        assert_int_equal(mr_hostlist_at(cases[i].list, 0, host, &count, &error), MR_ERR_INVALID);
        assert_string_equal(error.text, cases[i].text);
        assert_string_equal(host, "before");
        assert_int_equal(count, 7);
    }
}

static void a_host_that_is_too_long_is_refused(void **state)
{
    (void)state;
    char list[400], host[MR_HOSTLIST_HOST];
    mr_error error;
    memset(list, 'a', sizeof list);
    list[255] = '\0';
    assert_int_equal(mr_hostlist_at(list, 0, host, NULL, &error), MR_OK);
    assert_string_equal(host, list);
    strcpy(list + 255, "[1-2]");
    assert_int_equal(mr_hostlist_at(list, 0, host, NULL, &error), MR_ERR_INVALID);
    assert_non_null(strstr(error.text, "too long"));
}

static void an_index_past_the_end_says_how_many_there_are(void **state)
{
    (void)state;
    char host[MR_HOSTLIST_HOST];
    mr_error error;
    assert_int_equal(mr_hostlist_at("n[1-3]", 3, host, NULL, &error), MR_ERR_INVALID);
    assert_string_equal(error.text, "\"n[1-3]\" has 3 hosts and none of number 3");
}

static void random_bytes_neither_crash_nor_hang(void **state)
{
    (void)state;
    static const char alphabet[] = "n[]0-9,(x)1a. ";
    srand(1);
    for (int i = 0; i < 200000; i++) {
        char list[24], host[MR_HOSTLIST_HOST];
        uint32_t count, tasks;
        uint64_t sum;
        size_t len = (size_t)rand() % (sizeof list - 1);
        for (size_t c = 0; c < len; c++)
            list[c] = alphabet[(size_t)rand() % (sizeof alphabet - 1)];
        list[len] = '\0';
        if (mr_hostlist_at(list, (uint32_t)rand() % 4, host, &count, NULL) == MR_OK) {
            assert_in_range(count, 1, MR_HOSTLIST_MAX);
            assert_in_range(strlen(host), 1, sizeof host - 1);
            assert_null(strpbrk(host, "[],"));
        }
        mr_hostlist_tasks(list, (uint32_t)rand() % 4, &tasks, &sum, NULL);
    }
}

static void counts_of_tasks_repeat(void **state)
{
    (void)state;
    static const uint32_t tasks[] = {2, 2, 2, 1};
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t found = 0;
        uint64_t sum = 0;
        assert_int_equal(mr_hostlist_tasks("2(x3),1", i, &found, &sum, NULL), MR_OK);
        assert_int_equal(found, tasks[i]);
        assert_int_equal(sum, 7);
    }
    uint32_t found = 9;
    uint64_t sum;
    mr_error error;
    assert_int_equal(mr_hostlist_tasks("2(x3),1", 4, &found, &sum, &error), MR_ERR_INVALID);
    assert_string_equal(error.text, "\"2(x3),1\" has 4 nodes and none of number 4");
    assert_int_equal(found, 9);
}

static void what_is_no_count_is_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {"",   "x",      "2(",         "2(3)",  "2(x)", "2(x3",   "2(x3),",     "2,,2",
                                        "-1", "2(x3)1", "9999999999", "1(x0)", "2 ",   "2(x-1)", "1(x9999999)"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t tasks;
        uint64_t sum;
        mr_error error = {0};
        if (mr_hostlist_tasks(cases[i], 0, &tasks, &sum, &error) != MR_ERR_INVALID)
            fail_msg("\"%s\" was taken for a list of counts", cases[i]);
        assert_int_not_equal(error.text[0], '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_single_host_is_itself),
        cmocka_unit_test(hosts_are_separated_by_commas),
        cmocka_unit_test(a_bracket_holds_ranges_and_numbers),
        cmocka_unit_test(zeros_before_a_number_stay),
        cmocka_unit_test(a_bracket_may_be_followed_by_a_word),
        cmocka_unit_test(of_several_brackets_the_last_counts_fastest),
        cmocka_unit_test(what_is_no_list_is_refused_with_its_place),
        cmocka_unit_test(a_host_that_is_too_long_is_refused),
        cmocka_unit_test(an_index_past_the_end_says_how_many_there_are),
        cmocka_unit_test(random_bytes_neither_crash_nor_hang),
        cmocka_unit_test(counts_of_tasks_repeat),
        cmocka_unit_test(what_is_no_count_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
