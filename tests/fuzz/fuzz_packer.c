/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a file for the packer. A sample of coefficients has the pixels of the decoded file,
 * and so does the JPEG that is restored from it. A file that is not packed has a reason. Restoring
 * from altered bytes does no harm. One packer of each kind sees all inputs.
 */
#include "tests/fuzz/fuzz.h"

#include "packs/packer.h"
#include "transforms/tile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_KINDS 8

/* Bits of the first byte of an input, which chooses the packer; a file follows. */
#define FUZZ_PACKER_SMALL 4u /* max_side */
#define FUZZ_PACKER_ALTER 8u /* restore from altered bytes */

static struct mr_packer *make_packer(uint32_t encoding, uint32_t kind)
{
    struct mr_packer_options options = {
        .encoding = encoding,
        .max_side = kind & FUZZ_PACKER_SMALL ? 24 : 0,
        .limits = {.max_pixels = 1 << 17, .max_decoder_bytes = 16 << 20}};
    struct mr_packer *packer;
    require(mr_packer_create(&options, &packer, NULL) == MR_OK, "no packer");
    return packer;
}

/* One that packs, and one that restores and decodes. */
static struct mr_packer *get_packer(uint32_t kind)
{
    static struct mr_packer *packers[N_KINDS];
    kind %= N_KINDS;
    if (!packers[kind])
        packers[kind] = make_packer(MR_PACKED_DCT, kind);
    return packers[kind];
}

static struct mr_packer *other_packer(int i)
{
    static struct mr_packer *packers[2];
    if (!packers[i])
        packers[i] = make_packer(i ? MR_PACKED_DCT : MR_PACKED_RAW, 0);
    return packers[i];
}

static void *copy_bytes(const void *bytes, size_t len, size_t slack)
{
    uint8_t *copy = malloc(len + slack + !(len + slack));
    require(copy != NULL, "no memory");
    if (len > 0)
        memcpy(copy, bytes, len);
    memset(copy + len, 0xff, slack);
    return copy;
}

/*
 * A file of the same coefficients has the same pixels. Blocks outside the picture are not stored.
 */
static void check_same(const struct mr_packed_sample *sample, const uint8_t *pixels, size_t len)
{
    struct mr_packed_sample again;
    struct mr_packer *packer = other_packer(1);
    const uint8_t *made;
    size_t made_len;
    mr_status status =
        mr_packer_restore(packer, &sample->image, sample->bytes, &made, &made_len, NULL);
    require(status == MR_OK || status == MR_ERR_DAMAGED, "a sample that cannot be restored");
    if (status != MR_OK)
        return;
    uint8_t *file = copy_bytes(made, made_len, 0);
    require(mr_packer_pack(other_packer(0), file, made_len, &again, NULL) == MR_OK, "no memory");
    require(again.image.encoding == MR_PACKED_RAW && again.image.len == len &&
                memcmp(again.bytes, pixels, len) == 0,
            "a restored file has other pixels");
    free(file);
}

static void check_coefficients(const struct mr_packed_sample *sample, const uint8_t *file,
                               size_t len)
{
    struct mr_packed_sample raw;
    require(mr_packer_try(other_packer(1), &sample->image, sample->bytes, NULL) == MR_OK,
            "a sample is damaged");
    require(mr_packer_pack(other_packer(0), file, len, &raw, NULL) == MR_OK, "no memory");
    require(raw.image.encoding == MR_PACKED_RAW, "coefficients of what cannot be decoded");
    require(sample->made_anew || (raw.image.width == sample->image.width &&
                                  raw.image.height == sample->image.height),
            "another size");
    if (sample->made_anew)
        return;
    size_t pixels_len = (size_t)raw.image.len;
    uint8_t *pixels = copy_bytes(raw.bytes, pixels_len, 0);
    check_same(sample, pixels, pixels_len);
    free(pixels);
}

static void restore_altered(const struct mr_packed_sample *sample, const uint8_t *noise, size_t len)
{
    const uint8_t *made;
    size_t made_len;
    uint8_t *bytes = copy_bytes(sample->bytes, sample->image.len, MR_TILE_SLACK);
    for (size_t i = 0; i + 2 < len && i < 60; i += 3) {
        size_t at = noise[i] | (size_t)noise[i + 1] << 8;
        bytes[at % sample->image.len] = noise[i + 2];
    }
    mr_status status =
        mr_packer_restore(other_packer(1), &sample->image, bytes, &made, &made_len, NULL);
    require(status == MR_OK || status == MR_ERR_DAMAGED, "a status that is not allowed");
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct mr_packed_sample sample;
    if (len == 0)
        return 0;
    uint8_t kind = bytes[0];
    uint8_t *file = copy_bytes(bytes + 1, len - 1, 0);
    require(mr_packer_pack(get_packer(kind), file, len - 1, &sample, NULL) == MR_OK, "no memory");
    if (sample.image.encoding == MR_PACKED_JPEG) {
        require(sample.why[0] != 0 && strchr(sample.why, '\n') == NULL,
                "not packed, without a reason");
    } else {
        require(!sample.damaged && sample.why[0] == 0, "packed with a reason not to be");
        check_coefficients(&sample, file, len - 1);
        if (kind & FUZZ_PACKER_ALTER)
            restore_altered(&sample, bytes + 1 + len / 2, len - 1 - len / 2);
    }
    free(file);
    return 0;
}
