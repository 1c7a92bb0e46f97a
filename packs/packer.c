/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what a pack stores for a file: coefficients, pixels, a new JPEG, or the unchanged bytes.
 *
 * Invariant: two statuses have a special meaning in this file. MR_ERR_DAMAGED: decoding the file
 * gives an error or a warning. MR_ERR_UNSUPPORTED: it can be decoded, but not packed as asked.
 * After either, the file is stored unchanged, with the message. Only MR_ERR_NO_MEMORY reaches the
 * caller.
 */
#include "packs/packer.h"

#include "base/checked.h"
#include "base/image_format.h"
#include "transforms/packed_selftest.h"
#include "transforms/packed.h"
#include "packs/packer_decode.h"
#include "packs/packer_jpeg.h"
#include "packs/packer_jpeg_write.h"
#include "packs/packer_png.h"
#include "packs/packer_resize.h"
#include "packs/packer_tiles.h"
#include "transforms/jpeg/jpeg_marks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_QUALITY 90
#define CHANNELS 3

struct mr_packer {
    struct mr_packer_tiles tiles; /* first: it is aligned */
    struct mr_packer_options options;
    struct mr_packer_decode decode;
    bool stock_jpeg; /* decode JPEGs with libjpeg only */
    struct mr_packed_template template;
    struct mr_packer_resize resize;
    struct mr_scratch resized; /* pixels */
    struct mr_bytes anew;
    struct mr_bytes file;         /* restored */
    struct mr_packed_copy packed; /* the packed sample that restore, try or check_marks works on */
};

/* The bytes of an image file and what is known about them. */
struct input {
    const uint8_t *bytes;
    size_t len;
    bool is_jpeg;
    bool made_anew;
};

mr_status mr_packer_create(const struct mr_packer_options *options, struct mr_packer **packer_out,
                           mr_error *error)
{
    *packer_out = NULL;
    size_t len = mr_align_up(sizeof(struct mr_packer), MR_KERNELS_ALIGN);
    struct mr_packer *packer = aligned_alloc(MR_KERNELS_ALIGN, len);
    if (!packer)
        return mr_error_memory(error, len);
    memset(packer, 0, sizeof *packer);
    packer->options = *options;
    packer->stock_jpeg = options->stock_jpeg || mr_codec_stock_jpeg_asked();
    mr_status status = mr_packer_decode_init(&packer->decode, &options->limits, error);
    if (status == MR_OK && packer->stock_jpeg)
        mr_codec_use_stock_jpeg(packer->decode.codec);
    packer->options.marks =
        options->marks && status == MR_OK && mr_codec_reads_marks(packer->decode.codec);
    if (status == MR_OK)
        *packer_out = packer;
    else
        mr_packer_destroy(packer);
    return status;
}

void mr_packer_destroy(struct mr_packer *packer)
{
    if (!packer)
        return;
    mr_packer_decode_fini(&packer->decode);
    mr_packer_tiles_fini(&packer->tiles);
    mr_packer_resize_fini(&packer->resize);
    mr_scratch_fini(&packer->resized);
    mr_bytes_fini(&packer->anew);
    mr_bytes_fini(&packer->file);
    free(packer);
}

bool mr_packer_makes_marks(const struct mr_packer *packer)
{
    return packer->options.marks;
}

/* ---- Coefficients ---- */

/* Compare the sample, as a reader of the pack decodes it, with the full decode in decode.pixels. */
static mr_status compare_pixels(struct mr_packer *packer, const struct mr_packed_image *image,
                                mr_error *error)
{
    bool same = false;
    mr_status status =
        mr_packer_decode_sample(&packer->decode, image, packer->tiles.bytes.data, &same, error);
    if (status == MR_ERR_NO_MEMORY)
        return status;
    if (status != MR_OK) /* the file itself is good */
        return MR_ERR_UNSUPPORTED;
    return same ? MR_OK
                : mr_error_set(error, MR_ERR_UNSUPPORTED,
                               "its coefficients do not decode to the same pixels");
}

/* Make the tiles, and the pixels if the same pass gives them. */
static mr_status read_jpeg(struct mr_packer *packer, const struct mr_image_head *head,
                           struct mr_packed_image *image, bool *has_pixels_out, mr_error *error)
{
    struct mr_packer_tiles *tiles = &packer->tiles;
    mr_status status =
        mr_packer_jpeg_start(packer->decode.jpeg, &packer->template, has_pixels_out, error);
    if (status != MR_OK)
        return status;
    image->template = &packer->template;
    if (*has_pixels_out)
        status = mr_packer_decode_reserve(&packer->decode, head, error);
    if (status == MR_OK)
        status = mr_packer_tiles_begin(tiles, image, error);
    if (status == MR_OK)
        status =
            mr_packer_jpeg_run(packer->decode.jpeg, tiles, packer->decode.pixels.memory, error);
    if (status == MR_OK)
        mr_packer_tiles_end(tiles, image);
    return status;
}

/* Open the file, read it, close it. *image starts as zeros. */
static mr_status read_jpeg_file(struct mr_packer *packer, const struct input *input,
                                enum mr_packer_jpeg_way way, struct mr_packed_image *image,
                                bool *has_pixels_out, mr_error *error)
{
    struct mr_image_head head;
    mr_status status =
        mr_packer_jpeg_open(packer->decode.jpeg, input->bytes, input->len, way, &head, error);
    if (status != MR_OK)
        return status;
    *image = (struct mr_packed_image){.encoding = packer->options.encoding,
                                      .width = head.width,
                                      .height = head.height,
                                      .orientation = head.orientation};
    status = read_jpeg(packer, &head, image, has_pixels_out, error);
    mr_packer_jpeg_close(packer->decode.jpeg);
    return status;
}

static mr_status pack_coefficients(struct mr_packer *packer, const struct input *input,
                                   struct mr_packed_sample *sample, mr_error *error)
{
    struct mr_packed_image *image = &sample->image;
    struct mr_image_head head;
    bool has_pixels = false;
    if (!input->is_jpeg) {
        mr_status status =
            mr_packer_decode_file(&packer->decode, input->bytes, input->len, false, &head, error);
        return status == MR_OK ? mr_error_set(error, MR_ERR_UNSUPPORTED, "not a JPEG") : status;
    }
    mr_status status = mr_packed_selftest_check(error);
    if (status != MR_OK)
        return status;
    enum mr_packer_jpeg_way way =
        packer->stock_jpeg ? MR_PACKER_JPEG_STOCK : MR_PACKER_JPEG_ONE_PASS;
    status = read_jpeg_file(packer, input, way, image, &has_pixels, error);
    if (status != MR_OK && mr_packer_jpeg_gave_up(packer->decode.jpeg))
        status = read_jpeg_file(packer, input, MR_PACKER_JPEG_STOCK, image, &has_pixels, error);
    if (status == MR_OK && !has_pixels)
        status =
            mr_packer_decode_file(&packer->decode, input->bytes, input->len, true, &head, error);
    if (status == MR_OK)
        status = compare_pixels(packer, image, error);
    sample->bytes = packer->tiles.bytes.data;
    sample->template = packer->template;
    return status;
}

/* ---- Pixels, and JPEGs encoded again ---- */

/* Decode, and resize if that is wanted: width x height x 3 pixels with slack after them. */
static mr_status make_pixels(struct mr_packer *packer, const struct input *input,
                             struct mr_image_head *head, uint8_t **pixels_out, bool *resized_out,
                             mr_error *error)
{
    const struct mr_packer_options *options = &packer->options;
    uint32_t width, height;
    mr_status status =
        mr_packer_decode_file(&packer->decode, input->bytes, input->len, true, head, error);
    if (status == MR_OK)
        status = mr_packer_resize_begin(&packer->resize, head->width, head->height,
                                        options->max_side, options->resize,
                                        packer->decode.limits.max_pixels, &width, &height, error);
    if (status != MR_OK)
        return status;
    *pixels_out = packer->decode.pixels.memory;
    *resized_out = width != head->width || height != head->height;
    if (!*resized_out)
        return MR_OK;
    status = mr_scratch_reserve(&packer->resized, (size_t)width * height + MR_TILE_SLACK, CHANNELS,
                                error);
    if (status == MR_OK)
        status = mr_packer_resize_run(&packer->resize, packer->decode.pixels.memory, head->width,
                                      packer->resized.memory, error);
    *pixels_out = packer->resized.memory;
    head->width = width;
    head->height = height;
    return status;
}

static mr_status pack_pixels(struct mr_packer *packer, const struct input *input,
                             struct mr_packed_sample *sample, mr_error *error)
{
    struct mr_image_head head;
    uint8_t *pixels = NULL;
    mr_status status = make_pixels(packer, input, &head, &pixels, &sample->made_anew, error);
    if (status != MR_OK)
        return status;
    size_t len = (size_t)head.width * head.height * CHANNELS;
    memset(pixels + len, 0, MR_TILE_SLACK);
    sample->image = (struct mr_packed_image){.encoding = MR_PACKED_RAW,
                                             .width = head.width,
                                             .height = head.height,
                                             .orientation = head.orientation,
                                             .len = len};
    sample->bytes = pixels;
    return MR_OK;
}

/* True if the options ask for a new JPEG instead of the file: another size, or a given quality. */
static bool wants_anew(const struct mr_packer *packer, const struct input *input,
                       const struct mr_image_head *head)
{
    const struct mr_packer_options *options = &packer->options;
    uint32_t longest = head->width > head->height ? head->width : head->height;
    uint32_t shortest = head->width > head->height ? head->height : head->width;
    if (options->max_side != 0 && longest > options->max_side)
        return true;
    if (options->resize != 0 && shortest != options->resize)
        return true;
    return options->quality != 0 && input->is_jpeg;
}

/* Replace the input by a newly encoded JPEG if one is wanted. */
static mr_status make_anew(struct mr_packer *packer, struct input *input, mr_error *error)
{
    const struct mr_packer_options *options = &packer->options;
    struct mr_image_head head;
    uint8_t *pixels = NULL;
    bool resized = false;
    if (options->max_side == 0 && options->resize == 0 && options->quality == 0)
        return MR_OK;
    mr_status status =
        mr_packer_decode_head(&packer->decode, input->bytes, input->len, &head, error);
    if (status != MR_OK)
        return status;
    if (!wants_anew(packer, input, &head))
        return MR_OK;
    status = make_pixels(packer, input, &head, &pixels, &resized, error);
    if (status == MR_OK)
        status = mr_packer_jpeg_write(pixels, head.width, head.height,
                                      options->quality ? options->quality : DEFAULT_QUALITY,
                                      head.orientation, &packer->anew, error);
    if (status == MR_OK)
        *input = (struct input){.bytes = packer->anew.data,
                                .len = packer->anew.len,
                                .is_jpeg = true,
                                .made_anew = true};
    return status;
}

/* ---- Unchanged files ---- */

/* Size and orientation are filled in if the header can be read. */
static mr_status keep_file(struct mr_packer *packer, const struct input *input,
                           struct mr_packed_sample *sample, mr_error *error)
{
    struct mr_image_head head = {.orientation = 1};
    mr_status status =
        mr_packer_decode_head(&packer->decode, input->bytes, input->len, &head, error);
    sample->image = (struct mr_packed_image){.encoding = MR_PACKED_JPEG,
                                             .width = head.width,
                                             .height = head.height,
                                             .orientation = head.orientation,
                                             .len = input->len};
    sample->bytes = input->bytes;
    return status;
}

/* Store the file with marks. MR_ERR_UNSUPPORTED or MR_ERR_DAMAGED: no marks can be made for it. */
static mr_status mark_file(struct mr_packer *packer, const struct input *input,
                           struct mr_packed_sample *sample, mr_error *error)
{
    struct mr_packed_image image;
    mr_status status = mr_codec_mark(packer->decode.codec, input->bytes, input->len, &image, error);
    if (status != MR_OK)
        return status;
    sample->image = image;
    sample->template = *image.template;
    sample->bytes = input->bytes;
    return MR_OK;
}

static mr_status pack_as_wanted(struct mr_packer *packer, struct input *input,
                                struct mr_packed_sample *sample, mr_error *error)
{
    if (packer->options.encoding == MR_PACKED_RAW)
        return pack_pixels(packer, input, sample, error);
    mr_status status = make_anew(packer, input, error);
    sample->made_anew = input->made_anew;
    if (status != MR_OK)
        return status;
    if (packer->options.encoding != MR_PACKED_JPEG)
        return pack_coefficients(packer, input, sample, error);
    status = packer->options.marks ? mark_file(packer, input, sample, error) : MR_ERR_UNSUPPORTED;
    return status == MR_OK || status == MR_ERR_NO_MEMORY ? status
                                                         : keep_file(packer, input, sample, error);
}

mr_status mr_packer_pack(struct mr_packer *packer, const uint8_t *bytes, size_t len,
                         struct mr_packed_sample *sample_out, mr_error *error)
{
    struct input input = {.bytes = bytes, .len = len};
    mr_error words;
    memset(sample_out, 0, sizeof *sample_out);
    input.is_jpeg = strcmp(mr_image_format_sniff(bytes, len), MR_IMAGE_FORMAT_JPEG) == 0;
    mr_status status = pack_as_wanted(packer, &input, sample_out, &words);
    if (status == MR_ERR_DAMAGED || status == MR_ERR_UNSUPPORTED) {
        sample_out->damaged = status == MR_ERR_DAMAGED;
        snprintf(sample_out->why, sizeof sample_out->why, "%.*s", (int)sizeof sample_out->why - 1,
                 words.text);
        status = keep_file(packer, &input, sample_out, &words);
        if (status == MR_ERR_DAMAGED)
            status = MR_OK;
    }
    if (status != MR_OK)
        mr_error_copy(error, &words);
    return status;
}

/* ---- From a sample to a file ---- */

mr_status mr_packer_restore(struct mr_packer *packer, const struct mr_packed_image *image,
                            const uint8_t *bytes, const uint8_t **file_out, size_t *len_out,
                            mr_error *error)
{
    struct mr_bytes *file = &packer->file;
    image = mr_packed_copy(&packer->packed, image);
    mr_status status = mr_packed_check(image, &packer->decode.limits, error);
    if (status != MR_OK)
        return status;
    if (mr_packed_image_is_file(image->encoding)) {
        *file_out = bytes;
        *len_out = image->len;
        return MR_OK;
    }
    if (image->encoding == MR_PACKED_RAW)
        status = mr_packer_png_write(bytes, image->width, image->height, image->orientation, file,
                                     error);
    else
        status = mr_packer_jpeg_write_coefficients(image, bytes, packer->tiles.blocks, file, error);
    *file_out = file->data;
    *len_out = file->len;
    return status == MR_ERR_UNSUPPORTED ? MR_ERR_DAMAGED : status;
}

mr_status mr_packer_try(struct mr_packer *packer, const struct mr_packed_image *image,
                        const uint8_t *bytes, mr_error *error)
{
    struct mr_image_head head;
    if (mr_packed_image_is_file(image->encoding))
        return mr_packer_decode_file(&packer->decode, bytes, image->len, false, &head, error);
    return mr_packer_decode_sample(&packer->decode, mr_packed_copy(&packer->packed, image), bytes,
                                   NULL, error);
}

static bool same_description(const struct mr_packed_image *a, const struct mr_packed_image *b)
{
    return a->width == b->width && a->height == b->height && a->orientation == b->orientation &&
           a->flags == b->flags && a->n_rows == b->n_rows &&
           memcmp(a->template, b->template, sizeof *a->template) == 0 &&
           memcmp(a->rows, b->rows, ((size_t)a->n_rows + 1) * sizeof *a->rows) == 0;
}

mr_status mr_packer_check_marks(struct mr_packer *packer, const struct mr_packed_image *image,
                                const uint8_t *bytes, const uint8_t *marks, size_t marks_len,
                                mr_error *error)
{
    struct mr_packed_image made;
    struct mr_jpeg_marks parsed;
    mr_error why;
    if (!mr_jpeg_marks_parse(marks, marks_len, &parsed))
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "its JPEG index was altered: the checksum is wrong");
    if (!mr_codec_reads_marks(packer->decode.codec))
        return MR_OK;
    mr_status status = mr_codec_mark(packer->decode.codec, bytes, (size_t)image->len, &made, &why);
    if (status == MR_ERR_NO_MEMORY)
        mr_error_copy(error, &why);
    else if (status != MR_OK)
        status = mr_error_set(error, MR_ERR_DAMAGED,
                              "it has a JPEG index, but none can be made for its file: %.150s",
                              why.text);
    else if (made.marks_len != marks_len || memcmp(made.marks, marks, marks_len) != 0)
        status = mr_error_set(error, MR_ERR_DAMAGED, "its JPEG index does not match its bytes");
    else if (!same_description(&made, mr_packed_copy(&packer->packed, image)))
        status = mr_error_set(error, MR_ERR_DAMAGED,
                              "its entry in the pack's index does not match its bytes");
    return status;
}
