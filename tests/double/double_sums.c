/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU version of dist/nccl/nccl_sums.cu, as kernels on the fake stream. The memory of the
 * device is read when the kernel runs, the count when it is launched.
 */
#include "dist/nccl/nccl_sums.h"
#include "tests/double/double_machine.h"

#include <math.h>
#include <string.h>

#include <millrace/batch.h>

struct add {
    uint32_t dtype;
    double count;
};

static double f16_value(uint16_t bits)
{
    unsigned exponent = bits >> 10 & 31u, mantissa = bits & 0x3ffu;
    double value = exponent == 31 ? (mantissa ? (double)NAN : (double)INFINITY)
                                  : ldexp((double)(exponent ? mantissa | 0x400u : mantissa),
                                          (int)(exponent ? exponent : 1) - 25);
    return bits & 0x8000u ? -value : value;
}

static double value_of(uint32_t dtype, const void *at)
{
    union {
        uint16_t u16;
        uint32_t u32;
        float f32;
        double f64;
        int32_t i32;
        int64_t i64;
    } word;
    memcpy(&word, at, mr_dtype_size((mr_dtype)dtype));
    switch (dtype) {
    case MR_F16: return f16_value(word.u16);
    case MR_BF16: word.u32 = (uint32_t)word.u16 << 16; return (double)word.f32;
    case MR_F32: return (double)word.f32;
    case MR_F64: return word.f64;
    case MR_I32: return (double)word.i32;
    default: return (double)word.i64;
    }
}

static void run_add(void *payload, void *const *views)
{
    const struct add *add = payload;
    double *sums = views[0];
    sums[0] += value_of(add->dtype, views[1]);
    sums[1] += add->count;
}

static void run_take(void *payload, void *const *views)
{
    uint32_t n = *(const uint32_t *)payload;
    double *to = views[0], *sums = views[1];
    for (uint32_t i = 0; i < n; i++) {
        to[i] += sums[i];
        sums[i] = 0;
    }
}

static cudaError_t launch(cudaStream_t stream, const struct double_access accesses[2],
                          struct double_work work, const void *payload, size_t len)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaLaunchKernel", stream, DOUBLE_CONTEXT))
        return double_call_end(&call, call.error);
    work.gate = DOUBLE_NO_GATE;
    return double_call_end(&call, double_kernel_issue(stream, accesses, 2, &work, payload, len));
}

cudaError_t mr_nccl_sums_load(void)
{
    return cudaSuccess;
}

cudaError_t mr_nccl_sums_add(double *sums, const void *value, uint32_t dtype, double count,
                             cudaStream_t stream)
{
    struct double_access accesses[] = {{sums, 2 * sizeof *sums, true},
                                       {(void *)value, mr_dtype_size((mr_dtype)dtype), false}};
    return launch(stream, accesses, (struct double_work){.name = "sums add", .run = run_add},
                  &(struct add){dtype, count}, sizeof(struct add));
}

cudaError_t mr_nccl_sums_take(double *to, double *sums, uint32_t n, cudaStream_t stream)
{
    struct double_access accesses[] = {{to, n * sizeof *to, true}, {sums, n * sizeof *sums, true}};
    return launch(stream, accesses, (struct double_work){.name = "sums take", .run = run_take}, &n,
                  sizeof n);
}
