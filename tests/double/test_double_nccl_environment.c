/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults that MR_NCCL_DOUBLE sets for a program that sets no options itself. Each runs in a child,
 * because the variable is read once.
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

/* A message to itself, which NCCL does not shorten. */
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

/* Run f in a child with this environment. Returns its exit status, or 128 plus the signal. */
static int run_with_environment(const char *environment, int (*f)(void))
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

static void requested_faults_happen(void **state)
{
    (void)state;
    assert_int_equal(run_with_environment("fail=AllReduce:2:system,seed=3", second_fails), 0);
    assert_int_equal(run_with_environment("delay=1ms,hang=recv:3", third_hangs), 0);
    assert_int_equal(run_with_environment("async=1:usage", second_has_an_error), 0);
    assert_int_equal(
        run_with_environment("delay=300us,progress=1ms,death=silent,mismatch=crash,leave=together",
                             nothing_happens),
        0);
    assert_int_equal(run_with_environment("", nothing_happens), 0);
}

static void faults_of_another_rank_do_not_happen(void **state)
{
    (void)state;
    assert_int_equal(run_with_environment("rank=0,hang=recv:3", third_hangs), 0);
    assert_int_equal(
        run_with_environment("rank=1,hang=recv:3,fail=AllReduce:2,async=4:cuda", nothing_happens),
        0);
}

static void unknown_words_end_the_program(void **state)
{
    (void)state;
    assert_int_equal(run_with_environment("dealy=5ms", nothing_happens), 128 + SIGABRT);
    assert_int_equal(run_with_environment("delay=5", nothing_happens), 128 + SIGABRT);
    assert_int_equal(run_with_environment("async=4:nonsense", nothing_happens), 128 + SIGABRT);
    assert_int_equal(run_with_environment("seed", nothing_happens), 128 + SIGABRT);
}

static void a_leftover_communicator_is_reported_at_the_end(void **state)
{
    (void)state;
    assert_int_equal(run_with_environment("seed=1", a_communicator_is_left), 86);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requested_faults_happen),
        cmocka_unit_test(faults_of_another_rank_do_not_happen),
        cmocka_unit_test(unknown_words_end_the_program),
        cmocka_unit_test(a_leftover_communicator_is_reported_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
