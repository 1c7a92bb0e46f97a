/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch: a short table of named arrays.
 *
 * Array 0 holds the samples: "image" ([N,C,H,W] or [N,H,W,C]) or, for records that are no pictures, "data". Then come
 * "label", "index" (i64 [N], dataset index), "mask" (u8 [N], 1 where the sample is real) and "geometry" (i32 [N,8]:
 * source width, source height, crop x, y, width, height, horizontal flip, vertical flip; the crop is what the crops
 * before the first resize leave of the source, in its unflipped pixels, and sticks out where zeros are seen).
 */
#ifndef MILLRACE_BATCH_H
#define MILLRACE_BATCH_H

#include <millrace/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mr_dtype {
    MR_DTYPE_DEFAULT = 0, /* u8 for pictures, the record's own type for records */
    MR_U8 = 1,
    MR_F32 = 2,
    MR_F16 = 3,
    MR_BF16 = 4,
    MR_F64 = 5,
    MR_I8 = 6,
    MR_U16 = 7,
    MR_I16 = 8,
    MR_I32 = 9,
    MR_I64 = 10
} mr_dtype;

/** Bytes of one element; 0 for MR_DTYPE_DEFAULT and values that are no dtype. */
MR_API size_t mr_dtype_size(mr_dtype dtype);
/** "u8", "f32", ...; "default" for MR_DTYPE_DEFAULT; "?" for values that are no dtype. */
MR_API const char *mr_dtype_name(mr_dtype dtype);
/** Read a dtype's name in any case. Returns MR_OK or MR_ERR_INVALID; *dtype_out is written on success only. */
MR_API mr_status mr_dtype_parse(const char *name, mr_dtype *dtype_out);

typedef enum mr_layout { MR_NCHW = 0, MR_NHWC = 1 } mr_layout;

/** Read "nchw" or "nhwc" in any case. Returns MR_OK or MR_ERR_INVALID. */
MR_API mr_status mr_layout_parse(const char *name, mr_layout *layout_out);

typedef enum mr_device_kind { MR_DEVICE_HOST = 0, MR_DEVICE_CUDA = 1 } mr_device_kind;

typedef struct mr_device {
    mr_device_kind kind;
    int32_t id; /* 0 for the only host device */
} mr_device;

#define MR_MAX_NDIM 8

typedef struct mr_array {
    const char *name;
    mr_dtype dtype;
    uint32_t ndim;
    int64_t shape[MR_MAX_NDIM];   /* elements; shape[0] is the number of rows of this batch */
    int64_t strides[MR_MAX_NDIM]; /* bytes */
    mr_device device;
    void *data;
    const int64_t *row_offsets; /* bytes of each row from data, where rows differ in length; NULL where they do not */
} mr_array;

typedef struct mr_batch mr_batch;

/** Rows of every array of this batch: batch_size, or fewer in the last one; 0 in an empty batch of the exact tail. */
MR_API uint32_t mr_batch_size(const mr_batch *batch);
/** Rows whose mask is 1. */
MR_API uint32_t mr_batch_valid(const mr_batch *batch);
/** Epoch of this batch, and its number in that epoch, counted from 0. */
MR_API uint64_t mr_batch_epoch(const mr_batch *batch);
MR_API uint64_t mr_batch_number(const mr_batch *batch);

/** Number of arrays; the i-th one; the one of that name or NULL. Ownership: lent with the batch. */
MR_API uint32_t mr_batch_n_arrays(const mr_batch *batch);
MR_API const mr_array *mr_batch_array_at(const mr_batch *batch, uint32_t i);
MR_API const mr_array *mr_batch_array(const mr_batch *batch, const char *name);

/** Data pointer of the array of that name, NULL if there is none. */
MR_API void *mr_batch_data(const mr_batch *batch, const char *name);

/**
 * Give the batch back; its memory may be overwritten at once. NULL does nothing.
 *
 * Threads: any thread, any order. A batch may be released after its loader was destroyed.
 */
MR_API void mr_batch_release(mr_batch *batch);

#ifdef __cplusplus
}
#endif

#endif
