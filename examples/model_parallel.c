/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_parallel FOLDER GPU GPU|host: two epochs over FOLDER/<class>/<image>.jpg through a model
 * whose first half is on one GPU, and whose second half with the loss is on another GPU or on the
 * host. Images are copied to the first half, labels to the second. A few bytes of each image stand
 * for its activations, which are copied from the first half to the second.
 */
#include <cuda_runtime_api.h>

#include "gpu_support.h"

#include <string.h>

enum { BATCH = 32 };

struct model {
    int first;         /* GPU of the first half */
    int second;        /* GPU of the second half; -1 is the host */
    cudaStream_t head; /* on the first GPU */
    cudaStream_t tail; /* on the second */
    cudaEvent_t moved; /* on head: the activations have been copied */
    cudaEvent_t taken; /* on tail: the activations are no longer needed */
    uint8_t (*activations)[SEEN];
    uint8_t (*arrived)[SEEN]; /* the same on the second GPU */
    struct results results;   /* stands for the loss */
};

static void queue_first_half(const mr_batch *batch, struct model *model)
{
    check_cuda(cudaSetDevice(model->first));              /* as kernels need it */
    queue_images(batch, model->activations, model->head); /* f16 [n, 3, 224, 224], normalised */
}

static void queue_second_half(const mr_batch *batch, struct model *model)
{
    struct results *results = &model->results;
    size_t n_bytes = (size_t)mr_batch_size(batch) * SEEN;

    /* Does nothing before the first step. */
    check_cuda(cudaStreamWaitEvent(model->head, model->taken, 0));
    check_cuda(cudaMemcpyAsync(model->arrived, model->activations, n_bytes, cudaMemcpyDefault,
                               model->head));
    check_cuda(cudaEventRecord(model->moved, model->head));

    check_cuda(cudaSetDevice(model->second));
    check_cuda(cudaStreamWaitEvent(model->tail, model->moved, 0));
    check_cuda(cudaMemcpyAsync(results->pixels + results->n, model->arrived, n_bytes,
                               cudaMemcpyDeviceToHost, model->tail));
    queue_labels(batch, results->labels + results->n, model->tail); /* i64 [n], on this GPU */
    check_cuda(cudaEventRecord(model->taken, model->tail));
}

/* Labels on the host are ready when next has returned, and must be read before release. */
static void take_second_half(const mr_batch *batch, struct model *model)
{
    struct results *results = &model->results;
    size_t n = mr_batch_size(batch);

    check_cuda(cudaMemcpyAsync(results->pixels + results->n, model->activations, n * SEEN,
                               cudaMemcpyDeviceToHost, model->head));
    memcpy(results->labels + results->n, mr_batch_data(batch, "label"), n * sizeof(int64_t));
}

static void run_epoch(mr_loader *loader, struct model *model)
{
    mr_batch *batch = NULL;
    mr_status status;

    while ((status = mr_loader_next_on(loader, MR_FOREVER, model->head, &batch)) == MR_OK) {
        queue_first_half(batch, model);
        if (model->second < 0) {
            take_second_half(batch, model);
        } else {
            /* A stream of the labels' device. */
            check_status(mr_batch_use(batch, model->tail), mr_batch_error(batch));
            queue_second_half(batch, model);
        }
        model->results.n += mr_batch_size(batch);
        /*
         * Images are overwritten after the work in head, labels after that in tail. The next call
         * reports failures.
         */
        mr_batch_release(batch);
    }
    check_status(status, mr_loader_error(loader)); /* MR_END after the last batch */
    check_cuda(cudaStreamSynchronize(model->head));
    if (model->second >= 0)
        check_cuda(cudaStreamSynchronize(model->tail));
}

static void open_model(struct model *model)
{
    check_cuda(cudaSetDevice(model->first));
    check_cuda(cudaStreamCreateWithFlags(&model->head, cudaStreamNonBlocking));
    check_cuda(cudaEventCreateWithFlags(&model->moved, cudaEventDisableTiming));
    check_cuda(cudaMalloc((void **)&model->activations, BATCH * SEEN));
    if (model->second >= 0) {
        check_cuda(cudaSetDevice(model->second));
        check_cuda(cudaStreamCreateWithFlags(&model->tail, cudaStreamNonBlocking));
        check_cuda(cudaEventCreateWithFlags(&model->taken, cudaEventDisableTiming));
        check_cuda(cudaMalloc((void **)&model->arrived, BATCH * SEEN));
    }
}

static void close_model(struct model *model)
{
    if (model->second >= 0) {
        check_cuda(cudaFree(model->arrived));
        check_cuda(cudaEventDestroy(model->taken));
        check_cuda(cudaStreamDestroy(model->tail));
    }
    check_cuda(cudaFree(model->activations));
    check_cuda(cudaEventDestroy(model->moved));
    check_cuda(cudaStreamDestroy(model->head));
}

int main(int argc, char **argv)
{
    char images[32], labels[32] = "host";
    mr_dataset *dataset = NULL;
    mr_loader *loader = NULL;
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    struct model model = {0};
    mr_error error;

    if (argc != 4) {
        fprintf(stderr, "usage: model_parallel FOLDER GPU GPU|host\n");
        return 2;
    }
    model.first = gpu_number(argv[2]);
    model.second = strcmp(argv[3], "host") == 0 ? -1 : gpu_number(argv[3]);
    snprintf(images, sizeof(images), "cuda:%d", model.first);
    if (model.second >= 0)
        snprintf(labels, sizeof(labels), "cuda:%d", model.second);
    options.device = images;
    options.label_device = labels;
    options.dtype = MR_F16;
    options.batch_size = BATCH;
    options.n_epochs = 2;
    check_status(mr_dataset_open(argv[1], NULL, &dataset, &error), &error);
    check_status(mr_loader_create(dataset, NULL, &options, &loader, &error), &error);
    open_model(&model);
    results_init(&model.results, loader);

    for (uint64_t epoch = 0; epoch < 2; epoch++, model.results.n = 0) {
        check_status(mr_loader_set_epoch(loader, epoch), mr_loader_error(loader));
        run_epoch(loader, &model);
        print_epoch(epoch, "", model.results.n, results_checksum(&model.results));
    }

    results_fini(&model.results);
    close_model(&model);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    return 0;
}
