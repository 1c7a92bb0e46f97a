/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums are kept as bytes of floats, because the memory after two images may be odd. A product is
 * rounded before it is added, as in torch.
 */
#include "transforms/image_ops/image_mix.h"

#include <string.h>

static size_t count_bytes(const struct mr_image *image)
{
    return image->stride * image->height;
}

static void add_image(float weight, const uint8_t *pixels, size_t n, uint8_t *sums)
{
    for (size_t i = 0; i < n; i++) {
        float sum, part = weight * (float)pixels[i];
        memcpy(&sum, sums + i * sizeof sum, sizeof sum);
        sum += part;
        memcpy(sums + i * sizeof sum, &sum, sizeof sum);
    }
}

/* Cut to integers, as torch's to(uint8). */
static void store_sums(const uint8_t *sums, size_t n, uint8_t *pixels)
{
    for (size_t i = 0; i < n; i++) {
        float sum;
        memcpy(&sum, sums + i * sizeof sum, sizeof sum);
        pixels[i] = (uint8_t)(sum < 255.0f ? sum : 255.0f);
    }
}

void mr_image_mix_run(struct mr_image_mix *mix, const struct mr_image_call *call,
                      struct mr_image *image)
{
    size_t n = count_bytes(image);
    uint8_t *kept = mix->spares + n, *sums = kept + n;
    if (call->kind == MR_CALL_MIX_START) {
        memcpy(kept, image->pixels, n);
        memset(sums, 0, n * sizeof(float));
    } else {
        add_image(mix->weight, image->pixels, n, sums);
    }
    if (call->kind == MR_CALL_MIX_CHAIN)
        memcpy(image->pixels, kept, n);
    if (call->kind == MR_CALL_MIX_END)
        store_sums(sums, n, image->pixels);
    mix->weight = (float)call->args[0];
}
