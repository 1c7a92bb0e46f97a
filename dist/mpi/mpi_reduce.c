/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions that MPI does not have. Minima and maxima of 16-bit floats use MPI_UINT16_T and the
 * operations defined here. For sums, 16-bit floats are widened to f32 before the reduction and
 * rounded once after it. Buffers may begin at any address.
 *
 * Invariant: every operation is commutative and associative to the last bit. MPI may call it in
 * either order and with any grouping, and all ranks must get the same result. For that reason a NaN
 * wins over every number.
 */
#include "dist/mpi/mpi_reduce.h"

#include "base/half.h"

#include <math.h>

static float least_of(float a, float b)
{
    if (isnan(a) || isnan(b))
        return NAN;
    return a < b || (a == b && signbit(a)) ? a : b;
}

static float most_of(float a, float b)
{
    if (isnan(a) || isnan(b))
        return NAN;
    return a > b || (a == b && !signbit(a)) ? a : b;
}

static uint16_t get_half(const void *halves, uint64_t i)
{
    uint16_t half;
    memcpy(&half, (const char *)halves + i * sizeof half, sizeof half);
    return half;
}

static void put_half(void *halves, uint64_t i, uint16_t half)
{
    memcpy((char *)halves + i * sizeof half, &half, sizeof half);
}

/* MPI_User_function: inout = in op inout. */
#define OPERATION(name, widen, combine, narrow)                                                    \
    static void name(void *in, void *inout, int *len, MPI_Datatype *type)                          \
    {                                                                                              \
        (void)type;                                                                                \
        for (int i = 0; i < *len; i++)                                                             \
            put_half(inout, i,                                                                     \
                     narrow(combine(widen(get_half(in, i)), widen(get_half(inout, i)))));          \
    }
OPERATION(min_f16, mr_half_from_f16, least_of, mr_half_f16)
OPERATION(max_f16, mr_half_from_f16, most_of, mr_half_f16)
OPERATION(min_bf16, mr_half_from_bf16, least_of, mr_half_bf16)
OPERATION(max_bf16, mr_half_from_bf16, most_of, mr_half_bf16)

int mr_mpi_reduce_init(struct mr_mpi_ops *ops)
{
    static MPI_User_function *const functions[2][2] = {{min_f16, max_f16}, {min_bf16, max_bf16}};
    int code = MPI_SUCCESS;
    for (int i = 0; i < 4; i++)
        ops->half[i / 2][i % 2] = MPI_OP_NULL;
    for (int i = 0; i < 4 && code == MPI_SUCCESS; i++)
        code = MPI_Op_create(functions[i / 2][i % 2], 1, &ops->half[i / 2][i % 2]);
    return code;
}

void mr_mpi_reduce_fini(struct mr_mpi_ops *ops)
{
    for (int i = 0; i < 4; i++)
        if (ops->half[i / 2][i % 2] != MPI_OP_NULL)
            MPI_Op_free(&ops->half[i / 2][i % 2]); /* cannot fail: we made the operation */
}

void mr_mpi_reduce_widen(uint32_t dtype, const void *halves, float *out, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        out[i] = dtype == MR_F16 ? mr_half_from_f16(get_half(halves, i))
                                 : mr_half_from_bf16(get_half(halves, i));
}

void mr_mpi_reduce_narrow(uint32_t dtype, const float *in, uint32_t n, void *halves, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        put_half(halves, i,
                 dtype == MR_F16 ? mr_half_f16(in[i] / (float)n) : mr_half_bf16(in[i] / (float)n));
}

MPI_Datatype mr_mpi_reduce_type(uint32_t dtype)
{
    switch (dtype) {
    case MR_F16:
    case MR_BF16: return MPI_UINT16_T;
    case MR_F32: return MPI_FLOAT;
    case MR_F64: return MPI_DOUBLE;
    case MR_I32: return MPI_INT32_T;
    case MR_I64: return MPI_INT64_T;
    default: return MPI_DATATYPE_NULL;
    }
}

size_t mr_mpi_reduce_size(uint32_t dtype)
{
    if (dtype == MR_F16 || dtype == MR_BF16)
        return 2;
    return dtype == MR_F64 || dtype == MR_I64 ? 8 : 4;
}

const char *mr_mpi_reduce_name(uint32_t dtype)
{
    switch (dtype) {
    case MR_F16: return "f16";
    case MR_BF16: return "bf16";
    case MR_F32: return "f32";
    case MR_F64: return "f64";
    case MR_I32: return "i32";
    case MR_I64: return "i64";
    default: return "?";
    }
}

MPI_Op mr_mpi_reduce_op(const struct mr_mpi_ops *ops, uint32_t dtype, uint32_t op)
{
    uint32_t which = op == MR_MIN ? 1 : op == MR_MAX ? 2 : 0;
    if (which > 0 && (dtype == MR_F16 || dtype == MR_BF16))
        return ops->half[dtype == MR_BF16][which - 1];
    return which == 1 ? MPI_MIN : which == 2 ? MPI_MAX : MPI_SUM;
}

void mr_mpi_reduce_divide(void *buffer, uint64_t count, uint32_t dtype, uint32_t n)
{
    char *at = buffer;
    for (uint64_t i = 0; i < count && dtype == MR_F32; i++) {
        float value;
        memcpy(&value, at + i * sizeof value, sizeof value);
        value /= (float)n;
        memcpy(at + i * sizeof value, &value, sizeof value);
    }
    for (uint64_t i = 0; i < count && dtype == MR_F64; i++) {
        double value;
        memcpy(&value, at + i * sizeof value, sizeof value);
        value /= n;
        memcpy(at + i * sizeof value, &value, sizeof value);
    }
}
