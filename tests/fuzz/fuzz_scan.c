/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decoder of scans, with libjpeg as the oracle: any bytes give the same status, message,
 * warnings and pixels, with plain C and with the best set of loops. The states are used for all
 * inputs, so what one input leaves in them affects the next.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_scan.h"

#include "tests/transforms/scan_pair.h"
#include "transforms/codec_jpeg.h"
#include "transforms/simd/kernels.h"

static struct scan_pair pairs[2];

static void make_pairs(void)
{
    const struct mr_codec_limits limits = {
        .max_pixels = 1 << 17, .max_scans = 20, .max_decoder_bytes = 16 << 20};
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

/* As libjpeg sees it. A box outside the image is not a box. */
static bool find_size(const uint8_t *bytes, size_t len, struct mr_image_head *head_out)
{
    mr_error error;
    if (mr_codec_jpeg.open(pairs[0].stock, bytes, len, head_out, &error) != MR_OK)
        return false;
    mr_codec_jpeg.close(pairs[0].stock);
    return true;
}

static void compare(struct scan_pair *pair, const uint8_t *bytes, size_t len,
                    const struct scan_box *box)
{
    const char *difference = scan_pair_compare(pair, bytes, len, box);
    require(!difference, difference);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct mr_image_head head;
    uint32_t number = (uint32_t)len;
    make_pairs();
    for (size_t i = len > 64 ? len - 64 : 0; i < len; i++)
        number = (number ^ bytes[i]) * 16777619u;
    for (int i = 0; i < 2; i++)
        compare(&pairs[i], bytes, len, NULL);
    if (!find_size(bytes, len, &head))
        return 0;
    struct scan_box box = scan_pair_box(number, head.width, head.height);
    for (int i = 0; i < 2; i++)
        compare(&pairs[i], bytes, len, &box);
    return 0;
}
