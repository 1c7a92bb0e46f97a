/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of a batch's columns. A column is one array of a batch, with a row for each sample.
 *
 * The loader makes the table once, from what the dataset and the transform declare (see
 * loader/columns.c). The layout of a slot, holes, copies and the arrays of a lent batch are loops
 * over it; only the code that writes a column names it. It is shared with the workers, so it has no
 * pointers.
 */
#ifndef PINNED_COLUMN_H
#define PINNED_COLUMN_H

#include "base/sample_kind.h"

/* The columns that every batch has, at these places of the table. Others follow. */
enum mr_column_id {
    MR_COLUMN_IMAGE, /* the samples, also those that are not images; alone it is copied by parts */
    MR_COLUMN_LABEL,
    MR_COLUMN_INDEX,
    MR_COLUMN_MASK,
    MR_COLUMN_GEOMETRY,
    MR_COLUMNS_FIXED,
    /* Only if images keep their sizes, or rows of tokens their lengths: */
    MR_COLUMN_SIZE = MR_COLUMNS_FIXED
};
#define MR_COLUMNS_MAX 40
#define MR_NO_COLUMN UINT32_MAX
#define MR_COLUMN_NAME 48 /* bytes of a name, also of an array of offsets */

/* What a row holds that has no sample. */
enum mr_column_hole {
    MR_HOLE_ZEROS, /* if rows differ in length: no bytes */
    MR_HOLE_WANTED /* the dataset index of the sample that was wanted */
};

enum mr_column_writer {
    MR_WRITER_SAMPLE, /* the worker that makes the sample */
    MR_WRITER_MIX     /* the worker that mixes the row, also if it has no sample */
};

struct mr_column {
    char name[MR_COLUMN_NAME];         /* of the array */
    char offsets_name[MR_COLUMN_NAME]; /* of the array of row offsets; "" if rows are equal */
    uint32_t dtype;                    /* mr_dtype, as in a lent batch */
    uint32_t ndim;                     /* of a row */
    int64_t shape[MR_MAX_NDIM - 1];    /* of a row, as in a lent batch; if rows differ in length,
                                          shape[0] is the largest length and the rest the shape of
                                          what is counted: an element, or a box */
    uint32_t hole;                     /* enum mr_column_hole */
    uint32_t writer;                   /* enum mr_column_writer */
    /*
     * 1: rows differ in length, each begins where it would if all had row_bytes, and the column is
     * lent as one row of elements with gaps. Only images and masks; they are too large to be moved
     * together. Their sizes are in MR_COLUMN_SIZE.
     */
    uint32_t has_gaps;
    uint32_t starts; /* with gaps: the column that says where the rows begin */
    /*
     * 1: rows differ in height and width, or in length, which are 0 in `shape`, and are padded to
     * their batch's largest before it is lent (slot_pad.h). Only images, masks and rows of tokens.
     */
    uint32_t pads;
    int32_t pad_value;
    /*
     * From row to row in a slot. For images it can differ from the lent row, which a device makes.
     * If rows differ in length, it is the longest row that is allowed.
     */
    uint64_t row_bytes;
    /* Within a slot's data; mr_slot_layout_init() sets the three. */
    uint64_t off;
    uint64_t offsets_off; /* int64_t[batch_size + 1]: the length of the rows before each row, if
                             they differ in length and have no gaps */
    uint64_t lengths_off; /* uint32_t[batch_size]: the bytes that workers have written, if rows
                             differ in length */
};

struct mr_columns {
    uint32_t n;
    uint32_t spare;
    struct mr_column column[MR_COLUMNS_MAX];
};

static inline bool mr_column_is_ragged(const struct mr_column *column)
{
    return column->offsets_name[0] != '\0';
}

/*
 * Append a column of zeros, written with the sample. ndim and shape: of a row. The caller changes
 * what is different. At most MR_COLUMNS_MAX columns; names are unique, which the caller checks.
 */
struct mr_column *mr_columns_add(struct mr_columns *columns, const char *name, mr_dtype dtype,
                                 uint32_t ndim, const int64_t *shape);

/* Append a column whose rows differ in length; "NAME.offsets" is the array of their offsets. */
struct mr_column *mr_columns_add_ragged(struct mr_columns *columns, const char *name,
                                        mr_dtype dtype, uint32_t ndim, const int64_t *shape);

/* If rows differ in length: the bytes of one of what is counted. */
uint64_t mr_column_unit_bytes(const struct mr_column *column);

/* The place of the column with this name; MR_NO_COLUMN if there is none. */
uint32_t mr_columns_find(const struct mr_columns *columns, const char *name);

#endif
