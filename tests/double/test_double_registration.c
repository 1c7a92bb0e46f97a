/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Page-locking the program's memory: refused by the machine, slow, with unmapped pages, and in
 * whole pages.
 */
#include "tests/double/double_fixture.h"
#include "tests/support/assert_words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { LEN = 1000000, LARGE_PAGE = 65536 };

static uint8_t *map_pages(size_t len)
{
    uint8_t *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

static void a_machine_that_cannot_register_reports_it_and_refuses(void **state)
{
    (void)state;
    for (int refused = 0; refused < 2; refused++) {
        double_open(&(struct double_options){.no_registration = refused});
        uint8_t *memory = map_pages(LEN);
        int supported = 7;
        OK(cudaDeviceGetAttribute(&supported, cudaDevAttrHostRegisterSupported, 0));
        assert_int_equal(supported, !refused);
        cudaError_t error = cudaHostRegister(memory, LEN, cudaHostRegisterPortable);
        assert_int_equal(error, refused ? cudaErrorNotSupported : cudaSuccess);
        if (!refused)
            OK(cudaHostUnregister(memory));
        void *allocated;
        OK(cudaMallocHost(&allocated, LEN)); /* memory that CUDA allocates is not affected */
        OK(cudaFreeHost(allocated));
        munmap(memory, LEN);
        assert_int_equal(double_close(), 0);
    }
}

static void the_environment_can_turn_registration_off(void **state)
{
    (void)state;
    double_close();
    assert_int_equal(setenv("MR_CUDA_DOUBLE", "devices=2,registration=no", 1), 0);
    int supported = 7;
    OK(cudaDeviceGetAttribute(&supported, cudaDevAttrHostRegisterSupported, 1));
    assert_int_equal(supported, 0);
    unsetenv("MR_CUDA_DOUBLE");
    assert_int_equal(double_close(), 0);
}

/* The driver holds locks meanwhile, so other threads' calls end after it. */
static void registration_takes_time_of_all_threads(void **state)
{
    (void)state;
    double_open(
        &(struct double_options){.register_mb_per_s = 1000, .threads = DOUBLE_THREADS_DECLARED});
    uint8_t *memory = map_pages(LEN);
    memset(memory, 1, LEN);
    double_as_thread(1);
    uint64_t other_ns = double_now_ns();
    double_as_thread(0);
    uint64_t begin_ns = double_now_ns();
    OK(cudaHostRegister(memory, LEN, cudaHostRegisterPortable));
    assert_in_range(double_now_ns() - begin_ns, 1000000, 1100000);
    double_as_thread(1);
    assert_in_range(double_now_ns() - other_ns, 1000000, 1100000);
    double_as_thread(0);
    OK(cudaHostUnregister(memory));
    munmap(memory, LEN);
    assert_int_equal(double_close(), 0);
}

static void unmapped_pages_are_counted_and_cost_more(void **state)
{
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    double_open(&(struct double_options){.absent_page_ns = 5000});
    uint8_t *memory = map_pages(10 * page);
    memory[3 * page] = 1;
    memory[9 * page] = 1;
    uint64_t begin_ns = double_now_ns();
    OK(cudaHostRegister(memory, 10 * page, cudaHostRegisterPortable));
    if (access("/proc/self/pagemap", R_OK) == 0) {
        assert_int_equal(double_count(DOUBLE_ALL_THREADS).absent_pages, 8);
        assert_in_range(double_now_ns() - begin_ns, 40000, 45000);
    }
    OK(cudaHostUnregister(memory));
    memset(memory, 1, 10 * page);
    double_mark();
    OK(cudaHostRegister(memory, 10 * page, cudaHostRegisterPortable));
    assert_int_equal(double_count(DOUBLE_ALL_THREADS).absent_pages, 0);
    OK(cudaHostUnregister(memory));
    munmap(memory, 10 * page);
    assert_int_equal(double_close(), 0);
}

static void whole_pages_are_locked_once(void **state)
{
    (void)state;
    uint8_t *memory = aligned_alloc(LARGE_PAGE, 2 * LARGE_PAGE);
    assert_non_null(memory);
    double_open(&(struct double_options){.page_bytes = LARGE_PAGE});
    OK(cudaHostRegister(memory, 4096, cudaHostRegisterPortable));
    assert_int_equal(cudaHostRegister(memory + 4096, 4096, cudaHostRegisterPortable),
                     cudaErrorHostMemoryAlreadyRegistered);
    OK(cudaHostRegister(memory + LARGE_PAGE, 4096, cudaHostRegisterPortable));
    OK(cudaHostUnregister(memory + LARGE_PAGE));
    OK(cudaHostUnregister(memory));
    OK(cudaHostRegister(memory + 4096, 4096, cudaHostRegisterPortable));
    OK(cudaHostUnregister(memory + 4096));
    assert_int_equal(double_close(), 1);
    assert_int_equal(double_found(DOUBLE_MISUSE), 1);
    assert_words(double_report(), "which is no page's beginning");
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_machine_that_cannot_register_reports_it_and_refuses),
        cmocka_unit_test(the_environment_can_turn_registration_off),
        cmocka_unit_test(registration_takes_time_of_all_threads),
        cmocka_unit_test(unmapped_pages_are_counted_and_cost_more),
        cmocka_unit_test(whole_pages_are_locked_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
