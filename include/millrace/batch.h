/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch: a short table of named arrays.
 *
 * Array 0 holds the samples. It is "image" ([N,C,H,W] or [N,H,W,C]) or, for records that are not
 * images, "data". Rows of token ids are "tokens" ([N,T], i64 or i32), and the array after them is
 * "labels" in place of "label": the ids after those of the row. They may have two more arrays,
 * "loss_mask" (f32 [N,T]) and "position_ids" ([N,T]). If rows differ in length ("pack=none"), T is
 * the longest of the batch, "length" (i32 [N]) has their lengths, and labels after them are -100.
 * Rows that are packed of documents have both of these arrays, "max_seqlen" (i32 [N]), and with
 * row_offsets "document" (i64) and "cu_seqlens" (i32); "index" is then the number of a row in its
 * epoch. The next arrays are:
 *
 *   "label"     i64 [N], or the labels' own dtype and shape
 *   "index"     i64 [N]: dataset index
 *   "mask"      u8 [N]: 1 if the row holds a sample, 0 if it was damaged and holds zeros
 *   "geometry"  i32 [N,8]: source width, source height, crop x, y, width, height, horizontal flip,
 *               vertical flip
 *
 * The crop is the part of the source that remains before the first resize, in unflipped pixels. It
 * extends past the image where zeros are padded.
 *
 * If the transform has views, array 0 has the name of the first view, and the array 4 the name
 * "NAME.geometry". Two arrays follow for each further view: "NAME" and "NAME.geometry". A view with
 * a count k has rows of k pictures: [N,k,C,H,W] and [N,k,8]. So has "image" with five_crop.
 *
 * If the transform mixes rows, "mix_label" (i64 [N], the partner's label) and "mix_lambda" (f32
 * [N], the weight of the row itself) follow. With the option soft_labels, "soft_label" (f32 [N,
 * classes]) follows them.
 *
 * With the option ragged, images keep their sizes. "image" then has one dimension, and two more
 * arrays follow "geometry":
 *
 *   "image.shape"    i32 [N,2]: height and width of each image; 0 and 0 if its mask is 0
 *   "image.offsets"  i64 [N]: where each image begins, in elements from the first one of "image" in
 *                    this batch or part
 *
 * The elements of an image are [channels, height, width] or [height, width, channels], as the
 * option layout says, with 3 channels, or 1 after grayscale. Each image begins where it would if
 * all had max_row_bytes bytes. The elements between the end of one and the beginning of the next
 * are unspecified; they are not copied to a device.
 *
 * With the operation mask, "mask_image" ([N,H,W], u8, i16 or i64) has the masks of the images, and
 * the first further member is not an array of its own. A view has "NAME.mask_image", [N,H,W] or
 * [N,k,H,W]. With ragged, "mask_image" has one dimension, each mask has the height and width of its
 * image, and "mask_image.offsets" (i64 [N]) says where it begins, in elements.
 *
 * With the option pad_batch, images differ in size, and those of a batch are padded at the right
 * and at the bottom to its largest height and width: "image" is [N,C,H,W] or [N,H,W,C] and
 * "mask_image" [N,H,W], with another H and W in each batch, the same in all its parts. The padding
 * is 0 after normalize, and 255 in masks. "image.shape" has the sizes before padding. A row whose
 * mask is 0 is all padding.
 *
 * A mixture has "source" (i32 [N]): the number of the source that the row's index belongs to, from
 * 0. Sources of nested mixtures are counted one after the other.
 *
 * A dataset with boxes has four arrays with row_offsets, and four with these offsets: "boxes" (f32:
 * x1, y1, x2, y2 of each box in pixels of its image), "box_label" (i64), "box_area" (f32, as the
 * annotation states it, or of its box) and "box_crowd" (u8). Each has the boxes of all rows, one
 * row after the other: those of row i are row_offsets[i] to row_offsets[i + 1], the same in all
 * four. The member that has the boxes is not an array of its own.
 *
 * A dataset with further members ("tar:...?keep=txt:4096") has two more arrays for each: "txt" with
 * row_offsets, and "txt.offsets" (i64 [N + 1]), which holds the same offsets. A dataset of
 * callbacks has an array for each of its columns, and offsets for those whose rows differ in
 * length. Row i is the elements row_offsets[i] to row_offsets[i + 1] of data. It is empty if the
 * sample has no such member, or if its mask is 0.
 */
#ifndef MILLRACE_BATCH_H
#define MILLRACE_BATCH_H

#include <millrace/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Type of an array's elements. */
typedef enum mr_dtype {
    MR_DTYPE_DEFAULT = 0, /* u8 for images, the record's dtype for records */
    MR_U8 = 1,
    MR_F32 = 2,
    MR_F16 = 3,
    MR_BF16 = 4,
    MR_F64 = 5,
    MR_I8 = 6,
    MR_U16 = 7,
    MR_I16 = 8,
    MR_I32 = 9,
    MR_I64 = 10,
    MR_U32 = 11
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

/** Order of an image's dimensions: channels first (MR_NCHW) or last (MR_NHWC). */
typedef enum mr_layout { MR_NCHW = 0, MR_NHWC = 1 } mr_layout;

/** Kind of a device. */
typedef enum mr_device_kind { MR_DEVICE_HOST = 0, MR_DEVICE_CUDA = 1 } mr_device_kind;

/** A device: where an array is stored. */
typedef struct mr_device {
    uint32_t kind; /* an mr_device_kind */
    int32_t id;    /* CUDA's ordinal; N of "host:N" */
} mr_device;

/**
 * Count the devices of a kind that this process can use. CUDA_VISIBLE_DEVICES limits them.
 *
 * A child process counts the CUDA devices. CUDA is therefore not initialised in the caller, which
 * may still fork.
 * error  NULL, or receives the reason when the count is 0
 * Blocks: while the child initialises CUDA, about 100 ms. After 30 s the count is 0.
 */
MR_API uint32_t mr_device_count(mr_device_kind kind, mr_error *error);

#define MR_MAX_NDIM 8

/** An array of a batch. */
typedef struct mr_array {
    const char *name;
    uint32_t dtype; /* an mr_dtype */
    uint32_t ndim;
    int64_t shape[MR_MAX_NDIM];   /* elements; shape[0] is the number of rows of this batch, or
                                     one more for offsets, or with the option ragged the bytes of
                                     all rows of "image". If rows differ in length, shape[1] is
                                     the largest allowed length of a row; in "boxes", shape[2] is 4
                                     and a length counts boxes */
    int64_t strides[MR_MAX_NDIM]; /* bytes; strides[0] is 0 if rows differ in length */
    mr_device device;
    void *data;
    const int64_t *row_offsets; /* if rows differ in length without gaps: shape[0] + 1 offsets
                                   from data to each row and to the end of the last row, in units of
                                   strides[1], in the same memory as data. Otherwise NULL */
    int64_t n_values;           /* row_offsets[shape[0]], readable on the host also for arrays on
                                   a GPU; 0 without row_offsets */
} mr_array;

typedef struct mr_batch mr_batch;

/**
 * Number of rows of each array: batch_size, or fewer in an epoch's last batch; 0 in an empty batch
 * of MR_TAIL_EXACT.
 */
MR_API uint32_t mr_batch_size(const mr_batch *batch);
/** Number of rows whose mask is 1. */
MR_API uint32_t mr_batch_valid(const mr_batch *batch);
/** Epoch of this batch, and the number of the batch in that epoch, counted from 0. */
MR_API uint64_t mr_batch_epoch(const mr_batch *batch);
MR_API uint64_t mr_batch_number(const mr_batch *batch);

/**
 * Channels of the images, after pad_channels; of the first view. With the option ragged no array's
 * shape has them. 0: the samples are no images.
 */
MR_API uint32_t mr_batch_channels(const mr_batch *batch);

/**
 * Number of arrays; the i-th array; the array with a name. The latter two return NULL if the array
 * does not exist. Ownership: lent with the batch.
 */
MR_API uint32_t mr_batch_n_arrays(const mr_batch *batch);
MR_API const mr_array *mr_batch_array_at(const mr_batch *batch, uint32_t i);
MR_API const mr_array *mr_batch_array(const mr_batch *batch, const char *name);

/**
 * Data pointer of the array with a name; NULL if there is no such array. Ownership: lent with the
 * batch.
 */
MR_API void *mr_batch_data(const mr_batch *batch, const char *name);

/** Value of mr_batch_buffer() for a copy. */
#define MR_NO_BUFFER UINT32_MAX

/**
 * Number of the buffer that holds the batch, 0 to n_buffers - 1. For a batch in plain host memory
 * it is the number of the slot, 0 to n_slots - 1; for a copy, MR_NO_BUFFER. The same number means
 * the same addresses while the loader exists, so one CUDA graph per buffer is enough.
 */
MR_API uint32_t mr_batch_buffer(const mr_batch *batch);

/**
 * Number of parts, and the i-th part. A batch has one part for each device of the loader, in
 * torch.chunk's sizes (which may give fewer parts than devices). If it has several parts, only the
 * parts have arrays; mr_batch_size() counts the rows of all parts.
 * Ownership: a part is lent with its batch and is not released separately. If there is one part, it
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
 * NULL is the default stream of the images' device. On host devices the stream is ignored, except
 * with pin_memory: then it is a stream of any GPU that reads the batch, and NULL is the default
 * stream of the thread's current device. If the batch has several parts, this call is for part 0.
 * At most 8 streams per part.
 * Returns MR_OK; MR_ERR_STATE if the stream is being captured (the capture stays valid), with too
 * many streams, or in a forked child; MR_ERR_INVALID for a stream of another device;
 * MR_ERR_NO_MEMORY; MR_ERR_DEVICE. mr_batch_error() has the text.
 * Blocks: never.
 * Threads: any, one at a time per batch.
 */
MR_API mr_status mr_batch_use(mr_batch *batch, void *stream);

/**
 * Give the batch back. If streams were named by mr_loader_next_on() or mr_batch_use(), its memory
 * may be overwritten once they have finished all work that is in them now; otherwise at once. NULL
 * does nothing. After MR_OK, do not use or release the batch again: a later mr_loader_next() may
 * return the same pointer for another batch.
 *
 * Returns MR_OK; MR_ERR_STATE if one of those streams is being captured, or in a forked child, and
 * MR_ERR_INVALID for a part: the batch is still lent; MR_ERR_DEVICE if the device has failed: the
 * batch is given back.
 * Blocks: never, except for the last batch of a destroyed loader: it waits for those streams and
 * frees the memory.
 * Threads: any thread, in any order. A batch may be released after its loader was destroyed.
 */
MR_API mr_status mr_batch_release(mr_batch *batch);

/**
 * Give the batch back. Its memory is not overwritten before this stream has finished all work that
 * is in it now.
 *
 * Returns as mr_batch_release(); also MR_ERR_STATE and MR_ERR_INVALID for the stream, as
 * mr_batch_use(): the batch is still lent.
 */
MR_API mr_status mr_batch_release_on(mr_batch *batch, void *stream);

/**
 * Copy a batch that is in host memory, to keep its samples after the batch itself is released.
 *
 * The copy has the same arrays and numbers, and all functions of a batch work on it. It occupies no
 * slot or buffer, and it may outlive the loader. Its memory is pageable, and streams given with it
 * are ignored.
 * Returns MR_OK; MR_ERR_UNSUPPORTED if an array is in a GPU's memory, or if the batch has several
 * parts; MR_ERR_NO_MEMORY; MR_ERR_STATE in a forked child. mr_batch_error() has the text.
 * Ownership: *copy_out is the caller's until mr_batch_release(); NULL on failure. The batch itself
 * is still lent.
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
 * DLPack's tensors, as <dlpack/dlpack.h> declares them. The versioned one exists since version 1.0.
 */
struct DLManagedTensor;
struct DLManagedTensorVersioned;

/**
 * Export one array to another framework without a copy, as a DLPack tensor. If rows differ in
 * length, the tensor has one dimension, with the values of all rows; export the array of offsets
 * separately.
 *
 * stream  that framework's stream: it waits for the batch's copy, and the tensor's deleter releases
 *         the batch on it. As for mr_batch_use(), but NULL is the default stream of the array's
 *         device
 *
 * Returns MR_OK; MR_ERR_INVALID if there is no such array; MR_ERR_NO_MEMORY; otherwise as
 * mr_batch_use().
 * Ownership: *tensor_out is the caller's, who calls its deleter, in any thread. The batch's memory
 * stays valid until the batch is released and the deleters of all its tensors have run. NULL on
 * failure.
 */
MR_API mr_status mr_batch_to_dlpack(mr_batch *batch, const char *name, void *stream,
                                    struct DLManagedTensor **tensor_out);

/**
 * As mr_batch_to_dlpack(), with DLPack's versioned struct, for consumers that request version 1.0
 * or later.
 *
 * The tensor has version 1.0 and no flags: it is the batch's own memory, and the consumer may write
 * to it.
 */
MR_API mr_status mr_batch_to_dlpack_versioned(mr_batch *batch, const char *name, void *stream,
                                              struct DLManagedTensorVersioned **tensor_out);

/**
 * Destroy a Python capsule that holds one of these tensors: a destructor for PyCapsule_New(), also
 * from ctypes.
 *
 * capsule  the PyObject *, called "dltensor" or, with a versioned tensor, "dltensor_versioned".
 *          PyCapsule_New() stores only the pointer to that name, so the name must live as long as
 *          the capsule
 *
 * A capsule that was not consumed still has that name, and its tensor's deleter is called. A
 * consumer renames the capsule and calls the deleter itself. Python's functions are looked up in
 * the running program. If they are missing, the tensor is not freed and a warning is logged.
 * Threads: Python's rules for destructors; the caller holds the GIL.
 */
MR_API void mr_dlpack_capsule_destroy(void *capsule);

#ifdef __cplusplus
}
#endif

#endif
