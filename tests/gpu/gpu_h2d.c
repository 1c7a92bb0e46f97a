/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_h2d [--device cuda:0] [--workers N] [--brief] [--tiny]: how fast the loader's copies are,
 * against a bare loop of cudaMemcpyAsync over page-locked memory. Batches are 256 x 224 x 224 x 3
 * bytes of records. All batches of an epoch are filled into slots before the clock starts, so that
 * neither decoding nor reading is measured. That takes 2.9 GB of page-locked memory; a machine that
 * refuses so much gets the brief measurement.
 *
 * Each round runs all cases in turn, and ratios are taken within a round, as bench/METHOD.md says.
 */
#include "tests/gpu/gpu_check.h"
#include "tests/gpu/gpu_cuda.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    BATCH = 256,
    IMAGE_BYTES = 224 * 224 * 3,
    N_BUFFERS = 3,
    MAX_ROUNDS = 9,
    N_WHOLE = 24,
    N_BRIEF = 8
};

struct h2d {
    struct gpu_setup *setup;
    struct gpu_cuda cuda;
    char *spec;
    uint32_t n_batches; /* of an epoch: as many as the loader has slots */
    uint32_t batch_size;
    uint64_t batch_bytes;
    cudaStream_t stream;
    uint8_t *device[N_BUFFERS]; /* of the bare loop */
    uint8_t *registered;        /* n_batches each */
    uint8_t *allocated;
};

static void *shared_memory(struct h2d *h, uint64_t len)
{
    int fd = memfd_create("gpu_h2d", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)len) != 0)
        gpu_report_die(&h->setup->report, "no shared memory of %llu bytes",
                       (unsigned long long)len);
    void *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (memory == MAP_FAILED)
        gpu_report_die(&h->setup->report, "no shared memory of %llu bytes",
                       (unsigned long long)len);
    close(fd);
    return memory;
}

static double bare_loop(struct h2d *h, const uint8_t *from)
{
    uint32_t n = h->n_batches - N_BUFFERS;
    int64_t begin = gpu_report_now_ns();
    for (uint32_t i = 0; i < n; i++)
        gpu_cuda_ok(&h->cuda,
                    cudaMemcpyAsync(h->device[i % N_BUFFERS], from + i * h->batch_bytes,
                                    h->batch_bytes, cudaMemcpyHostToDevice, h->stream),
                    "cudaMemcpyAsync");
    gpu_cuda_sync(&h->cuda, h->stream);
    return n * (double)h->batch_bytes / (double)(gpu_report_now_ns() - begin);
}

static mr_loader *make_loader(struct h2d *h, mr_dataset *dataset, mr_dtype dtype)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.device = h->setup->device;
    options.batch_size = h->batch_size;
    options.no_shuffle = true;
    options.layout = dtype == MR_U8 ? MR_NHWC : MR_NCHW;
    options.dtype = dtype;
    options.n_slots = h->n_batches + 2;
    options.n_buffers = N_BUFFERS;
    options.n_epochs = 1;
    options.num_workers = h->setup->n_workers ? h->setup->n_workers : gpu_setup_n_cpus();
    return gpu_setup_loader(h->setup, dataset, NULL, &options);
}

/*
 * Wait until the whole epoch is in slots and the buffers are full, so that only copies are left to
 * do.
 */
static void wait_filled(struct h2d *h, mr_loader *loader)
{
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    int64_t end = gpu_report_now_ns() + 30000000000;
    do {
        struct timespec pause = {.tv_nsec = 1000000};
        nanosleep(&pause, NULL);
        mr_loader_get_stats(loader, &stats);
        if (gpu_report_now_ns() > end)
            gpu_report_die(&h->setup->report, "%u of %u batches are ready after 30 s",
                           stats.n_ready, h->n_batches);
    } while (stats.n_ready < h->n_batches || stats.h2d_bytes < N_BUFFERS * h->batch_bytes ||
             stats.n_copying);
}

/*
 * GB/s of the copies whose batches were not in the buffers at the start; on_stream: by the copies'
 * own events.
 */
static double through_loader(struct h2d *h, mr_dtype dtype, double *on_stream_out)
{
    mr_dataset *dataset = gpu_setup_dataset(h->setup, h->spec);
    mr_loader *loader = make_loader(h, dataset, dtype);
    mr_loader_stats before = MR_LOADER_STATS_INIT;
    mr_loader_stats after = MR_LOADER_STATS_INIT;
    mr_batch *batch;
    wait_filled(h, loader);
    mr_loader_get_stats(loader, &before);
    int64_t begin = gpu_report_now_ns();
    for (uint32_t i = 0; i < h->n_batches; i++) {
        if (mr_loader_next_on(loader, MR_FOREVER, h->stream, &batch) != MR_OK)
            gpu_report_die(&h->setup->report, "%s", mr_loader_error(loader)->text);
        if (mr_batch_release(batch) != MR_OK)
            gpu_report_die(&h->setup->report, "a release failed");
    }
    gpu_cuda_sync(&h->cuda, h->stream);
    int64_t took = gpu_report_now_ns() - begin;
    do
        mr_loader_get_stats(loader, &after);
    while (after.n_copying);
    *on_stream_out =
        (double)(after.h2d_bytes - before.h2d_bytes) / (double)(after.h2d_ns - before.h2d_ns);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    return (h->n_batches - N_BUFFERS) * (double)h->batch_bytes / (double)took;
}

static void measure_copies(struct h2d *h, uint32_t n_rounds)
{
    double registered[MAX_ROUNDS], allocated[MAX_ROUNDS], copier[MAX_ROUNDS], finished[MAX_ROUNDS];
    double stream[MAX_ROUNDS], unused, to_registered[MAX_ROUNDS], to_allocated[MAX_ROUNDS],
        to_finished[MAX_ROUNDS];
    double stream_ratio[MAX_ROUNDS];
    bare_loop(h, h->registered);
    bare_loop(h, h->allocated);
    for (uint32_t i = 0; i < n_rounds; i++) {
        registered[i] = bare_loop(h, h->registered);
        copier[i] = through_loader(h, MR_U8, &stream[i]);
        allocated[i] = bare_loop(h, h->allocated);
        finished[i] = through_loader(h, MR_F16, &unused);
        to_registered[i] = copier[i] / registered[i];
        to_allocated[i] = copier[i] / allocated[i];
        stream_ratio[i] = stream[i] / registered[i];
        to_finished[i] = finished[i] / registered[i];
    }
    gpu_report_figure("H2D, bare loop, registered memory, GB/s", registered, n_rounds, true, 0);
    gpu_report_figure("H2D, bare loop, cudaHostAlloc, GB/s", allocated, n_rounds, true, 0);
    gpu_report_figure("H2D, loader, u8, GB/s", copier, n_rounds, true, 0);
    gpu_report_figure("H2D, loader, u8, on the copy stream, GB/s", stream, n_rounds, true, 0);
    gpu_report_figure("H2D, loader, u8 finished to f16 nchw, GB/s of u8", finished, n_rounds, true,
                      0);
    gpu_report_figure("H2D, loader / bare loop, registered", to_registered, n_rounds, true, 0.95);
    gpu_report_figure("H2D, loader / bare loop, cudaHostAlloc", to_allocated, n_rounds, true, 0);
    gpu_report_figure("H2D, loader on the copy stream / bare loop, registered", stream_ratio,
                      n_rounds, true, 0);
    gpu_report_figure("H2D, loader with finishing / bare loop, registered", to_finished, n_rounds,
                      true, 0);
}

static void repeat_file(struct h2d *h, const char *file, uint32_t n_batches)
{
    char *files = strdup(file);
    for (uint32_t i = 1; i < n_batches; i++) {
        char *more = gpu_setup_text("%s,%s", files, file);
        free(files);
        files = more;
    }
    free(h->spec);
    h->spec = gpu_setup_text("records:%s?shape=224x224x3&layout=hwc&label_bytes=8", files);
    h->n_batches = n_batches;
    free(files);
}

/*
 * The slab and the bare loop's two blocks have the same length: check that a loader could get all
 * three.
 */
static bool has_memory(struct h2d *h)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    mr_dataset *dataset = gpu_setup_dataset(h->setup, h->spec);
    mr_loader *loader;
    mr_error error;
    options.batch_size = h->batch_size;
    options.num_workers = MR_NO_WORKERS;
    options.layout = MR_NHWC;
    options.n_slots = 3 * (h->n_batches + 2);
    mr_status status = mr_loader_create(dataset, NULL, &options, &loader, &error);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    if (status != MR_OK)
        gpu_report_fact("h2d is brief", "%s", error.text);
    return status == MR_OK;
}

static void choose_size(struct h2d *h, const char *file)
{
    repeat_file(h, file, h->setup->brief ? N_BRIEF : N_WHOLE);
    if (h->n_batches == N_WHOLE && !has_memory(h))
        repeat_file(h, file, N_BRIEF);
}

int gpu_h2d_main(int argc, char **argv)
{
    struct gpu_setup setup;
    gpu_setup_init(&setup, argc, argv);
    struct h2d h = {.setup = &setup,
                    .cuda = gpu_cuda_open(&setup),
                    .batch_size = gpu_setup_batch(&setup, BATCH)};
    h.batch_bytes = (uint64_t)h.batch_size * IMAGE_BYTES;
    gpu_report_begin(&setup.report, "H2D of the loader against a bare loop");

    char *file = gpu_setup_records(&setup, "images.bin", h.batch_size, IMAGE_BYTES);
    choose_size(&h, file);
    h.stream = gpu_cuda_stream(&h.cuda, GPU_STREAM_NON_BLOCKING);
    for (uint32_t i = 0; i < N_BUFFERS; i++)
        h.device[i] = gpu_cuda_alloc(&h.cuda, h.batch_bytes);
    uint64_t len = h.n_batches * h.batch_bytes;
    void *allocated;
    h.registered = shared_memory(&h, len);
    memset(h.registered, 1, len);
    cudaError_t code = cudaHostRegister(h.registered, len, cudaHostRegisterPortable);
    if (code != cudaSuccess) {
        (void)cudaGetLastError();
        gpu_report_fact("h2d's registered memory", "is pageable: cudaHostRegister: %s",
                        cudaGetErrorString(code));
    }
    gpu_cuda_ok(&h.cuda, cudaHostAlloc(&allocated, len, cudaHostAllocPortable), "cudaHostAlloc");
    memset(allocated, 1, len);
    h.allocated = allocated;

    measure_copies(&h, h.n_batches == N_BRIEF ? 1 : 5);

    if (code == cudaSuccess)
        gpu_cuda_ok(&h.cuda, cudaHostUnregister(h.registered), "cudaHostUnregister");
    gpu_cuda_ok(&h.cuda, cudaFreeHost(allocated), "cudaFreeHost");
    munmap(h.registered, len);
    for (uint32_t i = 0; i < N_BUFFERS; i++)
        gpu_cuda_ok(&h.cuda, cudaFree(h.device[i]), "cudaFree");
    gpu_cuda_stream_end(&h.cuda, h.stream);
    gpu_cuda_close(&h.cuda);
    free(file);
    free(h.spec);
    gpu_report_end(&setup.report);
    return gpu_setup_end(&setup);
}
