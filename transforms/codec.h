/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes an encoded image to rows of RGB pixels, only as many as a crop needs. The first bytes
 * choose the format. Each worker has one codec and reuses it for every image. The codec's own
 * memory is reused too, so it allocates nothing once it is warm. The libraries below it still
 * allocate a few pieces for every image.
 */
#ifndef TRANSFORMS_CODEC_H
#define TRANSFORMS_CODEC_H

#include "transforms/codec_limits.h"
#include "transforms/image_head.h"

#include <stdbool.h>

struct mr_codec;

mr_status mr_codec_create(const struct mr_codec_limits *limits, struct mr_codec **codec_out,
                          mr_error *error);
void mr_codec_destroy(struct mr_codec *codec);

/*
 * Decode JPEGs with libjpeg alone, from the next begin on. Otherwise our own decoder decodes
 * baseline files if it works on this machine, with the same pixels and errors, unless MR_JPEG=stock
 * is in the environment.
 */
void mr_codec_use_stock_jpeg(struct mr_codec *codec);

/* Is MR_JPEG=stock in the environment? */
bool mr_codec_stock_jpeg_asked(void);

/*
 * Read the header. bytes must stay valid until mr_codec_close(). MR_ERR_DAMAGED has the decoder's
 * own message.
 */
mr_status mr_codec_open(struct mr_codec *codec, const uint8_t *bytes, size_t len,
                        struct mr_image_head *head_out, mr_error *error);

struct mr_packed_image;

/*
 * The same for a sample of a pack. bytes are [offset, offset + len) of it, at least what
 * mr_packed_range() gives for the box, followed by MR_TILE_SLACK readable bytes. image has passed
 * mr_packed_check() and stays valid as long as bytes do. MR_PACKED_JPEG is opened as by
 * mr_codec_open(); MR_PACKED_RAW needs no codec. MR_ERR_UNSUPPORTED, for every sample of
 * coefficients, if this machine's libjpeg cannot be fed with them.
 *
 * MR_PACKED_MARKED: decoded by its marks, from the bytes that the box needs. If this codec cannot
 * use marks, or image has none (NULL), bytes are the whole file, and it is opened as such. Marks
 * and bytes may hold anything. Anything odd in them is MR_ERR_DAMAGED, from here, begin or rows.
 * That says nothing about the file, whose verdict is that of the whole file without marks. Oddities
 * in bytes that the box does not need are not seen.
 */
mr_status mr_codec_open_packed(struct mr_codec *codec, const struct mr_packed_image *image,
                               const uint8_t *bytes, size_t len, uint64_t offset,
                               struct mr_image_head *head_out, mr_error *error);

/* Can marks be used here? Not if libjpeg alone decodes JPEGs. */
bool mr_codec_reads_marks(const struct mr_codec *codec);

/*
 * Make the marks of a file. Not between open and close. image_out is then complete
 * (MR_PACKED_MARKED), and what it points to is valid until the next call of this function or until
 * the codec is destroyed. MR_ERR_UNSUPPORTED, with the reason: the file cannot have marks, because
 * it is not a baseline JPEG of one scan or something in it is odd, or this codec cannot use marks.
 * MR_ERR_DAMAGED: its header cannot be read. MR_ERR_NO_MEMORY.
 */
mr_status mr_codec_mark(struct mr_codec *codec, const uint8_t *bytes, size_t len,
                        struct mr_packed_image *image_out, mr_error *error);

/*
 * Choose the box to decode: inside the image, not empty. Its pixels equal those of a full decode,
 * bit for bit.
 */
mr_status mr_codec_begin(struct mr_codec *codec, uint32_t x, uint32_t y, uint32_t width,
                         uint32_t height, mr_error *error);

/*
 * Decode the next rows of the box, top down. Sets *n_out pointers, 1 to max_rows, to width x 3
 * bytes (RGB). They stay valid until the next call on this codec. MR_ERR_DAMAGED if the data end
 * before these rows.
 */
mr_status mr_codec_rows(struct mr_codec *codec, const uint8_t **rows_out, uint32_t max_rows,
                        uint32_t *n_out, mr_error *error);

/*
 * End this image, however much of it was decoded. Returns the number of decoder warnings that
 * damaged nothing. Must follow each open that succeeded.
 */
uint32_t mr_codec_close(struct mr_codec *codec);

#endif
