/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that do not know that they run on the double, such as the examples. Each runs in a
 * child, because a machine from the environment is for the whole process.
 */
#include "tests/double/double_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int run(int (*program)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)dup2(STDOUT_FILENO, STDERR_FILENO);
        exit(program());
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int count_devices(void)
{
    int n = 99;
    return cudaGetDeviceCount(&n) == cudaSuccess ? n : 99;
}

static int behave(void)
{
    void *memory;
    bool good = cudaMalloc(&memory, 8) == cudaSuccess && cudaMemset(memory, 0, 8) == cudaSuccess &&
                cudaDeviceSynchronize() == cudaSuccess && cudaFree(memory) == cudaSuccess;
    return good ? 0 : 1;
}

static int forget_memory(void)
{
    void *memory;
    return cudaMalloc(&memory, 8) == cudaSuccess ? 0 : 1;
}

static int forget_an_order(void)
{
    void *memory;
    cudaStream_t one, two;
    bool good = cudaMalloc(&memory, 8) == cudaSuccess &&
                cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking) == cudaSuccess &&
                cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking) == cudaSuccess &&
                cudaMemsetAsync(memory, 0, 8, one) == cudaSuccess &&
                cudaMemsetAsync(memory, 0, 8, two) == cudaSuccess &&
                cudaDeviceSynchronize() == cudaSuccess && cudaFree(memory) == cudaSuccess &&
                cudaStreamDestroy(one) == cudaSuccess && cudaStreamDestroy(two) == cudaSuccess;
    return good ? 0 : 1;
}

/* A child of the program does not report what its parent still holds. */
static int end_in_a_child(void)
{
    void *memory;
    if (cudaMalloc(&memory, 8) != cudaSuccess)
        return 1;
    int status = run(behave);
    return cudaFree(memory) == cudaSuccess && status == 1 ? 0 : 2;
}

static void a_program_gets_its_machine_from_the_environment(void **state)
{
    (void)state;
    assert_int_equal(run(count_devices), 1);
    (void)setenv("MR_CUDA_DOUBLE", "policy=late,devices=5,seed=3", 1);
    assert_int_equal(run(count_devices), 5);
    (void)unsetenv("MR_CUDA_DOUBLE");
}

/* Does a copy run before a thread waits for it? */
static int copy_and_look(void)
{
    uint8_t *from, seen;
    void *to;
    cudaStream_t stream;
    bool good = cudaHostAlloc((void **)&from, 8, 0) == cudaSuccess &&
                cudaMalloc(&to, 8) == cudaSuccess && cudaStreamCreate(&stream) == cudaSuccess &&
                cudaMemset(to, 0, 8) == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess;
    memset(from, 1, 8);
    good = good && cudaMemcpyAsync(to, from, 8, cudaMemcpyHostToDevice, stream) == cudaSuccess;
    seen = *(uint8_t *)double_host_view(to);
    good = good && cudaStreamSynchronize(stream) == cudaSuccess && cudaFree(to) == cudaSuccess &&
           cudaFreeHost(from) == cudaSuccess && cudaStreamDestroy(stream) == cudaSuccess;
    return good ? seen : 2;
}

static void a_programs_policy_is_that_of_the_environment(void **state)
{
    (void)state;
    (void)setenv("MR_CUDA_DOUBLE", "policy=late", 1);
    assert_int_equal(run(copy_and_look), 0);
    (void)setenv("MR_CUDA_DOUBLE", "policy=early", 1);
    assert_int_equal(run(copy_and_look), 1);
    (void)unsetenv("MR_CUDA_DOUBLE");
    assert_int_equal(run(copy_and_look), 1);
}

static void a_correct_program_has_its_own_exit_status(void **state)
{
    (void)state;
    assert_int_equal(run(behave), 0);
    assert_int_equal(run(end_in_a_child), 0);
}

static void findings_change_the_exit_status(void **state)
{
    (void)state;
    assert_int_equal(run(forget_memory), 86);
    assert_int_equal(run(forget_an_order), 86);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_gets_its_machine_from_the_environment),
        cmocka_unit_test(a_programs_policy_is_that_of_the_environment),
        cmocka_unit_test(a_correct_program_has_its_own_exit_status),
        cmocka_unit_test(findings_change_the_exit_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
