/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs: the same pixels without entropy decoding. docs/choosing.md says when one pays.
 */
#ifndef MILLRACE_PACK_H
#define MILLRACE_PACK_H

#include <millrace/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mr_pack_encoding {
    MR_PACK_DEFAULT = 0, /* MR_PACK_DCT */
    MR_PACK_JPEG = 1,    /* the files' bytes as they are, a million files in a few */
    MR_PACK_RAW = 2,     /* u8 pixels */
    MR_PACK_DCT = 3,     /* a JPEG's coefficients, about 1.3 times its bytes */
    MR_PACK_DCT8 = 4     /* the same, about 1.7 times; sooner without AVX-512 */
} mr_pack_encoding;

#define MR_PACK_N_ENCODINGS 5

/** How far mr_pack(), mr_check() or mr_unpack() is. */
typedef struct mr_pack_progress {
    uint64_t n_done; /* with those of an interrupted call that this one goes on with */
    uint64_t n_samples;
    uint64_t n_resumed;     /* of n_done */
    uint64_t bytes_read;    /* by this call */
    uint64_t bytes_written; /* by this call */
    double seconds;         /* since the call began */
} mr_pack_progress;

/**
 * A sample that is worth a word. Called in the caller's thread, in the order of the work.
 *
 * index  in the dataset that was given
 * name   as errors name it: "photos/a.jpg (index 7)", of a pack "train/shard-00000 (n01440764/a.jpg, index 7)"
 * text   one line, without the name
 */
typedef void mr_pack_notice(void *user, int64_t index, const char *name, const char *text);

typedef struct mr_pack_options {
    size_t struct_size;
    mr_pack_encoding encoding;
    bool restorable;     /* dct, dct8: keep what gives the file back byte for byte; not with what makes files anew */
    bool align;          /* begin each sample at a multiple of 4096 */
    bool shuffle;        /* arrange samples in a random order of seed; default: the dataset's order */
    uint64_t seed;       /* with shuffle */
    uint32_t max_side;   /* up to 65500: resize longer images so that their longest side is this; 0: keep */
    uint32_t resize;     /* up to 65500: make the shortest side this; 0: keep. Not with max_side */
    uint32_t quality;    /* 1 to 100: of JPEGs, which are all made anew with it; 0: 90 where one must be made, and those
                            that need no resizing stay */
    uint64_t shard_size; /* bytes, at least 1 MiB; 0: 1 GiB */
    uint32_t n_workers;  /* threads, 1 to 256; 0: one for each usable CPU */
    uint64_t max_pixels; /* an image with more is damaged; 0: 178956970 */
    /* Called in the caller's thread, at most ten times a second; true ends the call with MR_ERR_CANCELED. */
    bool (*progress)(void *user, const mr_pack_progress *progress);
    mr_pack_notice *notice; /* each sample that is kept as it is although something else was asked for, and why; each
                               damaged one */
    void *user;
} mr_pack_options;

#define MR_PACK_OPTIONS_INIT MR_STRUCT_INIT(mr_pack_options)

/** What a pack holds, or what was found. */
typedef struct mr_pack_report {
    uint64_t n_samples;
    uint64_t n_by_encoding[MR_PACK_N_ENCODINGS]; /* of a pack, by mr_pack_encoding */
    uint64_t n_plain;                            /* of a pack: whose pixels plain integer arithmetic gives too */
    uint64_t n_kept;        /* of this call: kept as files' bytes although something else was asked for */
    uint64_t n_damaged;     /* of this call: cannot be decoded without an error or a warning, or cannot be read */
    uint64_t n_resumed;     /* of n_samples: were there already */
    uint64_t bytes_read;    /* by this call */
    uint64_t bytes_written; /* by this call */
    double seconds;
} mr_pack_report;

/**
 * Pack a dataset of image files, or another pack, into the folder dir, which is made (its parent is not). What an
 * interrupted call has done is kept: the same call goes on behind it, and the bytes are those of one that was not
 * interrupted, with any number of workers.
 *
 * Damaged files are packed as they are, counted, and told to notice; where files are only copied (MR_PACK_JPEG) just
 * their headers are looked at. options, report_out and error may be NULL.
 *
 * Returns MR_OK; MR_ERR_INVALID (an option; dir holds a complete pack, or a part of another one; the dataset has no
 * sample, or its samples are not image files); MR_ERR_UNSUPPORTED (callbacks); MR_ERR_DAMAGED (a sample that cannot be
 * read, or, of a pack, is not what was packed); MR_ERR_IO (names the file; a full disk too); MR_ERR_CANCELED;
 * MR_ERR_NO_MEMORY. After a failure dir holds what can be gone on with. *report_out is written on success only.
 * Threads: its workers are threads of its own; callbacks come in the caller's.
 * Blocks: for the whole work.
 */
MR_API mr_status mr_pack(mr_dataset *dataset, const char *dir, const mr_pack_options *options,
                         mr_pack_report *report_out, mr_error *error);

/**
 * Read every sample, verify its checksum where it is of a pack, and decode all of it; damaged ones go to notice, also
 * those that cannot be read. Of options, n_workers, max_pixels, progress, notice and user count.
 *
 * Returns MR_OK, also when samples are damaged: report_out->n_damaged says so. MR_ERR_INVALID, MR_ERR_UNSUPPORTED
 * (callbacks), MR_ERR_IO, MR_ERR_CANCELED, MR_ERR_NO_MEMORY.
 * Threads, Blocks: as mr_pack().
 */
MR_API mr_status mr_check(mr_dataset *dataset, const mr_pack_options *options, mr_pack_report *report_out,
                          mr_error *error);

/**
 * Write the files of a pack into the folder dir, which is made, under their names: byte for byte the original where the
 * pack is restorable or holds the file's bytes, else a JPEG of the same pixels; raw samples as PNG. Where that changes
 * the kind of file, .jpg or .png is added to the name. A file that is there already with the same bytes stays, so that
 * an interrupted call can be repeated; no file is replaced. Of options, those of mr_check() count.
 *
 * Returns MR_OK; MR_ERR_INVALID (no pack; another file is there already, which is named); MR_ERR_DAMAGED (some samples,
 * each of which went to notice, also those whose names lead out of dir or no file there can have; all others are
 * written); MR_ERR_IO;
 * MR_ERR_CANCELED; MR_ERR_NO_MEMORY. *report_out is written on success only.
 * Threads, Blocks: as mr_pack().
 */
MR_API mr_status mr_unpack(mr_dataset *pack, const char *dir, const mr_pack_options *options,
                           mr_pack_report *report_out, mr_error *error);

/** What the directory of a cache holds: packs that loaders write beside their work (docs/cache.md). */
typedef struct mr_cache_report {
    uint64_t bytes; /* of all its segments */
    uint64_t n_segments;
    uint64_t n_entries; /* packed samples, of whatever dataset; one that was made anew counts again */
    uint64_t n_kept;    /* notes of files that do not fit and are read as they are */
    uint64_t n_damaged; /* of n_entries: bytes are missing or, where they were verified, wrong; they are made anew */
    uint64_t n_torn;    /* segments that end in a piece of a record, as a kill leaves it, or cannot be read */
    /* Of the dataset, where one was given; each sample counts in one of them at most: */
    uint64_t n_samples;
    uint64_t n_filled;
    uint64_t n_filled_kept;    /* the cache knows that they are read as they are */
    uint64_t n_filled_stale;   /* the file has changed since; they are made anew */
    uint64_t n_filled_damaged; /* likewise */
} mr_cache_report;

/**
 * What does the cache in the directory dir hold? dataset: how much of it, NULL for none. verify: read all bytes too and
 * compare their checksums. Jobs may use the cache meanwhile. error may be NULL.
 *
 * Returns MR_OK; MR_ERR_INVALID (dir is no cache); MR_ERR_UNSUPPORTED (a cache of another format; a dataset whose
 * samples are no image files of their own); MR_ERR_IO; MR_ERR_NO_MEMORY. Blocks: for reading.
 */
MR_API mr_status mr_cache_stat(const char *dir, mr_dataset *dataset, bool verify, mr_cache_report *report_out,
                               mr_error *error);

/**
 * Remove all segments of the cache in the directory dir and nothing else; it stays an empty cache. Jobs that use it
 * read their files instead. *report_out (may be NULL) says bytes and n_segments that were removed.
 *
 * Returns MR_OK; MR_ERR_INVALID (dir is no cache); MR_ERR_UNSUPPORTED; MR_ERR_IO.
 */
MR_API mr_status mr_cache_clear(const char *dir, mr_cache_report *report_out, mr_error *error);

#ifdef __cplusplus
}
#endif

#endif
