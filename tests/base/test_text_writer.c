/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that are cut off, and JSON's numbers and strings. */
#include "base/text_writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void text_that_is_too_long_is_cut_off_and_measured(void **state)
{
    (void)state;
    for (size_t size = 0; size < 12; size++) {
        char text[12];
        struct mr_text_writer w;
        memset(text, '#', sizeof text);
        mr_text_writer_begin(&w, text, size);
        mr_text_writer_put(&w, "%s", "seven");
        mr_text_writer_put(&w, "+%d", 7);
        mr_text_writer_end(&w);
        assert_int_equal(w.len, 7);
        if (size > 0) {
            char want[12] = "seven+7";
            want[size - 1] = '\0';
            assert_string_equal(text, want);
        }
        for (size_t i = size; i < sizeof text; i++)
            assert_int_equal(text[i], '#');
    }
    struct mr_text_writer w;
    mr_text_writer_begin(&w, NULL, 5);
    mr_text_writer_put(&w, "none");
    mr_text_writer_end(&w);
    assert_int_equal(w.len, 4);
}

static void check_number(double value, const char *want, const char *want_json)
{
    char text[64];
    struct mr_text_writer w;
    mr_text_writer_begin(&w, text, sizeof text);
    mr_text_writer_put_double(&w, value);
    mr_text_writer_put(&w, " ");
    mr_text_writer_put_json_number(&w, value);
    mr_text_writer_end(&w);
    *strchr(text, ' ') = '\0';
    assert_string_equal(text, want);
    assert_string_equal(text + strlen(text) + 1, want_json);
}

static void numbers_have_the_digits_they_need(void **state)
{
    (void)state;
    check_number(0.1, "0.1", "0.10000000000000001");
    check_number(-13.5, "-13.5", "-13.5");
    check_number(3.0, "3", "3.0");
    check_number(-0.0, "-0", "-0.0");
    check_number(1e-9, "1e-09", "1.0000000000000001e-09");
    check_number((double)0.1f, "0.10000000149011612", "0.10000000149011612");
}

static void check_string(const char *string, const char *want)
{
    char text[128];
    struct mr_text_writer w;
    mr_text_writer_begin(&w, text, sizeof text);
    mr_text_writer_put_json_string(&w, string);
    mr_text_writer_end(&w);
    assert_string_equal(text, want);
}

static void strings_are_valid_json_whatever_their_bytes(void **state)
{
    (void)state;
    check_string("", "\"\"");
    check_string("a/b.jpg", "\"a/b.jpg\"");
    check_string("\"q\"\\\n\x1f\x7f", "\"\\\"q\\\"\\\\\\u000a\\u001f\\u007f\"");
    check_string("\xc3\xa4\xe2\x82\xac\xf0\x9f\x8e\xb2",
                 "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x8e\xb2\"");
    check_string("\xe4.jpg", "\"\\udce4.jpg\"");
    check_string("\xc3", "\"\\udcc3\"");
    check_string("\xc0\xaf\xe0\x80\xaf", "\"\\udcc0\\udcaf\\udce0\\udc80\\udcaf\"");
    check_string("\xed\xa0\x80", "\"\\udced\\udca0\\udc80\"");
    check_string("\xf4\x90\x80\x80", "\"\\udcf4\\udc90\\udc80\\udc80\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_that_is_too_long_is_cut_off_and_measured),
        cmocka_unit_test(numbers_have_the_digits_they_need),
        cmocka_unit_test(strings_are_valid_json_whatever_their_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
