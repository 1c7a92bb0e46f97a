/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The finishing kernel: one launch for a whole batch. The arithmetic is that of finish_pixel.h;
 * this file only decides which thread does what. A block row takes one sample after the other, and
 * its threads write neighbouring elements, so that the writes of a warp are contiguous. For planar
 * output a thread has a pixel and writes it to each plane. For interleaved output a thread has an
 * element. The file is plain C as far as possible, so that a test can run it on the host.
 *
 * Invariant: one sample may have more than 2^32 elements, and a grid has at most 65535 rows.
 */
#include "pinned/finish_cuda.h"
#include "pinned/finish_pixel.h"

#include <cuda_runtime.h>

enum { THREADS = 256, ITEMS_PER_THREAD = 4, MAX_BLOCKS_X = 1 << 20, MAX_BLOCKS_Y = 65535 };

/*
 * Each kernel exists twice: one that erases and mixes, and one for everything else, which needs
 * fewer registers.
 */

static __device__ __forceinline__ struct mr_finish_sample
begin_sample(const struct mr_finish_view *view, uint32_t i, bool changes)
{
    struct mr_finish_sample sample;
    mr_finish_sample_init(&sample, view, i);
    if (!changes) { /* constant, so that the compiler leaves boxes and partners out */
        sample.own.erase = NULL;
        sample.partner.pixels = NULL;
    }
    return sample;
}

static __device__ __forceinline__ void run_planar(const struct mr_finish_view *view, bool changes)
{
    uint64_t begin = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    uint64_t step = (uint64_t)gridDim.x * THREADS;
    for (uint32_t i = blockIdx.y; i < view->n; i += gridDim.y) {
        struct mr_finish_sample sample = begin_sample(view, i, changes);
        for (uint64_t pixel = begin; pixel < view->n_pixels; pixel += step)
            mr_finish_pixel(view, &sample, pixel);
    }
}

static __device__ __forceinline__ void run_interleaved(const struct mr_finish_view *view,
                                                       bool changes)
{
    uint64_t begin = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    uint64_t step = (uint64_t)gridDim.x * THREADS;
    for (uint32_t i = blockIdx.y; i < view->n; i += gridDim.y) {
        struct mr_finish_sample sample = begin_sample(view, i, changes);
        for (uint64_t element = begin; element < view->row_elements; element += step)
            mr_finish_element(view, &sample, element);
    }
}

static __global__ void __launch_bounds__(THREADS) finish_planar(const struct mr_finish_view view)
{
    run_planar(&view, false);
}

static __global__ void __launch_bounds__(THREADS)
    finish_interleaved(const struct mr_finish_view view)
{
    run_interleaved(&view, false);
}

static __global__ void __launch_bounds__(THREADS)
    finish_planar_changed(const struct mr_finish_view view)
{
    run_planar(&view, true);
}

static __global__ void __launch_bounds__(THREADS)
    finish_interleaved_changed(const struct mr_finish_view view)
{
    run_interleaved(&view, true);
}

static const void *choose_kernel(bool planar, bool changes)
{
    if (changes)
        return planar ? (const void *)finish_planar_changed
                      : (const void *)finish_interleaved_changed;
    return planar ? (const void *)finish_planar : (const void *)finish_interleaved;
}

/* Asking for a kernel's attributes loads it. */
static cudaError_t load_kernels(void)
{
    struct cudaFuncAttributes attributes;
    cudaError_t code = cudaSuccess;
    for (unsigned i = 0; i < 4 && code == cudaSuccess; i++)
        code = cudaFuncGetAttributes(&attributes, choose_kernel(i % 2, i / 2));
    return code;
}

static unsigned at_most(uint64_t n, unsigned limit)
{
    return n < limit ? (unsigned)n : limit;
}

int mr_finish_cuda_launch(const struct mr_finish_job *job, void *stream)
{
    if (job->n == 0)
        return load_kernels();
    struct mr_finish_view view;
    mr_finish_view_init(&view, job);
    bool planar = job->finish->layout == MR_NCHW;
    uint64_t n_items = planar ? view.n_pixels : view.row_elements;
    dim3 grid = {1, 1, 1};
    dim3 block = {THREADS, 1, 1};
    grid.x = at_most(n_items / (THREADS * ITEMS_PER_THREAD) + 1, MAX_BLOCKS_X);
    grid.y = at_most(job->n, MAX_BLOCKS_Y);
    const void *kernel = choose_kernel(planar, view.erases != NULL || view.mix.kind != MR_MIX_NONE);
    void *arguments[] = {&view};
    return cudaLaunchKernel(kernel, grid, block, arguments, 0, (cudaStream_t)stream);
}
