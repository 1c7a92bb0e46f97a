/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exports a batch's array as a DLPack tensor, versioned or unversioned. Each tensor holds the whole
 * batch until its deleter is called. DLPack counts strides in elements, and its only host device is
 * number 0.
 */
#include "loader/dlpack_abi.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "base/log.h"
#include "loader/batch.h"

struct tensor {
    union { /* first: the caller's pointer */
        struct DLManagedTensor managed;
        struct DLManagedTensorVersioned versioned;
    };
    mr_batch *batch; /* the whole batch, even if the array is of a part */
    int64_t shape[MR_MAX_NDIM];
    int64_t strides[MR_MAX_NDIM];
};

static void free_tensor(struct tensor *tensor)
{
    mr_batch_release_or_defer(tensor->batch);
    free(tensor);
}

static void delete_managed(struct DLManagedTensor *managed)
{
    if (managed)
        free_tensor(managed->manager_ctx);
}

static void delete_versioned(struct DLManagedTensorVersioned *versioned)
{
    if (versioned)
        free_tensor(versioned->manager_ctx);
}

static struct mr_dl_type convert_dtype(mr_dtype dtype)
{
    static const uint8_t codes[] = {
        [MR_U8] = MR_DL_UINT,     [MR_F32] = MR_DL_FLOAT, [MR_F16] = MR_DL_FLOAT,
        [MR_BF16] = MR_DL_BFLOAT, [MR_F64] = MR_DL_FLOAT, [MR_I8] = MR_DL_INT,
        [MR_U16] = MR_DL_UINT,    [MR_I16] = MR_DL_INT,   [MR_I32] = MR_DL_INT,
        [MR_I64] = MR_DL_INT,     [MR_U32] = MR_DL_UINT};
    return (struct mr_dl_type){
        .code = codes[dtype], .bits = (uint8_t)(8 * mr_dtype_size(dtype)), .lanes = 1};
}

/* Rows of different lengths are exported one after the other, as one longer row. */
static struct mr_dl_tensor describe_array(struct tensor *tensor, const mr_array *array)
{
    bool cuda = array->device.kind == MR_DEVICE_CUDA, ragged = array->row_offsets != NULL;
    uint32_t skipped = ragged;
    for (uint32_t i = skipped; i < array->ndim; i++) {
        tensor->shape[i - skipped] = array->shape[i];
        tensor->strides[i - skipped] = array->strides[i] / (int64_t)mr_dtype_size(array->dtype);
    }
    if (ragged)
        tensor->shape[0] = array->n_values;
    return (struct mr_dl_tensor){.data = array->data,
                                 .device = {.device_type = cuda ? MR_DL_CUDA : MR_DL_CPU,
                                            .device_id = cuda ? array->device.id : 0},
                                 .ndim = (int32_t)(array->ndim - skipped),
                                 .dtype = convert_dtype(array->dtype),
                                 .shape = tensor->shape,
                                 .strides = tensor->strides};
}

static struct tensor *make_tensor(const mr_array *array, bool versioned)
{
    struct tensor *tensor = calloc(1, sizeof *tensor);
    if (!tensor)
        return NULL;
    struct mr_dl_tensor dl_tensor = describe_array(tensor, array);
    if (versioned)
        tensor->versioned = (struct DLManagedTensorVersioned){
            .version = {.major = MR_DL_MAJOR, .minor = MR_DL_MINOR},
            .manager_ctx = tensor,
            .deleter = delete_versioned,
            .dl_tensor = dl_tensor};
    else
        tensor->managed = (struct DLManagedTensor){
            .dl_tensor = dl_tensor, .manager_ctx = tensor, .deleter = delete_managed};
    return tensor;
}

/* Make a tensor that holds the batch. */
static mr_status export_array(mr_batch *batch, const char *name, void *stream, bool versioned,
                              struct tensor **tensor_out)
{
    if (!name)
        return mr_error_set(&batch->error, MR_ERR_INVALID, "name is NULL");
    const mr_array *array = mr_batch_array(batch, name);
    if (!array)
        return mr_error_set(&batch->error, MR_ERR_INVALID, "no array '%s'", name);
    struct tensor *tensor = make_tensor(array, versioned);
    if (!tensor)
        return mr_error_memory(&batch->error, sizeof *tensor);
    mr_status status = mr_batch_use_array(batch, array, stream);
    if (status != MR_OK) {
        free(tensor);
        return status;
    }
    tensor->batch = mr_batch_whole(batch);
    mr_batch_retain(tensor->batch);
    *tensor_out = tensor;
    return MR_OK;
}

static mr_status refuse_call(mr_batch *batch)
{
    return batch ? mr_error_set(&batch->error, MR_ERR_INVALID, "tensor_out is NULL")
                 : MR_ERR_INVALID;
}

mr_status mr_batch_to_dlpack(mr_batch *batch, const char *name, void *stream,
                             struct DLManagedTensor **tensor_out)
{
    struct tensor *tensor = NULL;
    mr_status status = batch && tensor_out ? export_array(batch, name, stream, false, &tensor)
                                           : refuse_call(batch);
    if (tensor_out)
        *tensor_out = tensor ? &tensor->managed : NULL;
    return status;
}

mr_status mr_batch_to_dlpack_versioned(mr_batch *batch, const char *name, void *stream,
                                       struct DLManagedTensorVersioned **tensor_out)
{
    struct tensor *tensor = NULL;
    mr_status status =
        batch && tensor_out ? export_array(batch, name, stream, true, &tensor) : refuse_call(batch);
    if (tensor_out)
        *tensor_out = tensor ? &tensor->versioned : NULL;
    return status;
}

/*
 * The two functions of Python's C API are looked up in the running program, so this library is not
 * linked with Python. A destructor may run while an exception is set: IsValid sets none, and
 * GetPointer is called only with the capsule's own name.
 */
void mr_dlpack_capsule_destroy(void *capsule)
{
    if (!capsule)
        return;
    int (*is_valid)(void *, const char *);
    void *(*get_pointer)(void *, const char *);
    *(void **)&is_valid = dlsym(RTLD_DEFAULT, "PyCapsule_IsValid");
    *(void **)&get_pointer = dlsym(RTLD_DEFAULT, "PyCapsule_GetPointer");
    if (!is_valid || !get_pointer)
        mr_log_line(MR_LOG_WARNING,
                    "a DLPack tensor is not freed: this program has no symbol PyCapsule_IsValid");
    else if (is_valid(capsule, "dltensor")) {
        struct DLManagedTensor *managed = get_pointer(capsule, "dltensor");
        managed->deleter(managed);
    } else if (is_valid(capsule, "dltensor_versioned")) {
        struct DLManagedTensorVersioned *versioned = get_pointer(capsule, "dltensor_versioned");
        versioned->deleter(versioned);
    }
}
