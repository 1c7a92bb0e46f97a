/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the first and the last batch, the consumer's thread allocates no memory. The linker
 * redirects all such calls of this program here (--wrap). Allocations of the double itself are not
 * counted.
 */
#include "tests/loader/stream_rig.h"

#include <stdlib.h>

/* Per thread: a loader's other threads may allocate. */
static _Thread_local volatile bool counts;
static _Thread_local bool in_double;
static _Thread_local volatile unsigned n_allocations;

void *__wrap_malloc(size_t len);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t len);
void *__wrap_double_machine_alloc(size_t len);
void *__real_malloc(size_t len);
void *__real_calloc(size_t n, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t len);
void *__real_double_machine_alloc(size_t len);

static void note(void)
{
    if (counts && !in_double)
        n_allocations = n_allocations + 1;
}

void *__wrap_malloc(size_t len)
{
    note();
    return __real_malloc(len);
}

void *__wrap_calloc(size_t n, size_t size)
{
    note();
    return __real_calloc(n, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t len)
{
    note();
    return __real_aligned_alloc(alignment, len);
}

void *__wrap_double_machine_alloc(size_t len)
{
    in_double = true;
    void *memory = __real_double_machine_alloc(len);
    in_double = false;
    return memory;
}

static void the_counter_counts(void **state)
{
    (void)state;
    counts = true;
    n_allocations = 0;
    void *volatile memory = malloc(3);
    counts = false;
    free(memory);
    assert_int_equal(n_allocations, 1);
}

/* Count the allocations for the batches after the first, in two epochs. */
static void run_batches(mr_loader *loader, const cudaStream_t streams[2], struct seen *seen)
{
    mr_batch *batch;
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        assert_int_equal(mr_loader_set_epoch(loader, epoch), MR_OK);
        stage_release_on(stage_next_on(loader, streams[0]), streams[0], MR_OK);
        counts = true;
        while (mr_loader_next_on(loader, MR_FOREVER, streams[0], &batch) == MR_OK) {
            stage_use(batch, streams[1], MR_OK);
            seen_add_on(seen, batch, streams);
            stage_release_on(batch, streams[0], MR_OK);
        }
        counts = false;
    }
}

static void between_two_batches_the_consumer_allocates_nothing(void **state)
{
    static const char *const devices[] = {"cuda:0", "host:0", "host"};
    for (unsigned i = 0; i < sizeof devices / sizeof *devices; i++) {
        stage_open(&(struct double_options){.policy = DOUBLE_RANDOM, .seed = i});
        cudaStream_t streams[2] = {stage_stream(0, cudaStreamNonBlocking),
                                   stage_stream(0, cudaStreamDefault)};
        mr_loader_options wanted = stage_options(devices[i]);
        wanted.dtype = MR_F16;
        struct seen *seen = seen_create();
        mr_loader *loader = rig_loader(*state, &wanted);
        n_allocations = 0;
        run_batches(loader, streams, seen);
        assert_int_equal(seen->n, 24);
        assert_int_equal(n_allocations, 0);
        mr_loader_destroy(loader);
        stage_end_stream(streams[0]);
        stage_end_stream(streams[1]);
        seen_free(seen);
        stage_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_counter_counts),
        RIG_TEST(between_two_batches_the_consumer_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
