/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs: files that give the same pixels without entropy decoding. docs/choosing.md says when a
 * pack pays.
 */
#ifndef MILLRACE_PACK_H
#define MILLRACE_PACK_H

#include <millrace/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a pack keeps of each sample. */
typedef enum mr_pack_encoding {
    MR_PACK_DEFAULT = 0, /* MR_PACK_DCT */
    MR_PACK_JPEG = 1,    /* the files' bytes unchanged: a million files become a few; with marks,
                            about 2.3 % more bytes, by which a crop is read and decoded alone */
    MR_PACK_RAW = 2,     /* u8 pixels */
    MR_PACK_DCT = 3      /* a JPEG's coefficients, about 1.3 times its bytes */
} mr_pack_encoding;

/** Entries of n_by_encoding in this and all later versions. */
#define MR_PACK_MAX_ENCODINGS 16

/** Progress of mr_dataset_pack(), mr_dataset_check() or mr_pack_unpack(). */
typedef struct mr_pack_progress {
    size_t struct_size; /* set by the library */
    uint64_t n_done;    /* includes those of an interrupted call that this call resumes */
    uint64_t n_samples;
    uint64_t n_resumed;     /* of n_done */
    uint64_t bytes_read;    /* by this call */
    uint64_t bytes_written; /* by this call */
    double seconds;         /* since the call began */
} mr_pack_progress;

#define MR_PACK_PROGRESS_INIT MR_STRUCT_INIT(mr_pack_progress)

/**
 * A function that receives a note about one sample. It is called in the caller's thread, in the
 * order of the work.
 *
 * index  in the dataset that was given
 * name   as errors name it: "photos/a.jpg (index 7)", in a pack "train/shard-00000
 *        (n01440764/a.jpg, index 7)"
 * text   one line, without the name
 */
typedef void mr_pack_notice(void *user, int64_t index, const char *name, const char *text);

/** Options of mr_dataset_pack(), mr_dataset_check() and mr_pack_unpack(). */
typedef struct mr_pack_options {
    size_t struct_size;
    mr_pack_encoding encoding;
    bool no_index;        /* jpeg: the files alone */
    bool align;           /* begin each sample at a multiple of 4096 */
    bool shuffle;         /* arrange samples in a random order of seed; default: the dataset's
                             order */
    uint64_t seed;        /* with shuffle */
    uint32_t max_side;    /* up to 65500: resize larger images to this longest side; 0: keep */
    uint32_t resize;      /* up to 65500: resize images to this shortest side; 0: keep. Not with
                             max_side */
    uint32_t quality;     /* 1 to 100: encode all JPEGs again with this quality; 0: encode only
                             resized JPEGs, with 90, and keep the others */
    uint64_t shard_size;  /* bytes, at least 1 MiB; 0: 1 GiB */
    uint32_t num_workers; /* threads, 1 to 256; 0: one for each usable CPU */
    mr_jpeg_decoder jpeg_decoder; /* MR_JPEG_STOCK makes no marks */
    uint64_t max_pixels; /* an image with more is damaged; 0: 178956970. Whatever it is, a JPEG
                            whose scans together visit more than 64000000 blocks of 8 x 8 is
                            damaged (docs/formats.md) */
    /*
     * Called in the caller's thread, at most ten times a second; true ends the call with
     * MR_ERR_CANCELED.
     */
    bool (*progress)(void *user, const mr_pack_progress *progress);
    mr_pack_notice *notice; /* gets each damaged sample, and each one that is kept as it is
                               although something else was asked for, with the reason */
    void *user;
} mr_pack_options;

#define MR_PACK_OPTIONS_INIT MR_STRUCT_INIT(mr_pack_options)

/** Contents of a pack, or the results of a call. */
typedef struct mr_pack_report {
    size_t struct_size;
    uint64_t n_samples;
    uint64_t n_by_encoding[MR_PACK_MAX_ENCODINGS]; /* of a pack, by mr_pack_encoding */
    uint64_t n_as_files;    /* of this call: kept as the file's bytes although something else was
                               asked for */
    uint64_t n_damaged;     /* of this call: cannot be read, or not decoded without an error or a
                               warning */
    uint64_t n_resumed;     /* samples, of n_samples, in shards that an earlier call finished */
    uint64_t bytes_read;    /* by this call */
    uint64_t bytes_written; /* by this call */
    double seconds;
    uint64_t n_marked; /* of a pack: of n_by_encoding[MR_PACK_JPEG], those with marks */
} mr_pack_report;

#define MR_PACK_REPORT_INIT MR_STRUCT_INIT(mr_pack_report)

/**
 * Pack a dataset of image files, or another pack, into the folder dir, which is made (its parent is
 * not).
 *
 * Damaged files are packed as they are, counted and reported to notice; MR_PACK_JPEG only copies
 * files and checks no more than their headers. options, report_out and error may be NULL.
 *
 * MR_PACK_JPEG: each baseline JPEG of one scan gets marks, unless no_index is set or its own
 * decoder is off (jpeg_decoder, or a libjpeg-turbo that it does not work with).
 *
 * After a failure or a kill, the same call resumes after the last finished shard in dir. Neither
 * this nor num_workers changes the bytes; without marks, neither does jpeg_decoder.
 *
 * Returns MR_OK, also if dir holds the complete pack already: n_resumed is then n_samples, and
 * nothing is written; MR_ERR_INVALID (an option; dir holds another pack, or a part of one; the
 * dataset has no sample, or its samples are not image files); MR_ERR_UNSUPPORTED (callbacks);
 * MR_ERR_DAMAGED (a sample that cannot be read, or that differs from what was packed); MR_ERR_IO
 * (names the file; also a full disk); MR_ERR_CANCELED; MR_ERR_NO_MEMORY. *report_out is written on
 * success only.
 * Threads: it works in threads of its own, and calls progress and notice in the caller's thread.
 * Blocks: until all work is done.
 */
MR_API mr_status mr_dataset_pack(mr_dataset *dataset, const char *dir,
                                 const mr_pack_options *options, mr_pack_report *report_out,
                                 mr_error *error);

/**
 * Read and decode every sample completely; for a pack verify its checksum, and make its marks again
 * and compare them (with MR_JPEG_STOCK: verify their checksum). Damaged samples, also those that
 * cannot be read, are reported to notice. It uses only num_workers, max_pixels, jpeg_decoder,
 * progress, notice and user of options.
 *
 * Returns MR_OK, also if samples are damaged: report_out->n_damaged counts them. MR_ERR_INVALID,
 * MR_ERR_UNSUPPORTED (callbacks), MR_ERR_IO, MR_ERR_CANCELED, MR_ERR_NO_MEMORY.
 * Threads, Blocks: as mr_dataset_pack().
 */
MR_API mr_status mr_dataset_check(mr_dataset *dataset, const mr_pack_options *options,
                                  mr_pack_report *report_out, mr_error *error);

/**
 * Write the files of a pack under their names into the folder dir, which is made. A file is the
 * original byte for byte if the pack holds the file's bytes, otherwise a JPEG of the same pixels
 * without its other metadata than the orientation (EXIF, ICC profile, comments); raw samples become
 * PNG. If the kind of file changes, .jpg or .png is added to the name. A file that exists with the
 * same bytes stays, so an interrupted call can be repeated; no file is replaced. It uses the same
 * options as mr_dataset_check().
 *
 * Returns MR_OK; MR_ERR_INVALID (no pack; a different file exists, which is named); MR_ERR_DAMAGED
 * (some samples are damaged, or have names that lead out of dir or that no file there can have;
 * each was reported to notice, and all other samples are written); MR_ERR_IO; MR_ERR_CANCELED;
 * MR_ERR_NO_MEMORY. *report_out is written on success only.
 * Threads, Blocks: as mr_dataset_pack().
 */
MR_API mr_status mr_pack_unpack(mr_dataset *pack, const char *dir, const mr_pack_options *options,
                                mr_pack_report *report_out, mr_error *error);

/** Contents of a cache's directory: entries that loaders write while they work (docs/cache.md). */
typedef struct mr_cache_report {
    size_t struct_size;
    uint64_t bytes; /* of all its segments */
    uint64_t n_segments;
    uint64_t n_entries;  /* packed samples and indexes of files, of all datasets; what was made
                            again counts again */
    uint64_t n_as_files; /* notes of files that cannot be packed or indexed and are read as they
                            are */
    uint64_t n_damaged;  /* of n_entries: bytes are missing or, if they were verified, wrong;
                            they are made again */
    uint64_t n_torn;     /* segments that end in a piece of a record, as a kill leaves it, or
                            cannot be read */
    /*
     * Of the dataset, if one was given; each sample counts in at most one of the next four fields:
     */
    uint64_t n_samples;
    uint64_t n_filled;          /* packed, indexed or both */
    uint64_t n_filled_as_files; /* the cache knows that they are read as they are */
    uint64_t n_filled_stale;    /* the file has changed since; they are made again */
    uint64_t n_filled_damaged;  /* the entry is damaged; they are made again */
    /* The two forms of a cache (cache_form of mr_loader_options): */
    uint64_t n_index;        /* of n_entries: indexes of files; the others are packed samples */
    uint64_t index_bytes;    /* of indexes, without the logs */
    uint64_t packed_bytes;   /* of packed samples, without the logs */
    uint64_t n_filled_index; /* of n_filled: samples that are indexed; they may be packed too */
} mr_cache_report;

#define MR_CACHE_REPORT_INIT MR_STRUCT_INIT(mr_cache_report)

/**
 * Report what the cache in the directory dir holds and, unless dataset is NULL, how much of that
 * dataset. With verify, also read all bytes and compare their checksums. Jobs may use the cache
 * meanwhile. error may be NULL.
 *
 * Returns MR_OK; MR_ERR_INVALID (dir is no cache); MR_ERR_UNSUPPORTED (a cache of another format; a
 * dataset whose samples are not files of one image each); MR_ERR_IO; MR_ERR_NO_MEMORY. Blocks:
 * while it reads.
 */
MR_API mr_status mr_cache_stat(const char *dir, mr_dataset *dataset, bool verify,
                               mr_cache_report *report_out, mr_error *error);

/**
 * Remove all segments of the cache in the directory dir and nothing else; an empty cache remains.
 * Jobs that use it read their files instead. report_out may be NULL; bytes and n_segments in it say
 * what was removed.
 *
 * Returns MR_OK; MR_ERR_INVALID (dir is no cache); MR_ERR_UNSUPPORTED; MR_ERR_IO.
 */
MR_API mr_status mr_cache_clear(const char *dir, mr_cache_report *report_out, mr_error *error);

#ifdef __cplusplus
}
#endif

#endif
