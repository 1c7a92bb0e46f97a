/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of the catalog region: a header, then sections found by offsets from the start of the
 * region. catalog_build.c writes the region once and seals it. catalog_region.c and the schemes
 * read it, in any process of the same build.
 */
#ifndef DATASET_CATALOG_FORMAT_H
#define DATASET_CATALOG_FORMAT_H

#include <stdint.h>

#include "base/sample_kind.h"

#define MR_CATALOG_MAGIC 0x31656c6261546d72u /* "rmTable1" */
#define MR_CATALOG_VERSION 2u
/*
 * The index stores the start of every 16th name; the others are found by walking from there. This
 * costs half a byte per name instead of eight.
 */
#define MR_CATALOG_STEP 16u

enum mr_catalog_scheme {
    MR_SCHEME_FOLDER =
        1,              /* one file per sample; NAMES holds the file names, FOLDERS their folders */
    MR_SCHEME_LIST = 2, /* one file per sample; INDEX points into the list file, which is mapped
                           beside the catalog */
    MR_SCHEME_RECORDS = 3, /* many samples per file; NAMES holds the paths of the files, STARTS
                              their first samples */
    MR_SCHEME_PACK = 4, /* many samples per file; NAMES holds the names of the shards; the index is
                           mapped beside the catalog */
    MR_SCHEME_TAR = 5,  /* tar and ranges: many samples per file; NAMES holds the names of members,
                           FOLDERS the shards, MEMBERS the positions of the images */
    MR_SCHEME_TOKENS = 6,    /* many rows per file; NAMES holds the paths of the files, ROWS where
                                their rows are */
    MR_SCHEME_DOCUMENTS = 7, /* rows of tokens cut from joined documents; DOCUMENTS, SHUFFLE and
                                PLACES hold them; the index of Megatron-Core is mapped beside the
                                catalog, with record.part_len[0] sequences */
    MR_SCHEME_MIX = 8,       /* the samples of several catalogs; SOURCES describes them, EXTRA holds
                                them */
    MR_SCHEME_SEQUENCES = 9, /* a sample is a sequence of the index of Megatron-Core, which is
                                mapped beside the catalog */
};

enum mr_catalog_section {
    MR_SECTION_NAMES,        /* NUL-terminated */
    MR_SECTION_INDEX,        /* u64: start of name (or line) 0, 16, 32, ... */
    MR_SECTION_FOLDERS,      /* struct mr_catalog_folder, by first file */
    MR_SECTION_FOLDER_PATHS, /* NUL-terminated, relative to the root */
    MR_SECTION_CLASSES,      /* u64: start of each class's name */
    MR_SECTION_CLASS_NAMES,  /* NUL-terminated */
    MR_SECTION_STARTS,       /* u64: first sample of each file, then the number of samples. In a
                                catalog of a list: where the member kind.boxes of each sample begins
                                in EXTRA, then the end; empty if the members are files */
    MR_SECTION_PREFIX,   /* NUL-terminated: the prefix that the user wrote for relative paths, with
                            its slash */
    MR_SECTION_ABSOLUTE, /* NUL-terminated: the absolute path of the root */
    MR_SECTION_MEMBERS,  /* struct mr_catalog_member, by sample */
    MR_SECTION_EXTRA,    /* struct mr_catalog_extra: kind.n_extra for each sample. In a catalog of a
                            folder: NUL-terminated texts, the absolute path of the folder and the
                            suffix of each member. In a catalog of a list: bytes of members.
                            In that of a mixture: whole catalogs and the files beside them */
    MR_SECTION_SIZES, /* struct mr_catalog_size, by sample; empty if no annotation states sizes */
    MR_SECTION_VERSIONS,  /* struct mr_object_version, by file: of remote files that must not change
                             while the catalog is used */
    MR_SECTION_ROWS,      /* struct mr_token_rows, by first row */
    MR_SECTION_DOCUMENTS, /* u32: the joined documents, as numbers of sequences in the index */
    MR_SECTION_SHUFFLE,   /* u32, by sample: the row that it is */
    MR_SECTION_PLACES,    /* struct mr_token_place of every MR_TOKEN_STEP-th row */
    MR_SECTION_SOURCES,   /* struct mr_catalog_source, of a mixture */
    MR_CATALOG_N_SECTIONS
};

struct mr_catalog_folder {
    uint64_t first_file; /* in a tar catalog: the first sample of the shard */
    uint64_t path;       /* offset in FOLDER_PATHS */
    uint64_t class_; /* label of its files; in a tar catalog: mr_file_cache_stamp() of the shard */
};

/* Why a sample of a tar shard is damaged, found before any byte of it was read. */
enum mr_catalog_problem {
    MR_PROBLEM_NONE,
    MR_PROBLEM_NO_IMAGE,
    MR_PROBLEM_NO_LABEL,
    MR_PROBLEM_BAD_LABEL,
    MR_PROBLEM_TWICE, /* two images with one suffix, two labels, or two extra members with one
                         suffix */
    MR_PROBLEM_CUT,   /* the shard ends within it */
    MR_PROBLEM_LOST,  /* stands for samples lost where the shard has no headers */
    MR_PROBLEM_LONG,  /* an extra member is longer than its maximum */
    MR_N_PROBLEMS
};

/*
 * The image of a sample in its shard. Index files of shards (tar_index_file.c) store this struct
 * too.
 */
struct mr_catalog_member {
    uint64_t offset;
    uint64_t len : 56;
    uint64_t problem : 8; /* enum mr_catalog_problem */
    int64_t label;
};

/* An extra member of a sample in its shard. Index files store this struct too. */
struct mr_catalog_extra {
    uint64_t offset;
    uint64_t len; /* 0: the sample does not have this member */
};

enum { MR_CATALOG_MAX_SOURCES = 100 };

/* A source of a mixture. Offsets are in the section EXTRA. */
struct mr_catalog_source {
    uint64_t first_sample;
    uint64_t first_file;
    uint64_t n_files;
    uint64_t is_loose; /* 1: its files are opened for each read */
    uint64_t region_off;
    uint64_t region_len;
    uint64_t beside_off;
    uint64_t beside_len;
    double weight; /* as it was given, above 0 */
};

/* The size of an image as its annotation states it; zeros: not stated. */
struct mr_catalog_size {
    uint32_t width;
    uint32_t height;
};

/*
 * The layout of one record. part_off counts from header + i * stride, the start of the data. It may
 * be negative, but never by more than header. The parts are read one after the other; data_at and
 * label_at are offsets in the bytes that were read.
 */
struct mr_catalog_record {
    uint64_t header;
    uint64_t stride;
    uint64_t n_parts; /* 1 or 2 */
    int64_t part_off[2];
    uint64_t part_len[2];
    uint64_t data_at;
    uint64_t label_at;
    uint64_t label_len; /* bytes of the label in the file; 0: no label */
    uint64_t widen;     /* 1: the label is an integer of label_len bytes and becomes an int64 */
};

struct mr_catalog_header {
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;
    uint32_t kind_bytes;
    uint32_t scheme;
    uint64_t total_bytes;
    uint64_t n_samples;
    uint64_t n_files;          /* without further members that are loose files */
    uint64_t names_file_bytes; /* bytes of the list file or of the index of the pack */
    uint64_t may_lack;         /* 1, in a catalog of a list: the file of a member may be missing */
    uint64_t is_remote;        /* 1: the root is a URL, or a file's path is one */
    uint64_t n_loose;          /* in a mixture: the files below this number are opened for each
                                  read */
    uint64_t no_index;         /* 1: nothing may be kept of the dataset: index=none */
    struct mr_sample_kind kind;
    struct mr_catalog_record record;
    struct {
        uint64_t off; /* 8-aligned */
        uint64_t len;
    } sections[MR_CATALOG_N_SECTIONS];
};

#endif
