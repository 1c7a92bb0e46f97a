/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One image format of codec.h: a table of functions over a state that is created once per worker.
 * codec.c has the list of formats. It checks arguments and the order of calls, so a format sees
 * only correct calls.
 */
#ifndef TRANSFORMS_CODEC_OPS_H
#define TRANSFORMS_CODEC_OPS_H

#include "transforms/codec_limits.h"
#include "transforms/image_head.h"

/*
 * The most rows that one call of rows() gives: enough to make the call cheap, few enough to stay in
 * the L1 cache.
 */
#define MR_CODEC_ROWS 8

/*
 * Pixels around a JPEG's box that are decoded too, because upsampling looks at neighbours. One is
 * too few: 4:2:0 crops one pixel wide would differ.
 */
#define MR_CODEC_JPEG_MARGIN 2

struct mr_codec_ops {
    const char *name; /* as mr_image_format_sniff() returns it */
    mr_status (*create)(const struct mr_codec_limits *limits, void **state_out, mr_error *error);
    void (*destroy)(void *state);
    mr_status (*open)(void *state, const uint8_t *bytes, size_t len, struct mr_image_head *head_out,
                      mr_error *error);
    mr_status (*begin)(void *state, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                       mr_error *error);
    mr_status (*rows)(void *state, const uint8_t **rows_out, uint32_t max_rows, uint32_t *n_out,
                      mr_error *error);
    uint32_t (*close)(void *state);
    /*
     * Only for a library that reports lack of memory as damage: the bytes, within the limits, that
     * it may have asked for when open() or begin() failed; 0 if it was not called. codec.c then
     * finds out which of the two it was.
     */
    uint64_t (*need)(const void *state);
};

#endif
