/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child is distinguished from its parent on every kind of kernel. The linker redirects madvise()
 * (--wrap).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loader/workers/fork_mark.h"

enum advice { PERFORMED, PRETENDED, REFUSED };

static enum advice advice;

int __wrap_madvise(void *at, size_t len, int what);
int __real_madvise(void *at, size_t len, int what);

int __wrap_madvise(void *at, size_t len, int what)
{
    if (what != MADV_WIPEONFORK || advice == PERFORMED)
        return __real_madvise(at, len, what);
    errno = EINVAL;
    return advice == PRETENDED ? 0 : -1;
}

/* Clone without libc, as a program may. */
static pid_t clone_process(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

static void check_child(pid_t (*make_child)(void))
{
    struct mr_fork_mark mark;
    mr_fork_mark_init(&mark);
    assert_false(mr_fork_mark_in_child(&mark));
    pid_t pid = make_child();
    if (pid == 0) {
        bool seen = mr_fork_mark_in_child(&mark);
        struct mr_fork_mark own; /* a mark made here belongs to this process */
        mr_fork_mark_init(&own);
        _exit(seen && !mr_fork_mark_in_child(&own) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_false(mr_fork_mark_in_child(&mark));
    mr_fork_mark_fini(&mark);
}

static void every_child_is_detected_by_the_cleared_page(void **state)
{
    (void)state;
    advice = PERFORMED;
    check_child(fork);
    check_child(clone_process);
}

static void a_forked_child_is_detected_if_the_kernel_only_pretends_to_clear(void **state)
{
    (void)state;
    advice = PRETENDED;
    check_child(fork);
}

static void every_child_is_detected_if_the_kernel_refuses_to_clear(void **state)
{
    (void)state;
    advice = REFUSED;
    check_child(fork);
    check_child(clone_process);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_child_is_detected_by_the_cleared_page),
        cmocka_unit_test(a_forked_child_is_detected_if_the_kernel_only_pretends_to_clear),
        cmocka_unit_test(every_child_is_detected_if_the_kernel_refuses_to_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
