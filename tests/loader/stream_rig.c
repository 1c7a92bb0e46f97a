/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of tests on the double's streams.
 *
 * Invariant: a kernel runs when the double runs it, perhaps in another thread and long after the
 * batch was released. So it writes to memory that lives until its stream was waited for.
 */
#include "tests/loader/stream_rig.h"

#include <stdlib.h>
#include <string.h>

#include <millrace/millrace.h>

#include "tests/support/devices.h"

enum { SEEN_BYTES = 8 << 20 };

void stage_open(const struct double_options *options)
{
    double_open(options);
}

void stage_close(void)
{
    if (double_close() != 0)
        fail_msg("%s", double_report());
}

void stage_expect_clean(void)
{
    if (double_found(DOUBLE_UNORDERED) || double_found(DOUBLE_MISUSE))
        fail_msg("%s", double_report());
}

static int go_to(int device)
{
    int before;
    assert_int_equal(cudaGetDevice(&before), cudaSuccess);
    assert_int_equal(cudaSetDevice(device), cudaSuccess);
    return before;
}

cudaStream_t stage_stream(int device, unsigned flags)
{
    cudaStream_t stream;
    int before = go_to(device);
    assert_int_equal(cudaStreamCreateWithFlags(&stream, flags), cudaSuccess);
    go_to(before);
    return stream;
}

void stage_sync(cudaStream_t stream)
{
    assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
}

void stage_end_stream(cudaStream_t stream)
{
    stage_sync(stream);
    assert_int_equal(cudaStreamDestroy(stream), cudaSuccess);
}

mr_batch *stage_next_on(mr_loader *loader, void *stream)
{
    mr_batch *batch = NULL;
    mr_status status = mr_loader_next_on(loader, MR_FOREVER, stream, &batch);
    if (status != MR_OK)
        fail_msg("%s: %s", mr_status_name(status), mr_loader_error(loader)->text);
    assert_non_null(batch);
    return batch;
}

static void expect_status(const char *what, const mr_error *error, mr_status status,
                          mr_status expected)
{
    if (status != expected)
        fail_msg("%s: %s in place of %s: %s", what, mr_status_name(status),
                 mr_status_name(expected), error->text);
    if (expected != MR_OK)
        assert_int_equal(error->status, expected);
}

void stage_use(mr_batch *batch, void *stream, mr_status expected)
{
    mr_status status = mr_batch_use(batch, stream);
    expect_status("use", mr_batch_error(batch), status, expected);
}

void stage_release_on(mr_batch *batch, void *stream, mr_status expected)
{
    mr_status status = mr_batch_release_on(batch, stream);
    if (status != expected || expected != MR_OK)
        expect_status("release_on", mr_batch_error(batch), status, expected);
}

void stage_release(mr_batch *batch, mr_status expected)
{
    mr_status status = mr_batch_release(batch);
    if (status != expected || expected != MR_OK)
        expect_status("release", mr_batch_error(batch), status, expected);
}

mr_loader_options stage_options(const char *device)
{
    mr_loader_options options = rig_options();
    options.device = device;
    options.allow_same_epoch = true;
    return options;
}

mr_loader_options stage_pin_options(void)
{
    mr_loader_options options = stage_options("host");
    options.pin_memory = true;
    options.n_slots = 3;
    return options;
}

mr_loader *stage_pinned_loader(struct rig *rig, const mr_loader_options *options)
{
    mr_loader *loader = rig_loader(rig, options);
    assert_true(mr_loader_resolved(loader)->pin_memory);
    return loader;
}

struct seen *seen_create(void)
{
    struct seen *seen = calloc(1, sizeof *seen);
    assert_non_null(seen);
    seen->memory = calloc(1, SEEN_BYTES);
    assert_non_null(seen->memory);
    return seen;
}

void seen_free(struct seen *seen)
{
    free(seen->memory);
    free(seen);
}

static size_t array_bytes(const mr_array *array)
{
    return (size_t)array->shape[0] * (size_t)array->strides[0];
}

static struct seen_batch *add_batch(struct seen *seen, const mr_batch *batch)
{
    assert_true(seen->n < SEEN_BATCHES);
    struct seen_batch *b = &seen->batches[seen->n++];
    *b = (struct seen_batch){.epoch = mr_batch_epoch(batch),
                             .number = mr_batch_number(batch),
                             .n_rows = mr_batch_size(batch),
                             .n_valid = mr_batch_valid(batch)};
    return b;
}

static uint8_t *take_memory(struct seen *seen, size_t len)
{
    assert_true(len <= SEEN_BYTES - seen->used);
    uint8_t *memory = seen->memory + seen->used;
    seen->used += len;
    return memory;
}

/* Runs under the double's lock, in any thread. */
static void keep_bytes(void *user, const uint8_t *bytes, size_t len)
{
    memcpy(user, bytes, len);
}

/* An empty part has no bytes to read. */
static void read_on(const mr_array *array, uint8_t *to, size_t len, const cudaStream_t *streams)
{
    if (len == 0)
        return;
    int before = go_to(array->device.id);
    assert_int_equal(
        double_launch_read(streams[array->device.id], array->data, len, keep_bytes, to),
        cudaSuccess);
    go_to(before);
}

/* With streams NULL the host reads, at once. */
static void add_arrays(struct seen *seen, struct seen_batch *b, mr_batch *batch,
                       const cudaStream_t *streams)
{
    for (uint32_t i = 0; i < SEEN_ARRAYS; i++) {
        b->bytes[i] = take_memory(seen, 0);
        for (uint32_t p = 0; p < mr_batch_n_parts(batch); p++) {
            const mr_array *array = mr_batch_array_at(mr_batch_part(batch, p), i);
            if (!array)
                continue; /* mixing only */
            size_t len = array_bytes(array);
            uint8_t *to = take_memory(seen, len);
            b->len[i] += len;
            if (streams && array->device.kind == MR_DEVICE_CUDA)
                read_on(array, to, len, streams);
            else if (len > 0)
                memcpy(to, mr_test_bytes(array), len);
        }
    }
}

void seen_add(struct seen *seen, mr_batch *batch)
{
    add_arrays(seen, add_batch(seen, batch), batch, NULL);
}

void seen_add_on(struct seen *seen, mr_batch *batch, const cudaStream_t *streams)
{
    add_arrays(seen, add_batch(seen, batch), batch, streams);
}

/*
 * next_on() has ordered the stream for part 0's images. Each other device of each part needs its
 * own stream.
 */
static void use_other_devices(mr_batch *batch, const cudaStream_t *streams)
{
    for (uint32_t p = 0; p < mr_batch_n_parts(batch); p++) {
        mr_batch *part = mr_batch_part(batch, p);
        for (uint32_t i = 0; i < 2; i++) {
            mr_device device = mr_batch_array_at(part, i)->device;
            if (device.kind == MR_DEVICE_CUDA && (p > 0 || i > 0))
                stage_use(part, streams[device.id], MR_OK);
        }
    }
}

void seen_epoch_on(struct seen *seen, mr_loader *loader, const cudaStream_t *streams)
{
    mr_batch *batch;
    mr_status status;
    /* device of part 0's images: next_on() and release_on() take its streams */
    int first = -1;
    const mr_loader_options *o = mr_loader_resolved(loader);
    const char *name = o->n_devices > 1 ? o->devices[0] : o->device;
    if (strncmp(name, "cuda:", 5) == 0)
        first = atoi(name + 5);
    cudaStream_t stream = first >= 0 ? streams[first] : NULL;
    while ((status = mr_loader_next_on(loader, MR_FOREVER, stream, &batch)) == MR_OK) {
        use_other_devices(batch, streams);
        seen_add_on(seen, batch, streams);
        stage_release_on(batch, stream, MR_OK);
    }
    if (status != MR_END)
        fail_msg("%s: %s", mr_status_name(status), mr_loader_error(loader)->text);
}

void seen_epoch(struct seen *seen, mr_loader *loader)
{
    mr_batch *batch;
    mr_status status;
    while ((status = mr_loader_next(loader, MR_FOREVER, &batch)) == MR_OK) {
        seen_add(seen, batch);
        stage_release(batch, MR_OK);
    }
    if (status != MR_END)
        fail_msg("%s: %s", mr_status_name(status), mr_loader_error(loader)->text);
}

static mr_loader *open_loader(mr_dataset *dataset, const char *transform,
                              const mr_loader_options *options)
{
    mr_transform *parsed = NULL;
    mr_loader *loader;
    mr_error error;
    if (transform && mr_transform_parse(transform, &parsed, &error) != MR_OK)
        fail_msg("%s", error.text);
    if (mr_loader_create(dataset, parsed, options, &loader, &error) != MR_OK)
        fail_msg("%s", error.text);
    mr_transform_destroy(parsed);
    return loader;
}

struct seen *seen_on_host(mr_dataset *dataset, const char *transform,
                          const mr_loader_options *options, uint64_t n_epochs)
{
    mr_loader_options plain = *options;
    plain.device = "host";
    plain.devices = NULL;
    plain.n_devices = 0;
    plain.label_device = NULL;
    plain.pad_channels = 0;
    plain.finish_on_host = false;
    struct seen *seen = seen_create();
    mr_loader *loader = open_loader(dataset, transform, &plain);
    for (uint64_t epoch = 0; epoch < n_epochs; epoch++) {
        assert_int_equal(mr_loader_set_epoch(loader, plain.epoch + epoch), MR_OK);
        seen_epoch(seen, loader);
    }
    mr_loader_destroy(loader);
    return seen;
}

void seen_expect_same(const struct seen *seen, const struct seen *expected)
{
    static const char *const names[SEEN_ARRAYS] = {
        "image", "label", "index", "mask", "geometry", "mix_label", "mix_lambda", "soft_label"};
    assert_int_equal(seen->n, expected->n);
    for (uint32_t k = 0; k < seen->n; k++) {
        const struct seen_batch *a = &seen->batches[k], *b = &expected->batches[k];
        assert_int_equal(a->epoch, b->epoch);
        assert_int_equal(a->number, b->number);
        assert_int_equal(a->n_rows, b->n_rows);
        assert_int_equal(a->n_valid, b->n_valid);
        for (uint32_t i = 0; i < SEEN_ARRAYS; i++) {
            assert_int_equal(a->len[i], b->len[i]);
            if (memcmp(a->bytes[i], b->bytes[i], a->len[i]) != 0)
                fail_msg("%s of batch %llu of epoch %llu differs", names[i],
                         (unsigned long long)a->number, (unsigned long long)a->epoch);
        }
    }
}

bool stage_policy(unsigned i, struct double_options *options)
{
    options->policy = i == 0 ? DOUBLE_LATE : i == 1 ? DOUBLE_EARLY : DOUBLE_RANDOM;
    options->seed = i;
    return i < 6;
}
