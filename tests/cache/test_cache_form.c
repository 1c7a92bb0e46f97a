/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a form of the cache cannot be used: an option, this machine's libjpeg, or a lack of memory, which is something
 * else and passes. The linker redirects the allocations of this program (--wrap).
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

static bool counts;
static unsigned n_asked, refused; /* of the allocations; the one that is refused */

void *__wrap_malloc(size_t len);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *memory, size_t len);
void *__wrap_aligned_alloc(size_t alignment, size_t len);
void *__real_malloc(size_t len);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *memory, size_t len);
void *__real_aligned_alloc(size_t alignment, size_t len);

static bool is_refused(void)
{
    return counts && n_asked++ == refused;
}

void *__wrap_malloc(size_t len)
{
    return is_refused() ? NULL : __real_malloc(len);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return is_refused() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *memory, size_t len)
{
    return is_refused() ? NULL : __real_realloc(memory, len);
}

void *__wrap_aligned_alloc(size_t alignment, size_t len)
{
    return is_refused() ? NULL : __real_aligned_alloc(alignment, len);
}

enum { DONE, ALL_GIVEN, UNSUPPORTED, OTHER_STATUS, OTHER_WORDS, REMEMBERED };

/* In a process of its own, since a verdict stands: what is wrong, or ALL_GIVEN when there was nothing to refuse. */
static int refuse_one(void)
{
    mr_error error = {0};
    counts = true;
    mr_status status = mr_cache_form_check(MR_PACKED_MARKED, false, &error);
    counts = false;
    if (n_asked <= refused)
        return status == MR_ERR_UNSUPPORTED ? UNSUPPORTED : ALL_GIVEN;
    if (status != MR_OK && status != MR_ERR_NO_MEMORY) /* libjpeg can do without some of it */
        return OTHER_STATUS;
    if (status != MR_OK && !strstr(error.text, "allocate") && !strstr(error.text, "nsufficient memory"))
        return OTHER_WORDS;
    if (mr_cache_form_check(MR_PACKED_MARKED, false, NULL) != MR_OK ||
        mr_cache_form_check(MR_PACKED_DCT, false, NULL) != MR_OK)
        return REMEMBERED;
    return DONE;
}

static int refuse_in_child(unsigned which)
{
    int status;
    refused = which;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(refuse_one());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_lack_of_memory_is_called_so_and_decides_nothing(void **state)
{
    int result = DONE;
    unsigned n = 0;
    (void)state;
    if (refuse_in_child(UINT32_MAX) == UNSUPPORTED)
        skip();
    while (result == DONE)
        result = refuse_in_child(n++);
    if (result != ALL_GIVEN)
        fail_msg("allocation %u: %s", n - 1,
                 result == OTHER_STATUS  ? "the error is not a lack of memory"
                 : result == OTHER_WORDS ? "the words do not speak of memory"
                                         : "it is remembered");
    assert_true(n > 10);
}

static void what_turns_the_decoder_off_is_named(void **state)
{
    mr_error error;
    (void)state;
    assert_int_equal(mr_cache_form_check(MR_PACKED_MARKED, true, &error), MR_ERR_UNSUPPORTED);
    assert_string_equal(error.text,
                        "an index of JPEG files needs millrace's own decoder, which jpeg_decoder stock turns "
                        "off");
    setenv("MR_JPEG", "stock", 1);
    assert_int_equal(mr_cache_form_check(MR_PACKED_MARKED, false, &error), MR_ERR_UNSUPPORTED);
    assert_string_equal(error.text,
                        "an index of JPEG files needs millrace's own decoder, which MR_JPEG=stock turns off");
    unsetenv("MR_JPEG");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lack_of_memory_is_called_so_and_decides_nothing),
        cmocka_unit_test(what_turns_the_decoder_off_is_named),
    };
    unsetenv("MR_JPEG");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
