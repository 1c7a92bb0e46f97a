/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a pack, as structs; docs/pack-format.md describes them in words. Everything is
 * little-endian and 8-aligned. Offsets and counts have 64 bits.
 *
 *   DIR/index            header and sections; written last, under a temporary name, then renamed: a
 *                        folder that has it holds a complete pack
 *   DIR/shard-00000 ...  the bytes of the samples
 *   DIR/marks            the marks of samples, 8-aligned; only if there are any
 *   DIR/unfinished       while packing: what is packed and how; locked by the process that packs
 *   DIR/shard-00000.part while packing: the part of the index for a finished shard
 */
#ifndef DATASET_PACK_FORMAT_H
#define DATASET_PACK_FORMAT_H

#include "base/packed_image.h"
#include "base/sample_kind.h"
#include "dataset/extent.h"

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
/* Of one sample; the largest JPEG has less. */
#define MR_PACK_MAX_MARKS_BYTES (UINT64_C(1) << 26)

/*
 * The numbers are stored in files. A new section goes at the end; readers that do not know it
 * refuse the file.
 */
enum mr_pack_section {
    MR_PACK_SAMPLES,   /* struct mr_pack_sample */
    MR_PACK_ROWS,      /* u32: the row table of each sample, n_rows + 1 entries */
    MR_PACK_TEMPLATES, /* struct mr_packed_template, each once */
    MR_PACK_LABELS,    /* label_bytes for each sample */
    MR_PACK_NAMES,     /* NUL-terminated: the file of each sample, relative to the packed dataset */
    MR_PACK_CLASSES,   /* u64: start of the name of each class in CLASS_NAMES */
    MR_PACK_CLASS_NAMES,  /* NUL-terminated */
    MR_PACK_SHARDS,       /* u64: bytes of each shard file */
    MR_PACK_ORIGIN,       /* NUL-terminated: what was packed and how, for people and for resuming */
    MR_PACK_MARKS,        /* struct mr_pack_marks for each sample; empty if no sample has marks */
    MR_PACK_ROW_SUMS,     /* u32: the checksums of rows of tiles of each sample, n_rows entries */
    MR_PACK_MEMBER_KINDS, /* struct mr_pack_member_kind for each further member of a sample */
    MR_PACK_MEMBERS,      /* struct mr_pack_member: for each sample, one for each kind */
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
    uint64_t marks_bytes; /* bytes of the file of marks; 0: no such file */
    struct {
        uint64_t off; /* 8-aligned */
        uint64_t len;
    } sections[MR_PACK_N_SECTIONS];
};

/* Where the marks of a sample are in the file of marks. Both are 0 if it has none. */
struct mr_pack_marks {
    uint64_t offset;
    uint64_t len;
};

/* What a batch knows of a further member; as in struct mr_extra. */
struct mr_pack_member_kind {
    char name[MR_EXTRA_NAME];
    uint32_t max_bytes;
    uint32_t annotations; /* an mr_annotations; at most one member of a pack has them */
};

/*
 * A further member of a sample. Its bytes follow, in the shard, those of the sample and of its
 * earlier members.
 */
struct mr_pack_member {
    uint64_t len;      /* 0: the sample does not have this member */
    uint64_t checksum; /* XXH3 (64 bits) of its bytes */
};

struct mr_pack_sample {
    uint64_t offset; /* in its shard */
    uint64_t len;
    uint64_t checksum; /* XXH3 (64 bits) of its bytes */
    uint64_t rows;     /* index of its first entry in ROWS; for DCT and MARKED */
    uint64_t sums;     /* index of its first entry in ROW_SUMS; for DCT */
    uint64_t name;     /* offset in NAMES */
    uint32_t shard;
    uint32_t template; /* index in TEMPLATES; for DCT and MARKED */
    uint32_t width;    /* as in struct mr_packed_image */
    uint32_t height;
    uint32_t n_rows;
    uint16_t encoding;
    uint8_t flags;
    uint8_t orientation;
};

/*
 * The head of a .part file; each finished shard has one while a pack is written. After it come the
 * sections of the index for the samples of this shard. MARKS has an entry for each sample if the
 * pack may have marks. CLASSES, CLASS_NAMES, SHARDS, ORIGIN and MEMBER_KINDS are empty.
 */
struct mr_pack_part_head {
    uint64_t magic;
    uint64_t checksum; /* XXH3 (64 bits) of this struct with this field as 0 */
    uint64_t n_samples;
    uint64_t n_marked;
    uint64_t shard_bytes; /* of the shard */
    uint64_t marks_bytes; /* bytes of the file of marks up to the end of this shard */
    struct {
        uint64_t len;
        uint64_t checksum; /* XXH3 (64 bits) of the section */
    } sections[MR_PACK_N_SECTIONS];
};
#define MR_PACK_PART_MAGIC UINT64_C(0x317472615070726d) /* "mrpPart1" */

/*
 * The file `unfinished`: this struct, the class names (each NUL-terminated), the origin
 * (NUL-terminated).
 */
struct mr_pack_begin {
    uint64_t magic;
    uint64_t checksum; /* XXH3 (64 bits) of everything after this field */
    uint64_t n_samples;
    uint64_t shard_bytes;
    uint32_t align;
    uint32_t label_dtype;
    uint64_t label_ndim;
    int64_t label_shape[MR_MAX_NDIM - 1];
    uint64_t label_bytes;
    uint64_t n_classes;
    uint64_t class_names_len;
    uint64_t n_members;
    struct mr_pack_member_kind members[MR_MAX_MEMBERS];
};
#define MR_PACK_BEGIN_CHECKED offsetof(struct mr_pack_begin, n_samples)
#define MR_PACK_BEGIN_MAGIC UINT64_C(0x3167654270726d) /* "mrpBeg1" */

static_assert(sizeof(struct mr_pack_header) == 328, "is stored in files");
static_assert(sizeof(struct mr_pack_marks) == 16, "is stored in files");
static_assert(sizeof(struct mr_pack_member_kind) == 40, "is stored in files");
static_assert(sizeof(struct mr_pack_member) == 16, "is stored in files");
static_assert(sizeof(struct mr_pack_sample) == 72, "is stored in files");
static_assert(sizeof(struct mr_packed_template) == 528, "is stored in files");
static_assert(sizeof(struct mr_pack_part_head) == 256, "is stored in files");
static_assert(sizeof(struct mr_pack_begin) == 256, "is stored in files");

#endif
