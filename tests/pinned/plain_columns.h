/* SPDX-License-Identifier: Apache-2.0 */
/* The initialiser of a table of the columns that every batch has, for layouts without a loader. */
#ifndef TESTS_PINNED_PLAIN_COLUMNS_H
#define TESTS_PINNED_PLAIN_COLUMNS_H

#include "pinned/column.h"

/* Bytes of a row of samples, and of a label. */
#define PLAIN_COLUMNS(sample_bytes, label_bytes)                                                   \
    {                                                                                              \
        .n = MR_COLUMNS_FIXED, .column = {                                                         \
            [MR_COLUMN_IMAGE] = {.name = "image", .row_bytes = (sample_bytes)},                    \
            [MR_COLUMN_LABEL] = {.name = "label", .row_bytes = (label_bytes)},                     \
            [MR_COLUMN_INDEX] = {.name = "index", .row_bytes = 8, .hole = MR_HOLE_WANTED},         \
            [MR_COLUMN_MASK] = {.name = "mask", .row_bytes = 1},                                   \
            [MR_COLUMN_GEOMETRY] = {.name = "geometry", .row_bytes = 32},                          \
        }                                                                                          \
    }

#endif
