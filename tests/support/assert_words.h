/* SPDX-License-Identifier: Apache-2.0 */
/* Assertions on texts. They print the text and the missing words. */
#ifndef TESTS_SUPPORT_ASSERT_WORDS_H
#define TESTS_SUPPORT_ASSERT_WORDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <millrace/status.h>

/* Fail unless text contains words. */
#define assert_words(text, words) mr_test_assert_words(text, words, __FILE__, __LINE__)

/* Fail with the error's text unless call returned MR_OK. */
#define assert_ok(call, error) mr_test_assert_ok(call, error, __FILE__, __LINE__)

/* Fail unless call returned this status, and the error has the same status and contains words. */
#define assert_error(call, wanted, error, words)                                                   \
    mr_test_assert_error(call, wanted, error, words, __FILE__, __LINE__)

static inline void mr_test_assert_words(const char *text, const char *words, const char *file,
                                        int line)
{
    if (strstr(text, words))
        return;
    print_error("'%s' does not say '%s'\n", text, words);
    _fail(file, line);
}

static inline void mr_test_assert_ok(mr_status status, const mr_error *error, const char *file,
                                     int line)
{
    if (status == MR_OK)
        return;
    print_error("status %d: %s\n", status, error->text);
    _fail(file, line);
}

static inline void mr_test_assert_error(mr_status status, mr_status wanted, const mr_error *error,
                                        const char *words, const char *file, int line)
{
    if (status != wanted || error->status != (int32_t)wanted) {
        print_error("status %d instead of %d; the error has %d: %s\n", status, wanted,
                    error->status, error->text);
        _fail(file, line);
    }
    mr_test_assert_words(error->text, words, file, line);
}

#endif
