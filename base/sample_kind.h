/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The form of a dataset's samples. The dataset fills it in, and transforms are compiled for it.
 * Workers get a copy in shared memory, so it has no pointers.
 */
#ifndef BASE_SAMPLE_KIND_H
#define BASE_SAMPLE_KIND_H

#include <millrace/batch.h>

#define MR_MAX_EXTRA 8 /* arrays of a dataset beside image and label */
#define MR_EXTRA_NAME 32

/* An array that is delivered unchanged with each sample. All zeros but the first three: bytes. */
struct mr_extra {
    char name[MR_EXTRA_NAME];         /* of the array */
    char offsets[MR_EXTRA_NAME + 16]; /* name of the array of row offsets; "" if rows are equal */
    uint64_t max_bytes;               /* limit on the length of a row; rows that are equal: 0 */
    uint32_t dtype;                   /* mr_dtype; MR_DTYPE_DEFAULT: u8 */
    uint32_t ndim;                    /* of a row, if rows are equal */
    int64_t shape[MR_MAX_NDIM - 1];
};

/* Further columns of rows of tokens, and how they are filled. */
enum {
    MR_TOKENS_LOSS_MASK = 1,    /* loss_mask: 0 where the row has no label */
    MR_TOKENS_EOD_MASKED = 2,   /* and where the id is eod */
    MR_TOKENS_POSITIONS = 4,    /* position_ids: from 0 again after each eod, or in each document */
    MR_TOKENS_LENGTH = 8,       /* length: rows have up to kind.tokens ids, and are padded to the
                                   longest of their batch */
    MR_TOKENS_SAME_LABELS = 16, /* labels are the ids of the row, and not those after them */
    MR_TOKENS_FIRST_MASKED = 32, /* the first id of a document in a packed row is no label */
};

enum { MR_LABEL_IGNORED = -100 };      /* torch's losses ignore this label */
enum { MR_PACK_MAX_WINDOW = 1 << 24 }; /* documents */

/* Which documents share a row of tokens (sampler/packing_plan.h). */
enum mr_pack {
    MR_PACK_NONE,
    MR_PACK_WRAPPED,
    MR_PACK_FIRST_FIT,
    MR_PACK_BFD,
    MR_PACK_BFD_SPLIT,
};

/* len tokens of a document, after its first `from`, in a row. */
struct mr_token_piece {
    uint64_t document;
    uint32_t from;
    uint32_t len;
};

struct mr_sample_kind {
    uint32_t encoded; /* 1: bytes of an image file, of any size; the fields from dtype to data_bytes
                         are then zero */
    uint32_t picture; /* 1: encoded, or raw u8 with 3 dimensions and 1 or 3 channels: image
                         transforms can be applied */
    mr_dtype dtype;   /* of a raw sample's elements */
    uint32_t ndim;    /* of a raw sample, without the batch dimension */
    int64_t shape[MR_MAX_NDIM - 1];
    mr_layout layout;     /* of a raw picture: MR_NCHW means shape is C,H,W; MR_NHWC means H,W,C */
    uint64_t data_bytes;  /* of a raw sample */
    mr_dtype label_dtype; /* MR_I64 with label_ndim 0 for one integer */
    uint32_t label_ndim;
    int64_t label_shape[MR_MAX_NDIM - 1];
    uint64_t label_bytes; /* size of one label in a batch: 8 for an integer */
    uint32_t n_extra;
    uint32_t boxes; /* 0: none; else 1 + the index in extra of the member with the sample's boxes */
    uint32_t annotations; /* an mr_annotations; a member with masks is the first of extra */
    uint32_t tokens;      /* the number of ids in a row of tokens; 0: the samples are none. They are
                             raw, with 1 dimension, and have this length or 1 more: labels are the
                             ids after those of the row. The fields of the label are zero. Rows that
                             differ in length have at most so many */
    uint32_t vocab;       /* ids are below it; 0: not known */
    uint32_t eod;         /* the id at the end of a document */
    uint32_t token_columns; /* of MR_TOKENS_... */
    uint32_t pack;          /* an mr_pack: the samples are documents, and rows are packed of them */
    uint32_t pack_window;   /* documents that are packed together; 0: all */
    uint32_t pad;           /* the id after the last token of a packed row */
    uint32_t sources;       /* 1: of a mixture, so a batch has a column of sources */
    struct mr_extra extra[MR_MAX_EXTRA];
};

#endif
