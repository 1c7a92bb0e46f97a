/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes one small picture as a JPEG with libjpeg alone, with our decoder of scans, by marks, and
 * as a packed JPEG, and compares the pixels. The picture is 4:2:0, two tiles wide and three MCUs
 * high, with coefficients from a small generator. The JPEG is written by hand: if all Huffman codes
 * of a table have one length, an encoder is a dozen lines. Large data is on the heap, because
 * mr_loader_create() runs this on its caller's stack and may use at most 32 KiB of that.
 */
#include "transforms/packed_selftest.h"

#include "base/packed_image.h"
#include "transforms/codec_jpeg.h"
#include "transforms/codec_marked.h"
#include "transforms/codec_packed.h"
#include "transforms/jpeg/jpeg_feed.h"
#include "transforms/jpeg/mark_maker.h"
#include "transforms/simd/kernels.h"
#include "transforms/tile.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 149
#define HEIGHT 35
#define COLUMNS 10 /* MCUs */
#define ROWS 3
#define TILES 2
#define MCU_BLOCKS 6
#define N_BLOCKS (COLUMNS * ROWS * MCU_BLOCKS)
#define MAX_AC 31
#define MAX_DC 127 /* so differences have up to eight bits */
#define HEADER_ROOM 1024
#define COUNTS 4 /* before the number of codes of one bit, in the segment of a Huffman table */
#define BLOCK_ROOM                                                                                 \
    160 /* bytes: 4 + 9 + 63 x (3 + 5) bits, twice that if a zero follows each byte */

/* Natural order by zigzag order. */
static const uint8_t natural[64] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
};

struct selftest {
    uint32_t random;
    int16_t blocks[N_BLOCKS][64];
    struct mr_packed_template template;
    uint32_t rows[ROWS + 1];
    struct mr_tile_rest rest;
    uint8_t pack[ROWS * TILES * (2 + MR_TILE_MAX_BYTES) + MR_TILE_SLACK];

    uint8_t jpeg[HEADER_ROOM + N_BLOCKS * BLOCK_ROOM];
    size_t jpeg_len;
    uint32_t bits; /* not yet written, the last one lowest */
    uint32_t n_bits;

    struct mr_mark_maker *marker; /* only if marks are tried */
    struct mr_packed_image marked;

    uint8_t pixels[2][WIDTH * HEIGHT * 3];
};

static uint32_t draw_number(struct selftest *selftest)
{
    selftest->random = selftest->random * 1664525 + 1013904223;
    return selftest->random >> 8;
}

/*
 * Most blocks end early, as a photograph's do. Every fourth is full, because an inverse DCT may
 * treat the two differently.
 */
static void make_blocks(struct selftest *selftest)
{
    for (uint32_t i = 0; i < N_BLOCKS; i++) {
        int16_t *block = selftest->blocks[i];
        bool full = draw_number(selftest) % 4 == 0;
        block[0] = (int16_t)((int)(draw_number(selftest) % (2 * MAX_DC + 1)) - MAX_DC);
        for (uint32_t k = 1; k < 64 && (full || draw_number(selftest) % 4 > 0); k++) {
            int16_t value = (int16_t)(1 + draw_number(selftest) % MAX_AC);
            block[natural[k]] = draw_number(selftest) % 2 ? value : (int16_t)-value;
        }
    }
}

/* By diagonals, which are the same in zigzag order. One component's values go beyond 16 bits. */
static uint16_t make_quant(uint32_t component, uint32_t diagonal)
{
    return (uint16_t)(component == 1 ? 2900 + 100 * diagonal : 3 + component + diagonal);
}

static void make_template(struct mr_packed_template *template)
{
    *template = (struct mr_packed_template){
        .n_components = 3, .colour = MR_PACKED_YCC, .h = {2, 1, 1}, .v = {2, 1, 1}};
    for (uint32_t c = 0; c < 3; c++)
        for (uint32_t i = 0; i < 64; i++)
            template->quant[c][i] = make_quant(c, i / 8 + i % 8);
}

/* The pack's sample. */

static void put_u16(uint8_t *at, size_t value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

static void make_pack(struct selftest *selftest)
{
    uint8_t *at = selftest->pack;
    for (uint32_t row = 0; row < ROWS; row++) {
        uint8_t *sizes = at;
        at += 2 * TILES;
        for (uint32_t tile = 0; tile < TILES; tile++) {
            uint32_t first = tile * MR_PACKED_TILE_MCUS;
            uint32_t n =
                COLUMNS - first < MR_PACKED_TILE_MCUS ? COLUMNS - first : MR_PACKED_TILE_MCUS;
            size_t len = mr_tile_encode_dct_in(&selftest->rest,
                                               (const int16_t(*)[64])selftest->blocks +
                                                   (row * COLUMNS + first) * MCU_BLOCKS,
                                               n * MCU_BLOCKS, at);
            put_u16(sizes + 2 * (size_t)tile, len);
            at += len;
        }
        selftest->rows[row + 1] = (uint32_t)(at - selftest->pack);
    }
}

/* The JPEG. */

static void put_bytes(struct selftest *selftest, const void *bytes, size_t len)
{
    memcpy(selftest->jpeg + selftest->jpeg_len, bytes, len);
    selftest->jpeg_len += len;
}

/* Put n bits, at most 24, the highest first. */
static void put_bits(struct selftest *selftest, uint32_t value, uint32_t n)
{
    selftest->bits = selftest->bits << n | value;
    for (selftest->n_bits += n; selftest->n_bits >= 8; selftest->n_bits -= 8) {
        uint8_t byte = (uint8_t)(selftest->bits >> (selftest->n_bits - 8));
        put_bytes(selftest, (const uint8_t[]){byte, 0}, byte == 0xff ? 2 : 1);
    }
}

static void put_tables(struct selftest *selftest)
{
    for (uint8_t c = 0; c < 3; c++) {
        put_bytes(selftest, (const uint8_t[]){0xff, 0xdb, 0, 3 + 2 * 64, 0x10 | c}, 5);
        for (uint32_t diagonal = 0; diagonal < 15; diagonal++) {
            uint16_t q = make_quant(c, diagonal);
            for (uint32_t n = diagonal < 8 ? diagonal + 1 : 15 - diagonal; n > 0; n--)
                put_bytes(selftest, (const uint8_t[]){(uint8_t)(q >> 8), (uint8_t)q}, 2);
        }
    }
    /*
     * DC: sizes 0 to 9 are codes 0 to 9 of four bits. AC: end of block and sizes 1 to 5 are codes 0
     * to 5 of three bits.
     */
    const uint8_t dc[] = {0xff, 0xc4, 0, 29, 0x00, [COUNTS + 4] = 10, [COUNTS + 17] = 0, 1, 2, 3, 4,
                          5,    6,    7, 8,  9};
    const uint8_t ac[] = {0xff, 0xc4, 0, 25, 0x10, [COUNTS + 3] = 6, [COUNTS + 17] = 0,
                          1,    2,    3, 4,  5};
    put_bytes(selftest, dc, sizeof dc);
    put_bytes(selftest, ac, sizeof ac);
}

static void put_value(struct selftest *selftest, int value, uint32_t code_bits)
{
    uint32_t magnitude = (uint32_t)(value < 0 ? -value : value), size = 0;
    while (magnitude >> size)
        size++;
    put_bits(selftest, size, code_bits);
    put_bits(selftest, value < 0 ? (uint32_t)(value - 1) & ((1u << size) - 1) : magnitude, size);
}

static void put_block(struct selftest *selftest, const int16_t block[64], int16_t *before)
{
    put_value(selftest, block[0] - *before, 4);
    *before = block[0];
    uint32_t k = 1;
    for (; k < 64 && block[natural[k]]; k++)
        put_value(selftest, block[natural[k]], 3);
    if (k < 64)
        put_bits(selftest, 0, 3);
}

static void make_jpeg(struct selftest *selftest)
{
    const uint8_t frame[] = {0xff, 0xc0, 0, 17, 8,    0, HEIGHT, 0,    WIDTH, 3,
                             1,    0x22, 0, 2,  0x11, 1, 3,      0x11, 2};
    const uint8_t scan[] = {0xff, 0xda, 0, 12, 3, 1, 0, 2, 0, 3, 0, 0, 63, 0};
    const uint8_t component[MCU_BLOCKS] = {0, 0, 0, 0, 1, 2};
    int16_t before[3] = {0};
    put_bytes(selftest, (const uint8_t[]){0xff, 0xd8}, 2);
    put_tables(selftest);
    put_bytes(selftest, frame, sizeof frame);
    put_bytes(selftest, scan, sizeof scan);
    for (uint32_t i = 0; i < N_BLOCKS; i++)
        put_block(selftest, selftest->blocks[i], &before[component[i % MCU_BLOCKS]]);
    put_bits(selftest, 0x7f, 7);
    put_bytes(selftest, (const uint8_t[]){0xff, 0xd9}, 2);
}

/* Decoding in each way. */

struct box {
    uint32_t x, y, width, height;
};

static mr_status read_box(const struct mr_codec_ops *codec, void *state, const struct box *box,
                          uint8_t *pixels, mr_error *error)
{
    const uint8_t *rows[MR_CODEC_ROWS];
    mr_status status = codec->begin(state, box->x, box->y, box->width, box->height, error);
    for (uint32_t y = 0; status == MR_OK && y < box->height;) {
        uint32_t n = 0;
        status = codec->rows(state, rows, MR_CODEC_ROWS, &n, error);
        for (uint32_t i = 0; status == MR_OK && i < n; i++, y++)
            memcpy(pixels + (size_t)y * box->width * 3, rows[i], (size_t)box->width * 3);
    }
    codec->close(state);
    return status;
}

static mr_status read_jpeg(struct selftest *selftest, void *jpeg, const struct box *box,
                           uint8_t *pixels, mr_error *error)
{
    struct mr_image_head head;
    mr_status status = mr_codec_jpeg.open(jpeg, selftest->jpeg, selftest->jpeg_len, &head, error);
    return status == MR_OK ? read_box(&mr_codec_jpeg, jpeg, box, pixels, error) : status;
}

static mr_status read_packed(struct selftest *selftest, void *packed, const struct box *box,
                             uint8_t *pixels, mr_error *error)
{
    struct mr_image_head head;
    struct mr_packed_image image = {.encoding = MR_PACKED_DCT,
                                    .width = WIDTH,
                                    .height = HEIGHT,
                                    .orientation = 1,
                                    .n_rows = ROWS,
                                    .len = selftest->rows[ROWS],
                                    .template = &selftest->template,
                                    .rows = selftest->rows};
    mr_status status =
        mr_codec_packed_open(packed, &image, selftest->pack, image.len, 0, &head, error);
    return status == MR_OK ? read_box(&mr_codec_packed, packed, box, pixels, error) : status;
}

/* From the first byte of the scan on. */
static mr_status read_marked(struct selftest *selftest, void *marked, const struct box *box,
                             uint8_t *pixels, mr_error *error)
{
    const struct mr_packed_image *image = &selftest->marked;
    struct mr_image_head head;
    uint32_t first = image->rows[0];
    mr_status status = mr_codec_marked_open(marked, image, selftest->jpeg + first,
                                            selftest->jpeg_len - first, first, &head, error);
    return status == MR_OK ? read_box(&mr_codec_marked, marked, box, pixels, error) : status;
}

/* A way of decoding, which is compared with libjpeg. */
struct way {
    const struct mr_codec_ops *codec;
    mr_status (*read)(struct selftest *selftest, void *state, const struct box *box,
                      uint8_t *pixels, mr_error *error);
    const char *what;
    bool libjpeg_idct;
};

static mr_status compare_boxes(struct selftest *selftest, const struct way *way, void *jpeg,
                               void *state, mr_error *error)
{
    static const struct box boxes[] = {{0, 0, WIDTH, HEIGHT}, {100, 20, 40, 10}, {140, 34, 9, 1}};
    mr_status status = MR_OK;
    for (size_t i = 0; status == MR_OK && i < sizeof boxes / sizeof boxes[0]; i++) {
        const struct box *box = &boxes[i];
        size_t len = (size_t)box->width * box->height * 3;
        status = read_jpeg(selftest, jpeg, box, selftest->pixels[0], error);
        if (status == MR_OK)
            status = way->read(selftest, state, box, selftest->pixels[1], error);
        if (status == MR_OK && memcmp(selftest->pixels[0], selftest->pixels[1], len) != 0)
            status = mr_error_set(error, MR_ERR_UNSUPPORTED,
                                  "this libjpeg gives different pixels for %s", way->what);
    }
    return status;
}

static void choose_idct(const struct way *way, void *state)
{
    if (way->codec == &mr_codec_packed)
        mr_codec_packed_use_libjpeg_idct(state, way->libjpeg_idct);
    else if (way->codec == &mr_codec_marked)
        mr_codec_marked_use(state, mr_kernels_best(), way->libjpeg_idct);
    else
        mr_codec_jpeg_use(state, way->libjpeg_idct ? MR_CODEC_JPEG_OWN_SCAN : MR_CODEC_JPEG_OWN,
                          mr_kernels_best());
}

static mr_status make_marks(struct selftest *selftest, const struct mr_codec_limits *limits,
                            mr_error *error)
{
    mr_status status = mr_mark_maker_create(limits, &selftest->marker, error);
    if (status != MR_OK)
        return status;
    return mr_mark_maker_run(selftest->marker, selftest->jpeg, selftest->jpeg_len,
                             &selftest->marked, error);
}

static mr_status compare_codecs(struct selftest *selftest, const struct way *way, mr_error *error)
{
    const struct mr_codec_limits zeros = {0}, limits = mr_codec_limits_resolve(&zeros);
    void *jpeg = NULL, *state = NULL;
    mr_status status = mr_codec_jpeg.create(&limits, &jpeg, error);
    if (status == MR_OK)
        status = way->codec->create(&limits, &state, error);
    if (status == MR_OK && way->codec == &mr_codec_marked)
        status = make_marks(selftest, &limits, error);
    if (status == MR_OK) {
        choose_idct(way, state);
        status = compare_boxes(selftest, way, jpeg, state, error);
    }
    if (status == MR_OK && way->codec == &mr_codec_jpeg && !mr_codec_jpeg_used_own(state))
        status = mr_error_set(error, MR_ERR_UNSUPPORTED,
                              "this libjpeg does not accept a decoder of scans");
    if (state)
        way->codec->destroy(state);
    if (jpeg)
        mr_codec_jpeg.destroy(jpeg);
    mr_mark_maker_destroy(selftest->marker);
    return status;
}

static mr_status run_way(const struct way *way, mr_error *error)
{
    struct selftest *selftest = calloc(1, sizeof *selftest);
    if (!selftest)
        return mr_error_memory(error, sizeof *selftest);
    make_blocks(selftest);
    make_template(&selftest->template);
    make_pack(selftest);
    make_jpeg(selftest);
    mr_status status = compare_codecs(selftest, way, error);
    free(selftest);
    return status;
}

mr_status mr_packed_selftest_run(bool libjpeg_idct, mr_error *error)
{
    const struct way way = {&mr_codec_packed, read_packed, "a packed JPEG", libjpeg_idct};
    mr_error cause = {0};
    mr_status status = run_way(&way, &cause);
    if (status == MR_OK)
        return MR_OK;
    return mr_error_set(error, status == MR_ERR_NO_MEMORY ? status : MR_ERR_UNSUPPORTED,
                        "packed JPEGs cannot be decoded here: %s", cause.text);
}

mr_status mr_packed_selftest_run_scan(bool libjpeg_idct, mr_error *error)
{
    const struct way way = {&mr_codec_jpeg, read_jpeg, "a JPEG file that millrace decodes itself",
                            libjpeg_idct};
    return run_way(&way, error);
}

mr_status mr_packed_selftest_run_marks(bool libjpeg_idct, mr_error *error)
{
    const struct way way = {&mr_codec_marked, read_marked, "a JPEG file with an index",
                            libjpeg_idct};
    return run_way(&way, error);
}

/* What works here. SETTLED: no attempt lacked memory. */
enum { SETTLED = 1, PACKED = 2, OWN_IDCT = 4, OWN_SCAN = 8, MARKS = 16 };

/*
 * Try the kernels' inverse DCT, then libjpeg's if theirs differs (libjpeg may lack or avoid
 * vectors).
 */
static mr_status try_packed(unsigned *found, mr_error *error)
{
    if (!mr_jpeg_feed_knows_libjpeg())
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "packed JPEGs need libjpeg-turbo 2 or 3");
    mr_status status = mr_packed_selftest_run(false, error);
    if (status == MR_OK)
        *found |= OWN_IDCT;
    else if (status == MR_ERR_UNSUPPORTED) /* a lack of memory says nothing about the IDCT */
        status = mr_packed_selftest_run(true, error);
    if (status == MR_OK)
        *found |= PACKED;
    return status;
}

/* Each part needs the one before it. Returns the status of the first that fails. */
static mr_status try_all(unsigned *found, mr_error *error)
{
    mr_status status = try_packed(found, error);
    if (status != MR_OK)
        return status;
    bool libjpeg_idct = !(*found & OWN_IDCT);
    status = mr_packed_selftest_run_scan(libjpeg_idct, error);
    if (status != MR_OK)
        return status;
    *found |= OWN_SCAN;
    status = mr_packed_selftest_run_marks(libjpeg_idct, error);
    if (status == MR_OK)
        *found |= MARKS;
    return status;
}

/*
 * Does this part work? Only one atomic word is stored, no message, so a failure is tried again for
 * a caller with an error. There is no lock, because a fork could leave it held in the child.
 */
static mr_status need_part(unsigned part, mr_error *error)
{
    static _Atomic unsigned known;
    unsigned found = atomic_load_explicit(&known, memory_order_relaxed);
    if (found & part)
        return MR_OK;
    if ((found & SETTLED) && !error)
        return MR_ERR_UNSUPPORTED;
    mr_error words = {0};
    found = 0;
    mr_status status = try_all(&found, &words);
    if (status != MR_ERR_NO_MEMORY)
        atomic_store_explicit(&known, found | SETTLED, memory_order_relaxed);
    if (found & part)
        return MR_OK;
    words.status = status == MR_ERR_NO_MEMORY ? status : MR_ERR_UNSUPPORTED;
    mr_error_copy(error, &words);
    return (mr_status)words.status;
}

mr_status mr_packed_selftest_check(mr_error *error)
{
    return need_part(PACKED, error);
}

bool mr_packed_selftest_own_idct(void)
{
    return need_part(OWN_IDCT, NULL) == MR_OK;
}

enum mr_codec_jpeg_decoder mr_packed_selftest_decoder(void)
{
    if (need_part(OWN_SCAN, NULL) != MR_OK)
        return MR_CODEC_JPEG_STOCK;
    return mr_packed_selftest_own_idct() ? MR_CODEC_JPEG_OWN : MR_CODEC_JPEG_OWN_SCAN;
}

mr_status mr_packed_selftest_check_marks(mr_error *error)
{
    return need_part(MARKS, error);
}
