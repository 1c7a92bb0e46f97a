/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives a batch's array as a DLPack tensor. Each tensor holds the whole batch until its deleter is called. DLPack
 * counts strides in elements, and the host's only device is number 0.
 */
#include <dlpack/dlpack.h>

#include <stdlib.h>

#include "loader/batch.h"

struct tensor {
    DLManagedTensor managed; /* first: what the deleter gets */
    mr_batch *batch;         /* the whole one */
    int64_t shape[MR_MAX_NDIM];
    int64_t strides[MR_MAX_NDIM];
};

static void delete_tensor(DLManagedTensor *managed)
{
    if (!managed)
        return;
    struct tensor *tensor = managed->manager_ctx;
    mr_batch_release_anyway(tensor->batch);
    free(tensor);
}

static DLDataType type_of(mr_dtype dtype)
{
    static const uint8_t codes[] = {
        [MR_U8] = kDLUInt, [MR_F32] = kDLFloat, [MR_F16] = kDLFloat, [MR_BF16] = kDLBfloat, [MR_F64] = kDLFloat,
        [MR_I8] = kDLInt,  [MR_U16] = kDLUInt,  [MR_I16] = kDLInt,   [MR_I32] = kDLInt,     [MR_I64] = kDLInt};
    return (DLDataType){.code = codes[dtype], .bits = (uint8_t)(8 * mr_dtype_size(dtype)), .lanes = 1};
}

static struct tensor *make_tensor(const mr_array *array)
{
    struct tensor *tensor = calloc(1, sizeof *tensor);
    if (!tensor)
        return NULL;
    for (uint32_t i = 0; i < array->ndim; i++) {
        tensor->shape[i] = array->shape[i];
        tensor->strides[i] = array->strides[i] / (int64_t)mr_dtype_size(array->dtype);
    }
    DLTensor *t = &tensor->managed.dl_tensor;
    bool cuda = array->device.kind == MR_DEVICE_CUDA;
    t->data = array->data;
    t->device.device_type = cuda ? kDLCUDA : kDLCPU;
    t->device.device_id = cuda ? array->device.id : 0;
    t->ndim = (int)array->ndim;
    t->dtype = type_of(array->dtype);
    t->shape = tensor->shape;
    t->strides = tensor->strides;
    tensor->managed.manager_ctx = tensor;
    tensor->managed.deleter = delete_tensor;
    return tensor;
}

mr_status mr_batch_to_dlpack(mr_batch *batch, const char *name, void *stream, struct DLManagedTensor **tensor_out)
{
    if (tensor_out)
        *tensor_out = NULL;
    if (!batch)
        return MR_ERR_INVALID;
    if (!name || !tensor_out)
        return mr_error_set(&batch->error, MR_ERR_INVALID, "%s is NULL", name ? "tensor_out" : "name");
    const mr_array *array = mr_batch_array(batch, name);
    if (!array)
        return mr_error_set(&batch->error, MR_ERR_INVALID, "no array '%s'", name);
    if (array->row_offsets)
        return mr_error_set(&batch->error, MR_ERR_UNSUPPORTED, "array '%s' has rows of different lengths", name);
    struct tensor *tensor = make_tensor(array);
    if (!tensor)
        return mr_error_memory(&batch->error, sizeof *tensor);
    mr_status status = mr_batch_use(batch, stream);
    if (status != MR_OK) {
        free(tensor);
        return status;
    }
    tensor->batch = mr_batch_whole(batch);
    mr_batch_retain(tensor->batch);
    *tensor_out = &tensor->managed;
    return MR_OK;
}
