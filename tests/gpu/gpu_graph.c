/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_graph [--device cuda:0] [--data FOLDER]: one CUDA graph for each device buffer; also next,
 * use and release inside a capture: they refuse, and the capture stays valid.
 */
#include "tests/gpu/gpu_check.h"
#include "tests/gpu/gpu_cuda.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_BUFFERS = 8, BATCH = 8 };

struct graphs {
    struct gpu_setup *setup;
    struct gpu_cuda cuda;
    mr_dataset *dataset;
    cudaStream_t stream;
    cudaGraphExec_t graph[MAX_BUFFERS]; /* NULL: not captured yet */
    unsigned long long *sum;            /* on the device: the result of a graph */
};

static mr_loader_options graph_options(const struct graphs *g)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.device = g->setup->device;
    options.batch_size = BATCH;
    options.drop_last = true;
    options.n_buffers = 4;
    options.dtype = MR_F16;
    options.num_workers = g->setup->n_workers;
    return options;
}

static mr_batch *take_on(struct graphs *g, mr_loader *loader)
{
    mr_batch *batch;
    if (mr_loader_next_on(loader, MR_FOREVER, g->stream, &batch) != MR_OK)
        gpu_report_die(&g->setup->report, "%s", mr_loader_error(loader)->text);
    return batch;
}

static uint64_t image_bytes(const mr_batch *batch)
{
    const mr_array *image = mr_batch_array(batch, "image");
    return (uint64_t)(image->shape[0] * image->strides[0]);
}

/* The "training step": reads the whole image, spins, writes a sum. */
static void enqueue_step(struct graphs *g, const mr_batch *batch)
{
    gpu_cuda_ok(&g->cuda, gpu_kernel_spin(200000, 4, 64, g->stream), "a spin");
    gpu_cuda_ok(
        &g->cuda,
        gpu_kernel_sum(g->sum, mr_batch_data(batch, "image"), image_bytes(batch), g->stream),
        "the sum");
}

static cudaGraphExec_t end_capture(struct graphs *g)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    gpu_cuda_ok(&g->cuda, cudaStreamEndCapture(g->stream, &graph), "cudaStreamEndCapture");
    gpu_cuda_ok(&g->cuda, cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
    gpu_cuda_ok(&g->cuda, cudaGraphDestroy(graph), "cudaGraphDestroy");
    return exec;
}

static unsigned long long sum_of_host(const mr_batch *batch)
{
    const uint8_t *bytes = mr_batch_data(batch, "image");
    unsigned long long sum = 0;
    for (uint64_t i = 0; i < image_bytes(batch); i++)
        sum += bytes[i];
    return sum;
}

/* The expected sums come from the host's loader with the same options. */
static void graph_per_buffer(struct graphs *g)
{
    mr_loader_options options = graph_options(g);
    mr_loader *loader = gpu_setup_loader(g->setup, g->dataset, NULL, &options);
    options.device = NULL;
    options.n_buffers = 0;
    mr_loader *host = gpu_setup_loader(g->setup, g->dataset, NULL, &options);
    uint32_t n_captures = 0;
    for (uint64_t i = 0; i < mr_loader_n_batches(loader); i++) {
        mr_batch *batch = take_on(g, loader);
        mr_batch *same;
        unsigned long long sum = 0;
        uint32_t buffer = mr_batch_buffer(batch);
        if (!g->graph[buffer]) {
            gpu_cuda_ok(&g->cuda, cudaStreamBeginCapture(g->stream, cudaStreamCaptureModeGlobal),
                        "cudaStreamBeginCapture");
            enqueue_step(g, batch);
            g->graph[buffer] = end_capture(g);
            n_captures++;
        }
        gpu_cuda_ok(&g->cuda, cudaGraphLaunch(g->graph[buffer], g->stream), "cudaGraphLaunch");
        gpu_cuda_ok(&g->cuda,
                    cudaMemcpyAsync(&sum, g->sum, sizeof sum, cudaMemcpyDeviceToHost, g->stream),
                    "cudaMemcpyAsync");
        gpu_report_expect(&g->setup->report, mr_batch_release_on(batch, g->stream) == MR_OK,
                          "release failed");
        gpu_cuda_sync(&g->cuda, g->stream);
        if (mr_loader_next(host, MR_FOREVER, &same) != MR_OK)
            gpu_report_die(&g->setup->report, "%s", mr_loader_error(host)->text);
        gpu_report_expect(&g->setup->report, sum == sum_of_host(same),
                          "batch %llu: the graph read other bytes", (unsigned long long)i);
        mr_batch_release(same);
    }
    gpu_report_expect(&g->setup->report, n_captures >= 2 && n_captures <= 4,
                      "%u graphs for 4 buffers", n_captures);
    for (uint32_t i = 0; i < MAX_BUFFERS; i++)
        if (g->graph[i])
            gpu_cuda_ok(&g->cuda, cudaGraphExecDestroy(g->graph[i]), "cudaGraphExecDestroy");
    mr_loader_destroy(host);
    mr_loader_destroy(loader);
}

static void expect_state(struct graphs *g, mr_status status, const char *call)
{
    gpu_report_expect(&g->setup->report, status == MR_ERR_STATE, "%s gave %s inside a capture",
                      call, mr_status_name(status));
}

static void refused_in(struct graphs *g, enum cudaStreamCaptureMode mode)
{
    mr_loader_options options = graph_options(g);
    mr_loader *loader = gpu_setup_loader(g->setup, g->dataset, NULL, &options);
    mr_batch *batch = take_on(g, loader);
    mr_batch *none;
    gpu_cuda_sync(&g->cuda, g->stream);
    gpu_cuda_ok(&g->cuda, cudaStreamBeginCapture(g->stream, mode), "cudaStreamBeginCapture");
    expect_state(g, mr_loader_next_on(loader, MR_FOREVER, g->stream, &none), "next_on");
    expect_state(g, mr_batch_use(batch, g->stream), "use");
    expect_state(g, mr_batch_release_on(batch, g->stream), "release_on");
    expect_state(g, mr_batch_release(batch), "release of a batch that the stream uses");
    enqueue_step(g, batch);
    enum cudaStreamCaptureStatus capture;
    gpu_cuda_ok(&g->cuda, cudaStreamIsCapturing(g->stream, &capture), "cudaStreamIsCapturing");
    gpu_report_expect(&g->setup->report, capture == cudaStreamCaptureStatusActive,
                      "the capture has become invalid");
    cudaGraphExec_t exec = end_capture(g);
    gpu_cuda_ok(&g->cuda, cudaGraphLaunch(exec, g->stream), "cudaGraphLaunch");
    gpu_report_expect(&g->setup->report, mr_batch_release_on(batch, g->stream) == MR_OK,
                      "release failed");
    batch = take_on(g, loader);
    gpu_report_expect(&g->setup->report, mr_batch_number(batch) == 1, "batch %llu came, not 1",
                      (unsigned long long)mr_batch_number(batch));
    mr_batch_release_on(batch, g->stream);
    gpu_cuda_sync(&g->cuda, g->stream);
    gpu_cuda_ok(&g->cuda, cudaGraphExecDestroy(exec), "cudaGraphExecDestroy");
    mr_loader_destroy(loader);
}

static void refuse_in_all(struct graphs *g)
{
    refused_in(g, cudaStreamCaptureModeGlobal);
    refused_in(g, cudaStreamCaptureModeThreadLocal);
    refused_in(g, cudaStreamCaptureModeRelaxed);
}

/* A capture during which workers decode and copies are issued: neither side disturbs the other. */
static void copies_continue(struct graphs *g)
{
    mr_loader_options options = graph_options(g);
    for (uint32_t i = 0; i < 4; i++) {
        mr_loader *loader = gpu_setup_loader(g->setup, g->dataset, NULL, &options);
        mr_batch *batch = take_on(g, loader);
        mr_loader_stats stats = MR_LOADER_STATS_INIT;
        gpu_cuda_sync(&g->cuda, g->stream);
        gpu_cuda_ok(&g->cuda, cudaStreamBeginCapture(g->stream, cudaStreamCaptureModeGlobal),
                    "cudaStreamBeginCapture");
        int64_t end = gpu_report_now_ns() + 5000000000;
        do
            mr_loader_get_stats(loader, &stats);
        while (stats.h2d_bytes < 3 * (BATCH * UINT64_C(150528)) && gpu_report_now_ns() < end);
        gpu_report_expect(&g->setup->report, gpu_report_now_ns() < end,
                          "no copy ended during the capture");
        enqueue_step(g, batch);
        cudaGraphExec_t exec = end_capture(g);
        gpu_cuda_ok(&g->cuda, cudaGraphExecDestroy(exec), "cudaGraphExecDestroy");
        mr_batch_release(batch);
        for (uint32_t k = 0; k < 3; k++)
            mr_batch_release_on(take_on(g, loader), g->stream);
        gpu_cuda_sync(&g->cuda, g->stream);
        mr_loader_destroy(loader);
    }
}

/* The calls in this thread do not change the runtime's state of the thread. */
static void caller_is_undisturbed(struct graphs *g)
{
    mr_loader_options options = graph_options(g);
    int device = -1;
    mr_loader *loader = gpu_setup_loader(g->setup, g->dataset, NULL, &options);
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
    (void)cudaMemcpy(NULL, (void *)1, 1, (enum cudaMemcpyKind)99);
    mr_batch *batch = take_on(g, loader);
    mr_batch_release_on(batch, g->stream);
    gpu_report_expect(&g->setup->report, cudaGetLastError() != cudaSuccess,
                      "the caller's last error was taken");
    gpu_cuda_ok(&g->cuda, cudaThreadExchangeStreamCaptureMode(&mode),
                "cudaThreadExchangeStreamCaptureMode");
    gpu_report_expect(&g->setup->report, mode == cudaStreamCaptureModeGlobal,
                      "the caller's capture mode has changed");
    mr_loader_destroy(loader);
    gpu_cuda_ok(&g->cuda, cudaGetDevice(&device), "cudaGetDevice");
    gpu_report_expect(&g->setup->report, device == g->cuda.ordinal,
                      "the caller's current device is now %d", device);
}

int gpu_graph_main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(struct graphs *g);
    } cases[] = {
        {"a graph for each buffer reads what the host reads", graph_per_buffer},
        {"next, use and release refuse inside a capture, which stays valid", refuse_in_all},
        {"copies continue during a long capture", copies_continue},
        {"the caller's device, last error and capture mode stay", caller_is_undisturbed}};
    struct gpu_setup setup;
    gpu_setup_init(&setup, argc, argv);
    struct graphs g = {.setup = &setup, .cuda = gpu_cuda_open(&setup)};
    g.dataset = gpu_setup_dataset(&setup, setup.photos);
    g.stream = gpu_cuda_stream(&g.cuda, GPU_STREAM_NON_BLOCKING);
    g.sum = gpu_cuda_alloc(&g.cuda, sizeof *g.sum);
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (gpu_report_begin(&setup.report, cases[i].name)) {
            cases[i].run(&g);
            gpu_report_end(&setup.report);
        }
    mr_dataset_destroy(g.dataset);
    gpu_cuda_ok(&g.cuda, cudaFree(g.sum), "cudaFree");
    gpu_cuda_stream_end(&g.cuda, g.stream);
    gpu_cuda_close(&g.cuda);
    return gpu_setup_end(&setup);
}
