/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_own_cudart [--device cuda:0] [--data FOLDER]: a program with its own CUDA runtime,
 * libcudart.so, beside the one inside libmillrace.so. Its streams are accepted, because both
 * runtimes share the device's primary context.
 *
 * Host functions hold the stream back, which needs no kernel.
 */
#include "tests/gpu/gpu_setup.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 16, N_BUFFERS = 2, N_TAKEN = 8 };

struct own {
    struct gpu_setup *setup;
    mr_dataset *dataset;
    mr_loader_options options;
    uint64_t batch_bytes;
    uint8_t *expected;
    uint8_t *read; /* page-locked by this program's runtime */
};

static void cuda_ok(struct own *own, cudaError_t error, const char *what)
{
    if (error != cudaSuccess)
        gpu_report_die(&own->setup->report, "%s: %s", what, cudaGetErrorString(error));
}

static void CUDART_CB hold_back(void *user)
{
    struct timespec pause = {.tv_nsec = 20000000};
    (void)user;
    nanosleep(&pause, NULL);
}

/*
 * Check that the runtime that this program calls is a separate file, not the one inside the
 * library.
 */
static void tell_runtimes(struct own *own)
{
    Dl_info runtime;
    Dl_info library;
    int version = 0;
    if (!dladdr((void *)(uintptr_t)cudaMemcpyAsync, &runtime) ||
        !dladdr((void *)(uintptr_t)mr_loader_next, &library))
        gpu_report_die(&own->setup->report, "dladdr: %s", dlerror());
    cudaRuntimeGetVersion(&version);
    gpu_report_fact("the program's CUDA runtime", "%s, %d.%d", runtime.dli_fname, version / 1000,
                    version % 1000 / 10);
    gpu_report_fact("the program's libmillrace", "%s", library.dli_fname);
    gpu_report_expect(&own->setup->report, runtime.dli_fbase != library.dli_fbase,
                      "the runtime is the library's own");
    gpu_report_expect(&own->setup->report,
                      dlsym(dlopen(library.dli_fname, RTLD_NOW), "mr_loader_next") != NULL,
                      "the library exports nothing");
}

static mr_batch *take_batch(struct own *own, mr_loader *loader, bool on_stream, cudaStream_t stream)
{
    mr_batch *batch;
    mr_status status = on_stream ? mr_loader_next_on(loader, MR_FOREVER, stream, &batch)
                                 : mr_loader_next(loader, MR_FOREVER, &batch);
    if (status != MR_OK)
        gpu_report_die(&own->setup->report, "%s", mr_loader_error(loader)->text);
    return batch;
}

static void expect_batches(struct own *own)
{
    mr_loader_options options = own->options;
    options.device = NULL;
    options.n_buffers = 0;
    mr_loader *loader = gpu_setup_loader(own->setup, own->dataset, "train:64", &options);
    for (uint32_t i = 0; i < N_TAKEN; i++) {
        mr_loader_set_epoch(loader, i);
        mr_batch *batch = take_batch(own, loader, false, NULL);
        memcpy(own->expected + i * own->batch_bytes, mr_batch_data(batch, "image"),
               own->batch_bytes);
        mr_batch_release(batch);
    }
    mr_loader_destroy(loader);
}

/*
 * Reads are held back on the program's stream. Copies may not overtake them, and they may not
 * overtake copies.
 */
static void own_stream(struct own *own, bool own_is_null)
{
    cudaStream_t stream = NULL;
    if (!own_is_null)
        cuda_ok(own, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                "cudaStreamCreateWithFlags");
    mr_loader *loader = gpu_setup_loader(own->setup, own->dataset, "train:64", &own->options);
    memset(own->read, 0xee, N_TAKEN * own->batch_bytes);
    for (uint32_t i = 0; i < N_TAKEN; i++) {
        if (mr_loader_set_epoch(loader, i) != MR_OK)
            gpu_report_die(&own->setup->report, "%s", mr_loader_error(loader)->text);
        mr_batch *batch = take_batch(own, loader, true, stream);
        cuda_ok(own, cudaLaunchHostFunc(stream, hold_back, NULL), "cudaLaunchHostFunc");
        cuda_ok(own,
                cudaMemcpyAsync(own->read + i * own->batch_bytes, mr_batch_data(batch, "image"),
                                own->batch_bytes, cudaMemcpyDeviceToHost, stream),
                "cudaMemcpyAsync");
        gpu_report_expect(&own->setup->report, mr_batch_release_on(batch, stream) == MR_OK,
                          "release failed");
    }
    cuda_ok(own, cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    for (uint32_t i = 0; i < N_TAKEN; i++)
        gpu_report_expect(&own->setup->report,
                          memcmp(own->read + i * own->batch_bytes,
                                 own->expected + i * own->batch_bytes, own->batch_bytes) == 0,
                          "batch %u was read with other bytes", i);
    mr_loader_destroy(loader);
    if (stream)
        cuda_ok(own, cudaStreamDestroy(stream), "cudaStreamDestroy");
}

static void run_epochs(struct own *own)
{
    own->dataset = gpu_setup_dataset(own->setup, own->setup->photos);
    own->options = (mr_loader_options)MR_LOADER_OPTIONS_INIT;
    own->options.device = own->setup->device;
    own->options.batch_size = BATCH;
    own->options.n_buffers = N_BUFFERS;
    own->options.dtype = MR_F16;
    own->options.num_workers = own->setup->n_workers;
    own->batch_bytes = UINT64_C(2) * 3 * 64 * 64 * BATCH;
    void *read;
    cuda_ok(own, cudaHostAlloc(&read, N_TAKEN * own->batch_bytes, 0), "cudaHostAlloc");
    own->read = read;
    own->expected = malloc(N_TAKEN * own->batch_bytes);
    if (!own->expected)
        gpu_report_die(&own->setup->report, "no memory");
    tell_runtimes(own);
    expect_batches(own);
    own_stream(own, false);
    own_stream(own, true);
    free(own->expected);
    cuda_ok(own, cudaFreeHost(read), "cudaFreeHost");
    mr_dataset_destroy(own->dataset);
}

int main(int argc, char **argv)
{
    struct gpu_setup setup;
    int driver = 0;
    gpu_setup_init(&setup, argc, argv);
    struct own own = {.setup = &setup};
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
        gpu_report_die(&setup.report, "no NVIDIA driver");
    if (gpu_report_begin(&setup.report, "streams of a program that has its own libcudart.so")) {
        run_epochs(&own);
        gpu_report_end(&setup.report);
    }
    return gpu_setup_end(&setup);
}
