/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the bytes of an encoded image to rows of RGB pixels, only as many as a crop needs. The
 * format is chosen by the first bytes. There is one codec per worker, reused for every image. Its
 * own memory is kept, so it allocates none once it is warm; the libraries behind it allocate a few
 * pieces anew for every image.
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
 * Decode JPEGs by libjpeg alone, from the next begin on. Otherwise baseline files are decoded by
 * our own decoder where it works on this machine, with the same pixels and errors, unless
 * MR_JPEG=stock is in the environment.
 */
void mr_codec_use_stock_jpeg(struct mr_codec *codec);

/* Is MR_JPEG=stock in the environment? */
bool mr_codec_stock_jpeg_asked(void);

/*
 * Read the header. bytes must stay valid until mr_codec_close(). MR_ERR_DAMAGED with the decoder's
 * own message.
 */
mr_status mr_codec_open(struct mr_codec *codec, const uint8_t *bytes, size_t len,
                        struct mr_image_head *head_out, mr_error *error);

struct mr_packed_image;

/*
 * The same for a sample of a pack: bytes are [offset, offset + len) of it, at least those that
 * mr_packed_range() names for the box, with MR_TILE_SLACK readable bytes behind; image has passed
 * mr_packed_check() and stays valid as they do. MR_PACKED_JPEG is opened as by mr_codec_open();
 * MR_PACKED_RAW needs no codec. MR_ERR_UNSUPPORTED, for every sample of coefficients, where this
 * machine's libjpeg cannot be fed with them.
 *
 * MR_PACKED_MARKED: by its marks, from the bytes that the box needs. Where the codec reads no
 * marks, or image has none (NULL), bytes are the whole file and it is opened as such. Marks and
 * bytes may hold anything: whatever is odd is MR_ERR_DAMAGED, from here, begin or rows, and says
 * nothing of the file; its verdict is that of the whole file without marks. What is odd in bytes
 * that the box does not need is not seen.
 */
mr_status mr_codec_open_packed(struct mr_codec *codec, const struct mr_packed_image *image,
                               const uint8_t *bytes, size_t len, uint64_t offset,
                               struct mr_image_head *head_out, mr_error *error);

/* Are marks of any use here? Not where JPEGs are libjpeg's alone. */
bool mr_codec_reads_marks(const struct mr_codec *codec);

/*
 * Make the marks of a file, between images. image_out is then complete (MR_PACKED_MARKED), and what
 * it points to is valid until the next call of this function or the codec's end.
 * MR_ERR_UNSUPPORTED, with the reason: this file can have none, being no baseline JPEG of one scan
 * or odd anywhere, or this codec reads none. MR_ERR_DAMAGED: not even its header can be read.
 * MR_ERR_NO_MEMORY.
 */
mr_status mr_codec_mark(struct mr_codec *codec, const uint8_t *bytes, size_t len,
                        struct mr_packed_image *image_out, mr_error *error);

/*
 * Choose the box to decode, inside the image and not empty. Pixels equal those of a full decode,
 * bit for bit.
 */
mr_status mr_codec_begin(struct mr_codec *codec, uint32_t x, uint32_t y, uint32_t width,
                         uint32_t height, mr_error *error);

/*
 * The next rows of the box, top down: sets 1 to max_rows pointers to width x 3 bytes (RGB), *n_out
 * of them. They stay valid until the next call on this codec. MR_ERR_DAMAGED when the data end
 * before these rows.
 */
mr_status mr_codec_rows(struct mr_codec *codec, const uint8_t **rows_out, uint32_t max_rows,
                        uint32_t *n_out, mr_error *error);

/*
 * End this image, whatever was decoded; returns the number of the decoder's warnings that damaged
 * nothing. Needed after each open that succeeded.
 */
uint32_t mr_codec_close(struct mr_codec *codec);

#endif
