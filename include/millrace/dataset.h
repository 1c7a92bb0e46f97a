/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datasets: from an index to bytes and a label.
 */
#ifndef MILLRACE_DATASET_H
#define MILLRACE_DATASET_H

#include <millrace/batch.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_dataset mr_dataset;

typedef struct mr_dataset_options {
    size_t struct_size;
    bool allow_empty_classes; /* imagefolder: a class folder without an image is an error unless set */
    /* Called now and then while a folder is listed, with the number of files found so far; NULL: not called. */
    void (*progress)(void *user, uint64_t n_files);
    void *progress_user;
} mr_dataset_options;

#define MR_DATASET_OPTIONS_INIT MR_STRUCT_INIT(mr_dataset_options)

/**
 * Open a dataset by its SPEC (docs/formats.md):
 *
 *   imagefolder:DIR | DIR          torchvision's ImageFolder
 *   cifar10:DIR[?split=train|test] CIFAR-10's binary layout
 *   list:FILE[?label=DTYPE]        lines of path, tab, label; relative paths are relative to the list
 *   records:FILE,...?bytes=N[&header=][&stride=][&dtype=][&shape=][&layout=][&label_off=][&label_bytes=]
 *                                  [&label_dtype=][&label_shape=]
 *   pack:DIR                       a pack, as mr_pack() and `millrace pack` write it (docs/pack-format.md)
 *
 * %XX escapes any byte of a SPEC; kinds, keys and values that are names are taken in any case. options and error may be
 * NULL.
 * Returns MR_OK; MR_ERR_INVALID (the SPEC or an argument), MR_ERR_IO (a file or folder that cannot be read, named),
 * MR_ERR_DAMAGED (one whose content is wrong, named: a malformed list, an empty class folder, a file that holds no
 * record, an index of a pack that was altered, a shard of another length), MR_ERR_UNSUPPORTED (a pack of another
 * version), MR_ERR_NO_MEMORY.
 * Ownership: *dataset_out is the caller's, to be destroyed; NULL on failure.
 * Blocks: reads directories and lists.
 */
MR_API mr_status mr_dataset_open(const char *spec, const mr_dataset_options *options, mr_dataset **dataset_out,
                                 mr_error *error);

/** What a callback gives for one index. All zero at the start of each call. */
typedef struct mr_sample {
    const void *bytes; /* an encoded image, or pixels / elements when encoded is false */
    size_t len_bytes;
    bool encoded;             /* true: JPEG or PNG bytes; false: raw elements of the options' shape */
    int64_t label;            /* used when labels are one int64 and label_record is NULL */
    const void *label_record; /* a label of the callbacks' label_dtype and label_shape */
    void *cookie;             /* yours, for release */
    char error[200];          /* one line, when get returns nonzero */
} mr_sample;

typedef struct mr_callbacks {
    size_t struct_size;
    int64_t n_samples;
    /* Fill *sample; 0 on success, anything else makes the sample damaged. Called in workers, one at a time in
     * each; with MR_START_THREAD several threads call it at once, with the same user. */
    int (*get)(void *user, int64_t index, mr_sample *sample);
    /* Called when the sample's bytes are no longer needed; may be NULL. */
    void (*release)(void *user, mr_sample *sample);
    void *user;
    /* Raw samples only: elements and shape; pictures are u8 with 3 dimensions. ndim 0: samples are encoded images. */
    mr_dtype dtype;
    uint32_t ndim;
    int64_t shape[MR_MAX_NDIM - 1];
    mr_layout layout; /* of a raw picture: MR_NCHW means shape is C,H,W; MR_NHWC means H,W,C */
    /* Labels that are records: their dtype and shape; label_ndim 0 and label_dtype default: one int64. */
    mr_dtype label_dtype;
    uint32_t label_ndim;
    int64_t label_shape[MR_MAX_NDIM - 1];
} mr_callbacks;

#define MR_CALLBACKS_INIT MR_STRUCT_INIT(mr_callbacks)

/**
 * A dataset of the program's own callbacks. Its loaders start workers by MR_START_FORK or MR_START_THREAD.
 *
 * Returns MR_OK; MR_ERR_INVALID names the field; MR_ERR_NO_MEMORY.
 * Ownership: the struct is copied; user and what it points to must outlive every loader of the dataset.
 */
MR_API mr_status mr_dataset_from_callbacks(const mr_callbacks *callbacks, mr_dataset **dataset_out, mr_error *error);

/** Give up the caller's reference; loaders made from the dataset keep theirs. NULL does nothing. */
MR_API void mr_dataset_destroy(mr_dataset *dataset);

MR_API int64_t mr_dataset_count(const mr_dataset *dataset);

/** Number of classes, 0 where the dataset has no names for them; name of class i, NULL past the end. */
MR_API uint32_t mr_dataset_n_classes(const mr_dataset *dataset);
MR_API const char *mr_dataset_class_name(const mr_dataset *dataset, uint32_t i);

/**
 * Name of a sample for messages: the file's path, with "#record" for records; of a pack the file that was packed, by
 * its path below what was packed.
 *
 * Writes at most size bytes with the final NUL. Returns MR_OK, or MR_ERR_INVALID when index is out of range.
 */
MR_API mr_status mr_dataset_name(const mr_dataset *dataset, int64_t index, char *name_out, size_t size);

/**
 * Label of a sample without decoding it, where it is an int64.
 *
 * Returns MR_OK; MR_ERR_UNSUPPORTED for callbacks and for labels that are records; MR_ERR_IO.
 */
MR_API mr_status mr_dataset_label(mr_dataset *dataset, int64_t index, int64_t *label_out, mr_error *error);

/** What `millrace list` says of one sample: its format by its first bytes, and its size. */
typedef struct mr_sample_info {
    char format[16]; /* "jpeg", "png", "raw", or what the first bytes look like: "webp", "gif", "text", "empty", ...; of
                        a pack also "dct" and "dct8" */
    uint32_t width;  /* 0 where unknown */
    uint32_t height;
    uint32_t channels;
    uint64_t len_bytes;
} mr_sample_info;

/**
 * Read the first bytes of a sample and say what it is. A damaged file is not an error: its format says what it looks
 * like.
 *
 * Returns MR_OK; MR_ERR_IO when the file cannot be read; MR_ERR_DAMAGED where a pack's index points outside of the
 * pack; MR_ERR_UNSUPPORTED for callbacks.
 */
MR_API mr_status mr_dataset_inspect(mr_dataset *dataset, int64_t index, mr_sample_info *info_out, mr_error *error);

/**
 * Write the dataset's files and labels as a list that "list:FILE" reads, under a temporary name, then renamed.
 *
 * Returns MR_OK; MR_ERR_UNSUPPORTED for records, packs and callbacks and where there is no sample; MR_ERR_IO.
 */
MR_API mr_status mr_dataset_save_list(mr_dataset *dataset, const char *path, mr_error *error);

#ifdef __cplusplus
}
#endif

#endif
