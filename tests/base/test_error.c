/* SPDX-License-Identifier: Apache-2.0 */
/* The error record: always one line, cut to size, optional everywhere. */
#include "base/error.h"
#include "base/os_words.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#ifdef __GLIBC__
#if __GLIBC_PREREQ(2, 32)
#define HAS_GLIBC_WORDS 1
#endif
#endif

static void the_record_holds_status_and_words(void **state)
{
    (void)state;
    mr_error error;
    memset(&error, 0xff, sizeof error);
    assert_int_equal(
        mr_error_set(&error, MR_ERR_INVALID, "batch_size %d is above %d", 70000, 65535),
        MR_ERR_INVALID);
    assert_int_equal(error.status, MR_ERR_INVALID);
    assert_int_equal(error.os_error, 0);
    assert_int_equal(error.index, MR_NO_INDEX);
    assert_string_equal(error.text, "batch_size 70000 is above 65535");
}

static void hostile_names_stay_one_line(void **state)
{
    (void)state;
    mr_error error;
    mr_error_set(&error, MR_ERR_IO, "%s", "a\nb\rc\td\x1b[31m\x7f");
    assert_string_equal(error.text, "a?b?c?d?[31m?");
    mr_error_os(&error, MR_ERR_IO, ENOENT, "open %s", "x\ny");
    assert_string_equal(error.text, "open x?y: No such file or directory");
    mr_error_set(&error, MR_ERR_IO, "%s", "caf\xc3\xa9");
    assert_string_equal(error.text, "caf\xc3\xa9");
}

static void long_words_are_cut(void **state)
{
    (void)state;
    char name[3000];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    mr_error error;
    mr_error_set(&error, MR_ERR_IO, "%s", name);
    assert_int_equal(strlen(error.text), MR_ERROR_TEXT - 1);
    mr_error_os(&error, MR_ERR_IO, EACCES, "%s", name);
    assert_int_equal(strlen(error.text), MR_ERROR_TEXT - 1);
    assert_int_equal(error.os_error, EACCES);
    name[MR_ERROR_TEXT - 5] = '\0'; /* room for four bytes of ": Permission denied" */
    mr_error_os(&error, MR_ERR_IO, EACCES, "%s", name);
    assert_int_equal(strlen(error.text), MR_ERROR_TEXT - 1);
    assert_string_equal(error.text + MR_ERROR_TEXT - 5, ": Pe");
}

static void an_unknown_errno_is_a_number(void **state)
{
    (void)state;
    mr_error error;
    mr_error_os(&error, MR_ERR_IO, 12345, "read");
    assert_string_equal(error.text, "read: errno 12345");
}

static void a_null_record_is_accepted(void **state)
{
    (void)state;
    mr_error error;
    assert_int_equal(mr_error_set(NULL, MR_ERR_STATE, "%d", 1), MR_ERR_STATE);
    assert_int_equal(mr_error_os(NULL, MR_ERR_IO, EIO, "%d", 1), MR_ERR_IO);
    assert_int_equal(mr_error_memory(NULL, 5), MR_ERR_NO_MEMORY);
    assert_int_equal(mr_error_memory(&error, 5), MR_ERR_NO_MEMORY);
    assert_string_equal(error.text, "cannot allocate 5 bytes");
    mr_error_copy(NULL, &error);
}

static void every_status_has_its_name(void **state)
{
    (void)state;
    for (int status = MR_ERR_DEVICE; status <= MR_PENDING; status++) {
        const char *name = mr_status_name((mr_status)status);
        assert_int_equal(strncmp(name, status < 0 ? "MR_ERR_" : "MR_", status < 0 ? 7 : 3), 0);
        for (int other = MR_ERR_DEVICE; other < status; other++)
            assert_string_not_equal(name, mr_status_name((mr_status)other));
    }
    assert_string_equal(mr_status_name((mr_status)99), "MR_?");
}

static void numbers_of_the_system_have_words(void **state)
{
    (void)state;
    assert_string_equal(mr_os_words_error(ENOENT), "No such file or directory");
    assert_string_equal(mr_os_words_signal(SIGSEGV), "SEGV");
    assert_string_equal(mr_os_words_signal(SIGKILL), "KILL");
    assert_null(mr_os_words_error(-1));
    assert_null(mr_os_words_error(100000));
    assert_null(mr_os_words_signal(0));
    assert_null(mr_os_words_signal(-1));
    assert_null(mr_os_words_signal(100000));
}

/* Compared only if the libc has such texts itself. */
static void words_of_the_system_are_glibcs(void **state)
{
    (void)state;
#ifdef HAS_GLIBC_WORDS
    for (int i = 0; i < 200; i++) {
        if (strerrordesc_np(i))
            assert_string_equal(mr_os_words_error(i), strerrordesc_np(i));
        else
            assert_null(mr_os_words_error(i));
        if (sigabbrev_np(i))
            assert_string_equal(mr_os_words_signal(i), sigabbrev_np(i));
        else
            assert_null(mr_os_words_signal(i));
    }
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_record_holds_status_and_words),
        cmocka_unit_test(hostile_names_stay_one_line),
        cmocka_unit_test(long_words_are_cut),
        cmocka_unit_test(an_unknown_errno_is_a_number),
        cmocka_unit_test(a_null_record_is_accepted),
        cmocka_unit_test(every_status_has_its_name),
        cmocka_unit_test(numbers_of_the_system_have_words),
        cmocka_unit_test(words_of_the_system_are_glibcs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
