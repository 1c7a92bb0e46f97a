/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Anything as a sample of a pack: no crash, damage as the only failure, the same outcome with all
 * sets of loops. A crop, decoded from only the bytes that it needs, equals the same part of the
 * whole picture. One state sees all inputs.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_sample.h"

#include "transforms/codec_packed.h"
#include "transforms/packed_selftest.h"
#include "transforms/simd/kernels.h"
#include "transforms/packed.h"
#include "transforms/tile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void require_damage(mr_status status, const mr_error *error)
{
    require(status == MR_ERR_DAMAGED && error->status == (int32_t)status,
            "a status that is not allowed");
    require(error->text[0] != 0 && strchr(error->text, '\n') == NULL,
            "a message that is not allowed");
}

static struct mr_codec_limits make_limits(void)
{
    const struct mr_codec_limits limits = {.max_pixels = 1 << 17, .max_decoder_bytes = 16 << 20};
    return mr_codec_limits_resolve(&limits);
}

static void *get_state(void)
{
    static void *state;
    struct mr_codec_limits limits = make_limits();
    if (!state) {
        require(mr_codec_packed.create(&limits, &state, NULL) == MR_OK, "no state");
        mr_codec_packed_use_libjpeg_idct(state, !mr_packed_selftest_own_idct());
    }
    return state;
}

/* A block of copy_exactly len bytes, so that AddressSanitizer sees a read past the end. */
static void *copy_exactly(const void *bytes, size_t len, size_t slack)
{
    uint8_t *copy = malloc(len + slack + 1);
    require(copy != NULL, "no memory");
    uint8_t *exact = realloc(copy, len + slack > 0 ? len + slack : 1);
    require(exact != NULL, "no memory");
    if (len > 0)
        memcpy(exact, bytes, len);
    memset(exact + len, 0xff, slack);
    return exact;
}

/* The pixels of a box, or NULL if it is damaged. */
static uint8_t *decode(const struct mr_packed_image *image, const uint8_t *bytes, struct mr_box box)
{
    uint64_t offset, len;
    struct mr_image_head head;
    const uint8_t *rows[MR_CODEC_ROWS];
    size_t stride = (size_t)box.width * 3;
    mr_error error;
    mr_packed_range(image, box, &offset, &len);
    require(offset <= image->len && len <= image->len - offset, "a range outside the sample");
    uint8_t *range = copy_exactly(bytes + offset, (size_t)len, MR_TILE_SLACK);
    uint8_t *pixels = copy_exactly(NULL, 0, stride * (size_t)box.height);
    mr_status status =
        mr_codec_packed_open(get_state(), image, range, (size_t)len, offset, &head, &error);
    bool opened = status == MR_OK;
    if (opened)
        status = mr_codec_packed.begin(get_state(), (uint32_t)box.x, (uint32_t)box.y,
                                       (uint32_t)box.width, (uint32_t)box.height, &error);
    for (uint32_t y = 0, n = 0; status == MR_OK && y < box.height; y += n) {
        status = mr_codec_packed.rows(get_state(), rows, 5, &n, &error);
        for (uint32_t i = 0; status == MR_OK && i < n; i++)
            memcpy(pixels + (y + i) * stride, rows[i], stride);
    }
    if (opened)
        mr_codec_packed.close(get_state());
    free(range);
    if (status == MR_OK)
        return pixels;
    require_damage(status, &error);
    free(pixels);
    return NULL;
}

/* By all sets of loops, which must agree. */
static uint8_t *decode_by_all(const struct mr_packed_image *image, const uint8_t *bytes,
                              struct mr_box box)
{
    uint8_t *first = NULL;
    for (int cpu = 0; cpu < MR_CPU_N; cpu++) {
        const struct mr_kernel_ops *kernels = mr_kernels_find(cpu);
        if (!kernels)
            continue;
        mr_codec_packed_use(get_state(), kernels);
        uint8_t *pixels = decode(image, bytes, box);
        if (cpu == 0) {
            first = pixels;
            continue;
        }
        require((first == NULL) == (pixels == NULL),
                "sets of loops disagree whether it is damaged");
        require(!first || memcmp(first, pixels, (size_t)(box.width * box.height * 3)) == 0,
                "sets of loops give other pixels");
        free(pixels);
    }
    return first;
}

static void compare(const struct mr_packed_image *image, const uint8_t *bytes,
                    const uint16_t wish[4])
{
    struct mr_box all = {.width = image->width, .height = image->height};
    struct mr_box box = {.x = wish[0] % image->width, .y = wish[1] % image->height};
    box.width = 1 + wish[2] % (image->width - box.x);
    box.height = 1 + wish[3] % (image->height - box.y);
    uint8_t *whole = decode_by_all(image, bytes, all);
    uint8_t *part = decode_by_all(image, bytes, box);
    require(!whole || part, "a crop of a good picture is damaged");
    for (int64_t y = 0; whole && y < box.height; y++)
        require(memcmp(whole + ((box.y + y) * image->width + box.x) * 3, part + y * box.width * 3,
                       (size_t)box.width * 3) == 0,
                "a crop differs from the whole");
    free(whole);
    free(part);
}

static void make_template(const struct fuzz_sample_head *head, struct mr_packed_template *template)
{
    *template =
        (struct mr_packed_template){.n_components = head->n_components, .colour = head->colour};
    memcpy(template->h, head->h, sizeof head->h);
    memcpy(template->v, head->v, sizeof head->v);
    for (uint32_t c = 0; c < MR_PACKED_MAX_COMPONENTS; c++)
        for (uint32_t i = 0; i < 64; i++)
            template->quant[c][i] = (uint16_t)(head->quant + i * (c + 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct fuzz_sample_head head;
    struct mr_packed_template template;
    struct mr_codec_limits limits = make_limits();
    mr_error error;
    if (mr_packed_selftest_check(NULL) != MR_OK || len < sizeof head)
        return 0;
    memcpy(&head, bytes, sizeof head);
    size_t rows_len = (head.n_rows + 1u) * sizeof(uint32_t);
    if (len - sizeof head < rows_len)
        return 0;
    make_template(&head, &template);
    uint32_t *rows = copy_exactly(bytes + sizeof head, rows_len, 0);
    struct mr_packed_image image = {.encoding = head.encoding,
                                    .width = head.width,
                                    .height = head.height,
                                    .orientation = head.orientation,
                                    .n_rows = head.n_rows,
                                    .len = len - sizeof head - rows_len,
                                    .template = &template,
                                    .rows = rows};
    mr_status status = mr_packed_check(&image, &limits, &error);
    if (status != MR_OK)
        require_damage(status, &error);
    else if (image.encoding == MR_PACKED_DCT)
        compare(&image, bytes + sizeof head + rows_len, head.box);
    free(rows);
    return 0;
}
