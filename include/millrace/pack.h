/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs: files that give the same pixels without entropy decoding. docs/choosing.md says when to
 * use one.
 */
#ifndef MILLRACE_PACK_H
#define MILLRACE_PACK_H

#include <millrace/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The form in which a pack stores samples. */
typedef enum mr_pack_encoding {
    MR_PACK_DEFAULT = 0, /* MR_PACK_DCT */
    MR_PACK_JPEG = 1,    /* the files' bytes unchanged: a million files become a few. An index,
                            about 2.3 % more bytes, lets a crop be read and decoded alone */
    MR_PACK_RAW = 2,     /* u8 pixels */
    MR_PACK_DCT = 3      /* a JPEG's coefficients, about 1.3 times its bytes */
} mr_pack_encoding;

/** Entries of n_by_encoding in this and all later versions. */
#define MR_PACK_MAX_ENCODINGS 16

/** Progress of mr_dataset_pack(), mr_dataset_check() or mr_pack_unpack(). */
typedef struct mr_pack_progress {
    size_t struct_size; /* set by the library */
    uint64_t n_done;    /* includes samples of an interrupted call that this call resumes */
    uint64_t n_samples;
    uint64_t n_resumed;     /* of n_done: samples of an interrupted call */
    uint64_t bytes_read;    /* by this call */
    uint64_t bytes_written; /* by this call */
    double seconds;         /* since the call began */
} mr_pack_progress;

#define MR_PACK_PROGRESS_INIT MR_STRUCT_INIT(mr_pack_progress)

/** Do as MR_PACK_PROGRESS_INIT, for languages without macros; see "Structs" in status.h. Threads:
 * any. */
MR_API void mr_pack_progress_init(mr_pack_progress *progress, size_t size);

/**
 * A function that receives a note about one sample. It is called in the caller's thread, in the
 * order of the work.
 *
 * index  in the dataset that is packed, checked or unpacked
 * name   as errors name it: "photos/a.jpg (index 7)", in a pack "train/shard-00000
 *        (n01440764/a.jpg, index 7)"
 * text   one line, without the name
 */
typedef void mr_pack_notice(void *user, int64_t index, const char *name, const char *text);

/** Options of mr_dataset_pack(), mr_dataset_check() and mr_pack_unpack(). */
typedef struct mr_pack_options {
    size_t struct_size;
    uint32_t encoding;     /* an mr_pack_encoding; default: MR_PACK_DCT */
    uint32_t jpeg_decoder; /* an mr_jpeg_decoder; default: MR_JPEG_AUTO. MR_JPEG_STOCK makes no
                              index */
    uint32_t max_side;     /* up to 65500: shrink larger images to this longest side; 0: keep
                              sizes */
    uint32_t resize;       /* up to 65500: resize images to this shortest side; 0: keep sizes. Not
                              with max_side */
    uint32_t quality;      /* 1 to 100: encode all JPEGs again with this quality; 0: encode only
                              resized JPEGs again, with 90 */
    uint32_t num_workers;  /* threads, 1 to 256; 0: one for each usable CPU */
    bool no_index;         /* with MR_PACK_JPEG: store only the files; default: also an index of
                              each JPEG */
    bool align;            /* begin each sample at a multiple of 4096 bytes */
    bool shuffle;          /* store samples in a random order that follows from seed; default: the
                              dataset's order */
    uint8_t reserved[5];   /* 0 */
    uint64_t seed;         /* with shuffle; default: 0 */
    uint64_t shard_size;   /* bytes, at least 1 MiB; 0 means 1 GiB */
    uint64_t max_pixels;   /* larger images are damaged; 0 means 178956970. Independent of this, a
                              JPEG whose scans together visit more than 64000000 blocks of 8 x 8 is
                              damaged (docs/formats.md) */
    /*
     * Called in the caller's thread, at most ten times a second; if it returns true, the call ends
     * with MR_ERR_CANCELED.
     */
    bool (*progress)(void *user, const mr_pack_progress *progress);
    mr_pack_notice *notice; /* receives each damaged sample, and each sample that could not be
                               stored in the requested form, with the reason */
    void *user;             /* for progress and notice */
} mr_pack_options;

#define MR_PACK_OPTIONS_INIT MR_STRUCT_INIT(mr_pack_options)

/** Do as MR_PACK_OPTIONS_INIT, for languages without macros; see "Structs" in status.h. Threads:
 * any. */
MR_API void mr_pack_options_init(mr_pack_options *options, size_t size);

/** Contents of a pack, or the results of a call. */
typedef struct mr_pack_report {
    size_t struct_size;
    uint64_t n_samples;
    uint64_t n_by_encoding[MR_PACK_MAX_ENCODINGS]; /* samples of a pack, by mr_pack_encoding */
    uint64_t n_as_files;    /* by this call: stored as the file's bytes although another form was
                               requested */
    uint64_t n_damaged;     /* found by this call: samples that cannot be read, or that decode with
                               an error or a warning */
    uint64_t n_resumed;     /* of n_samples: in shards that an earlier call finished */
    uint64_t bytes_read;    /* by this call */
    uint64_t bytes_written; /* by this call */
    double seconds;         /* of this call */
    uint64_t n_marked;      /* of n_by_encoding[MR_PACK_JPEG] of a pack: files with an index */
} mr_pack_report;

#define MR_PACK_REPORT_INIT MR_STRUCT_INIT(mr_pack_report)

/** Do as MR_PACK_REPORT_INIT, for languages without macros; see "Structs" in status.h. Threads:
 * any. */
MR_API void mr_pack_report_init(mr_pack_report *report, size_t size);

/**
 * Pack a dataset of image files, or another pack, into the folder dir. The folder is created; its
 * parent must exist. Further members of the samples are packed with them.
 *
 * Damaged files are packed unchanged, counted, and reported to notice. MR_PACK_JPEG copies files
 * and checks only their headers. options, report_out and error may be NULL.
 *
 * With MR_PACK_JPEG each baseline JPEG of one scan gets an index, unless no_index is set or
 * millrace's Huffman decoder is off (jpeg_decoder, or a libjpeg-turbo that it does not work with).
 *
 * After a failure or a kill, the same call resumes after the last finished shard in dir. The pack's
 * bytes do not depend on an interruption or on num_workers; without an index, they do not depend on
 * jpeg_decoder either.
 *
 * Returns MR_OK, also if dir already holds the complete pack: n_resumed is then n_samples, and
 * nothing is written; MR_ERR_INVALID (an option; dir holds another pack, or a part of one; the
 * dataset has no samples, or its samples are not image files); MR_ERR_UNSUPPORTED (callbacks);
 * MR_ERR_DAMAGED (a sample that cannot be read, or that differs from what was packed); MR_ERR_IO
 * (names the file; also a full disk); MR_ERR_CANCELED; MR_ERR_NO_MEMORY. *report_out is written on
 * success only.
 * Threads: it starts num_workers threads, and calls progress and notice in the caller's thread.
 * Blocks: until all work is done.
 */
MR_API mr_status mr_dataset_pack(const mr_dataset *dataset, const char *dir,
                                 const mr_pack_options *options, mr_pack_report *report_out,
                                 mr_error *error);

/**
 * Read and decode every sample completely, with its boxes, or its mask of "voc:". For a pack, also
 * verify the checksum of each sample, and make the index of each JPEG again and compare it (with
 * MR_JPEG_STOCK: verify its checksum only).
 * Damaged samples, also samples that cannot be read, are reported to notice. Of options it uses
 * only num_workers, max_pixels, jpeg_decoder, progress, notice and user.
 *
 * Returns MR_OK, also if samples are damaged: report_out->n_damaged counts them. MR_ERR_INVALID,
 * MR_ERR_UNSUPPORTED (callbacks), MR_ERR_IO, MR_ERR_CANCELED, MR_ERR_NO_MEMORY.
 * Threads, Blocks: as mr_dataset_pack().
 */
MR_API mr_status mr_dataset_check(const mr_dataset *dataset, const mr_pack_options *options,
                                  mr_pack_report *report_out, mr_error *error);

/**
 * Write the files of a pack under their names into the folder dir, which is created.
 *
 * If the pack holds a file's bytes, the file is the original byte for byte. Otherwise it is a JPEG
 * of the same pixels that keeps the orientation but no other metadata (EXIF, ICC profile,
 * comments); raw samples become PNG. If the kind of file changes, .jpg or .png is added to the
 * name. A further member of a sample, such as "seg" of cat/a.jpg, becomes the file cat/a.seg,
 * unless it is empty. No file is replaced. A file that already exists with the same bytes is
 * accepted, so an interrupted call can be repeated. It uses the same options as mr_dataset_check().
 *
 * Returns MR_OK; MR_ERR_INVALID (not a pack; a different file exists, which is named);
 * MR_ERR_DAMAGED (some samples are damaged, or have names that lead out of dir or that are not
 * possible there; each was reported to notice, and all other samples are written); MR_ERR_IO;
 * MR_ERR_CANCELED; MR_ERR_NO_MEMORY. *report_out is written on success only.
 * Threads, Blocks: as mr_dataset_pack().
 */
MR_API mr_status mr_pack_unpack(const mr_dataset *pack, const char *dir,
                                const mr_pack_options *options, mr_pack_report *report_out,
                                mr_error *error);

#ifdef __cplusplus
}
#endif

#endif
