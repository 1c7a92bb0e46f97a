/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reasons why a form of cache cannot be used: an option, or the libjpeg of this machine. A lack
 * of memory is reported too, but it is not remembered: the next call tries again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/packed_image.h"
#include "cache/cache_form.h"
#include "tests/support/allocations.h"

enum { DONE, ALL_GIVEN, UNSUPPORTED, OTHER_STATUS, OTHER_WORDS, REMEMBERED };

/*
 * Run in a separate process, because a process keeps the first verdict. Returns what went wrong,
 * DONE, or ALL_GIVEN if all allocations succeeded.
 */
static int refuse_one(size_t which)
{
    mr_error error = {0};
    allocations.n_met = 0;
    allocations.refused = which;
    mr_status status = mr_cache_form_check(MR_PACKED_MARKED, false, &error);
    allocations.refused = 0;
    if (allocations.n_met < which)
        return status == MR_ERR_UNSUPPORTED ? UNSUPPORTED : ALL_GIVEN;
    if (status != MR_OK && status != MR_ERR_NO_MEMORY) /* libjpeg can do without some allocations */
        return OTHER_STATUS;
    if (status != MR_OK && !strstr(error.text, "allocate") &&
        !strstr(error.text, "nsufficient memory"))
        return OTHER_WORDS;
    if (mr_cache_form_check(MR_PACKED_MARKED, false, NULL) != MR_OK ||
        mr_cache_form_check(MR_PACKED_DCT, false, NULL) != MR_OK)
        return REMEMBERED;
    return DONE;
}

static int refuse_in_child(size_t which)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(refuse_one(which));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_lack_of_memory_is_reported_and_decides_nothing(void **state)
{
    int result = DONE;
    size_t n = 0;
    (void)state;
    if (refuse_in_child(SIZE_MAX) == UNSUPPORTED)
        skip();
    while (result == DONE)
        result = refuse_in_child(++n);
    if (result != ALL_GIVEN)
        fail_msg("allocation %zu: %s", n,
                 result == OTHER_STATUS  ? "the error is not a lack of memory"
                 : result == OTHER_WORDS ? "the message does not mention memory"
                                         : "it is remembered");
    assert_true(n > 10);
}

static void what_turns_the_decoder_off_is_named(void **state)
{
    mr_error error;
    (void)state;
    assert_int_equal(mr_cache_form_check(MR_PACKED_MARKED, true, &error), MR_ERR_UNSUPPORTED);
    assert_string_equal(
        error.text,
        "an index of JPEG files needs millrace's own decoder, which jpeg_decoder stock turns "
        "off");
    setenv("MR_JPEG", "stock", 1);
    assert_int_equal(mr_cache_form_check(MR_PACKED_MARKED, false, &error), MR_ERR_UNSUPPORTED);
    assert_string_equal(
        error.text,
        "an index of JPEG files needs millrace's own decoder, which MR_JPEG=stock turns off");
    unsetenv("MR_JPEG");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lack_of_memory_is_reported_and_decides_nothing),
        cmocka_unit_test(what_turns_the_decoder_off_is_named),
    };
    unsetenv("MR_JPEG");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
