/* SPDX-License-Identifier: Apache-2.0 */
/* Limits on what an image may cost: the defaults, and the checks against them. */
#include "transforms/codec_limits.h"

#include "base/checked.h"

#include <inttypes.h>

mr_status mr_codec_limits_check_pixels(const struct mr_codec_limits *limits, uint32_t width,
                                       uint32_t height, mr_error *error)
{
    if ((uint64_t)width * height <= limits->max_pixels)
        return MR_OK;
    return mr_error_set(error, MR_ERR_DAMAGED,
                        "%" PRIu32 " x %" PRIu32 " pixels are above the limit of %" PRIu64, width,
                        height, limits->max_pixels);
}

mr_status mr_codec_limits_check_memory(const struct mr_codec_limits *limits, uint64_t need_bytes,
                                       mr_error *error)
{
    if (need_bytes <= limits->max_decoder_bytes)
        return MR_OK;
    return mr_error_set(error, MR_ERR_DAMAGED,
                        "decoding needs %" PRIu64 " bytes of memory, above the limit of %" PRIu64,
                        need_bytes, limits->max_decoder_bytes);
}

mr_status mr_codec_limits_check_image(const struct mr_codec_limits *limits, uint32_t width,
                                      uint32_t height, uint32_t bytes_per_pixel,
                                      uint64_t other_bytes, mr_error *error)
{
    uint64_t need;
    if (!mr_checked_mul_u64((uint64_t)width * height, bytes_per_pixel, &need) ||
        !mr_checked_add_u64(need, other_bytes, &need))
        need = UINT64_MAX;
    return mr_codec_limits_check_memory(limits, need, error);
}

struct mr_codec_limits mr_codec_limits_resolve(const struct mr_codec_limits *limits)
{
    struct mr_codec_limits resolved = *limits;
    if (resolved.max_pixels == 0)
        resolved.max_pixels = MR_CODEC_MAX_PIXELS;
    if (resolved.max_scans == 0)
        resolved.max_scans = MR_CODEC_MAX_SCANS;
    if (resolved.max_scan_blocks == 0)
        resolved.max_scan_blocks = MR_CODEC_MAX_SCAN_BLOCKS;
    if (resolved.max_decoder_bytes == 0)
        resolved.max_decoder_bytes = MR_CODEC_MAX_DECODER_BYTES;
    return resolved;
}
