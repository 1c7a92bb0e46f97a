/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_batch FOLDER [GPU]: two epochs over FOLDER/<class>/<image>.jpg, each step a CUDA graph. A
 * graph holds addresses, and each buffer of the loader has a fixed address. So one graph is
 * captured for each buffer, when the buffer has a batch for the first time. next and release are
 * called between the launches; inside a capture they fail. All batches must have the same size, so
 * drop_last is set.
 */
#include <cuda_runtime_api.h>

#include "gpu_support.h"

enum { BATCH = 8, N_BUFFERS = 3 };

struct trainer {
    cudaStream_t stream;
    cudaGraphExec_t graphs[N_BUFFERS]; /* NULL before the first batch in that buffer */
    uint8_t (*pixels)[SEEN];           /* on the GPU: the output of one step */
    int64_t *labels;
};

/* The step, queued as it would be without graphs. */
static void queue_step(const mr_batch *batch, struct trainer *trainer)
{
    /* Images: bf16 [BATCH, 224, 224, 4], normalised. Labels: i64 [BATCH]. */
    queue_images(batch, trainer->pixels, trainer->stream);
    queue_labels(batch, trainer->labels, trainer->stream);
}

static cudaGraphExec_t capture_step(const mr_batch *batch, struct trainer *trainer)
{
    cudaGraphExec_t executable;
    cudaGraph_t graph;

    check_cuda(cudaStreamBeginCapture(trainer->stream, cudaStreamCaptureModeGlobal));
    queue_step(batch, trainer);
    check_cuda(cudaStreamEndCapture(trainer->stream, &graph));
    check_cuda(cudaGraphInstantiate(&executable, graph, 0));
    check_cuda(cudaGraphDestroy(graph));
    return executable;
}

/* Queued after the graph, not in it, because these addresses change from step to step. */
static void queue_results(struct trainer *trainer, struct results *results)
{
    check_cuda(cudaMemcpyAsync(results->pixels + results->n, trainer->pixels, BATCH * SEEN,
                               cudaMemcpyDeviceToHost, trainer->stream));
    check_cuda(cudaMemcpyAsync(results->labels + results->n, trainer->labels,
                               BATCH * sizeof(int64_t), cudaMemcpyDeviceToHost, trainer->stream));
    results->n += BATCH;
}

static void run_epoch(mr_loader *loader, struct trainer *trainer, struct results *results)
{
    mr_batch *batch = NULL;
    mr_status status;

    while ((status = mr_loader_next_on(loader, MR_FOREVER, trainer->stream, &batch)) == MR_OK) {
        cudaGraphExec_t *graph = &trainer->graphs[mr_batch_buffer(batch)];
        if (!*graph)
            *graph = capture_step(batch, trainer);
        check_cuda(cudaGraphLaunch(*graph, trainer->stream));
        /* Overwritten after the work in the stream. The next call reports failures. */
        mr_batch_release(batch);
        queue_results(trainer, results);
    }
    check_status(status, mr_loader_error(loader)); /* MR_END after the last batch */
    check_cuda(cudaStreamSynchronize(trainer->stream));
}

static void open_trainer(struct trainer *trainer, int gpu)
{
    check_cuda(cudaSetDevice(gpu));
    check_cuda(cudaStreamCreateWithFlags(&trainer->stream, cudaStreamNonBlocking));
    check_cuda(cudaMalloc((void **)&trainer->pixels, BATCH * SEEN));
    check_cuda(cudaMalloc((void **)&trainer->labels, BATCH * sizeof(int64_t)));
}

static void close_trainer(struct trainer *trainer)
{
    for (int i = 0; i < N_BUFFERS; i++)
        if (trainer->graphs[i])
            check_cuda(cudaGraphExecDestroy(trainer->graphs[i]));
    check_cuda(cudaFree(trainer->pixels));
    check_cuda(cudaFree(trainer->labels));
    check_cuda(cudaStreamDestroy(trainer->stream));
}

int main(int argc, char **argv)
{
    int gpu = argc > 2 ? gpu_number(argv[2]) : 0;
    char device[32];
    mr_dataset *dataset = NULL;
    mr_loader *loader = NULL;
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    struct trainer trainer = {0};
    struct results results;
    mr_error error;

    snprintf(device, sizeof(device), "cuda:%d", gpu);
    options.device = device;
    options.n_buffers = N_BUFFERS;
    options.dtype = MR_BF16;
    options.layout = MR_NHWC;
    options.pad_channels = 4; /* pixels of 8 bytes */
    options.batch_size = BATCH;
    options.drop_last = true;
    options.n_epochs = 2;
    check_status(mr_dataset_open(argc > 1 ? argv[1] : ".", NULL, &dataset, &error), &error);
    check_status(mr_loader_create(dataset, NULL, &options, &loader, &error), &error);
    open_trainer(&trainer, gpu);
    results_init(&results, loader);

    for (uint64_t epoch = 0; epoch < 2; epoch++, results.n = 0) {
        check_status(mr_loader_set_epoch(loader, epoch), mr_loader_error(loader));
        run_epoch(loader, &trainer, &results);
        print_epoch(epoch, "", results.n, results_checksum(&results));
    }

    results_fini(&results);
    close_trainer(&trainer);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    return 0;
}
