/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_order [--device cuda:0] [--data FOLDER] [--only WORD] [--brief]: which stream waits for
 * which, on a real device.
 *
 * A gate is a kernel that spins until the host opens it. It holds a stream back, so a missing wait
 * gives a wrong byte, and is not a race that is usually won. Each rule is also run with its wait
 * left out on purpose. Those cases pass if the bytes are wrong, which shows that the test can fail
 * on this device.
 */
#include "tests/gpu/gpu_check.h"
#include "tests/gpu/gpu_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_BUFFERS = 2, BATCH = 16, N_TAKEN = 2 * N_BUFFERS, N_EPOCHS = 3 };

/* How a read is reported to the loader. */
enum how {
    NEXT_ON,       /* next_on(stream), release */
    RELEASE_ON,    /* next, release_on(stream) */
    USE,           /* next_on(another), use(stream), release */
    NOT_NAMED,     /* next, release: wrong on purpose */
    ANOTHER_NAMED, /* next_on(another), release: wrong on purpose */
};

struct order {
    struct gpu_setup *setup;
    struct gpu_cuda cuda;
    mr_dataset *dataset;
    mr_loader_options options;
    uint64_t batch_bytes;
    uint8_t *expected; /* batches of epochs 0 to N_EPOCHS - 1, one after the other */
    uint32_t n_batches;
    uint8_t *copies; /* on the device: the bytes that were read */
    uint8_t *read;   /* the same, on the host */
};

/*
 * A loader that has run the first batches of an epoch, so that all its kernels are loaded, and then
 * was set to epoch 0.
 */
static mr_loader *warm_loader(struct order *order)
{
    mr_loader *loader = gpu_setup_loader(order->setup, order->dataset, NULL, &order->options);
    mr_batch *batch;
    for (uint32_t i = 0; i < N_BUFFERS + 1; i++) {
        if (mr_loader_next(loader, MR_FOREVER, &batch) != MR_OK)
            gpu_report_die(&order->setup->report, "%s", mr_loader_error(loader)->text);
        mr_batch_release(batch);
    }
    if (mr_loader_set_epoch(loader, 0) != MR_OK)
        gpu_report_die(&order->setup->report, "%s", mr_loader_error(loader)->text);
    return loader;
}

static mr_batch *take_batch(struct order *order, mr_loader *loader, bool on_stream,
                            cudaStream_t stream)
{
    mr_batch *batch;
    mr_status status = on_stream ? mr_loader_next_on(loader, MR_FOREVER, stream, &batch)
                                 : mr_loader_next(loader, MR_FOREVER, &batch);
    if (status != MR_OK)
        gpu_report_die(&order->setup->report, "%s", mr_loader_error(loader)->text);
    return batch;
}

static void need_ok(struct order *order, mr_batch *batch, mr_status status)
{
    if (status != MR_OK)
        gpu_report_die(&order->setup->report, "%s", mr_batch_error(batch)->text);
}

/* What a training step does: read the batch, on the stream. */
static void read_batch(struct order *order, const mr_batch *batch, uint32_t place,
                       cudaStream_t stream)
{
    gpu_cuda_ok(&order->cuda,
                cudaMemcpyAsync(order->copies + place * order->batch_bytes,
                                mr_batch_data(batch, "image"), order->batch_bytes,
                                cudaMemcpyDeviceToDevice, stream),
                "cudaMemcpyAsync");
}

/* The number of the first n batches that were read with other bytes than the host's loader has. */
static uint32_t count_wrong(struct order *order, uint32_t n)
{
    uint32_t n_wrong = 0;
    gpu_cuda_ok(
        &order->cuda,
        cudaMemcpy(order->read, order->copies, n * order->batch_bytes, cudaMemcpyDeviceToHost),
        "cudaMemcpy");
    for (uint32_t i = 0; i < n; i++)
        n_wrong += memcmp(order->read + i * order->batch_bytes,
                          order->expected + i * order->batch_bytes, order->batch_bytes) != 0;
    return n_wrong;
}

static void clear_copies(struct order *order)
{
    gpu_cuda_ok(&order->cuda,
                cudaMemset(order->copies, 0xee, order->n_batches * order->batch_bytes),
                "cudaMemset");
    gpu_cuda_ok(&order->cuda,
                cudaMemcpyAsync(order->copies, order->copies + order->batch_bytes,
                                order->batch_bytes, cudaMemcpyDeviceToDevice, NULL),
                "cudaMemcpyAsync");
    gpu_cuda_ok(&order->cuda, cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

/* Take a batch, read it on the stream, and release it in the given way. */
static void run_step(struct order *order, mr_loader *loader, enum how how, cudaStream_t stream,
                     cudaStream_t another, uint32_t place)
{
    bool on_stream = how == NEXT_ON || how == USE || how == ANOTHER_NAMED;
    mr_batch *batch = take_batch(order, loader, on_stream, how == NEXT_ON ? stream : another);
    if (how == USE)
        need_ok(order, batch, mr_batch_use(batch, stream));
    read_batch(order, batch, place, stream);
    need_ok(order, batch,
            how == RELEASE_ON ? mr_batch_release_on(batch, stream) : mr_batch_release(batch));
}

/*
 * A gate holds reads back while their buffers are released and used again: no copy may overtake the
 * reads. The consumer's thread must not be held back: next_on() for the first buffer's next batch
 * returns meanwhile.
 */
static uint32_t reads_held(struct order *order, enum how how, enum gpu_stream_kind kind)
{
    bool broken = how == NOT_NAMED || how == ANOTHER_NAMED;
    struct gpu_cuda *cuda = &order->cuda;
    cudaStream_t stream = gpu_cuda_stream(cuda, kind);
    cudaStream_t another = gpu_cuda_stream(cuda, GPU_STREAM_NON_BLOCKING);
    mr_loader *loader = warm_loader(order);
    clear_copies(order);
    gpu_cuda_close_gate(cuda, stream);
    for (uint32_t i = 0; i < N_BUFFERS; i++)
        run_step(order, loader, how, stream, another, i);
    for (uint32_t i = 0; i < (broken ? N_BUFFERS : 1); i++)
        mr_batch_release(take_batch(order, loader, !broken, another));
    gpu_report_expect(cuda->report, gpu_cuda_open_gate(cuda), "a call waited for the device");
    gpu_cuda_sync(cuda, stream);
    uint32_t n_wrong = count_wrong(order, N_BUFFERS);
    mr_loader_destroy(loader);
    gpu_cuda_stream_end(cuda, stream);
    gpu_cuda_stream_end(cuda, another);
    return n_wrong;
}

/*
 * The copy is held back, because the buffer's last user waits for a closed gate. A read on a stream
 * that the loader knows waits for the copy. A read on an unknown stream runs before the gate opens,
 * and gets old bytes.
 */
static uint32_t copy_held(struct order *order, enum how how, enum gpu_stream_kind kind)
{
    struct gpu_cuda *cuda = &order->cuda;
    cudaStream_t holder = gpu_cuda_stream(cuda, GPU_STREAM_NON_BLOCKING);
    cudaStream_t stream = gpu_cuda_stream(cuda, kind);
    cudaStream_t another = gpu_cuda_stream(cuda, GPU_STREAM_NON_BLOCKING);
    mr_loader *loader = warm_loader(order);
    clear_copies(order);
    gpu_cuda_close_gate(cuda, holder);
    for (uint32_t i = 0; i < N_BUFFERS; i++)
        run_step(order, loader, NEXT_ON, holder, NULL, i);
    run_step(order, loader, how, stream, another, N_BUFFERS);
    if (how == ANOTHER_NAMED)
        gpu_cuda_sync(cuda, stream);
    else
        gpu_report_expect(cuda->report, cudaStreamQuery(stream) == cudaErrorNotReady,
                          "the read ended before its copy could begin");
    gpu_report_expect(cuda->report, gpu_cuda_open_gate(cuda), "a call waited for the device");
    gpu_cuda_sync(cuda, holder);
    gpu_cuda_sync(cuda, stream);
    uint32_t n_wrong = count_wrong(order, N_BUFFERS + 1);
    mr_loader_destroy(loader);
    gpu_cuda_stream_end(cuda, holder);
    gpu_cuda_stream_end(cuda, stream);
    gpu_cuda_stream_end(cuda, another);
    return n_wrong;
}

/*
 * The host's next returns PENDING while the copy is held back, and the same batch once it has
 * arrived.
 */
static uint32_t host_next_waits(struct order *order)
{
    struct gpu_cuda *cuda = &order->cuda;
    cudaStream_t holder = gpu_cuda_stream(cuda, GPU_STREAM_NON_BLOCKING);
    mr_loader *loader = warm_loader(order);
    mr_batch *batch;
    clear_copies(order);
    gpu_cuda_close_gate(cuda, holder);
    for (uint32_t i = 0; i < N_BUFFERS; i++)
        run_step(order, loader, NEXT_ON, holder, NULL, i);
    mr_status early = mr_loader_next(loader, 100, &batch);
    gpu_report_expect(cuda->report, early == MR_PENDING, "next gave %s before the batch was there",
                      mr_status_name(early));
    mr_batch_release(batch);
    gpu_report_expect(cuda->report, gpu_cuda_open_gate(cuda), "a call waited for the device");
    if (early == MR_PENDING) {
        batch = take_batch(order, loader, false, NULL);
        gpu_cuda_ok(cuda,
                    cudaMemcpy(order->copies + N_BUFFERS * order->batch_bytes,
                               mr_batch_data(batch, "image"), order->batch_bytes,
                               cudaMemcpyDeviceToDevice),
                    "cudaMemcpy");
        gpu_cuda_sync(cuda, NULL);
        mr_batch_release(batch);
    }
    gpu_cuda_sync(cuda, holder);
    uint32_t n_wrong = count_wrong(order, N_BUFFERS + 1);
    mr_loader_destroy(loader);
    gpu_cuda_stream_end(cuda, holder);
    return n_wrong;
}

/*
 * Whole epochs with spins of random length before each read, on streams of all kinds, reported in
 * every way.
 */
static uint32_t random_spins(struct order *order, uint32_t seed)
{
    struct gpu_cuda *cuda = &order->cuda;
    cudaStream_t streams[GPU_STREAM_KINDS];
    mr_loader *loader = warm_loader(order);
    uint32_t per_epoch = order->n_batches / N_EPOCHS;
    clear_copies(order);
    for (uint32_t i = 0; i < GPU_STREAM_KINDS; i++)
        streams[i] = gpu_cuda_stream(cuda, (enum gpu_stream_kind)i);
    for (uint32_t i = 0; i < order->n_batches; i++) {
        if (i % per_epoch == 0 && mr_loader_set_epoch(loader, i / per_epoch) != MR_OK)
            gpu_report_die(cuda->report, "%s", mr_loader_error(loader)->text);
        seed = seed * 1664525 + 1013904223;
        cudaStream_t stream = streams[(seed >> 8) % GPU_STREAM_KINDS];
        cudaStream_t another = streams[(seed >> 12) % GPU_STREAM_KINDS];
        gpu_cuda_ok(cuda,
                    gpu_kernel_spin((seed >> 16) % 2000 * 1000, 1 + (seed >> 20) % 64, 32, stream),
                    "a spin");
        run_step(order, loader, (enum how)((seed >> 24) % (USE + 1)), stream, another, i);
    }
    gpu_cuda_ok(cuda, cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    uint32_t n_wrong = count_wrong(order, order->n_batches);
    mr_loader_destroy(loader);
    for (uint32_t i = 0; i < GPU_STREAM_KINDS; i++)
        gpu_cuda_stream_end(cuda, streams[i]);
    return n_wrong;
}

static void expect_right(struct order *order, uint32_t n_wrong)
{
    gpu_report_expect(&order->setup->report, n_wrong == 0, "%u batches were read with wrong bytes",
                      n_wrong);
}

static void run_reads(struct order *order, const char *form, enum how how, const char *words)
{
    for (enum gpu_stream_kind kind = 0; kind < GPU_STREAM_KINDS; kind++) {
        bool broken = how == NOT_NAMED || how == ANOTHER_NAMED;
        char *name = gpu_setup_text("%s: %s, %s", form, words, gpu_cuda_stream_name(kind));
        if (gpu_report_begin(&order->setup->report, name)) {
            uint32_t n_wrong = reads_held(order, how, kind);
            if (broken)
                gpu_report_expect(&order->setup->report, n_wrong > 0,
                                  "the missing wait was not seen");
            else
                expect_right(order, n_wrong);
            gpu_report_end(&order->setup->report);
        }
        free(name);
    }
}

static void run_copies(struct order *order, const char *form, enum how how, const char *words)
{
    for (enum gpu_stream_kind kind = 0; kind < GPU_STREAM_KINDS; kind++) {
        char *name = gpu_setup_text("%s: %s, %s", form, words, gpu_cuda_stream_name(kind));
        if (gpu_report_begin(&order->setup->report, name)) {
            uint32_t n_wrong = copy_held(order, how, kind);
            if (how == ANOTHER_NAMED)
                gpu_report_expect(&order->setup->report, n_wrong > 0,
                                  "the missing wait was not seen");
            else
                expect_right(order, n_wrong);
            gpu_report_end(&order->setup->report);
        }
        free(name);
    }
}

static void run_others(struct order *order, const char *form)
{
    char *name = gpu_setup_text("%s: the host's next waits for the copy", form);
    if (gpu_report_begin(&order->setup->report, name)) {
        expect_right(order, host_next_waits(order));
        gpu_report_end(&order->setup->report);
    }
    free(name);
    for (uint32_t seed = 1; seed <= (order->setup->brief ? 1 : 4); seed++) {
        name = gpu_setup_text("%s: spins of random length before reads, seed %u", form, seed);
        if (gpu_report_begin(&order->setup->report, name)) {
            expect_right(order, random_spins(order, seed));
            gpu_report_end(&order->setup->report);
        }
        free(name);
    }
}

/* All batches of the epochs, from a loader on the host. */
static void expect_batches(struct order *order)
{
    mr_loader_options options = order->options;
    options.device = NULL;
    options.n_buffers = 0;
    mr_loader *loader = gpu_setup_loader(order->setup, order->dataset, NULL, &options);
    order->n_batches = (uint32_t)mr_loader_n_batches(loader) * N_EPOCHS;
    order->expected = malloc(order->n_batches * order->batch_bytes);
    order->read = malloc(order->n_batches * order->batch_bytes);
    if (!order->expected || !order->read || order->n_batches < N_TAKEN)
        gpu_report_die(&order->setup->report, "%u batches, or no memory", order->n_batches);
    uint8_t *to = order->expected;
    for (uint32_t epoch = 0; epoch < N_EPOCHS; epoch++) {
        if (mr_loader_set_epoch(loader, epoch) != MR_OK)
            gpu_report_die(&order->setup->report, "%s", mr_loader_error(loader)->text);
        for (uint32_t i = 0; i < order->n_batches / N_EPOCHS; i++) {
            mr_batch *batch = take_batch(order, loader, false, NULL);
            memcpy(to, mr_batch_data(batch, "image"), order->batch_bytes);
            to += order->batch_bytes;
            mr_batch_release(batch);
        }
    }
    mr_loader_destroy(loader);
}

static void run_form(struct order *order, const char *form, mr_dtype dtype, mr_layout layout)
{
    order->options = (mr_loader_options)MR_LOADER_OPTIONS_INIT;
    order->options.device = order->setup->device;
    order->options.batch_size = BATCH;
    order->options.drop_last = true;
    order->options.n_buffers = N_BUFFERS;
    order->options.num_workers = order->setup->n_workers;
    order->options.dtype = dtype;
    order->options.layout = layout;
    order->options.allow_same_epoch = true;
    order->batch_bytes = UINT64_C(3) * 224 * 224 * BATCH * mr_dtype_size(dtype);
    expect_batches(order);
    order->copies = gpu_cuda_alloc(&order->cuda, order->n_batches * order->batch_bytes);

    run_reads(order, form, NEXT_ON, "reads are not overtaken, next_on");
    run_reads(order, form, RELEASE_ON, "reads are not overtaken, release_on");
    run_reads(order, form, USE, "reads are not overtaken, use");
    run_reads(order, form, NOT_NAMED, "broken on purpose, release without the stream");
    run_reads(order, form, ANOTHER_NAMED, "broken on purpose, release without use");
    run_copies(order, form, NEXT_ON, "reads wait for the copy, next_on");
    run_copies(order, form, USE, "reads wait for the copy, use");
    run_copies(order, form, ANOTHER_NAMED, "broken on purpose, a read without use");
    run_others(order, form);

    gpu_cuda_ok(&order->cuda, cudaFree(order->copies), "cudaFree");
    free(order->expected);
    free(order->read);
}

int gpu_order_main(int argc, char **argv)
{
    struct gpu_setup setup;
    gpu_setup_init(&setup, argc, argv);
    /* Streams that share one of the few hardware queues would wait for each other's gates. */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    struct order order = {.setup = &setup, .cuda = gpu_cuda_open(&setup)};
    order.dataset = gpu_setup_dataset(&setup, setup.photos);
    run_form(&order, "u8", MR_U8, MR_NHWC);
    run_form(&order, "f16", MR_F16, MR_NCHW);
    mr_dataset_destroy(order.dataset);
    gpu_cuda_close(&order.cuda);
    return gpu_setup_end(&setup);
}
