/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of tests. A kernel's accesses are judged when it is launched; its bytes are touched when
 * it runs. A launch goes to the current device, so a stream of another device is an error.
 */
#include "tests/double/double_machine.h"

#include <string.h>

struct run_payload {
    void (*run)(void *user, void *const *views);
    void *user;
};

struct byte_payload {
    double_read_fn *read;
    void *user;
    size_t len;
    uint8_t value;
};

static void run_kernel(void *payload, void *const *views)
{
    const struct run_payload *run = payload;
    if (run->run)
        run->run(run->user, views);
}

static void run_read(void *payload, void *const *views)
{
    const struct byte_payload *read = payload;
    if (read->read)
        read->read(read->user, views[0], read->len);
}

static void run_sum(void *payload, void *const *views)
{
    const struct byte_payload *read = payload;
    *(uint64_t *)read->user = double_sum(views[0], read->len);
}

static void run_fill(void *payload, void *const *views)
{
    const struct byte_payload *fill = payload;
    memset(views[0], fill->value, fill->len);
}

static void run_add_one(void *payload, void *const *views)
{
    const struct byte_payload *add = payload;
    uint8_t *bytes = views[0];
    for (size_t i = 0; i < add->len; i++)
        bytes[i]++;
}

/* FNV-1a */
uint64_t double_sum(const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < len; i++)
        sum = (sum ^ at[i]) * UINT64_C(0x100000001b3);
    return sum;
}

static cudaError_t touch_all(int device, const struct double_access *accesses, uint32_t n,
                             struct double_work *work)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct double_access *access = &accesses[i];
        cudaError_t error = double_memory_touch(device, access->memory, access->len, access->write,
                                                work->name, &work->touches[work->n_touches]);
        if (error != cudaSuccess)
            return error;
        work->n_touches++;
    }
    return cudaSuccess;
}

cudaError_t double_kernel_issue(cudaStream_t handle, const struct double_access *accesses,
                                uint32_t n, struct double_work *work, const void *payload,
                                size_t len)
{
    struct double_thread_state *thread = double_machine_thread();
    struct double_stream *stream = double_queue_stream(handle);
    if (!stream || stream->device != thread->device)
        return cudaErrorInvalidResourceHandle;
    if (thread->next_name)
        work->name = thread->next_name;
    if (thread->next_ns > 0)
        work->ns = thread->next_ns;
    thread->next_name = NULL;
    thread->next_ns = 0;
    work->kind = DOUBLE_OP_KERNEL;
    cudaError_t error = touch_all(stream->device, accesses, n, work);
    if (error != cudaSuccess) {
        double_queue_drop_work(work);
        return error;
    }
    work->payload = double_machine_alloc(len);
    work->payload_len = len;
    if (len > 0)
        memcpy(work->payload, payload, len);
    return double_queue_issue(stream, work, NULL, 0, NULL);
}

static cudaError_t launch_test(cudaStream_t handle, const struct double_access *accesses,
                               uint32_t n, struct double_work *work, const void *payload,
                               size_t len)
{
    struct double_call call;
    if (!double_call_begin(&call, "double_launch", handle, DOUBLE_CONTEXT | DOUBLE_OF_TEST))
        return double_call_end(&call, call.error);
    return double_call_end(&call, double_kernel_issue(handle, accesses, n, work, payload, len));
}

cudaError_t double_launch(cudaStream_t stream, const struct double_kernel *kernel)
{
    struct double_work work = {
        .name = kernel->name, .ns = kernel->ns, .run = run_kernel, .gate = DOUBLE_NO_GATE};
    struct run_payload payload = {kernel->run, kernel->user};
    if (kernel->n_accesses > DOUBLE_MAX_ACCESSES)
        return cudaErrorInvalidValue;
    return launch_test(stream, kernel->accesses, kernel->n_accesses, &work, &payload,
                       sizeof payload);
}

static cudaError_t launch_bytes(cudaStream_t stream, struct double_work work, const void *device,
                                bool write, struct byte_payload payload)
{
    struct double_access access = {(void *)device, payload.len, write};
    work.gate = DOUBLE_NO_GATE;
    return launch_test(stream, &access, 1, &work, &payload, sizeof payload);
}

cudaError_t double_launch_read(cudaStream_t stream, const void *device, size_t len,
                               double_read_fn *read, void *user)
{
    return launch_bytes(stream, (struct double_work){.name = "read", .run = run_read}, device,
                        false, (struct byte_payload){.read = read, .user = user, .len = len});
}

cudaError_t double_launch_sum(cudaStream_t stream, const void *device, size_t len,
                              uint64_t *sum_out)
{
    return launch_bytes(stream, (struct double_work){.name = "sum", .run = run_sum}, device, false,
                        (struct byte_payload){.user = sum_out, .len = len});
}

cudaError_t double_launch_fill(cudaStream_t stream, void *device, size_t len, uint8_t value)
{
    return launch_bytes(stream, (struct double_work){.name = "fill", .run = run_fill}, device, true,
                        (struct byte_payload){.len = len, .value = value});
}

cudaError_t double_launch_add_one(cudaStream_t stream, void *device, size_t len)
{
    return launch_bytes(stream, (struct double_work){.name = "add one", .run = run_add_one}, device,
                        true, (struct byte_payload){.len = len});
}

cudaError_t double_launch_spin(cudaStream_t stream, uint64_t ns)
{
    struct double_work work = {.name = "spin", .ns = ns, .gate = DOUBLE_NO_GATE};
    return launch_test(stream, NULL, 0, &work, NULL, 0);
}

cudaError_t double_launch_gate(cudaStream_t stream, uint32_t gate)
{
    struct double_work work = {.name = "gate", .ns = 1, .gate = (int)(gate % 64)};
    return launch_test(stream, NULL, 0, &work, NULL, 0);
}

void double_next_launch(const char *name, uint64_t ns)
{
    double_machine_lock();
    struct double_thread_state *thread = double_machine_thread();
    thread->next_name = name;
    thread->next_ns = ns;
    double_machine_unlock();
}
