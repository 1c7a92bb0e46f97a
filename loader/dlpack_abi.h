/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DLPack's structs, ABI version 1, written from its specification, so that no DLPack header is
 * needed. Fields are named as in <dlpack/dlpack.h>. If that header is installed, a test compares
 * the two.
 */
#ifndef LOADER_DLPACK_ABI_H
#define LOADER_DLPACK_ABI_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define MR_DL_MAJOR 1
#define MR_DL_MINOR 0

enum mr_dl_device_type { MR_DL_CPU = 1, MR_DL_CUDA = 2 };
enum mr_dl_type_code { MR_DL_INT = 0, MR_DL_UINT = 1, MR_DL_FLOAT = 2, MR_DL_BFLOAT = 4 };

struct mr_dl_device {
    int32_t device_type;
    int32_t device_id;
};

struct mr_dl_type {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
};

struct mr_dl_tensor {
    void *data;
    struct mr_dl_device device;
    int32_t ndim;
    struct mr_dl_type dtype;
    int64_t *shape;
    int64_t *strides; /* in elements */
    uint64_t byte_offset;
};
static_assert(sizeof(struct mr_dl_tensor) == 48, "as DLTensor");

struct DLManagedTensor {
    struct mr_dl_tensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *self);
};
static_assert(sizeof(struct DLManagedTensor) == 64, "as DLManagedTensor");

struct mr_dl_version {
    uint32_t major;
    uint32_t minor;
};

struct DLManagedTensorVersioned {
    struct mr_dl_version version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags; /* 1: read-only, 2: a copy that the consumer owns */
    struct mr_dl_tensor dl_tensor;
};
static_assert(offsetof(struct DLManagedTensorVersioned, flags) == 24,
              "as DLManagedTensorVersioned");
static_assert(sizeof(struct DLManagedTensorVersioned) == 80, "as DLManagedTensorVersioned");

#endif
