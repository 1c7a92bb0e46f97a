/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes the same box twice and records everything that a caller can see. */
#include "tests/transforms/scan_pair.h"

#include <stdlib.h>
#include <string.h>

#include "transforms/codec_jpeg.h"
#include "transforms/packed_selftest.h"

struct seen {
    mr_status status;
    mr_error error;
    struct mr_image_head head;
    uint32_t n_warnings, n_rows;
    uint8_t *pixels;
};

static void *make_state(const struct mr_codec_limits *limits)
{
    const struct mr_codec_limits resolved = mr_codec_limits_resolve(limits);
    void *state;
    if (mr_codec_jpeg.create(&resolved, &state, NULL) != MR_OK)
        abort();
    return state;
}

void scan_pair_init(struct scan_pair *pair, const struct mr_codec_limits *limits,
                    const struct mr_kernel_ops *kernels)
{
    enum mr_codec_jpeg_decoder decoder = mr_packed_selftest_decoder();
    *pair = (struct scan_pair){.stock = make_state(limits), .own = make_state(limits)};
    mr_codec_jpeg_use(pair->own, decoder == MR_CODEC_JPEG_STOCK ? MR_CODEC_JPEG_OWN_SCAN : decoder,
                      kernels);
}

void scan_pair_fini(struct scan_pair *pair)
{
    mr_codec_jpeg.destroy(pair->stock);
    mr_codec_jpeg.destroy(pair->own);
}

/* Calls of changing sizes, so an oddity occurs at any place within a call. */
static void read_rows(void *state, const struct scan_box *box, struct seen *seen)
{
    const uint8_t *rows[MR_CODEC_ROWS];
    uint32_t most = 1 + (box->x + box->width + box->height) % MR_CODEC_ROWS;
    size_t stride = (size_t)box->width * 3;
    seen->status =
        mr_codec_jpeg.begin(state, box->x, box->y, box->width, box->height, &seen->error);
    while (seen->status == MR_OK && seen->n_rows < box->height) {
        uint32_t n = 0;
        seen->status = mr_codec_jpeg.rows(state, rows, most, &n, &seen->error);
        for (uint32_t i = 0; seen->status == MR_OK && i < n; i++, seen->n_rows++)
            memcpy(seen->pixels + seen->n_rows * stride, rows[i], stride);
    }
    seen->n_warnings = mr_codec_jpeg.close(state);
}

static void decode(void *state, const uint8_t *bytes, size_t len, const struct scan_box *box,
                   struct seen *seen)
{
    memset(seen, 0, sizeof *seen);
    seen->status = mr_codec_jpeg.open(state, bytes, len, &seen->head, &seen->error);
    if (seen->status != MR_OK)
        return;
    struct scan_box whole = {0, 0, seen->head.width, seen->head.height};
    box = box ? box : &whole;
    seen->pixels = malloc((size_t)box->width * box->height * 3);
    if (!seen->pixels)
        abort();
    read_rows(state, box, seen);
}

static const char *find_difference(const struct seen *a, const struct seen *b,
                                   const struct scan_box *box)
{
    uint32_t width = box ? box->width : a->head.width;
    if (a->status != b->status)
        return "the status differs";
    if (a->status != MR_OK && strcmp(a->error.text, b->error.text) != 0)
        return "the words differ";
    if (memcmp(&a->head, &b->head, sizeof a->head) != 0)
        return "the head differs";
    if (a->n_warnings != b->n_warnings)
        return "the number of warnings differs";
    if (a->n_rows != b->n_rows)
        return "the number of rows differs";
    if (a->n_rows > 0 && memcmp(a->pixels, b->pixels, (size_t)width * 3 * a->n_rows) != 0)
        return "pixels differ";
    return NULL;
}

const char *scan_pair_compare(struct scan_pair *pair, const uint8_t *bytes, size_t len,
                              const struct scan_box *box)
{
    struct seen stock, own;
    decode(pair->stock, bytes, len, box, &stock);
    decode(pair->own, bytes, len, box, &own);
    const char *difference = find_difference(&stock, &own, box);
    pair->n_compared++;
    pair->n_own += mr_codec_jpeg_used_own(pair->own);
    free(stock.pixels);
    free(own.pixels);
    return difference;
}

struct scan_box scan_pair_box(uint32_t number, uint32_t width, uint32_t height)
{
    uint32_t a = (number + 1) * 2654435761u, b = (a ^ a >> 13) * 2246822519u;
    uint32_t c = (b ^ b >> 15) * 3266489917u, d = (c ^ c >> 14) * 668265263u;
    struct scan_box box = {(a >> 8) % width, (b >> 8) % height, 1, 1};
    box.width = 1 + (c >> 8) % (width - box.x);
    box.height = 1 + (d >> 8) % (height - box.y);
    return box;
}
