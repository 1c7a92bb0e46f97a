/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two loops of kernels that fill the GPU, one bound by its memory and one by its arithmetic. The
 * batches are records of 38 MB, so that the bus is as busy as workers can make it; the rate is
 * reported with the slowdown.
 */
#include "tests/gpu/gpu_step_busy.h"

#include <stdlib.h>

enum { BATCH = 256, IMAGE_BYTES = 224 * 224 * 3, N_ROUNDS = 5, MAX_KERNELS = 900 };
#define FLOATS (UINT64_C(128) << 20)
#define TINY_FLOATS (UINT64_C(1) << 16)

struct busy {
    struct gpu_setup *setup;
    struct gpu_cuda *cuda;
    uint64_t n_floats;
    char *spec;
    cudaStream_t work;
    cudaStream_t train;
    cudaEvent_t begin;
    cudaEvent_t end;
    float *in;
    float *out;
};

typedef int (*kernel_fn)(struct busy *b);

static int memory_kernel(struct busy *b)
{
    return gpu_kernel_memory(b->out, b->in, b->n_floats, 8 * b->cuda->n_sm, b->work);
}

static int compute_kernel(struct busy *b)
{
    return gpu_kernel_compute(b->out, 100000, 8 * b->cuda->n_sm, b->work);
}

static void enqueue_kernels(struct busy *b, kernel_fn kernel, uint32_t n)
{
    gpu_cuda_ok(b->cuda, cudaEventRecord(b->begin, b->work), "cudaEventRecord");
    for (uint32_t i = 0; i < n; i++)
        gpu_cuda_ok(b->cuda, kernel(b), "a kernel");
    gpu_cuda_ok(b->cuda, cudaEventRecord(b->end, b->work), "cudaEventRecord");
}

static double took_ms(struct busy *b)
{
    float ms;
    gpu_cuda_sync(b->cuda, b->work);
    gpu_cuda_ok(b->cuda, cudaEventElapsedTime(&ms, b->begin, b->end), "cudaEventElapsedTime");
    return (double)ms;
}

/*
 * The number of kernels that take about a third of a second, but fewer than a stream holds before
 * launches block.
 */
static uint32_t calibrate_kernels(struct busy *b, kernel_fn kernel)
{
    enqueue_kernels(b, kernel, 4);
    took_ms(b);
    enqueue_kernels(b, kernel, 4);
    double each = took_ms(b) / 4;
    double n = each > 0 ? 333 / each : 1;
    return n < 2 ? 2 : n > MAX_KERNELS ? MAX_KERNELS : (uint32_t)n;
}

static mr_loader *make_loader(struct busy *b, mr_dataset *dataset, mr_dtype dtype)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.device = b->setup->device;
    options.batch_size = gpu_setup_batch(b->setup, BATCH);
    options.drop_last = true;
    options.layout = dtype == MR_U8 ? MR_NHWC : MR_NCHW;
    options.dtype = dtype;
    options.allow_same_epoch = true;
    options.num_workers = b->setup->n_workers ? b->setup->n_workers : gpu_setup_n_cpus();
    return gpu_setup_loader(b->setup, dataset, NULL, &options);
}

static void take_one(struct busy *b, mr_loader *loader, uint64_t *epoch)
{
    mr_batch *batch;
    mr_status status = mr_loader_next_on(loader, MR_FOREVER, b->train, &batch);
    if (status == MR_END)
        status = mr_loader_set_epoch(loader, ++*epoch);
    if (status != MR_OK)
        gpu_report_die(&b->setup->report, "%s", mr_loader_error(loader)->text);
    mr_batch_release(batch);
}

/* The same kernels while batches are taken as fast as they come. */
static double with_copies(struct busy *b, mr_loader *loader, kernel_fn kernel, uint32_t n,
                          double *gb_per_s_out)
{
    mr_loader_stats before = MR_LOADER_STATS_INIT;
    mr_loader_stats after = MR_LOADER_STATS_INIT;
    uint64_t epoch = mr_loader_epoch(loader);
    for (uint32_t i = 0; i < 8; i++)
        take_one(b, loader, &epoch);
    mr_loader_get_stats(loader, &before);
    int64_t begin = gpu_report_now_ns();
    enqueue_kernels(b, kernel, n);
    while (cudaEventQuery(b->end) == cudaErrorNotReady)
        take_one(b, loader, &epoch);
    mr_loader_get_stats(loader, &after);
    *gb_per_s_out =
        (double)(after.h2d_bytes - before.h2d_bytes) / (double)(gpu_report_now_ns() - begin);
    double ms = took_ms(b);
    gpu_cuda_sync(b->cuda, b->train);
    return ms;
}

static void compare_busy(struct busy *b, const char *name, kernel_fn kernel, mr_dtype dtype)
{
    double slower[N_ROUNDS];
    double rate[N_ROUNDS];
    char *title = gpu_setup_text("busy GPU, %s, copies of u8%s", name,
                                 dtype == MR_U8 ? "" : " finished to f16");
    if (gpu_report_begin(&b->setup->report, title)) {
        mr_dataset *dataset = gpu_setup_dataset(b->setup, b->spec);
        mr_loader *loader = make_loader(b, dataset, dtype);
        uint32_t n = calibrate_kernels(b, kernel);
        for (uint32_t i = 0; i < N_ROUNDS; i++) {
            enqueue_kernels(b, kernel, n);
            double alone = took_ms(b);
            slower[i] = with_copies(b, loader, kernel, n, &rate[i]) / alone;
        }
        mr_loader_destroy(loader);
        mr_dataset_destroy(dataset);
        char *figure = gpu_setup_text("%s: time with copies / alone", title);
        gpu_report_figure(figure, slower, N_ROUNDS, false, 0);
        free(figure);
        figure = gpu_setup_text("%s: GB/s copied meanwhile", title);
        gpu_report_figure(figure, rate, N_ROUNDS, true, 0);
        free(figure);
        gpu_report_end(&b->setup->report);
    }
    free(title);
}

void gpu_step_busy(struct gpu_setup *setup, struct gpu_cuda *cuda)
{
    struct busy b = {.setup = setup, .cuda = cuda, .n_floats = setup->tiny ? TINY_FLOATS : FLOATS};
    char *file =
        gpu_setup_records(setup, "busy.bin", 8 * gpu_setup_batch(setup, BATCH), IMAGE_BYTES);
    b.spec = gpu_setup_text("records:%s?shape=224x224x3&layout=hwc&label_bytes=8", file);
    b.work = gpu_cuda_stream(cuda, GPU_STREAM_NON_BLOCKING);
    b.train = gpu_cuda_stream(cuda, GPU_STREAM_NON_BLOCKING);
    gpu_cuda_ok(cuda, cudaEventCreate(&b.begin), "cudaEventCreate");
    gpu_cuda_ok(cuda, cudaEventCreate(&b.end), "cudaEventCreate");
    b.in = gpu_cuda_alloc(cuda, b.n_floats * sizeof *b.in);
    b.out = gpu_cuda_alloc(cuda, b.n_floats * sizeof *b.out);
    gpu_cuda_ok(cuda, cudaMemsetAsync(b.in, 0, b.n_floats * sizeof *b.in, b.work),
                "cudaMemsetAsync");

    compare_busy(&b, "bound by memory", memory_kernel, MR_U8);
    compare_busy(&b, "bound by arithmetic", compute_kernel, MR_U8);
    compare_busy(&b, "bound by memory", memory_kernel, MR_F16);
    compare_busy(&b, "bound by arithmetic", compute_kernel, MR_F16);

    gpu_cuda_sync(cuda, b.work); /* because cudaFree() need not wait */
    gpu_cuda_ok(cuda, cudaFree(b.in), "cudaFree");
    gpu_cuda_ok(cuda, cudaFree(b.out), "cudaFree");
    gpu_cuda_ok(cuda, cudaEventDestroy(b.begin), "cudaEventDestroy");
    gpu_cuda_ok(cuda, cudaEventDestroy(b.end), "cudaEventDestroy");
    gpu_cuda_stream_end(cuda, b.work);
    gpu_cuda_stream_end(cuda, b.train);
    free(b.spec);
    free(file);
}
