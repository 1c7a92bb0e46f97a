/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The finishing kernel's own part, which thread writes which element, run on the host. The kernel's
 * source is included here, and a launch runs all threads of a grid one after the other. The result
 * must equal the host's finishing to the last bit, whatever the grid. This test says nothing about
 * the code that nvcc makes.
 */
#include "pinned/finish.h"
#include "pinned/finish_pixel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <cuda_runtime.h>

/* ---- the parts of CUDA that the kernel uses ---- */

typedef struct {
    unsigned x, y, z;
} dim3;
struct cudaFuncAttributes {
    int spare;
};
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(n)

static dim3 blockIdx, threadIdx, gridDim;
static unsigned limit_x, limit_y; /* limits of grids; the kernel must be right with any grid */
static unsigned n_launches, n_loaded;
static void *launched_on;

static cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel)
{
    attributes->spare = 0;
    n_loaded += kernel != NULL;
    return cudaSuccess;
}

static cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments,
                                    size_t shared, cudaStream_t stream);

/* Counts writes: a thread that also does another thread's work would not show in the output. */
static uint64_t n_puts;
static void counted_pixel(const struct mr_finish_view *view, const struct mr_finish_sample *sample,
                          uint64_t pixel)
{
    n_puts += view->out_channels;
    mr_finish_pixel(view, sample, pixel);
}
static void counted_element(const struct mr_finish_view *view,
                            const struct mr_finish_sample *sample, uint64_t element)
{
    n_puts++;
    mr_finish_element(view, sample, element);
}
#define mr_finish_pixel counted_pixel
#define mr_finish_element counted_element
#include "pinned/finish_cuda.cu"

static cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments,
                                    size_t shared, cudaStream_t stream)
{
    assert_int_equal(block.x * block.y * block.z, THREADS);
    assert_in_range(grid.x, 1, INT32_MAX);
    assert_in_range(grid.y, 1, 65535);
    assert_int_equal(grid.z, 1);
    assert_int_equal(shared, 0);
    gridDim.x = grid.x < limit_x ? grid.x : limit_x;
    gridDim.y = grid.y < limit_y ? grid.y : limit_y;
    n_launches++;
    launched_on = stream;
    struct mr_finish_view view = *(struct mr_finish_view *)arguments[0];
    for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++)
        for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++)
            for (threadIdx.x = 0; threadIdx.x < block.x; threadIdx.x++)
                ((void (*)(struct mr_finish_view))(uintptr_t)kernel)(view);
    return cudaSuccess;
}

/* ---- one batch, finished twice ---- */

enum { N = 7, WIDTH = 61, HEIGHT = 37, MAX_OUT = N * WIDTH * HEIGHT * 8 * 4 };

struct batch {
    struct mr_finish finish;
    uint8_t mask[N];
    struct mr_erase erases[N];
    struct mr_mix mix;
    uint8_t staging[N * WIDTH * HEIGHT * 4];
    uint8_t expected[MAX_OUT], out[MAX_OUT];
};

static void make_holes(struct batch *batch)
{
    batch->mask[0] = batch->mask[3] = batch->mask[4] = 0;
}

static struct batch *make_batch(mr_layout layout, mr_dtype dtype, uint32_t channels,
                                uint32_t out_channels)
{
    struct batch *batch = calloc(1, sizeof *batch);
    assert_non_null(batch);
    batch->finish = (struct mr_finish){.needed = 1,
                                       .height = HEIGHT,
                                       .width = WIDTH,
                                       .channels = channels,
                                       .out_channels = out_channels,
                                       .layout = layout,
                                       .dtype = dtype};
    for (uint32_t c = 0; c < MR_FINISH_CHANNELS; c++) {
        batch->finish.scale[c] = 0.017f / (float)(c + 1);
        batch->finish.bias[c] = -1.8f + (float)c;
        for (uint32_t x = 0; x < 256; x++)
            batch->finish.table[c][x] = (float)x * 0.3f - (float)c;
    }
    for (size_t i = 0; i < sizeof batch->staging; i++)
        batch->staging[i] = (uint8_t)(i * 2654435761u >> 13);
    memset(batch->mask, 1, sizeof batch->mask);
    return batch;
}

static struct mr_finish_job make_job(struct batch *batch, void *out)
{
    return (struct mr_finish_job){.finish = &batch->finish,
                                  .tables = &batch->finish.table[0][0],
                                  .normals = mr_normal_nodes,
                                  .mask = batch->mask,
                                  .erases = batch->erases,
                                  .n = N,
                                  .staging = batch->staging,
                                  .out = out,
                                  .mix = batch->mix};
}

static void compare(struct batch *batch, unsigned x, unsigned y)
{
    limit_x = x;
    limit_y = y;
    memset(batch->expected, 0xa5, sizeof batch->expected);
    memset(batch->out, 0xa5, sizeof batch->out);
    struct mr_finish_job job = make_job(batch, batch->expected);
    mr_finish_run(&job);
    job = make_job(batch, batch->out);
    n_puts = 0;
    assert_int_equal(mr_finish_cuda_launch(&job, batch), cudaSuccess);
    assert_ptr_equal(launched_on, batch);
    assert_memory_equal(batch->out, batch->expected, sizeof batch->out);
}

static void for_all_kinds(void (*check)(struct batch *batch))
{
    static const mr_dtype dtypes[] = {MR_U8, MR_F32, MR_F16, MR_BF16};
    static const uint32_t channels[][2] = {{1, 1}, {3, 3}, {3, 4}, {4, 4}, {3, 8}};
    for (unsigned d = 0; d < 4; d++)
        for (unsigned c = 0; c < 5; c++)
            for (mr_layout layout = MR_NCHW; layout <= MR_NHWC; layout++) {
                struct batch *batch = make_batch(layout, dtypes[d], channels[c][0], channels[c][1]);
                check(batch);
                free(batch);
            }
}

static void check_whole(struct batch *batch)
{
    compare(batch, UINT32_MAX, UINT32_MAX);
    batch->finish.exact = 1;
    compare(batch, UINT32_MAX, UINT32_MAX);
}

static void check_small_grids(struct batch *batch)
{
    compare(batch, 1, 1);
    compare(batch, 3, 2);
}

static void check_holes(struct batch *batch)
{
    make_holes(batch);
    compare(batch, UINT32_MAX, UINT32_MAX);
    compare(batch, 2, 3);
}

/* Up to four boxes, which overlap; u8 has none. */
static void check_erased(struct batch *batch)
{
    batch->finish.erases = batch->finish.dtype != MR_U8;
    for (uint32_t i = 0; i < N; i++) {
        batch->erases[i] = (struct mr_erase){.key = {5, 6},
                                             .index = i,
                                             .place = i,
                                             .is_random = i % 2,
                                             .n = i % (MR_ERASE_MAX_BOXES + 1)};
        for (uint32_t k = 0; k < MR_ERASE_MAX_BOXES; k++)
            batch->erases[i].boxes[k] = (struct mr_erase_box){.i = (int32_t)(i * k),
                                                              .j = (int32_t)(3 * i + 5 * k),
                                                              .h = 11,
                                                              .w = 17 - (int32_t)i,
                                                              .values = {-1, 0.3f, 2.5f, (float)k}};
    }
    compare(batch, UINT32_MAX, UINT32_MAX);
    compare(batch, 3, 2);
    make_holes(batch);
    compare(batch, 2, 3);
}

/* Erased, and mixed by either rule; bytes are mixed as u8 too. */
static void check_mixed(struct batch *batch)
{
    bool floats = batch->finish.dtype != MR_U8;
    check_erased(batch);
    for (uint32_t i = 0; i < N; i++)
        batch->mask[i] = i % 4 != 3;
    batch->finish.mixes = 1;
    for (uint32_t k = floats ? 0 : 2; k < 4; k++) {
        batch->mix = (struct mr_mix){.kind = k % 2 ? MR_MIX_UP : MR_MIX_CUT,
                                     .rule = k / 2 ? MR_MIX_BYTES : MR_MIX_FLOATS,
                                     .lambda = 0.3f,
                                     .rest = 0.7f,
                                     .x1 = 5,
                                     .y1 = 3,
                                     .x2 = 40,
                                     .y2 = 30};
        compare(batch, UINT32_MAX, UINT32_MAX);
        compare(batch, 3, 2);
    }
}

static void rows_are_mixed_as_on_the_host(void **state)
{
    (void)state;
    for_all_kinds(check_mixed);
}

static void boxes_are_erased_as_on_the_host(void **state)
{
    (void)state;
    for_all_kinds(check_erased);
}

static void the_kernel_gives_what_the_host_gives(void **state)
{
    (void)state;
    for_all_kinds(check_whole);
}

static void grids_that_are_too_small_are_walked_through(void **state)
{
    (void)state;
    for_all_kinds(check_small_grids);
}

static void holes_are_zeros(void **state)
{
    (void)state;
    for_all_kinds(check_holes);
}

static void check_counts(struct batch *batch)
{
    n_launches = 0;
    compare(batch, UINT32_MAX, UINT32_MAX);
    assert_int_equal(n_launches, 1);
    assert_int_equal(n_puts, N * HEIGHT * WIDTH * batch->finish.out_channels);
    compare(batch, 2, 3);
    assert_int_equal(n_puts, N * HEIGHT * WIDTH * batch->finish.out_channels);
}

static void a_batch_is_one_launch_that_writes_each_element_once(void **state)
{
    (void)state;
    for_all_kinds(check_counts);
}

static void no_samples_load_all_kernels_and_launch_none(void **state)
{
    (void)state;
    n_launches = n_loaded = 0;
    struct mr_finish_job job = {.n = 0};
    assert_int_equal(mr_finish_cuda_launch(&job, NULL), cudaSuccess);
    assert_int_equal(n_launches, 0);
    assert_int_equal(n_loaded, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_kernel_gives_what_the_host_gives),
        cmocka_unit_test(boxes_are_erased_as_on_the_host),
        cmocka_unit_test(rows_are_mixed_as_on_the_host),
        cmocka_unit_test(grids_that_are_too_small_are_walked_through),
        cmocka_unit_test(holes_are_zeros),
        cmocka_unit_test(a_batch_is_one_launch_that_writes_each_element_once),
        cmocka_unit_test(no_samples_load_all_kernels_and_launch_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
