/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines: to the caller's function, cut to size, back to stderr. */
#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

struct seen {
    mr_log_level level;
    char line[2000];
    int n;
};

static void see(void *user, mr_log_level level, const char *line)
{
    struct seen *seen = user;
    seen->level = level;
    seen->n++;
    snprintf(seen->line, sizeof seen->line, "%s", line);
}

static void lines_go_to_the_caller_s_function(void **state)
{
    (void)state;
    struct seen seen = {0};
    mr_log_set(see, &seen);
    mr_log_line(MR_LOG_WARNING, "epoch %d was used twice", 3);
    mr_log_set(NULL, NULL);
    assert_int_equal(seen.n, 1);
    assert_int_equal(seen.level, MR_LOG_WARNING);
    assert_string_equal(seen.line, "epoch 3 was used twice");
}

static void a_hostile_name_does_not_break_the_line(void **state)
{
    (void)state;
    struct seen seen = {0};
    mr_log_set(see, &seen);
    mr_log_line(MR_LOG_WARNING, "%s is left out", "a\nmillrace: error: b\x1b[2J\x7f\xc3\xa9");
    mr_log_set(NULL, NULL);
    assert_string_equal(seen.line, "a?millrace: error: b?[2J?\xc3\xa9 is left out");
}

static void long_lines_are_cut(void **state)
{
    (void)state;
    char words[3000];
    memset(words, 'x', sizeof words - 1);
    words[sizeof words - 1] = '\0';
    struct seen seen = {0};
    mr_log_set(see, &seen);
    mr_log_line(MR_LOG_INFO, "%s", words);
    mr_log_set(NULL, NULL);
    assert_in_range(strlen(seen.line), 1000, 1500);
}

static void without_a_function_they_go_to_stderr(void **state)
{
    (void)state;
    int ends[2], saved = dup(STDERR_FILENO);
    char text[200] = "";
    assert_int_equal(pipe(ends), 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    mr_log_line(MR_LOG_WARNING, "%s", "8 workers share 2 usable CPUs");
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    assert_true(read(ends[0], text, sizeof text - 1) > 0);
    assert_string_equal(text, "millrace: warning: 8 workers share 2 usable CPUs\n");
    close(ends[0]);
    close(ends[1]);
    close(saved);
}

static void expect_kept(const char *expected, mr_log_level expected_level)
{
    mr_log_level level;
    char line[1200];
    assert_int_equal(mr_log_take(&level, line, sizeof line, NULL), MR_OK);
    assert_string_equal(line, expected);
    assert_int_equal(level, expected_level);
}

static void kept_lines_are_taken_in_order(void **state)
{
    (void)state;
    mr_log_level level;
    char line[8], text[32];
    mr_log_queue();
    assert_int_equal(mr_log_take(&level, line, sizeof line, NULL), MR_END);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 70; i++)
            mr_log_line(i % 2 ? MR_LOG_INFO : MR_LOG_WARNING, "line %d", i);
        for (int i = 0; i < 64; i++) {
            snprintf(text, sizeof text, "line %d", i);
            expect_kept(text, i % 2 ? MR_LOG_INFO : MR_LOG_WARNING);
        }
        expect_kept("6 log lines were dropped", MR_LOG_WARNING);
        mr_log_line(MR_LOG_ERROR, "a long line");
        assert_int_equal(mr_log_take(&level, line, sizeof line, NULL), MR_OK);
        assert_string_equal(line, "a long ");
        assert_int_equal(mr_log_take(&level, line, sizeof line, NULL), MR_END);
    }
    assert_int_equal(mr_log_take(NULL, line, sizeof line, NULL), MR_ERR_INVALID);
    assert_int_equal(mr_log_take(&level, NULL, 0, NULL), MR_ERR_INVALID);
    mr_log_set(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_go_to_the_caller_s_function),
        cmocka_unit_test(a_hostile_name_does_not_break_the_line),
        cmocka_unit_test(long_lines_are_cut),
        cmocka_unit_test(kept_lines_are_taken_in_order),
        cmocka_unit_test(without_a_function_they_go_to_stderr),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
