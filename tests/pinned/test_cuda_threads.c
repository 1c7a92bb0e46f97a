/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of the program that make their first call of CUDA at the same time, on the double of the
 * runtime.
 */
#include "pinned/cuda_find.h"

#include "tests/double/cuda_double.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { N_THREADS = 8, N_FUNCTIONS = 5 };

static pthread_barrier_t barrier;
static bool gathers; /* constant while threads run */

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);

/*
 * Waits until all threads have seen that no function is found yet, before the first one looks them
 * up.
 */
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    if (gathers)
        (void)pthread_barrier_wait(&barrier);
    return __real_pthread_mutex_lock(mutex);
}

static void *call_cuda(void *arg)
{
    (void)arg;
    (void)mr_cuda_find_node(0);
    return NULL;
}

/* A later thread must not write the driver's functions again while other threads call them. */
static void the_drivers_functions_are_looked_up_once(void **state)
{
    (void)state;
    double_open(&(struct double_options){.n_devices = 1});
    pthread_t threads[N_THREADS];
    assert_int_equal(pthread_barrier_init(&barrier, NULL, N_THREADS), 0);
    gathers = true;
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_cuda, NULL), 0);
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    gathers = false;
    assert_int_equal(pthread_barrier_destroy(&barrier), 0);
    assert_int_equal(double_calls("cudaGetDriverEntryPoint"), N_FUNCTIONS);
    assert_int_equal(double_close(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_drivers_functions_are_looked_up_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
