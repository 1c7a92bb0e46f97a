/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What MR_NCCL_DOUBLE says befalls a program that says nothing itself; each in a child, as it is
 * read once.
 */
#include "tests/double/nccl_double.h"
#include "tests/double/cuda_double.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* A world of one rank: its communicator, and its results. */
struct program {
    ncclComm_t comm;
    float *buffer;
};

static void join(struct program *p)
{
    ncclUniqueId id;
    if (ncclGetUniqueId(&id) != ncclSuccess ||
        ncclCommInitRank(&p->comm, 1, id, 0) != ncclSuccess ||
        cudaMalloc((void **)&p->buffer, 100) != cudaSuccess)
        _exit(99);
}

static ncclResult_t reduce(const struct program *p)
{
    return ncclAllReduce(p->buffer, p->buffer, 25, ncclFloat32, ncclSum, p->comm, NULL);
}

/* With itself, which no shortcut replaces. */
static ncclResult_t exchange(const struct program *p)
{
    if (ncclGroupStart() != ncclSuccess ||
        ncclSend(p->buffer, 10, ncclFloat32, 0, p->comm, NULL) != ncclSuccess ||
        ncclRecv(p->buffer + 10, 10, ncclFloat32, 0, p->comm, NULL) != ncclSuccess)
        _exit(97);
    return ncclGroupEnd();
}

static void leave(struct program *p)
{
    if (ncclCommAbort(p->comm) != ncclSuccess || cudaDeviceSynchronize() != cudaSuccess ||
        cudaFree(p->buffer) != cudaSuccess)
        _exit(98);
}

/* The exit status of f in a child with this environment, or 128 and its signal. */
static int result_of(const char *environment, int (*f)(void))
{
    int how = 0;
    (void)fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("MR_NCCL_DOUBLE", environment, 1);
        alarm(20);
        exit(f());
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    return WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
}

static int second_fails(void)
{
    struct program p;
    join(&p);
    int wrong =
        reduce(&p) != ncclSuccess || reduce(&p) != ncclSystemError || reduce(&p) != ncclSuccess;
    leave(&p);
    return wrong || double_nccl_calls("ncclAllReduce") != 3 || double_nccl_n_failed() != 1;
}

static int third_hangs(void)
{
    struct program p;
    join(&p);
    int wrong = exchange(&p) != ncclSuccess || exchange(&p) != ncclSuccess;
    wrong |= cudaStreamSynchronize(NULL) != cudaSuccess;
    wrong |= exchange(&p) != ncclSuccess;
    usleep(50000);
    wrong |= cudaStreamQuery(NULL) != cudaErrorNotReady;
    leave(&p);
    return wrong;
}

static int second_has_an_error(void)
{
    struct program p;
    ncclResult_t error = ncclSuccess;
    join(&p);
    int wrong = exchange(&p) != ncclSuccess;
    wrong |= ncclCommGetAsyncError(p.comm, &error) != ncclSuccess || error != ncclInvalidUsage;
    wrong |= reduce(&p) != ncclInvalidUsage;
    leave(&p);
    return wrong;
}

static int nothing_happens(void)
{
    struct program p;
    join(&p);
    int wrong = 0;
    for (int i = 0; i < 20; i++)
        wrong |= reduce(&p) != ncclSuccess || exchange(&p) != ncclSuccess;
    wrong |= cudaStreamSynchronize(NULL) != cudaSuccess;
    leave(&p);
    return wrong;
}

static int a_communicator_is_left(void)
{
    struct program p;
    join(&p);
    return cudaFree(p.buffer) != cudaSuccess;
}

static void what_is_ordered_happens(void **state)
{
    (void)state;
    assert_int_equal(result_of("fail=AllReduce:2:system,seed=3", second_fails), 0);
    assert_int_equal(result_of("delay=1ms,hang=recv:3", third_hangs), 0);
    assert_int_equal(result_of("async=1:usage", second_has_an_error), 0);
    assert_int_equal(
        result_of("delay=300us,progress=1ms,death=silent,mismatch=crash,leave=together",
                  nothing_happens),
        0);
    assert_int_equal(result_of("", nothing_happens), 0);
}

static void another_rank_is_meant(void **state)
{
    (void)state;
    assert_int_equal(result_of("rank=0,hang=recv:3", third_hangs), 0);
    assert_int_equal(result_of("rank=1,hang=recv:3,fail=AllReduce:2,async=4:cuda", nothing_happens),
                     0);
}

static void what_is_not_understood_ends_the_program(void **state)
{
    (void)state;
    assert_int_equal(result_of("dealy=5ms", nothing_happens), 128 + SIGABRT);
    assert_int_equal(result_of("delay=5", nothing_happens), 128 + SIGABRT);
    assert_int_equal(result_of("async=4:nonsense", nothing_happens), 128 + SIGABRT);
    assert_int_equal(result_of("seed", nothing_happens), 128 + SIGABRT);
}

static void a_communicator_that_is_left_over_is_told_at_the_end(void **state)
{
    (void)state;
    assert_int_equal(result_of("seed=1", a_communicator_is_left), 86);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_ordered_happens),
        cmocka_unit_test(another_rank_is_meant),
        cmocka_unit_test(what_is_not_understood_ends_the_program),
        cmocka_unit_test(a_communicator_that_is_left_over_is_told_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
