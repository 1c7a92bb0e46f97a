/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an image may cost to decode: pixels, scans and working memory. The limits are the same on
 * every machine, so an image is damaged everywhere or nowhere.
 */
#ifndef TRANSFORMS_CODEC_LIMITS_H
#define TRANSFORMS_CODEC_LIMITS_H

#include "base/error.h"

#define MR_CODEC_MAX_PIXELS UINT64_C(178956970) /* Pillow's */
#define MR_CODEC_MAX_SCANS 500                  /* TurboJPEG's; real files have about 10 */
#define MR_CODEC_MAX_DECODER_BYTES (UINT64_C(1) << 30)
/*
 * libjpeg's usual ten scans visit each block up to six times, which makes 50 million visits for the
 * largest image within the memory limit. Without this limit, 500 scans of that image take minutes.
 */
#define MR_CODEC_MAX_SCAN_BLOCKS UINT64_C(64000000)

/*
 * Limits that do not depend on the machine. An image beyond one is damaged, and the message gives
 * the value and the limit. Zero means the default above.
 */
struct mr_codec_limits {
    uint64_t max_pixels;      /* width x height */
    uint32_t max_scans;       /* of a progressive JPEG */
    uint64_t max_scan_blocks; /* blocks of 8 x 8 that all scans of a JPEG visit together, if it has
                                 several */
    uint64_t max_decoder_bytes; /* working memory of the decoder, as estimated from the header */
};

/*
 * The limits that apply: zeros are replaced by the defaults. All code takes its limits from here.
 */
struct mr_codec_limits mr_codec_limits_resolve(const struct mr_codec_limits *limits);

/* MR_ERR_DAMAGED if width x height is above the limit; for the formats' open(). */
mr_status mr_codec_limits_check_pixels(const struct mr_codec_limits *limits, uint32_t width,
                                       uint32_t height, mr_error *error);

/* MR_ERR_DAMAGED if a decoder would need more working memory than the limit. */
mr_status mr_codec_limits_check_memory(const struct mr_codec_limits *limits, uint64_t need_bytes,
                                       mr_error *error);

/*
 * The same for a codec that holds a whole image of bytes_per_pixel, and other_bytes. width x height
 * has already been checked.
 */
mr_status mr_codec_limits_check_image(const struct mr_codec_limits *limits, uint32_t width,
                                      uint32_t height, uint32_t bytes_per_pixel,
                                      uint64_t other_bytes, mr_error *error);

#endif
