/* SPDX-License-Identifier: Apache-2.0 */
/* Copies ranges to separate memory, so AddressSanitizer sees a read past their end. */
#include "tests/transforms/marked_box.h"

#include <stdlib.h>
#include <string.h>

#include "transforms/codec_marked.h"
#include "transforms/packed.h"
#include "transforms/packed_selftest.h"

#define SLACK 64

void *marked_box_make(const struct mr_kernel_ops *kernels)
{
    const struct mr_codec_limits limits = mr_codec_limits_resolve(&(struct mr_codec_limits){0});
    void *state;
    if (mr_codec_marked.create(&limits, &state, NULL) != MR_OK)
        abort();
    mr_codec_marked_use(state, kernels, mr_packed_selftest_decoder() != MR_CODEC_JPEG_OWN);
    return state;
}

static mr_status read_rows(void *state, const struct scan_box *box, uint8_t *pixels,
                           mr_error *error)
{
    const uint8_t *rows[MR_CODEC_ROWS];
    uint32_t most = 1 + (box->x + box->width + box->height) % MR_CODEC_ROWS, y = 0;
    size_t stride = (size_t)box->width * 3;
    mr_status status = mr_codec_marked.begin(state, box->x, box->y, box->width, box->height, error);
    while (status == MR_OK && y < box->height) {
        uint32_t n = 0;
        status = mr_codec_marked.rows(state, rows, most, &n, error);
        for (uint32_t i = 0; status == MR_OK && i < n; i++, y++)
            memcpy(pixels + y * stride, rows[i], stride);
    }
    if (mr_codec_marked.close(state) != 0 && status == MR_OK)
        abort();
    return status;
}

mr_status marked_box_decode_part(void *state, const struct mr_packed_image *image,
                                 const uint8_t *file, uint64_t offset, uint64_t len,
                                 const struct scan_box *box, uint8_t *pixels, mr_error *error)
{
    struct mr_image_head head;
    uint8_t *bytes = malloc((size_t)len + SLACK);
    if (!bytes)
        abort();
    memcpy(bytes, file + offset, (size_t)len);
    memset(bytes + len, 0x5a, SLACK);
    mr_status status = mr_codec_marked_open(state, image, bytes, (size_t)len, offset, &head, error);
    if (status == MR_OK && (head.width != image->width || head.height != image->height))
        abort();
    if (status == MR_OK)
        status = read_rows(state, box, pixels, error);
    free(bytes);
    return status;
}

mr_status marked_box_decode(void *state, const struct mr_packed_image *image, const uint8_t *file,
                            const struct scan_box *box, uint8_t *pixels, mr_error *error)
{
    const struct mr_box need = {
        .x = box->x, .y = box->y, .width = box->width, .height = box->height};
    uint64_t offset, len;
    mr_packed_range(image, need, &offset, &len);
    return marked_box_decode_part(state, image, file, offset, len, box, pixels, error);
}

bool marked_box_equals(const uint8_t *full, uint32_t full_width, const struct scan_box *box,
                       const uint8_t *pixels)
{
    size_t stride = (size_t)box->width * 3;
    for (uint32_t y = 0; y < box->height; y++)
        if (memcmp(full + ((size_t)(box->y + y) * full_width + box->x) * 3, pixels + y * stride,
                   stride) != 0)
            return false;
    return true;
}
