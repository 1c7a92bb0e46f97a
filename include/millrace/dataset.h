/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets: they map an index to bytes and a label. */
#ifndef MILLRACE_DATASET_H
#define MILLRACE_DATASET_H

#include <millrace/batch.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_dataset mr_dataset;

/** Options of mr_dataset_open(). */
typedef struct mr_dataset_options {
    size_t struct_size;
    bool allow_empty_classes; /* imagefolder: accept class folders without an image; default: such
                                 a folder is an error */
    bool no_classes;          /* mr_dataset_from_store(): all images below the URL, also those that
                                 are in no folder, with the label 0 */
    uint8_t reserved[6];      /* 0 */
    /*
     * Called from time to time while a folder is listed or shards are indexed, with the number of
     * files or samples found so far; NULL: not called.
     */
    void (*progress)(void *user, uint64_t n_files);
    void *user; /* for progress */
} mr_dataset_options;

#define MR_DATASET_OPTIONS_INIT MR_STRUCT_INIT(mr_dataset_options)

/** Do as MR_DATASET_OPTIONS_INIT, for languages without macros; see "Structs" in status.h. Threads:
 * any. */
MR_API void mr_dataset_options_init(mr_dataset_options *options, size_t size);

/**
 * Open a dataset by its SPEC, a line of text (docs/formats.md):
 *
 *   imagefolder:DIR | DIR  as torchvision's ImageFolder: each folder in DIR is a class and holds
 *                          its images, at any depth: DIR/CLASS/.../NAME.jpg. Labels number the
 *                          classes from 0 in the order of their names. With ?label=none all images
 *                          below DIR, without classes: each label is 0. ?extra=NAME:BYTES:SUFFIX:
 *                          DIR2,... adds the file DIR2/CLASS/.../NAME + SUFFIX to each image
 *   cifar10:DIR[?split=train|test]
 *                          CIFAR-10's binary layout; default: train
 *   list:FILE[?label=DTYPE&extra=NAME:BYTES,...]
 *                          lines of path, tab, label; relative paths are relative to the list. With
 *                          extra, a tab and a further path follow the label for each item
 *   ranges:FILE            images that are ranges of larger files: lines of path, label, offset and
 *                          length, with tabs between
 *   records:FILE,...?bytes=N[&header=][&stride=][&dtype=][&shape=][&layout=][&label_off=]
 *                   [&label_bytes=][&label_dtype=][&label_shape=]
 *                          records of fixed size
 *   tokens:FILE,...?window=T[&stride=S][&dtype=][&vocab=V][&order=megatron...][&pack=...]
 *                          rows of T token ids, in arrays "tokens" and "labels" (docs/tokens.md):
 *                          shards of llm.c and MosaicML, raw integers, .bin with .idx of
 *                          Megatron-Core. pack=none: documents, padded to their batch's longest;
 *                          pack=wrapped, first_fit, bfd, bfd_split: several documents in a row
 *   voc:ROOT[?set=train&task=detection|segmentation&year=2012&names=FILE]
 *                          images of a VOC challenge in the order of torchvision's classes, with a
 *                          member `boxes` (XML) or `mask_file` (PNG); labels are 0
 *   coco:IMAGES?annotations=FILE[&crowd=keep|drop&empty=keep|drop&labels=category|dense]
 *                   [&coco_reference=train|val&index=]
 *                          images by ascending id, which is the label, with a member `boxes`
 *   yolo:LIST[?names=FILE&labels=folder|beside&root=DIR]
 *                          darknet's list of images, with a member `boxes` (the label file)
 *   tar:SHARD,...[?image=&label=cls|json:FIELD|none&keep=SUFFIX:BYTES,...&classes=FILE&index=]
 *                          images in tar files, as WebDataset writes them; names of shards may have
 *                          {000..099} and *
 *   mix:W*(SPEC)|W*(SPEC)...
 *                          several datasets by weights (docs/mixtures.md); indices count the
 *                          samples of the first, then of the second, ...
 *   pack:DIR               a pack, as mr_dataset_pack() and `millrace pack` write it
 *                          (docs/pack-format.md)
 *
 * FILE, ROOT, IMAGES, LIST, SHARD, paths in lists, and DIR of a pack and of root= may be URLs
 * (https://, s3://, ...), except in cifar10; docs/remote.md says what each costs.
 *
 * %XX escapes any byte of a SPEC. Kinds, keys and values that are names may be in any case.
 *
 * options  NULL: all defaults
 * error    may be NULL
 * Returns MR_OK; MR_ERR_INVALID (the SPEC or an argument); MR_ERR_IO (names the file or folder that
 * cannot be read); MR_ERR_DAMAGED (names the file or folder with wrong content: a malformed list,
 * an empty class folder, a file without a record, a pack's index that was altered, a shard of
 * another length); MR_ERR_UNSUPPORTED (a pack of another version, a compressed tar file, a sparse
 * member); MR_ERR_NO_MEMORY.
 * Ownership: *dataset_out is the caller's, to be destroyed; NULL on failure.
 * Blocks: while it reads directories and lists.
 */
MR_API mr_status mr_dataset_open(const char *spec, const mr_dataset_options *options,
                                 mr_dataset **dataset_out, mr_error *error);

/** Arrays that an own dataset may add to a batch, beside image and label. */
#define MR_MAX_COLUMNS 8

/** One of these arrays, with a row for each sample. */
typedef struct mr_column_form {
    const char *name; /* 1 to 31 bytes; not the name of another array of a batch */
    uint32_t dtype;   /* an mr_dtype, not MR_DTYPE_DEFAULT */
    uint32_t ndim;    /* of a row; 0: one element */
    int64_t shape[MR_MAX_NDIM - 1];
    uint32_t ragged;   /* 1: a row has 0 to shape[0] elements, and ndim is 1; see mr_array's
                          row_offsets. At most 2^30 bytes */
    uint32_t reserved; /* 0 */
} mr_column_form;

/** A sample that a callback fills in. Fields are zero at the start of each call unless noted. */
typedef struct mr_sample {
    size_t struct_size; /* set by the library */
    const void *bytes;  /* an image file's bytes, or elements if encoded is false */
    size_t len_bytes;
    bool encoded;             /* true: bytes of an image file; false: elements of the callbacks'
                                 dtype and shape */
    uint8_t reserved[7];      /* 0 */
    int64_t label;            /* used if labels are one int64 and label_record is NULL */
    const void *label_record; /* a label of the callbacks' label_dtype and label_shape */
    void *cookie;             /* for release; the library does not use it */
    char error[200];          /* one line, if get returns nonzero */
    /*
     * The row of each of the callbacks' columns, in their order. Valid as long as bytes. If rows
     * differ in length, column_bytes has the length of this one, which may be 0. With the operation
     * mask, the first column is the sample's mask, if it is u8 and ragged.
     */
    const void *column[MR_MAX_COLUMNS];
    size_t column_bytes[MR_MAX_COLUMNS];
} mr_sample;

#define MR_SAMPLE_INIT MR_STRUCT_INIT(mr_sample)

/** Do as MR_SAMPLE_INIT, for languages without macros; see "Structs" in status.h. Threads: any. */
MR_API void mr_sample_init(mr_sample *sample, size_t size);

/** Functions of the program that make samples, for mr_dataset_from_callbacks(). */
typedef struct mr_callbacks {
    size_t struct_size;
    int64_t n_samples;
    /*
     * Fill in *sample. Returns 0; any other value makes the sample damaged. Each worker makes one
     * call at a time; with MR_START_THREAD several threads call it at once, with the same user.
     * Callbacks may fork, but only the process that was called continues with the sample. A child
     * that returns from get or release is ended by _exit(1), with any start method and also with
     * MR_NO_WORKERS. With MR_START_FORK, a lock that another thread holds while mr_loader_create()
     * runs stays locked in the workers.
     */
    int (*get)(void *user, int64_t index, mr_sample *sample);
    /* Called when the sample's bytes are no longer needed; may be NULL. */
    void (*release)(void *user, mr_sample *sample);
    void *user;
    /*
     * Raw samples only: dtype and shape of a sample; images are u8 with 3 dimensions. With ndim 0
     * samples are image files.
     */
    uint32_t dtype; /* an mr_dtype */
    uint32_t ndim;
    int64_t shape[MR_MAX_NDIM - 1];
    uint32_t layout;   /* an mr_layout, of a raw image: MR_NCHW (default): shape is C,H,W; MR_NHWC:
                          H,W,C */
    uint32_t reserved; /* 0 */
    /*
     * Dtype and shape of labels that are arrays. With label_ndim 0 and the default dtype a label is
     * one int64.
     */
    uint32_t label_dtype; /* an mr_dtype */
    uint32_t label_ndim;
    int64_t label_shape[MR_MAX_NDIM - 1];
    const mr_column_form *columns; /* n_columns further arrays; copied. A row that has no sample
                                      is zeros or, if rows differ in length, empty */
    uint32_t n_columns;            /* up to MR_MAX_COLUMNS */
    uint32_t reserved_end;         /* 0 */
} mr_callbacks;

#define MR_CALLBACKS_INIT MR_STRUCT_INIT(mr_callbacks)

/** Do as MR_CALLBACKS_INIT, for languages without macros; see "Structs" in status.h. Threads: any.
 */
MR_API void mr_callbacks_init(mr_callbacks *callbacks, size_t size);

/**
 * Make a dataset whose samples come from the program's callbacks. Its loaders start workers by
 * MR_START_FORK or MR_START_THREAD.
 *
 * Returns MR_OK; MR_ERR_INVALID (names the field); MR_ERR_NO_MEMORY.
 * Ownership: the struct is copied; user must stay valid as long as any loader of the dataset.
 */
MR_API mr_status mr_dataset_from_callbacks(const mr_callbacks *callbacks, mr_dataset **dataset_out,
                                           mr_error *error);

/**
 * Make a dataset of image files and their labels, in the order of the array.
 *
 *   const char *paths[] = {"a.jpg", "b.png"};
 *   const int64_t labels[] = {0, 1};
 *   mr_dataset_from_files(paths, labels, 2, &dataset, &error);
 *
 * paths   each of 1 to 4095 bytes, 4093 if it begins with '#'; relative paths start from the
 *         current working directory; URLs (https://, s3://, ...) are paths too
 * labels  NULL: each label is 0
 * n       at least 1
 * Returns MR_OK; MR_ERR_INVALID (names the index of the path); MR_ERR_IO; MR_ERR_NO_MEMORY. Files
 * are opened when they are read: a missing file is a damaged sample.
 * Ownership: paths and labels are copied. *dataset_out is the caller's, to be destroyed; NULL on
 * failure.
 */
MR_API mr_status mr_dataset_from_files(const char *const *paths, const int64_t *labels, int64_t n,
                                       mr_dataset **dataset_out, mr_error *error);

/**
 * Make a dataset of the images below a URL: s3://BUCKET/PREFIX/, gs://BUCKET/PREFIX/, or the page
 * of a web server that lists a folder. The store is listed now, and never again: save the list with
 * mr_dataset_save_list(), and open that. Of a store, the list has the size and the ETag of each
 * file, and a file that is replaced later is damaged.
 *
 * Which files are samples, their order, labels and classes are those of imagefolder for a local
 * copy of what is there (no_classes: with ?label=none). Other files are counted, in a log line.
 *
 * options  NULL: all defaults
 * Returns MR_OK; MR_ERR_INVALID (the URL or an argument); MR_ERR_IO (names the URL and what the
 * server said); MR_ERR_DAMAGED (no image, a class without an image, a listing that is malformed);
 * MR_ERR_UNSUPPORTED (a build without libcurl or expat); MR_ERR_NO_MEMORY.
 * Ownership: *dataset_out is the caller's, to be destroyed; NULL on failure.
 * Blocks: until all is listed, with up to 16 requests at once.
 */
MR_API mr_status mr_dataset_from_store(const char *url, const mr_dataset_options *options,
                                       mr_dataset **dataset_out, mr_error *error);

/** Drop the caller's reference to the dataset. Loaders hold their own. NULL does nothing. */
MR_API void mr_dataset_destroy(mr_dataset *dataset);

/** Number of samples. */
MR_API int64_t mr_dataset_n_samples(const mr_dataset *dataset);

/**
 * Number of classes, 0 if the dataset has no class names; and the name of class i, NULL past the
 * end.
 */
MR_API uint32_t mr_dataset_n_classes(const mr_dataset *dataset);
MR_API const char *mr_dataset_class_name(const mr_dataset *dataset, uint32_t i);

/**
 * What the annotations of a dataset's images are. With all but MR_ANNOTATIONS_NONE and
 * MR_ANNOTATIONS_BOXES the classes are those of the annotations, and the label of an image is none
 * of them.
 */
typedef enum mr_annotations {
    MR_ANNOTATIONS_NONE = 0,    /* there are none: the classes are those of labels */
    MR_ANNOTATIONS_BOXES = 1,   /* boxes in the member that the key `boxes` names, in any form */
    MR_ANNOTATIONS_VOC = 2,     /* boxes in XML, of "voc:" */
    MR_ANNOTATIONS_COCO = 3,    /* boxes of "coco:" */
    MR_ANNOTATIONS_DARKNET = 4, /* boxes in label files, of "yolo:" */
    MR_ANNOTATIONS_MASKS = 5    /* masks, of "voc:ROOT?task=segmentation" */
} mr_annotations;

/** What the annotations are. A pack keeps those of the dataset that it was made from. */
MR_API mr_annotations mr_dataset_annotations(const mr_dataset *dataset);

/**
 * Write the name of a sample for messages: the file's path, followed by "#record" for records and
 * by "/member" for tar files. For a pack it is the path that the file had in the packed folder. At
 * most size bytes are written, with the final NUL.
 *
 * Returns the name's length without the NUL; 0, with "", if index is out of range.
 */
MR_API size_t mr_dataset_name(const mr_dataset *dataset, int64_t index, char *text_out,
                              size_t size);

/**
 * Write the name of a sample relative to the dataset's folder: DIR of an imagefolder or CIFAR-10,
 * the folder of a list. Paths outside the folder are as in mr_dataset_name(). Returns as
 * mr_dataset_name().
 */
MR_API size_t mr_dataset_relative_name(const mr_dataset *dataset, int64_t index, char *text_out,
                                       size_t size);

/**
 * Read the label of a sample without decoding the sample. The label must be one int64.
 *
 * Returns MR_OK; MR_ERR_UNSUPPORTED for callbacks and for labels that are arrays; MR_ERR_IO if the
 * label cannot be read, also if the sample is damaged.
 */
MR_API mr_status mr_dataset_label(const mr_dataset *dataset, int64_t index, int64_t *label_out,
                                  mr_error *error);

/**
 * Read the labels of a sample's boxes, as the annotation has them, without decoding the sample.
 *
 * labels_out  room for n labels; further ones are not written; NULL if n is 0
 * n_out       the number of boxes
 * Returns MR_OK; MR_ERR_UNSUPPORTED if the dataset has no boxes; MR_ERR_DAMAGED if the annotation
 * is missing or damaged; MR_ERR_IO; MR_ERR_NO_MEMORY.
 */
MR_API mr_status mr_dataset_box_labels(const mr_dataset *dataset, int64_t index,
                                       int64_t *labels_out, size_t n, size_t *n_out,
                                       mr_error *error);

/**
 * Read the boxes of a sample, without decoding the sample: x1, y1, x2 and y2 of each in pixels of
 * its image, before any operation. mr_explain_options takes them.
 *
 * width      of the image in pixels, as mr_dataset_inspect() reports it; only darknet's label files
 *            need it
 * height     likewise
 * boxes_out  room for 4 n floats; further boxes are not written; NULL if n is 0
 * n_out      the number of boxes
 * Returns as mr_dataset_box_labels().
 */
MR_API mr_status mr_dataset_boxes(const mr_dataset *dataset, int64_t index, uint32_t width,
                                  uint32_t height, float *boxes_out, size_t n, size_t *n_out,
                                  mr_error *error);

/** How JPEG files are decoded. Pixels and errors are the same with both. */
typedef enum mr_jpeg_decoder {
    MR_JPEG_AUTO = 0, /* default: millrace's Huffman decoder if the installed libjpeg-turbo allows
                         it, otherwise as MR_JPEG_STOCK */
    MR_JPEG_STOCK = 1 /* libjpeg-turbo alone */
} mr_jpeg_decoder;

/** Format and size of a sample, read from its first bytes. `millrace list` prints them. */
typedef struct mr_sample_info {
    size_t struct_size;
    char format[16]; /* "jpeg", "png", "raw", "webp", "gif", "text", "empty", ..., by the first
                        bytes; in a pack also "dct" */
    uint32_t width;  /* 0 if unknown */
    uint32_t height;
    uint32_t channels;
    uint32_t orientation; /* EXIF's, 1 to 8; 0 for samples that are not image files */
    uint64_t len_bytes;
} mr_sample_info;

#define MR_SAMPLE_INFO_INIT MR_STRUCT_INIT(mr_sample_info)

/** Do as MR_SAMPLE_INFO_INIT, for languages without macros; see "Structs" in status.h. Threads:
 * any. */
MR_API void mr_sample_info_init(mr_sample_info *info, size_t size);

/**
 * Read the first bytes of a sample and report its format and size. A damaged file is not an error:
 * the format is that of its first bytes.
 *
 * Returns MR_OK; MR_ERR_IO if the file cannot be read; MR_ERR_DAMAGED if a pack's index points
 * outside of the pack; MR_ERR_UNSUPPORTED for callbacks.
 */
MR_API mr_status mr_dataset_inspect(const mr_dataset *dataset, int64_t index,
                                    mr_sample_info *info_out, mr_error *error);

/**
 * Write the dataset's files, their labels and the paths of their further members as a list that
 * "list:FILE" reads, to a local path. The file is written under a temporary name and then renamed.
 *
 * Returns MR_OK; MR_ERR_UNSUPPORTED for records, packs, callbacks, "yolo:" at URLs and a dataset
 * without samples; MR_ERR_IO.
 */
MR_API mr_status mr_dataset_save_list(const mr_dataset *dataset, const char *path, mr_error *error);

#ifdef __cplusplus
}
#endif

#endif
