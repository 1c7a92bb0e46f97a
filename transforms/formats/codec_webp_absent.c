/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces codec_webp.c in a build without libwebp: every WebP file is refused. */
#include "transforms/formats/codec_webp.h"

#include "base/image_format.h"

static mr_status webp_create(const struct mr_codec_limits *limits, void **state_out,
                             mr_error *error)
{
    (void)limits;
    (void)error;
    *state_out = NULL;
    return MR_OK;
}

static mr_status webp_open(void *state, const uint8_t *bytes, size_t len,
                           struct mr_image_head *head_out, mr_error *error)
{
    (void)state;
    (void)bytes;
    (void)len;
    (void)head_out;
    return mr_error_set(error, MR_ERR_DAMAGED, "WebP, but this build has no libwebp");
}

/* A state of NULL is never destroyed; begin, rows and close only follow a successful open. */
const struct mr_codec_ops mr_codec_webp = {
    .name = MR_IMAGE_FORMAT_WEBP, .create = webp_create, .open = webp_open};
