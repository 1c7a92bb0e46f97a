/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creating a loader needs at most 32 KiB of the caller's stack, as <millrace/loader.h> says. It is
 * created in a thread whose stack was painted before; the paint that remains shows how much was
 * used.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/folder_fill.h"
#include "tests/support/processes.h"

enum { STACK = 1 << 20, LIMIT = 32 << 10, FINGERPRINT_LIMIT = 2 << 10, PAINT = 0xa5 };

struct creation {
    mr_dataset *dataset;
    mr_loader_options options;
    mr_loader *loader;
    mr_status status;
    mr_error error;
};

static void *do_nothing(void *creation)
{
    return creation;
}

static void *create_loader(void *arg)
{
    struct creation *c = arg;
    c->status = mr_loader_create(c->dataset, NULL, &c->options, &c->loader, &c->error);
    return NULL;
}

/* The bytes of its stack that a thread uses. */
static size_t measure_stack(void *(*main)(void *), struct creation *creation)
{
    pthread_t thread;
    pthread_attr_t attributes;
    size_t left = 0;
    uint8_t *stack =
        mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    assert_true(stack != MAP_FAILED);
    memset(stack, PAINT, STACK);
    pthread_attr_init(&attributes);
    assert_int_equal(pthread_attr_setstack(&attributes, stack, STACK), 0);
    assert_int_equal(pthread_create(&thread, &attributes, main, creation), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    while (left < STACK && stack[left] == PAINT)
        left++;
    munmap(stack, STACK);
    return STACK - left;
}

static void *take_fingerprint(void *user)
{
    struct creation *c = user;
    return mr_loader_fingerprint(c->loader) ? c : NULL;
}

static void a_fingerprint_needs_at_most_2_KiB_of_stack(void **state)
{
#ifdef MR_TEST_ASAN
    skip(); /* its frames are larger */
#endif
    struct creation c = {.dataset = mr_test_dataset(*state), .options = MR_LOADER_OPTIONS_INIT};
    c.options.num_workers = MR_NO_WORKERS;
    c.options.batch_size = 2;
    create_loader(&c);
    assert_int_equal(c.status, MR_OK);
    (void)mr_loader_fingerprint(c.loader); /* the dynamic linker uses stack too */
    size_t bytes = measure_stack(take_fingerprint, &c) - measure_stack(do_nothing, &c);
    print_message("%zu bytes\n", bytes);
    assert_in_range(bytes, 0, FINGERPRINT_LIMIT);
    mr_loader_destroy(c.loader);
    mr_dataset_destroy(c.dataset);
}

static void creating_a_loader_needs_at_most_32_KiB_of_stack(void **state)
{
    char *folder = *state, cache[256], trace[256];
    static const struct {
        const char *name;
        uint32_t n_workers;
        mr_start start;
        const char *device;
        bool with_cache;
        bool with_trace;
        mr_status expected;
    } cases[] = {
        {"exec", 2, MR_START_EXEC, "host", false, false, MR_OK},
        {"fork", 2, MR_START_FORK, "host", false, false, MR_OK},
        {"thread", 2, MR_START_THREAD, "host", false, false, MR_OK},
        {"no workers", MR_NO_WORKERS, MR_START_DEFAULT, "host", false, false, MR_OK},
        {"many workers", 64, MR_START_THREAD, "host", false, false, MR_OK},
        {"a device", 2, MR_START_EXEC, "host:0", false, false, MR_OK},
        {"a cache", 2, MR_START_EXEC, "host", true, false, MR_OK},
        {"a trace", 2, MR_START_EXEC, "host", false, true, MR_OK},
        {"a wrong device", 2, MR_START_EXEC, "host:999", false, false, MR_ERR_NO_DEVICE},
    };
#ifdef MR_TEST_ASAN
    skip(); /* its frames are larger */
#endif
    snprintf(cache, sizeof cache, "%s/cache", folder);
    snprintf(trace, sizeof trace, "%s/trace", folder);
    struct creation c = {.dataset = mr_test_dataset(folder)};
    size_t thread_bytes = measure_stack(do_nothing, &c);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        c.options = (mr_loader_options)MR_LOADER_OPTIONS_INIT;
        c.options.num_workers = cases[i].n_workers;
        c.options.start = cases[i].start;
        c.options.device = cases[i].device;
        c.options.batch_size = 2;
        c.options.affinity = MR_AFFINITY_SPREAD;
        c.options.cache = cases[i].with_cache ? cache : NULL;
        c.options.trace = cases[i].with_trace ? trace : "";
        size_t bytes = measure_stack(create_loader, &c) - thread_bytes;
        print_message("%s: %zu bytes\n", cases[i].name, bytes);
        if (c.status != cases[i].expected)
            fail_msg("%s: status %d: %s", cases[i].name, c.status, c.error.text);
        if (bytes > LIMIT)
            fail_msg("%s: %zu bytes of stack are above %d", cases[i].name, bytes, LIMIT);
        mr_loader_destroy(c.loader);
    }
    mr_dataset_destroy(c.dataset);
}

static int make_folder(void **state)
{
    char *folder = mr_test_folder_filled(2, 2);
    *state = folder;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fingerprint_needs_at_most_2_KiB_of_stack),
        cmocka_unit_test(creating_a_loader_needs_at_most_32_KiB_of_stack)};
    return cmocka_run_group_tests(tests, make_folder, NULL);
}
