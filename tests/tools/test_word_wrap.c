/* SPDX-License-Identifier: Apache-2.0 */
/* How the words below a picture are broken into lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tools/word_wrap.h"

/* lines: each in brackets. */
static void expect(const char *text, size_t columns, const char *lines)
{
    char all[256] = "";
    size_t n = 0, used = 0, len;
    const char *at = text;
    while ((len = mr_word_wrap_next(&at, columns)) > 0) {
        assert_true(len <= columns && n++ < 20);
        used += (size_t)snprintf(all + used, sizeof all - used, "[%.*s]", (int)len, at - len);
    }
    assert_string_equal(all, lines);
    assert_int_equal(mr_word_wrap_count(text, columns), n);
}

static void lines_end_between_calls(void **state)
{
    (void)state;
    expect("", 10, "");
    expect("hflip", 10, "[hflip]");
    expect("hflip, vflip", 12, "[hflip, vflip]");
    expect("hflip, vflip", 11, "[hflip,][vflip]");
    expect("crop 9x8+2+1, hflip, rotate -13.5, invert", 20,
           "[crop 9x8+2+1, hflip,][rotate -13.5, invert]");
}

static void long_calls_are_broken_at_blanks_and_long_words_anywhere(void **state)
{
    (void)state;
    expect("affine 1 2:3 4 5:6, invert", 12, "[affine 1 2:3][4 5:6,][invert]");
    expect("hflip, a_call_without_blanks", 8, "[hflip,][a_call_w][ithout_b][lanks]");
    expect("ab", 1, "[a][b]");
}

static void blanks_between_lines_are_no_part_of_them(void **state)
{
    (void)state;
    expect("  a   b", 3, "[a][b]");
    expect("a,   b", 2, "[a,][b]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_end_between_calls),
        cmocka_unit_test(long_calls_are_broken_at_blanks_and_long_words_anywhere),
        cmocka_unit_test(blanks_between_lines_are_no_part_of_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
