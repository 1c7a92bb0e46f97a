/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA side of the programs that order streams or measure. A failure ends the program with the
 * function's message. Only these programs use the runtime through it, never the library.
 */
#ifndef TESTS_GPU_GPU_CUDA_H
#define TESTS_GPU_GPU_CUDA_H

#include "tests/gpu/gpu_kernels.h"
#include "tests/gpu/gpu_setup.h"

#include <cuda_runtime_api.h>

struct gpu_cuda {
    struct gpu_report *report;
    int ordinal;
    uint32_t n_sm;
    volatile struct gpu_gate *gate;
    int64_t gate_limit_ns; /* 5 seconds */
};

/* Selects setup's device. If there is none, gives the reason and ends the program. */
struct gpu_cuda gpu_cuda_open(struct gpu_setup *setup);
void gpu_cuda_close(struct gpu_cuda *cuda);

/* Ends the program unless the error is 0. */
void gpu_cuda_ok(struct gpu_cuda *cuda, int error, const char *what);

enum gpu_stream_kind {
    GPU_STREAM_NULL,
    GPU_STREAM_BLOCKING,
    GPU_STREAM_NON_BLOCKING,
    GPU_STREAM_KINDS
};
const char *gpu_cuda_stream_name(enum gpu_stream_kind kind);
/* NULL for GPU_STREAM_NULL. */
cudaStream_t gpu_cuda_stream(struct gpu_cuda *cuda, enum gpu_stream_kind kind);
void gpu_cuda_stream_end(struct gpu_cuda *cuda, cudaStream_t stream);
void gpu_cuda_sync(struct gpu_cuda *cuda, cudaStream_t stream);

void *gpu_cuda_alloc(struct gpu_cuda *cuda, uint64_t len_bytes);

/* Close the gate, and make a stream wait for it. */
void gpu_cuda_close_gate(struct gpu_cuda *cuda, cudaStream_t stream);
/* Open the gate; false if its time limit was reached before. */
bool gpu_cuda_open_gate(struct gpu_cuda *cuda);

#endif
