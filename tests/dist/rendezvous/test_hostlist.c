/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm's node lists and task counts. */
#include "dist/rendezvous/hostlist.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void the_first_host_is_expanded(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"localhost", "localhost"},
        {"gpu-07.cluster.example", "gpu-07.cluster.example"},
        {"a,b-1,c_2", "a"},
        {"n[01-03,7],m5", "n01"},
        {"n[5]", "n5"},
        {"n[008-011]", "n008"},
        {"n[8-11]", "n8"},
        {"n[098-0101]", "n098"},
        {"n[000]", "n000"},
        {"rack[1-2]-node.ib", "rack1-node.ib"},
        {"r[1-2]n[01,3-4]x,z", "r1n01x"},
        {"r[1-2][7-8]", "r17"},
        {"[3-4]n", "3n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char host[MR_HOSTLIST_HOST] = "";
        mr_error error = {0};
        if (mr_hostlist_first(cases[i][0], host, &error) != MR_OK)
            fail_msg("%s: %s", cases[i][0], error.text);
        assert_string_equal(host, cases[i][1]);
    }
}

static void a_malformed_list_is_refused_with_the_position(void **state)
{
    (void)state;
    static const struct {
        const char *list, *text;
    } cases[] = {
        {"", "no host at byte 0 of \"\""},
        {",a", "no host at byte 0 of \",a\""},
        {"n[", "no number at byte 2 of \"n[\""},
        {"n[]", "no number at byte 2 of \"n[]\""},
        {"n[1", "unclosed bracket at byte 3 of \"n[1\""},
        {"n[1-", "unclosed bracket at byte 4 of \"n[1-\""},
        {"n[-1]", "no number at byte 2 of \"n[-1]\""},
        {"n[a]", "no number at byte 2 of \"n[a]\""},
        {"n1]", "invalid character at byte 2 of \"n1]\""},
        {"n 1", "invalid character at byte 1 of \"n 1\""},
        {"n[[1]]", "no number at byte 2 of \"n[[1]]\""},
        {"n[1-2];reboot", "invalid character at byte 6 of \"n[1-2];reboot\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char host[MR_HOSTLIST_HOST] = "before";
        mr_error error = {0};
        assert_int_equal(mr_hostlist_first(cases[i].list, host, &error), MR_ERR_INVALID);
        assert_string_equal(error.text, cases[i].text);
        assert_string_equal(host, "before");
    }
}

static void a_long_host_is_refused(void **state)
{
    (void)state;
    char list[400], host[MR_HOSTLIST_HOST];
    mr_error error;
    memset(list, 'a', sizeof list);
    list[255] = '\0';
    assert_int_equal(mr_hostlist_first(list, host, &error), MR_OK);
    assert_string_equal(host, list);
    list[255] = 'a';
    list[256] = '\0';
    assert_int_equal(mr_hostlist_first(list, host, &error), MR_ERR_INVALID);
    assert_non_null(strstr(error.text, "too long"));
}

static void random_bytes_neither_crash_nor_hang(void **state)
{
    (void)state;
    static const char alphabet[] = "n[]0-9,(x)1a. ";
    srand(1);
    for (int i = 0; i < 200000; i++) {
        char list[24], host[MR_HOSTLIST_HOST];
        uint32_t tasks;
        uint64_t sum;
        size_t len = (size_t)rand() % (sizeof list - 1);
        for (size_t c = 0; c < len; c++)
            list[c] = alphabet[(size_t)rand() % (sizeof alphabet - 1)];
        list[len] = '\0';
        if (mr_hostlist_first(list, host, NULL) == MR_OK) {
            assert_in_range(strlen(host), 1, sizeof host - 1);
            assert_null(strpbrk(host, "[],"));
        }
        mr_hostlist_tasks(list, (uint32_t)rand() % 4, &tasks, &sum, NULL);
    }
}

static void task_counts_repeat(void **state)
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
    assert_string_equal(error.text, "\"2(x3),1\" has 4 nodes, but no node 4");
    assert_int_equal(found, 9);
}

static void a_malformed_count_is_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {"",           "x",      "2(",   "2(3)",   "2(x)",
                                        "2(x3",       "2(x3),", "2,,2", "-1",     "2(x3)1",
                                        "9999999999", "1(x0)",  "2 ",   "2(x-1)", "1(x9999999)"};
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
        cmocka_unit_test(the_first_host_is_expanded),
        cmocka_unit_test(a_malformed_list_is_refused_with_the_position),
        cmocka_unit_test(a_long_host_is_refused),
        cmocka_unit_test(random_bytes_neither_crash_nor_hang),
        cmocka_unit_test(task_counts_repeat),
        cmocka_unit_test(a_malformed_count_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
