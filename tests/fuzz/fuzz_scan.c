/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decoder of scans against libjpeg as the oracle: any bytes give the same status, words, warnings and pixels, with
 * plain C and with the best set of loops. The states see all inputs, so that what one leaves behind meets the next.
 */
#include "tests/fuzz/fuzz_scan.h"

#include "tests/transforms/scan_pair.h"
#include "transforms/simd/kernels.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static struct scan_pair pairs[2];

static void make_pairs(void)
{
    const struct mr_codec_limits limits = {.max_pixels = 1 << 17, .max_scans = 20, .max_decoder_bytes = 16 << 20};
    if (pairs[0].own)
        return;
    scan_pair_init(&pairs[0], &limits, mr_kernels_find(MR_CPU_C));
    scan_pair_init(&pairs[1], &limits, mr_kernels_best());
}

void fuzz_scan_count(uint32_t *n_compared_out, uint32_t *n_own_out)
{
    *n_compared_out = pairs[0].n_compared + pairs[1].n_compared;
    *n_own_out = pairs[0].n_own + pairs[1].n_own;
}

/* Width and height by the first frame header, 0 where there is none. */
static void find_size(const uint8_t *bytes, size_t len, uint32_t *width_out, uint32_t *height_out)
{
    *width_out = *height_out = 0;
    for (size_t i = 2; i + 9 <= len && bytes[i] == 0xff; i += 2 + ((size_t)bytes[i + 2] << 8 | bytes[i + 3])) {
        if (bytes[i + 1] < 0xc0 || bytes[i + 1] > 0xc2)
            continue;
        *height_out = (uint32_t)bytes[i + 5] << 8 | bytes[i + 6];
        *width_out = (uint32_t)bytes[i + 7] << 8 | bytes[i + 8];
        return;
    }
}

static void compare(struct scan_pair *pair, const uint8_t *bytes, size_t len, const struct scan_box *box)
{
    const char *difference = scan_pair_compare(pair, bytes, len, box);
    if (!difference)
        return;
    fprintf(stderr, "fuzz_scan: %s\n", difference);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    uint32_t width, height, number = (uint32_t)len;
    make_pairs();
    find_size(bytes, len, &width, &height);
    for (size_t i = len > 64 ? len - 64 : 0; i < len; i++)
        number = (number ^ bytes[i]) * 16777619u;
    for (int i = 0; i < 2; i++)
        compare(&pairs[i], bytes, len, NULL);
    if (width == 0 || height == 0 || (uint64_t)width * height > 1 << 17)
        return 0;
    struct scan_box box = scan_pair_box(number, width, height);
    for (int i = 0; i < 2; i++)
        compare(&pairs[i], bytes, len, &box);
    return 0;
}
