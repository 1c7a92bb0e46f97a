/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of gpu_kernels.cu on the double of the runtime, so that gpu_order and gpu_graph run
 * in every CI. A gate of the double opens once, so each wait takes the next of its 64 gates.
 */
#include "tests/gpu/gpu_kernels.h"

#include "tests/double/cuda_double.h"

int gpu_kernels_load(void)
{
    return 0;
}

int gpu_kernel_spin(int64_t ns, uint32_t n_blocks, uint32_t n_threads, void *stream)
{
    (void)n_blocks, (void)n_threads;
    return (int)double_launch_spin(stream, (uint64_t)ns);
}

int gpu_kernel_wait(volatile struct gpu_gate *gate, int64_t limit_ns, void *stream)
{
    (void)limit_ns;
    return (int)double_launch_gate(stream, gate->number);
}

void gpu_kernel_open(volatile struct gpu_gate *gate)
{
    double_open_gate(gate->number++);
    gate->open = 1;
}

int gpu_kernel_memory(float *out, const float *in, uint64_t n, uint32_t n_blocks, void *stream)
{
    struct double_kernel kernel = {
        .name = "memory",
        .accesses = {{(void *)in, n * sizeof *in, false}, {out, n * sizeof *out, true}},
        .n_accesses = 2};
    (void)n_blocks;
    return (int)double_launch(stream, &kernel);
}

int gpu_kernel_compute(float *out, uint32_t n_rounds, uint32_t n_blocks, void *stream)
{
    (void)out, (void)n_blocks;
    return (int)double_launch_spin(stream, n_rounds);
}

/* user: the number of bytes. */
static void add_up(void *user, void *const *views)
{
    const uint8_t *bytes = views[0];
    unsigned long long sum = 0;
    for (uint64_t i = 0; i < (uint64_t)(uintptr_t)user; i++)
        sum += bytes[i];
    *(unsigned long long *)views[1] = sum;
}

int gpu_kernel_sum(unsigned long long *total, const uint8_t *bytes, uint64_t n, void *stream)
{
    struct double_kernel kernel = {
        .name = "sum",
        .accesses = {{(void *)bytes, n, false}, {total, sizeof *total, true}},
        .n_accesses = 2,
        .run = add_up,
        .user = (void *)(uintptr_t)n};
    return (int)double_launch(stream, &kernel);
}
