/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting on a word of shared memory: what ends a wait, also from another process. */
#include "base/futex.h"

#include "base/clock.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static void a_word_that_differs_is_not_waited_for(void **state)
{
    (void)state;
    _Atomic uint32_t word = 7;
    assert_int_equal(mr_futex_wait(&word, 6, UINT32_MAX), 0);
}

static void a_wait_ends_with_its_time(void **state)
{
    (void)state;
    _Atomic uint32_t word = 7;
    uint64_t start = mr_clock_now_ns();
    assert_int_equal(mr_futex_wait(&word, 7, 20), -ETIMEDOUT);
    uint64_t took = mr_clock_now_ns() - start;
    assert_true(took >= 20 * 1000000u);
    assert_int_equal(mr_futex_wait(&word, 7, 0), -ETIMEDOUT);
}

static void another_process_wakes(void **state)
{
    (void)state;
    _Atomic uint32_t *word =
        mmap(NULL, sizeof *word, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(word != MAP_FAILED);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        usleep(20000);
        atomic_store(word, 1);
        mr_futex_wake(word, UINT32_MAX);
        _exit(0);
    }
    while (atomic_load(word) == 0)
        assert_int_equal(mr_futex_wait(word, 0, 10000), 0);
    int how = 1;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_int_equal(how, 0);
    munmap(word, sizeof *word);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_word_that_differs_is_not_waited_for),
        cmocka_unit_test(a_wait_ends_with_its_time),
        cmocka_unit_test(another_process_wakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
