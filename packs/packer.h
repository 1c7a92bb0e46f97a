/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns the bytes of an image file into a packed sample, and back. One object per thread, reused
 * for every image. An image that cannot be packed as asked is no error: it is kept as
 * MR_PACKED_JPEG, and `why` gives the reason.
 */
#ifndef PACKS_PACKER_H
#define PACKS_PACKER_H

#include "base/error.h"
#include "base/packed_image.h"
#include "transforms/codec.h"

struct mr_packer;

struct mr_packer_options {
    uint32_t encoding; /* enum mr_packed_encoding: what is wanted where it is possible */
    uint32_t max_side; /* longer images are resized so that their longest side is this; 0: never */
    uint32_t resize;   /* the shortest side becomes this, as resize(N) does; 0: no. Not with
                          max_side */
    uint32_t quality;  /* 1 to 100, of JPEGs made anew: of any image that max_side or resize
                          gives another size, and of every JPEG where this is given; 0: 90 where
                          one must be made */
    struct mr_codec_limits limits;
    bool stock_jpeg; /* decode JPEGs by libjpeg alone (codec.h), which makes no marks; all else
                        is the same */
    bool marks;      /* JPEG: also make marks of each file that can have some; it becomes
                        MR_PACKED_MARKED */
};

/* Valid until the next call on the same packer. Its image's pointers lead into it. */
struct mr_packed_sample {
    struct mr_packed_image image;
    struct mr_packed_template template; /* of DCT and MARKED */
    const uint8_t *bytes;               /* image.len of them */
    bool made_anew;                     /* the pixels are not the file's: it was resized or
                                           encoded again */
    bool damaged;  /* it cannot be decoded without an error or a warning of libjpeg; why has the
                      decoder's words */
    char why[200]; /* kept as MR_PACKED_JPEG although something else was wanted; "" otherwise */
};

mr_status mr_packer_create(const struct mr_packer_options *options, struct mr_packer **packer_out,
                           mr_error *error);
void mr_packer_destroy(struct mr_packer *packer);

/* Are marks wanted, and can they be made on this machine? */
bool mr_packer_makes_marks(const struct mr_packer *packer);

/*
 * Pack one file. Each sample of coefficients has been decoded again and compared with a full decode
 * of the JPEG before this returns. Fails with MR_ERR_NO_MEMORY only.
 */
mr_status mr_packer_pack(struct mr_packer *packer, const uint8_t *bytes, size_t len,
                         struct mr_packed_sample *sample_out, mr_error *error);

/*
 * A file again: the original byte for byte if the sample is a file; else a JPEG of the same
 * coefficients (DCT), without EXIF but its orientation, ICC profile and comments, or a PNG (RAW).
 * bytes: the whole sample, with MR_TILE_SLACK bytes after it. *file_out is valid until the next
 * call. MR_ERR_DAMAGED, MR_ERR_NO_MEMORY.
 */
mr_status mr_packer_restore(struct mr_packer *packer, const struct mr_packed_image *image,
                            const uint8_t *bytes, const uint8_t **file_out, size_t *len_out,
                            mr_error *error);

/*
 * Decode the whole of a packed sample and throw the pixels away: MR_OK, or MR_ERR_DAMAGED with the
 * decoder's words.
 */
mr_status mr_packer_try(struct mr_packer *packer, const struct mr_packed_image *image,
                        const uint8_t *bytes, mr_error *error);

/*
 * Compare a sample's marks, and what the index says beside them, with marks that are made again
 * from its bytes.
 * MR_ERR_DAMAGED: they differ. Where this packer's codec makes no marks, only their checksum is
 * looked at.
 */
mr_status mr_packer_check_marks(struct mr_packer *packer, const struct mr_packed_image *image,
                                const uint8_t *bytes, const uint8_t *marks, size_t marks_len,
                                mr_error *error);

#endif
