/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a pack, as structs: docs/pack-format.md describes the same in words. Everything is
 * little-endian and 8-aligned; offsets and counts are 64 bits wide.
 *
 *   DIR/index            header and sections; written last, under a temporary name, then renamed: a
 *                        folder that has it holds a complete pack
 *   DIR/shard-00000 ...  the samples' bytes
 *   DIR/marks            only where there are some: the marks of samples, 8-aligned
 *   DIR/unfinished       while packing: what is packed and how; locked by the process that packs
 *   DIR/shard-00000.part while packing: what the index will say of a finished shard
 */
#ifndef DATASET_PACK_FORMAT_H
#define DATASET_PACK_FORMAT_H

#include "base/packed_image.h"

#include <millrace/batch.h>

#include <assert.h>
#include <stddef.h>

#define MR_PACK_MAGIC UINT64_C(0x3178646e4970726d) /* "mrpIndx1" */
#define MR_PACK_VERSION 3u
#define MR_PACK_INDEX "index"
#define MR_PACK_MARKS_FILE "marks"
#define MR_PACK_UNFINISHED "unfinished"
#define MR_PACK_SHARD "shard-%05u"
#define MR_PACK_PART "shard-%05u.part"
#define MR_PACK_MAX_ALIGN 4096u
#define MR_PACK_MAX_LABEL_BYTES (UINT64_C(1) << 30)
#define MR_PACK_MAX_MARKS_BYTES (UINT64_C(1) << 26) /* of one sample; the largest JPEG has less */

/*
 * The numbers stand in files. A new kind of section is added at the end, and refused by readers
 * that do not know it.
 */
enum mr_pack_section {
    MR_PACK_SAMPLES,     /* struct mr_pack_sample */
    MR_PACK_ROWS,        /* u32: the samples' row tables, n_rows + 1 each */
    MR_PACK_TEMPLATES,   /* struct mr_packed_template, each once */
    MR_PACK_LABELS,      /* label_bytes for each sample */
    MR_PACK_NAMES,       /* NUL-terminated: each sample's file, relative to what was packed */
    MR_PACK_CLASSES,     /* u64: start of each class's name in CLASS_NAMES */
    MR_PACK_CLASS_NAMES, /* NUL-terminated */
    MR_PACK_SHARDS,      /* u64: bytes of each shard file */
    MR_PACK_ORIGIN,      /* NUL-terminated: what was packed and how, for people and for resuming */
    MR_PACK_MARKS,       /* struct mr_pack_marks for each sample; empty if no sample has some */
    MR_PACK_ROW_SUMS,    /* u32: the samples' checksums of rows of tiles, n_rows each */
    MR_PACK_N_SECTIONS
};

struct mr_pack_header {
    uint64_t magic;
    uint32_t version;
    uint32_t n_sections; /* MR_PACK_N_SECTIONS */
    uint64_t file_bytes;
    uint64_t checksum; /* XXH3 (64 bits) of the whole file with this field as 0 */
    uint64_t n_samples;
    uint32_t label_dtype; /* mr_dtype */
    uint32_t label_ndim;
    int64_t label_shape[MR_MAX_NDIM - 1];
    uint64_t label_bytes;
    uint64_t marks_bytes; /* of the file of marks; 0: there is none */
    struct {
        uint64_t off; /* 8-aligned */
        uint64_t len;
    } sections[MR_PACK_N_SECTIONS];
};

/* Where a sample's marks lie in their file; 0 and 0: it has none. */
struct mr_pack_marks {
    uint64_t offset;
    uint64_t len;
};

struct mr_pack_sample {
    uint64_t offset; /* in its shard */
    uint64_t len;
    uint64_t checksum; /* XXH3 (64 bits) of its bytes */
    uint64_t rows;     /* index of its first in ROWS; of DCT and MARKED */
    uint64_t sums;     /* index of its first in ROW_SUMS; of DCT */
    uint64_t name;     /* offset in NAMES */
    uint32_t shard;
    uint32_t template; /* index in TEMPLATES; of DCT and MARKED */
    uint32_t width;    /* as in struct mr_packed_image */
    uint32_t height;
    uint32_t n_rows;
    uint16_t encoding;
    uint8_t flags;
    uint8_t orientation;
};

/*
 * While a pack is written, one file for each finished shard: this, then what the index will say of
 * the shard's samples, as the index has it. Of MARKS each sample has an entry where the pack may
 * have marks; CLASSES, CLASS_NAMES, SHARDS and ORIGIN are empty.
 */
struct mr_pack_part_head {
    uint64_t magic;
    uint64_t checksum; /* XXH3 (64 bits) of this struct with this field as 0 */
    uint64_t n_samples;
    uint64_t n_marked;
    uint64_t shard_bytes; /* of the shard */
    uint64_t marks_bytes; /* of the file of marks, up to this shard's end */
    struct {
        uint64_t len;
        uint64_t checksum; /* XXH3 (64 bits) of them */
    } sections[MR_PACK_N_SECTIONS];
};
#define MR_PACK_PART_MAGIC UINT64_C(0x317472615070726d) /* "mrpPart1" */

/* The file `unfinished`: this, class names (NUL-terminated each), origin (NUL-terminated). */
struct mr_pack_begin {
    uint64_t magic;
    uint64_t checksum; /* XXH3 (64 bits) of what follows it in the file */
    uint64_t n_samples;
    uint64_t shard_bytes;
    uint32_t align;
    uint32_t label_dtype;
    uint64_t label_ndim;
    int64_t label_shape[MR_MAX_NDIM - 1];
    uint64_t label_bytes;
    uint64_t n_classes;
    uint64_t class_names_len;
};
#define MR_PACK_BEGIN_CHECKED offsetof(struct mr_pack_begin, n_samples)
#define MR_PACK_BEGIN_MAGIC UINT64_C(0x3167654270726d) /* "mrpBeg1" */

static_assert(sizeof(struct mr_pack_header) == 296, "stands in files");
static_assert(sizeof(struct mr_pack_marks) == 16, "stands in files");
static_assert(sizeof(struct mr_pack_sample) == 72, "stands in files");
static_assert(sizeof(struct mr_packed_template) == 528, "stands in files");
static_assert(sizeof(struct mr_pack_part_head) == 224, "stands in files");
static_assert(sizeof(struct mr_pack_begin) == 128, "stands in files");

#endif
