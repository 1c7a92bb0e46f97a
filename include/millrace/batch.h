/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch: a short table of named arrays.
 *
 * Array 0 holds the samples: "image" ([N,C,H,W] or [N,H,W,C]) or, for records that are not images,
 * "data". Then follow "label", "index" (i64 [N], dataset index), "mask" (u8 [N], 1 where the sample
 * is real) and "geometry" (i32 [N,8]: source width, source height, crop x, y, width, height,
 * horizontal flip, vertical flip). The crop is the part of the source that remains before the first
 * resize, in unflipped pixels; it extends past the image where zeros are padded. Where the
 * transform mixes rows, "mix_label" (i64 [N], the partner's label) and "mix_lambda" (f32 [N], the
 * weight of the own row) follow, and with the option soft_labels "soft_label" (f32 [N, classes]).
 *
 * A dataset with extra members ("tar:...?keep=txt:4096") has two more arrays for each: "txt" with
 * row_offsets, and "txt.offsets" (i64 [N + 1]), which holds the same offsets. Row i is bytes
 * row_offsets[i] to row_offsets[i + 1] of data; it is empty where a sample has no such member, and
 * where mask is 0.
 */
#ifndef MILLRACE_BATCH_H
#define MILLRACE_BATCH_H

#include <millrace/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Type of an array's elements. */
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

/** Bytes of one element of this dtype; 0 for MR_DTYPE_DEFAULT and for other values. */
MR_API size_t mr_dtype_size(mr_dtype dtype);
/** Name of a dtype: "u8", "f32", ...; "default" for MR_DTYPE_DEFAULT; "?" for other values. */
MR_API const char *mr_dtype_name(mr_dtype dtype);
/**
 * Read the name of a dtype, in any case. Returns MR_OK or MR_ERR_INVALID; *dtype_out is written on
 * success only.
 */
MR_API mr_status mr_dtype_parse(const char *name, mr_dtype *dtype_out);

/** Order of an image's dimensions: channels first or last. */
typedef enum mr_layout { MR_NCHW = 0, MR_NHWC = 1 } mr_layout;

/**
 * Read "nchw" or "nhwc", in any case. Returns MR_OK or MR_ERR_INVALID; *layout_out is written on
 * success only.
 */
MR_API mr_status mr_layout_parse(const char *name, mr_layout *layout_out);

/** Kind of a device. */
typedef enum mr_device_kind { MR_DEVICE_HOST = 0, MR_DEVICE_CUDA = 1 } mr_device_kind;

/** A device: where an array lies. */
typedef struct mr_device {
    mr_device_kind kind;
    int32_t id; /* CUDA's ordinal; for "host:N" the N */
} mr_device;

/**
 * Count the devices of a kind that this process can use. CUDA_VISIBLE_DEVICES limits them.
 *
 * For CUDA a child process counts, so CUDA is not initialised in the caller, which may still fork.
 * error  NULL, or receives the reason when the count is 0
 * Blocks: while the child initialises CUDA, some 100 ms. After 30 s the count is 0.
 */
MR_API uint32_t mr_device_count(mr_device_kind kind, mr_error *error);

#define MR_MAX_NDIM 8

/** An array of a batch. */
typedef struct mr_array {
    const char *name;
    mr_dtype dtype;
    uint32_t ndim;
    int64_t shape[MR_MAX_NDIM];   /* elements; shape[0] is the number of rows of this batch, of
                                     offsets one more. If rows differ in length, shape[1] is the
                                     longest that a row may be */
    int64_t strides[MR_MAX_NDIM]; /* bytes; strides[0] is 0 if rows differ in length */
    mr_device device;
    void *data;
    const int64_t *row_offsets; /* If rows differ in length: bytes from data to each row, and to
                                   the end of the last one; shape[0] + 1 of them, in the memory
                                   in which data are. Otherwise NULL */
    int64_t n_values;           /* row_offsets[shape[0]], for arrays on a GPU; 0 without
                                   row_offsets */
} mr_array;

typedef struct mr_batch mr_batch;

/**
 * Rows of each array: batch_size, or fewer in an epoch's last batch; 0 in an empty batch of
 * MR_TAIL_EXACT.
 */
MR_API uint32_t mr_batch_size(const mr_batch *batch);
/** Number of rows whose mask is 1. */
MR_API uint32_t mr_batch_valid(const mr_batch *batch);
/** Epoch of this batch, and the batch's number in that epoch, counted from 0. */
MR_API uint64_t mr_batch_epoch(const mr_batch *batch);
MR_API uint64_t mr_batch_number(const mr_batch *batch);

/**
 * Number of arrays, the i-th array, the array of a name (NULL if there is none). Ownership: lent
 * with the batch.
 */
MR_API uint32_t mr_batch_n_arrays(const mr_batch *batch);
MR_API const mr_array *mr_batch_array_at(const mr_batch *batch, uint32_t i);
MR_API const mr_array *mr_batch_array(const mr_batch *batch, const char *name);

/**
 * Data pointer of the array of a name; NULL if there is no such array. Ownership: lent with the
 * batch.
 */
MR_API void *mr_batch_data(const mr_batch *batch, const char *name);

/** Value of mr_batch_buffer() for a copy. */
#define MR_NO_BUFFER UINT32_MAX

/**
 * Number of the buffer that holds the batch, 0 to n_buffers - 1; for a batch in plain host memory
 * its slot, 0 to n_slots - 1; for a copy MR_NO_BUFFER. The same number means the same addresses
 * while the loader lives: one CUDA graph per buffer is enough.
 */
MR_API uint32_t mr_batch_buffer(const mr_batch *batch);

/**
 * Number of parts, and the i-th part. There is 1, or one for each device of the loader, in
 * torch.chunk's sizes (which may give fewer parts than devices). If there are several, only they
 * have arrays; mr_batch_size() counts all rows.
 * Ownership: a part is lent with its batch and is not released by itself. If there is one part, it
 * is the batch itself.
 */
MR_API uint32_t mr_batch_n_parts(const mr_batch *batch);
MR_API mr_batch *mr_batch_part(mr_batch *batch, uint32_t i);

/**
 * Order another stream after this batch's copy, and the batch's release after that stream.
 *
 * stream  a cudaStream_t of the batch's device (the images' or the labels'), which must live until
 *         the release
 *
 * NULL is the default stream of the images' device. On host devices a stream means nothing, except
 * with pin_memory: then it is a stream of any GPU, which reads the batch, and NULL is the default
 * stream of the thread's current device. If the batch has several parts, this call means part 0. At
 * most 8 streams per part.
 * Returns MR_OK; MR_ERR_STATE inside a capture, which stays valid, with too many streams, or in a
 * forked child; MR_ERR_INVALID for a stream of another device; MR_ERR_NO_MEMORY; MR_ERR_DEVICE.
 * mr_batch_error() has the text.
 * Blocks: never.
 * Threads: any, one at a time per batch.
 */
MR_API mr_status mr_batch_use(mr_batch *batch, void *stream);

/**
 * Give the batch back. Its memory may be overwritten at once, or once the streams named by
 * mr_loader_next_on() or mr_batch_use() have finished all work that is in them now. NULL does
 * nothing.
 *
 * Returns MR_OK; MR_ERR_STATE if one of those streams is in a capture, or in a forked child, and
 * MR_ERR_INVALID for a part: the batch stays lent; MR_ERR_DEVICE if the device has failed: the
 * batch is given back.
 * Blocks: never, except for the last batch of a destroyed loader: it waits for those streams and
 * frees the memory.
 * Threads: any thread, any order. A batch may be released after its loader was destroyed.
 */
MR_API mr_status mr_batch_release(mr_batch *batch);

/**
 * Give the batch back; its memory is not overwritten before this stream has finished all work that
 * is in it now.
 *
 * Returns as mr_batch_release(); also MR_ERR_STATE and MR_ERR_INVALID as mr_batch_use() for the
 * stream: the batch stays lent.
 */
MR_API mr_status mr_batch_release_on(mr_batch *batch, void *stream);

/**
 * Copy a batch that lies in host memory, to keep its samples while its slot or buffer is given
 * back.
 *
 * The copy has the same arrays and numbers, and all functions of a batch work on it. It occupies no
 * slot or buffer, and it may live longer than the loader. Its memory is plain, and streams mean
 * nothing to it.
 * Returns MR_OK; MR_ERR_UNSUPPORTED if an array is in a GPU's memory, or if the batch has several
 * parts; MR_ERR_NO_MEMORY; MR_ERR_STATE in a forked child. mr_batch_error() has the text.
 * Ownership: *copy_out is the caller's until mr_batch_release(); NULL on failure. The batch itself
 * stays lent.
 * Threads: any, one at a time per batch.
 */
MR_API mr_status mr_batch_copy(mr_batch *batch, mr_batch **copy_out);

/**
 * The error of the last call on this batch that failed. After a release, valid only if it failed
 * and the batch is still lent; mr_loader_next() reports a failed device again. Ownership: lent with
 * the batch.
 */
MR_API const mr_error *mr_batch_error(const mr_batch *batch);

/**
 * DLPack's tensors, as <dlpack/dlpack.h> declares them; the versioned one since its version 1.0.
 */
struct DLManagedTensor;
struct DLManagedTensorVersioned;

/**
 * Hand one array to another framework without a copy, as a DLPack tensor. Of an array whose rows
 * differ in length it is the values of all rows in one dimension; its offsets are an array of their
 * own.
 *
 * stream  that framework's stream: it waits for the copy, and the tensor's deleter releases on it
 *
 * As for mr_batch_use(), but NULL is the default stream of the array's own device.
 * Returns MR_OK; MR_ERR_INVALID if there is no such array; MR_ERR_NO_MEMORY; otherwise as
 * mr_batch_use().
 * Ownership: *tensor_out is the caller's, who calls its deleter, in any thread. The batch's memory
 * is kept until the deleters of all its tensors have run and the batch was released. NULL on
 * failure.
 */
MR_API mr_status mr_batch_to_dlpack(mr_batch *batch, const char *name, void *stream,
                                    struct DLManagedTensor **tensor_out);

/**
 * The same with DLPack's versioned struct, for consumers that ask for version 1.0 or later.
 *
 * The tensor says version 1.0 and has no flags: it is the batch's own memory, which the consumer
 * may write to.
 */
MR_API mr_status mr_batch_to_dlpack_versioned(mr_batch *batch, const char *name, void *stream,
                                              struct DLManagedTensorVersioned **tensor_out);

/**
 * Destructor for a Python capsule that holds one of these tensors: pass it to PyCapsule_New(), also
 * from ctypes.
 *
 * capsule  the PyObject *, called "dltensor" or, with a versioned tensor, "dltensor_versioned".
 *          PyCapsule_New() keeps only the pointer to that name, so it must live as long as the
 *          capsule
 *
 * A capsule that nobody consumed has that name still, and its tensor's deleter is called. A
 * consumer renames the capsule, and calls the deleter itself. The functions of Python are looked up
 * in the running program; where they are missing, the tensor is kept and a warning is logged.
 * Threads: Python's rules for destructors, so the caller holds the GIL.
 */
MR_API void mr_dlpack_capsule_destroy(void *capsule);

#ifdef __cplusplus
}
#endif

#endif
