/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our DLPack structs against DLPack's own header, if that is installed: the compiler compares them.
 */
#include <stddef.h>

#if __has_include(<dlpack/dlpack.h>)

/* The two struct tags are DLPack's own. */
#define DLManagedTensor our_managed
#define DLManagedTensorVersioned our_versioned
#include "loader/dlpack_abi.h"
#undef DLManagedTensor
#undef DLManagedTensorVersioned

#include <dlpack/dlpack.h>

#define SAME_FIELD(ours, theirs, field)                                                            \
    static_assert(offsetof(ours, field) == offsetof(theirs, field) &&                              \
                      sizeof(((ours *)0)->field) == sizeof(((theirs *)0)->field),                  \
                  #field)

static_assert(sizeof(struct mr_dl_tensor) == sizeof(DLTensor), "DLTensor");
SAME_FIELD(struct mr_dl_tensor, DLTensor, data);
SAME_FIELD(struct mr_dl_tensor, DLTensor, device.device_type);
SAME_FIELD(struct mr_dl_tensor, DLTensor, device.device_id);
SAME_FIELD(struct mr_dl_tensor, DLTensor, ndim);
SAME_FIELD(struct mr_dl_tensor, DLTensor, dtype.code);
SAME_FIELD(struct mr_dl_tensor, DLTensor, dtype.bits);
SAME_FIELD(struct mr_dl_tensor, DLTensor, dtype.lanes);
SAME_FIELD(struct mr_dl_tensor, DLTensor, shape);
SAME_FIELD(struct mr_dl_tensor, DLTensor, strides);
SAME_FIELD(struct mr_dl_tensor, DLTensor, byte_offset);

static_assert(sizeof(struct our_managed) == sizeof(DLManagedTensor), "DLManagedTensor");
SAME_FIELD(struct our_managed, DLManagedTensor, dl_tensor);
SAME_FIELD(struct our_managed, DLManagedTensor, manager_ctx);
SAME_FIELD(struct our_managed, DLManagedTensor, deleter);

static_assert((int)MR_DL_CPU == (int)kDLCPU && (int)MR_DL_CUDA == (int)kDLCUDA, "device types");
static_assert((int)MR_DL_INT == (int)kDLInt && (int)MR_DL_UINT == (int)kDLUInt, "type codes");
static_assert((int)MR_DL_FLOAT == (int)kDLFloat && (int)MR_DL_BFLOAT == (int)kDLBfloat,
              "type codes");

#ifdef DLPACK_MAJOR_VERSION
static_assert(DLPACK_MAJOR_VERSION == MR_DL_MAJOR, "the layout changes with this number");
/* 1.0 has only the tag, later versions also a name. */
static_assert(sizeof(struct our_versioned) == sizeof(struct DLManagedTensorVersioned),
              "DLManagedTensorVersioned");
SAME_FIELD(struct our_versioned, struct DLManagedTensorVersioned, version.major);
SAME_FIELD(struct our_versioned, struct DLManagedTensorVersioned, version.minor);
SAME_FIELD(struct our_versioned, struct DLManagedTensorVersioned, manager_ctx);
SAME_FIELD(struct our_versioned, struct DLManagedTensorVersioned, deleter);
SAME_FIELD(struct our_versioned, struct DLManagedTensorVersioned, flags);
SAME_FIELD(struct our_versioned, struct DLManagedTensorVersioned, dl_tensor);
#endif

int main(void)
{
    return 0;
}

#else

#include <stdio.h>

int main(void)
{
    puts("skipped: <dlpack/dlpack.h> is not installed");
    return 77;
}

#endif
