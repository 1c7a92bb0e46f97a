/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slab: shared with a child by its descriptor, of a size that no process can change, refused
 * with a message if too large.
 */
#include "pinned/slab.h"
#include "tests/support/assert_words.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { LEN = 3 * 4096 + 100 };

static struct mr_slab make(uint64_t len_bytes)
{
    struct mr_slab slab;
    mr_error error;
    assert_ok(mr_slab_create(len_bytes, MR_SLAB_PAGES_SMALL, &slab, &error), &error);
    return slab;
}

/* Run a function in a child. Returns its exit status, or 128 plus the signal that ended it. */
static int in_child(int (*body)(void *), void *arg)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(body(arg));
    int status;
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void a_new_slab_is_zero_and_can_be_written(void **state)
{
    (void)state;
    struct mr_slab slab = make(LEN);
    assert_int_equal(slab.len_bytes, LEN);
    for (size_t i = 0; i < LEN; i++)
        assert_int_equal(slab.base[i], 0);
    memset(slab.base, 0xa5, LEN);
    mr_slab_destroy(&slab);
    assert_null(slab.base);
    assert_int_equal(slab.fd, -1);
    mr_slab_destroy(&slab);
}

static void its_pages_are_reserved_on_request(void **state)
{
    (void)state;
    struct mr_slab slab = make(1 << 20);
    struct stat st;
    mr_error error;
    assert_int_equal(mr_slab_reserve(&slab, 0, slab.len_bytes, &error), MR_OK);
    assert_int_equal(fstat(slab.fd, &st), 0);
    assert_int_equal(st.st_size, 1 << 20);
    assert_true((uint64_t)st.st_blocks * 512 >= 1 << 20);
    mr_slab_destroy(&slab);
}

static void its_size_is_fixed(void **state)
{
    (void)state;
    struct mr_slab slab = make(LEN);
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    assert_int_equal(fcntl(slab.fd, F_GET_SEALS) & seals, seals);
    assert_int_equal(ftruncate(slab.fd, 4096), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(slab.fd, 1 << 20), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(fcntl(slab.fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    assert_int_equal(fcntl(slab.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    mr_slab_destroy(&slab);
}

/* Attach with only the descriptor, close it, and return the byte that is read. */
static int answer(void *arg)
{
    struct mr_slab *slab = arg, mine;
    mr_error error;
    munmap(slab->base, slab->len_bytes);
    if (mr_slab_attach(slab->fd, &mine, &error) != MR_OK || mine.len_bytes != LEN)
        return 1;
    close(slab->fd);
    if (strcmp((char *)mine.base, "question") != 0)
        return 2;
    strcpy((char *)mine.base + LEN - 10, "answer");
    mr_slab_destroy(&mine);
    return 0;
}

static void a_child_attaches_by_the_descriptor(void **state)
{
    (void)state;
    struct mr_slab slab = make(LEN);
    strcpy((char *)slab.base, "question");
    assert_int_equal(in_child(answer, &slab), 0);
    assert_string_equal((char *)slab.base + LEN - 10, "answer");
    mr_slab_destroy(&slab);
}

static void a_descriptor_that_is_none_is_not_attached(void **state)
{
    (void)state;
    struct mr_slab slab;
    mr_error error;
    assert_int_equal(mr_slab_attach(987, &slab, &error), MR_ERR_IO);
    assert_int_equal(error.os_error, EBADF);
    assert_words(error.text, "987");
}

static int count_fds(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static int create_beyond_the_file_limit(void *arg)
{
    (void)arg;
    struct rlimit limit = {.rlim_cur = 8192, .rlim_max = 8192};
    struct mr_slab slab = {.fd = -1};
    mr_error error;
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 1;
    int before = count_fds();
    if (mr_slab_create(LEN, MR_SLAB_PAGES_SMALL, &slab, &error) != MR_ERR_NO_MEMORY)
        return 2;
    if (!strstr(error.text, "12388") || !strstr(error.text, "8192") ||
        !strstr(error.text, "RLIMIT_FSIZE"))
        return 3;
    if (slab.base || count_fds() != before)
        return 4;
    return mr_slab_create(8192, MR_SLAB_PAGES_SMALL, &slab, &error) == MR_OK ? 0 : 5;
}

static void a_file_limit_below_the_slab_is_an_error_and_no_signal(void **state)
{
    (void)state;
    assert_int_equal(in_child(create_beyond_the_file_limit, NULL), 0);
}

static void a_slab_larger_than_memory_is_refused_with_the_sizes(void **state)
{
    (void)state;
    struct mr_slab slab = {.fd = -1};
    mr_error error;
    int before = count_fds();
    assert_error(mr_slab_create(UINT64_C(1) << 50, MR_SLAB_PAGES_SMALL, &slab, &error),
                 MR_ERR_NO_MEMORY, &error, "the slab needs 1125899906.8 MB");
    assert_words(error.text, "leaves");
    assert_null(slab.base);
    assert_int_equal(count_fds(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_slab_is_zero_and_can_be_written),
        cmocka_unit_test(its_pages_are_reserved_on_request),
        cmocka_unit_test(its_size_is_fixed),
        cmocka_unit_test(a_child_attaches_by_the_descriptor),
        cmocka_unit_test(a_descriptor_that_is_none_is_not_attached),
        cmocka_unit_test(a_file_limit_below_the_slab_is_an_error_and_no_signal),
        cmocka_unit_test(a_slab_larger_than_memory_is_refused_with_the_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
