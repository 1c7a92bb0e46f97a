/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_batch FOLDER [GPU]: two epochs over FOLDER/<class>/<image>.jpg on one GPU, with a stream for
 * training and one for metrics. The host does not wait: it queues a step and releases the batch
 * before the GPU has begun the step.
 */
#include <cuda_runtime_api.h>

#include "gpu_support.h"

static void run_epoch(mr_loader *loader, cudaStream_t train, cudaStream_t metrics,
                      struct results *results)
{
    mr_batch *batch = NULL;
    mr_status status;

    /* Returns while the copy to the GPU is under way: train waits for it, this thread does not. */
    while ((status = mr_loader_next_on(loader, MR_FOREVER, train, &batch)) == MR_OK) {
        /* The stream metrics waits for it too. */
        check_status(mr_batch_use(batch, metrics), mr_batch_error(batch));
        /* Images: f16 [N, 3, 224, 224], normalised. Labels: i64 [N]. */
        queue_images(batch, results->pixels + results->n, train);
        queue_labels(batch, results->labels + results->n, metrics);
        results->n += mr_batch_size(batch);
        /* Its memory is used again after the work in both streams. The next call reports failures.
         */
        mr_batch_release(batch);
    }
    check_status(status, mr_loader_error(loader)); /* MR_END after the last batch */
    check_cuda(cudaStreamSynchronize(train));
    check_cuda(cudaStreamSynchronize(metrics));
}

int main(int argc, char **argv)
{
    int gpu = argc > 2 ? gpu_number(argv[2]) : 0;
    char device[32];
    mr_dataset *dataset = NULL;
    mr_loader *loader = NULL;
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    struct results results;
    cudaStream_t train, metrics;
    mr_error error;

    snprintf(device, sizeof(device), "cuda:%d", gpu);
    options.device = device;
    options.dtype = MR_F16; /* converted from u8 on the GPU */
    options.batch_size = 32;
    options.n_epochs = 2;
    check_status(mr_dataset_open(argc > 1 ? argv[1] : ".", NULL, &dataset, &error), &error);
    check_status(mr_loader_create(dataset, NULL, &options, &loader, &error), &error);
    check_cuda(cudaSetDevice(gpu));
    check_cuda(cudaStreamCreateWithFlags(&train, cudaStreamNonBlocking));
    check_cuda(cudaStreamCreateWithFlags(&metrics, cudaStreamNonBlocking));
    results_init(&results, loader);

    for (uint64_t epoch = 0; epoch < 2; epoch++, results.n = 0) {
        check_status(mr_loader_set_epoch(loader, epoch), mr_loader_error(loader));
        run_epoch(loader, train, metrics, &results);
        print_epoch(epoch, "", results.n, results_checksum(&results));
    }

    results_fini(&results);
    check_cuda(cudaStreamDestroy(train));
    check_cuda(cudaStreamDestroy(metrics));
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    return 0;
}
