/* SPDX-License-Identifier: Apache-2.0 */
/*
 * multi_gpu FOLDER GPU GPU...: two epochs over FOLDER/<class>/<image>.jpg on several GPUs in one
 * process. The images and labels of each batch are split as torch.chunk splits, and each part is
 * copied directly to its GPU. Prints what each GPU has received, and the sum.
 */
#include <cuda_runtime_api.h>

#include "gpu_support.h"

struct gpu {
    int id;
    char name[32];
    cudaStream_t stream;
    struct results results;
};

static void queue_step(const mr_batch *part, struct gpu *gpu)
{
    struct results *results = &gpu->results;

    check_cuda(cudaSetDevice(gpu->id)); /* as kernels need it */
    /* Images: f32 [n, 3, 224, 224], normalised. Labels of the same samples: i64 [n]. */
    queue_images(part, results->pixels + results->n, gpu->stream);
    queue_labels(part, results->labels + results->n, gpu->stream);
    results->n += mr_batch_size(part);
}

static void run_epoch(mr_loader *loader, struct gpu *gpus)
{
    mr_batch *batch = NULL;
    mr_status status;

    /* This makes the stream of part 0 wait for its copy; mr_batch_use() does so for the others. */
    while ((status = mr_loader_next_on(loader, MR_FOREVER, gpus[0].stream, &batch)) == MR_OK) {
        /* A short last batch may have fewer parts. */
        for (uint32_t i = 0; i < mr_batch_n_parts(batch); i++) {
            mr_batch *part = mr_batch_part(batch, i);
            if (i > 0)
                check_status(mr_batch_use(part, gpus[i].stream), mr_batch_error(part));
            queue_step(part, &gpus[i]);
        }
        /* Each part is overwritten after the work in its stream. The next call reports failures. */
        mr_batch_release(batch);
    }
    check_status(status, mr_loader_error(loader)); /* MR_END after the last batch */
}

static void print_gpus(uint64_t epoch, struct gpu *gpus, uint32_t n_gpus)
{
    uint64_t sum = 0;
    int64_t n = 0;

    for (uint32_t i = 0; i < n_gpus; i++) {
        struct results *results = &gpus[i].results;
        char where[64];
        check_cuda(cudaStreamSynchronize(gpus[i].stream));
        snprintf(where, sizeof(where), ", %s", gpus[i].name);
        print_epoch(epoch, where, results->n, results_checksum(results));
        sum += results_checksum(results);
        n += results->n;
        results->n = 0;
    }
    print_epoch(epoch, "", n, sum);
}

static void train_epochs(mr_dataset *dataset, struct gpu *gpus, uint32_t n_gpus)
{
    const char *devices[MR_MAX_DEVICES];
    mr_loader *loader = NULL;
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    mr_error error;

    for (uint32_t i = 0; i < n_gpus; i++)
        devices[i] = gpus[i].name;
    options.devices = devices;
    options.n_devices = n_gpus;
    options.dtype = MR_F32;
    options.batch_size = 32; /* of all GPUs together */
    options.n_epochs = 2;
    check_status(mr_loader_create(dataset, NULL, &options, &loader, &error), &error);
    for (uint32_t i = 0; i < n_gpus; i++) {
        check_cuda(cudaSetDevice(gpus[i].id));
        check_cuda(cudaStreamCreateWithFlags(&gpus[i].stream, cudaStreamNonBlocking));
        results_init(&gpus[i].results, loader);
    }
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        check_status(mr_loader_set_epoch(loader, epoch), mr_loader_error(loader));
        run_epoch(loader, gpus);
        print_gpus(epoch, gpus, n_gpus);
    }
    for (uint32_t i = 0; i < n_gpus; i++) {
        results_fini(&gpus[i].results);
        check_cuda(cudaStreamDestroy(gpus[i].stream));
    }
    mr_loader_destroy(loader);
}

int main(int argc, char **argv)
{
    struct gpu gpus[MR_MAX_DEVICES] = {0};
    uint32_t n_gpus = 0;
    mr_dataset *dataset = NULL;
    mr_error error;

    if (argc < 4 || argc - 2 > MR_MAX_DEVICES) {
        fprintf(
            stderr,
            "usage: multi_gpu FOLDER GPU GPU... (2 to %d numbers of GPUs; this machine has %u)\n",
            MR_MAX_DEVICES, mr_device_count(MR_DEVICE_CUDA, NULL));
        return 2;
    }
    for (; n_gpus < (uint32_t)argc - 2; n_gpus++) {
        gpus[n_gpus].id = gpu_number(argv[n_gpus + 2]);
        snprintf(gpus[n_gpus].name, sizeof(gpus[n_gpus].name), "cuda:%d", gpus[n_gpus].id);
    }
    check_status(mr_dataset_open(argv[1], NULL, &dataset, &error), &error);
    train_epochs(dataset, gpus, n_gpus);
    mr_dataset_destroy(dataset);
    return 0;
}
