/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The finishing kernel: one launch for a whole batch. It runs the arithmetic of finish_pixel.h and adds only which
 * thread does what. A block row takes one sample after the other, and its threads write neighbouring elements, so that
 * the writes of a warp are contiguous. Planar output: a thread has a pixel and writes it to each plane. Interleaved
 * output: a thread has an element. It is written in plain C as far as possible, so that a test can run it on the host.
 *
 * Invariant: one sample may have more than 2^32 elements, and a grid has at most 65535 rows.
 */
#include "pinned/finish_cuda.h"
#include "pinned/finish_pixel.h"

#include <cuda_runtime.h>

enum { THREADS = 256, ITEMS_PER_THREAD = 4, MAX_BLOCKS_X = 1 << 20, MAX_BLOCKS_Y = 65535 };

/* The same for all threads of a block row. */
struct sample {
    const uint8_t *source; /* NULL: zeros */
    uint64_t first;        /* element of the output at which its row begins */
    uint32_t flip;
};

static __device__ __forceinline__ void put_pixel(const struct mr_finish_view *view, const struct sample *sample,
                                                 uint64_t pixel)
{
    const uint8_t *from = sample->source;
    if (from)
        from += mr_finish_mirror(view, sample->flip, pixel) * view->channels;
    uint64_t to = sample->first + pixel;
    for (uint32_t c = 0; c < view->out_channels; c++, to += view->channel_stride)
        mr_finish_put(view, to, from && c < view->channels ? mr_finish_bits(view, c, from[c]) : 0);
}

static __device__ __forceinline__ void put_element(const struct mr_finish_view *view, const struct sample *sample,
                                                   uint64_t element)
{
    uint64_t pixel = element / view->out_channels;
    uint32_t c = (uint32_t)(element - pixel * view->out_channels);
    uint32_t bits = 0;
    if (sample->source && c < view->channels) {
        uint64_t from = mr_finish_mirror(view, sample->flip, pixel) * view->channels + c;
        bits = mr_finish_bits(view, c, sample->source[from]);
    }
    mr_finish_put(view, sample->first + element, bits);
}

/* The first thread of a block row also tells what became of the sample. */
static __device__ __forceinline__ bool begin_sample(const struct mr_finish_view *view, uint32_t i, bool tells,
                                                    struct sample *sample_out)
{
    const struct mr_descriptor *descriptor = &view->descriptors[i];
    if (tells)
        view->status[i] = mr_finish_check(view, descriptor);
    uint32_t row = mr_finish_row(view, descriptor);
    sample_out->source = mr_finish_source(view, descriptor);
    sample_out->first = row * view->row_elements;
    sample_out->flip = descriptor->flip;
    return row != MR_NO_ROW;
}

static __global__ void __launch_bounds__(THREADS) finish_planar(const struct mr_finish_view view)
{
    uint64_t begin = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    uint64_t step = (uint64_t)gridDim.x * THREADS;
    struct sample sample;
    for (uint32_t i = blockIdx.y; i < view.n; i += gridDim.y)
        if (begin_sample(&view, i, begin == 0, &sample))
            for (uint64_t pixel = begin; pixel < view.n_pixels; pixel += step)
                put_pixel(&view, &sample, pixel);
}

static __global__ void __launch_bounds__(THREADS) finish_interleaved(const struct mr_finish_view view)
{
    uint64_t begin = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
    uint64_t step = (uint64_t)gridDim.x * THREADS;
    struct sample sample;
    for (uint32_t i = blockIdx.y; i < view.n; i += gridDim.y)
        if (begin_sample(&view, i, begin == 0, &sample))
            for (uint64_t element = begin; element < view.row_elements; element += step)
                put_element(&view, &sample, element);
}

/* Asking for its attributes loads a kernel. */
static cudaError_t load_kernels(void)
{
    struct cudaFuncAttributes attributes;
    cudaError_t code = cudaFuncGetAttributes(&attributes, (const void *)finish_planar);
    return code == cudaSuccess ? cudaFuncGetAttributes(&attributes, (const void *)finish_interleaved) : code;
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
    const void *kernel = planar ? (const void *)finish_planar : (const void *)finish_interleaved;
    void *arguments[] = {&view};
    return cudaLaunchKernel(kernel, grid, block, arguments, 0, (cudaStream_t)stream);
}
