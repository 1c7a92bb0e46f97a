/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns the bytes of an image file into a packed sample, and back. Each thread has one packer and
 * reuses it for every image. An image that cannot be packed as asked is not an error: it is stored
 * as MR_PACKED_JPEG, and `why` gives the reason.
 */
#ifndef PACKS_PACKER_H
#define PACKS_PACKER_H

#include "base/error.h"
#include "base/packed_image.h"
#include "transforms/codec.h"

struct mr_packer;

struct mr_packer_options {
    uint32_t encoding; /* enum mr_packed_encoding, used for every image that allows it */
    uint32_t max_side; /* images with a longer side are resized so that the longest side has this
                          length; 0: never */
    uint32_t
        resize; /* length of the shortest side, as in resize(N); 0: unchanged. Excludes max_side */
    uint32_t quality; /* 1 to 100: every JPEG is encoded again with this quality. 0: only images
                         that max_side or resize changes are encoded again, with 90 */
    struct mr_codec_limits limits;
    bool stock_jpeg; /* decode JPEGs with libjpeg only (codec.h), which makes no marks; nothing else
                        changes */
    bool marks;      /* encoding JPEG: also make marks for each file that can have them; it becomes
                        MR_PACKED_MARKED */
};

/* Valid until the next call on the same packer, which owns the memory of all pointers. */
struct mr_packed_sample {
    struct mr_packed_image image;
    struct mr_packed_template template; /* for DCT and MARKED */
    const uint8_t *bytes;               /* image.len bytes */
    bool made_anew;                     /* the pixels are not the file's: it was resized or
                                           encoded again */
    bool damaged;  /* decoding gave an error or a libjpeg warning; why has the decoder's message */
    char why[200]; /* why the file was stored as MR_PACKED_JPEG although another encoding was
                      wanted; else "" */
};

mr_status mr_packer_create(const struct mr_packer_options *options, struct mr_packer **packer_out,
                           mr_error *error);
void mr_packer_destroy(struct mr_packer *packer);

/* True if marks are wanted and this machine can make them. */
bool mr_packer_makes_marks(const struct mr_packer *packer);

/*
 * Pack one file. A sample of coefficients is decoded and compared with a full decode of the JPEG
 * before this returns. The only failure is MR_ERR_NO_MEMORY.
 */
mr_status mr_packer_pack(struct mr_packer *packer, const uint8_t *bytes, size_t len,
                         struct mr_packed_sample *sample_out, mr_error *error);

/*
 * Make a file from a sample: the original byte for byte if the sample is a file, a JPEG with the
 * same coefficients (DCT), or a PNG (RAW). The new JPEG has the orientation, but no other EXIF, no
 * ICC profile and no comments. bytes: the whole sample, with MR_TILE_SLACK bytes after it.
 * *file_out is valid until the next call. MR_ERR_DAMAGED, MR_ERR_NO_MEMORY.
 */
mr_status mr_packer_restore(struct mr_packer *packer, const struct mr_packed_image *image,
                            const uint8_t *bytes, const uint8_t **file_out, size_t *len_out,
                            mr_error *error);

/*
 * Decode a whole packed sample and discard the pixels. MR_ERR_DAMAGED with the decoder's message.
 */
mr_status mr_packer_try(struct mr_packer *packer, const struct mr_packed_image *image,
                        const uint8_t *bytes, mr_error *error);

/*
 * Make the marks of a sample again from its bytes, and compare them and the sample's entry in the
 * index with the given ones.
 * MR_ERR_DAMAGED: they differ. If this packer's codec makes no marks, only their checksum is
 * checked.
 */
mr_status mr_packer_check_marks(struct mr_packer *packer, const struct mr_packed_image *image,
                                const uint8_t *bytes, const uint8_t *marks, size_t marks_len,
                                mr_error *error);

#endif
