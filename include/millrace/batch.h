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
    int32_t id; /* CUDA's ordinal; N of host:N */
} mr_device;

/**
 * How many devices of a kind this process can use, as CUDA_VISIBLE_DEVICES leaves them.
 *
 * Asks a child process where the answer is CUDA's, so that CUDA is not initialised in the caller (who may still fork).
 * error  NULL, or receives why there is none.
 * Blocks: for CUDA's initialisation in the child, some 100 ms; 0 after 30 s.
 */
MR_API uint32_t mr_device_count(mr_device_kind kind, mr_error *error);

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
 * Number of the buffer that the batch lies in, 0 to n_buffers - 1: with the same number come the same addresses, as
 * long as the loader lives (one CUDA graph per buffer). Of a batch in plain host memory the slot, 0 to n_slots - 1.
 */
MR_API uint32_t mr_batch_buffer(const mr_batch *batch);

/**
 * Parts of the batch: 1, or one per device that it was split over, in torch.chunk's sizes (which may be fewer parts
 * than devices). A batch of several parts has no arrays of its own, only its parts have; mr_batch_size() counts all
 * rows. Ownership: a part is lent with its batch and is not released by itself. With one part it is the batch.
 */
MR_API uint32_t mr_batch_n_parts(const mr_batch *batch);
MR_API mr_batch *mr_batch_part(mr_batch *batch, uint32_t i);

/**
 * Make a further stream wait for the copy of this batch or part, and the batch's release for that stream.
 *
 * stream  a cudaStream_t of the batch's device (the images' or the labels'); it lives until the release
 *
 * NULL is the default stream of the images' device. On host devices a stream means nothing.
 * Of a batch of several parts, part 0 is meant. At most 8 streams per part.
 * Returns MR_OK; MR_ERR_STATE inside a capture, which stays valid, or with too many streams;
 * MR_ERR_INVALID for a stream of another device; MR_ERR_DEVICE. mr_batch_error() has the words.
 * Blocks: never.
 * Threads: any, one at a time per batch.
 */
MR_API mr_status mr_batch_use(mr_batch *batch, void *stream);

/**
 * Give the batch back; its memory may be overwritten at once, or when the streams that were named by
 * mr_loader_next_on() or mr_batch_use() have done what they were given so far. NULL does nothing.
 *
 * Returns MR_OK; MR_ERR_STATE when one of those streams is in a capture, and the batch stays lent; MR_ERR_INVALID for a
 * part; MR_ERR_DEVICE when the device has failed, and the batch is given back.
 * Blocks: never, but for the last batch of a destroyed loader, which waits for those streams and frees the memory.
 * Threads: any thread, any order. A batch may be released after its loader was destroyed.
 */
MR_API mr_status mr_batch_release(mr_batch *batch);

/**
 * The same, and its memory is not overwritten before this stream has done what it was given so far.
 *
 * Returns as mr_batch_release(); also what mr_batch_use() says of the stream, and the batch stays lent then.
 */
MR_API mr_status mr_batch_release_on(mr_batch *batch, void *stream);

/**
 * The error of the last of these calls on this batch that failed. Ownership: lent with the batch, so of a release only
 * where the batch stayed lent; mr_loader_next() tells again of a device that has failed.
 */
MR_API const mr_error *mr_batch_error(const mr_batch *batch);

/** DLPack's tensor, as <dlpack/dlpack.h> declares it. */
struct DLManagedTensor;

/**
 * Hand the array of that name to another framework without a copy.
 *
 * stream  that framework's stream, as for mr_batch_use(): it waits for the copy, and the tensor's deleter releases on
 * it. Ownership: *tensor_out is the caller's, to be ended by its deleter, in any thread. The batch's memory is kept
 * until the deleters of all its tensors have run and the batch was released. Returns MR_OK; MR_ERR_INVALID when there
 * is no such array; MR_ERR_UNSUPPORTED in a build without DLPack; otherwise as mr_batch_use().
 */
MR_API mr_status mr_batch_to_dlpack(mr_batch *batch, const char *name, void *stream,
                                    struct DLManagedTensor **tensor_out);

#ifdef __cplusplus
}
#endif

#endif
