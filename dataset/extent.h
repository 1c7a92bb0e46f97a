/* SPDX-License-Identifier: Apache-2.0 */
/* What a sample consists of: ranges of bytes in files, each with its purpose. */
#ifndef DATASET_EXTENT_H
#define DATASET_EXTENT_H

#include <stdint.h>

struct mr_token_piece;

struct mr_extent {
    uint64_t file; /* number for mr_catalog_path(), or MR_FILE_CATALOG */
    uint64_t offset;
    uint64_t len; /* MR_LEN_UNKNOWN: to the end of the file */
};
#define MR_LEN_UNKNOWN UINT64_MAX
/* Between two pieces of a sample; private to the scheme. */
struct mr_piece_walk {
    int64_t index; /* for mixtures, which set it */
    uint64_t document;
    uint64_t offset; /* elements before the next piece in its document */
    uint64_t n_left; /* elements of the sample */
    /* Of a row of packed documents; the catalog's own walk uses the fields above. */
    const struct mr_token_piece *pieces;
    uint32_t n_pieces;
};
#define MR_FILE_CATALOG UINT64_MAX /* not a file: the bytes are in the catalog */
/*
 * Not one extent: the pieces of the sample follow each other, len bytes or fewer.
 * mr_catalog_next_piece() gives them.
 */
#define MR_FILE_PIECES (UINT64_MAX - 1)
#define MR_MAX_MEMBERS 3           /* of a sample, beside its image */
#define MR_CATALOG_PATH 4096       /* bytes of a path, with its NUL */
#define MR_CATALOG_DESCRIPTION 640 /* bytes of the name of a sample in a message, with its NUL */

enum { MR_ETAG = 104 };

/*
 * Which version of a remote object the catalog was made from. If one of the first two is not empty
 * and the object has another now, it was replaced.
 */
struct mr_object_version {
    char etag[MR_ETAG]; /* a strong ETag with its quotes; "": the server sent none */
    char modified[40];  /* Last-Modified as it was sent; "": not sent */
    uint64_t size;      /* MR_LEN_UNKNOWN: not known */
};

/* What the bytes are for. */
enum mr_purpose {
    MR_FOR_IMAGE,  /* the image, or the data of a record */
    MR_FOR_MARKS,  /* the marks of the image */
    MR_FOR_LABEL,  /* the label, if it is not beside the data */
    MR_FOR_MEMBER, /* a further member; 0 bytes if its own file is missing */
    MR_FOR_VERSION /* a byte of a file at a URL, for the version in the answer */
};

struct mr_part {
    struct mr_extent extent;
    uint64_t max_bytes; /* a longer part is damage */
    enum mr_purpose purpose;
};

/*
 * The parts of a sample. The first is the image; members are in the order of kind.extra. A version
 * may be asked for of the image and of each member.
 */
#define MR_MAX_PARTS (2 + MR_MAX_MEMBERS + 1 + MR_MAX_MEMBERS)
struct mr_part_list {
    uint32_t n;
    /* Of a row of packed documents, whose image is MR_FILE_PIECES. They outlive the read. */
    uint32_t n_pieces;
    const struct mr_token_piece *pieces;
    struct mr_part part[MR_MAX_PARTS];
};

#endif
