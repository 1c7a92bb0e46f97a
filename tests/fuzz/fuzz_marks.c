/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks, with libjpeg as the oracle: a file has marks only if libjpeg decodes all of it without a
 * warning. Then every box by marks has libjpeg's pixels, with plain C and with the best set of
 * loops. The states are used for all inputs, so what one input leaves in them affects the next.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_marks.h"

#include "base/xxh3.h"
#include "tests/transforms/marked_box.h"
#include "transforms/codec_jpeg.h"
#include "transforms/jpeg/mark_maker.h"
#include "transforms/packed.h"
#include "transforms/simd/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JPEG_BYTE 0xff
#define SUM_BYTES 8
#define N_BOXES 4

static struct {
    struct mr_mark_maker *maker;
    void *stock;     /* a state of mr_codec_jpeg */
    void *marked[2]; /* states of mr_codec_marked */
    struct packed_sample files[FUZZ_MARKS_FILES];
    struct fuzz_marks_counts counts;
} fuzz;

static void fail(const char *what)
{
    fprintf(stderr, "fuzz_marks: %s\n", what);
    abort();
}

static void *allocate(size_t len)
{
    void *memory = malloc(len ? len : 1);
    if (!memory)
        fail("no memory");
    return memory;
}

static void make_states(void)
{
    static const struct mr_test_jpeg files[FUZZ_MARKS_FILES] = {
        {.width = 300, .height = 40},
        {.width = 70, .height = 50, .sampling = {{1, 1}, {1, 1}, {1, 1}}, .optimised = true},
        {.width = 150, .height = 20, .colour = MR_TEST_GREY, .restart = 5},
        {.width = 140, .height = 30, .colour = MR_TEST_CMYK, .restart = 1},
    };
    const struct mr_codec_limits limits = {
        .max_pixels = 1 << 17, .max_scans = 20, .max_decoder_bytes = 16 << 20};
    const struct mr_codec_limits resolved = mr_codec_limits_resolve(&limits);
    if (fuzz.maker)
        return;
    if (mr_mark_maker_create(&resolved, &fuzz.maker, NULL) != MR_OK ||
        mr_codec_jpeg.create(&resolved, &fuzz.stock, NULL) != MR_OK)
        fail("no memory");
    fuzz.marked[0] = marked_box_make(mr_kernels_find(MR_CPU_C));
    fuzz.marked[1] = marked_box_make(mr_kernels_best());
    for (int i = 0; i < FUZZ_MARKS_FILES; i++) {
        struct mr_test_image image = mr_test_jpeg(&files[i]);
        if (!packed_sample_marked(&image, &fuzz.files[i]))
            fail("a good file has no marks");
        mr_test_image_free(&image);
    }
}

const struct packed_sample *fuzz_marks_file(uint32_t number)
{
    make_states();
    return &fuzz.files[number % FUZZ_MARKS_FILES];
}

struct fuzz_marks_counts fuzz_marks_count(void)
{
    return fuzz.counts;
}

static uint32_t hash_bytes(const uint8_t *bytes, size_t len)
{
    return (uint32_t)mr_xxh3(bytes, len);
}

/* A JPEG. */

static void decode_stock(const uint8_t *bytes, size_t len, const struct mr_packed_image *image,
                         uint8_t *pixels)
{
    const uint8_t *rows[MR_CODEC_ROWS];
    struct mr_image_head head;
    mr_error error;
    size_t stride = (size_t)image->width * 3;
    if (mr_codec_jpeg.open(fuzz.stock, bytes, len, &head, &error) != MR_OK ||
        mr_codec_jpeg.begin(fuzz.stock, 0, 0, image->width, image->height, &error) != MR_OK)
        fail("libjpeg does not open a file with marks");
    if (head.width != image->width || head.height != image->height ||
        head.orientation != image->orientation)
        fail("the description differs from libjpeg's");
    for (uint32_t y = 0; y < image->height;) {
        uint32_t n = 0;
        if (mr_codec_jpeg.rows(fuzz.stock, rows, MR_CODEC_ROWS, &n, &error) != MR_OK)
            fail("libjpeg does not decode a file with marks");
        for (uint32_t i = 0; i < n; i++, y++)
            memcpy(pixels + y * stride, rows[i], stride);
    }
    if (mr_codec_jpeg.close(fuzz.stock) != 0)
        fail("libjpeg warns of a file with marks");
}

static void compare_boxes(const uint8_t *bytes, const struct mr_packed_image *image,
                          const uint8_t *full, uint8_t *pixels, uint32_t number)
{
    for (uint32_t i = 0; i < 2 * N_BOXES; i++) {
        struct scan_box box = scan_pair_box(number + i / 2, image->width, image->height);
        mr_error error;
        if (i < 2)
            box = (struct scan_box){0, 0, image->width, image->height};
        if (marked_box_decode(fuzz.marked[i % 2], image, bytes, &box, pixels, &error) != MR_OK)
            fail(error.text);
        if (!marked_box_equals(full, image->width, &box, pixels))
            fail("pixels differ");
    }
}

static void try_file(const uint8_t *bytes, size_t len)
{
    struct mr_packed_image image;
    mr_error error;
    fuzz.counts.n_files++;
    if (mr_mark_maker_run(fuzz.maker, bytes, len, &image, &error) != MR_OK)
        return;
    fuzz.counts.n_marked++;
    if (mr_packed_check(&image, &(struct mr_codec_limits){0}, &error) != MR_OK)
        fail(error.text);
    size_t need = (size_t)image.width * image.height * 3;
    uint8_t *full = allocate(need), *pixels = allocate(need);
    decode_stock(bytes, len, &image, full);
    compare_boxes(bytes, &image, full, pixels, hash_bytes(bytes, len));
    free(pixels);
    free(full);
}

/* A part of a file that is always the same. */

static void decode_hostile(const struct mr_packed_image *image, const uint8_t *file,
                           uint32_t number)
{
    uint8_t *pixels = allocate((size_t)image->width * image->height * 3);
    for (uint32_t i = 0; i < 2; i++) {
        struct scan_box box = scan_pair_box(number, image->width, image->height);
        mr_error error;
        mr_status status = marked_box_decode(fuzz.marked[i], image, file, &box, pixels, &error);
        if (status != MR_OK && status != MR_ERR_DAMAGED && status != MR_ERR_NO_MEMORY)
            fail("another status");
        fuzz.counts.n_hostile++;
        fuzz.counts.n_hostile_good += status == MR_OK;
    }
    free(pixels);
}

static void try_marks(const struct packed_sample *sample, const uint8_t *bytes, size_t len,
                      uint32_t number)
{
    struct mr_packed_image image = sample->image;
    uint8_t *marks = allocate(len);
    memcpy(marks, bytes, len);
    if (len > SUM_BYTES) {
        uint64_t sum = mr_xxh3(marks + SUM_BYTES, len - SUM_BYTES);
        for (int i = 0; i < SUM_BYTES; i++)
            marks[i] = (uint8_t)(sum >> 8 * i);
    }
    image.marks = marks;
    image.marks_len = len;
    decode_hostile(&image, sample->bytes, number);
    free(marks);
}

/* Decode with bytes in place of the scan's first ones. */
static void try_scan(const struct packed_sample *sample, const uint8_t *bytes, size_t len,
                     uint32_t number)
{
    size_t start = sample->rows[0], room = sample->rows[sample->image.n_rows] - start;
    uint8_t *file = allocate((size_t)sample->image.len);
    memcpy(file, sample->bytes, (size_t)sample->image.len);
    memcpy(file + start, bytes, len < room ? len : room);
    decode_hostile(&sample->image, file, number);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    make_states();
    if (len == 0)
        return 0;
    uint32_t number = hash_bytes(bytes, len);
    const struct packed_sample *sample = fuzz_marks_file(bytes[0] / 2u);
    if (bytes[0] == JPEG_BYTE)
        try_file(bytes, len);
    else if (bytes[0] % 2 == 0)
        try_marks(sample, bytes + 1, len - 1, number);
    else
        try_scan(sample, bytes + 1, len - 1, number);
    return 0;
}
