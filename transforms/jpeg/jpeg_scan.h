/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes the Huffman codes of a baseline scan: gives the coefficients of the wanted MCUs, and
 * skips the others faster than it decodes. It knows nothing of libjpeg, and it makes no verdict.
 * Anything odd in the bytes (invalid codes, runs past the end of a block, missing or extra bytes,
 * markers out of turn) ends it. Then libjpeg decodes the file from its first byte and judges it.
 *
 * Invariant: an oddity counts only when its bits are consumed, and before it coefficients are
 * libjpeg's. Bytes may hold anything.
 */
#ifndef TRANSFORMS_JPEG_JPEG_SCAN_H
#define TRANSFORMS_JPEG_JPEG_SCAN_H

#include "transforms/jpeg/scan_reader.h"

struct mr_kernel_ops;

#define MR_JPEG_SCAN_WINDOW 16384 /* clean bytes that are held at once */
#define MR_JPEG_SCAN_HEAD 16      /* bytes before them, because a reader looks back */

/*
 * The tables of a code, and the code itself, so the same tables are not made again for the next
 * image.
 */
struct mr_jpeg_scan_ac {
    struct mr_scan_ac table;
    struct mr_scan_code code;
    bool made;
};

struct mr_jpeg_scan_dc {
    struct mr_scan_dc table;
    struct mr_scan_code code;
    bool made;
};

/*
 * The tables of an image. Starts as zeros, at a multiple of 64 bytes; reused for one image after
 * the other.
 */
struct mr_jpeg_scan_codes {
    struct mr_jpeg_scan_ac ac[4];
    struct mr_jpeg_scan_dc dc[4];
    struct mr_scan_mcu mcu;
};

/* A position in a scan, which moves forward. An image may have several. */
struct mr_jpeg_scan {
    const struct mr_kernel_ops *kernels;
    const struct mr_scan_mcu *mcu;
    struct mr_scan_reader reader;

    const uint8_t *from, *end; /* of the file: bytes that are not cleaned yet */
    const uint8_t *clean_end;
    bool ended;              /* nothing of this segment is after clean_end */
    uint32_t restart;        /* MCUs per segment; 0: there is only one */
    uint32_t n_left;         /* of this segment */
    uint32_t restart_number; /* of the next marker */

    uint64_t dropped;     /* clean bytes of this segment before the window */
    const uint8_t *known; /* a byte of the file, after known_clean clean bytes of this segment */
    uint64_t known_clean;
    uint8_t window[MR_JPEG_SCAN_HEAD + MR_JPEG_SCAN_WINDOW + MR_SCAN_SLACK];
};

/*
 * Before start(): set the tables, by the scan's numbers for them (0 to 3). False: it is not a code.
 */
bool mr_jpeg_scan_set_ac(struct mr_jpeg_scan_codes *codes, uint32_t number,
                         const struct mr_scan_code *code);
bool mr_jpeg_scan_set_dc(struct mr_jpeg_scan_codes *codes, uint32_t number,
                         const struct mr_scan_code *code);

/*
 * Then set the blocks of an MCU, in the scan's order: clear_mcu(), then add_block() at most
 * MR_SCAN_MAX_BLOCKS times.
 */
void mr_jpeg_scan_clear_mcu(struct mr_jpeg_scan_codes *codes);
void mr_jpeg_scan_add_block(struct mr_jpeg_scan_codes *codes, uint32_t component, uint32_t dc,
                            uint32_t ac);

/*
 * Start at the first MCU. bytes: those after the scan's header. bytes and mcu must stay valid.
 * restart: MCUs, or 0.
 */
void mr_jpeg_scan_start(struct mr_jpeg_scan *scan, const struct mr_kernel_ops *kernels,
                        const struct mr_scan_mcu *mcu, const uint8_t *bytes, size_t len,
                        uint32_t restart);

/* Where an MCU begins, and what is needed to decode it. */
struct mr_jpeg_scan_place {
    uint64_t mcu;      /* counted from the scan's first */
    const uint8_t *at; /* its first byte in the file, after the restart marker if one precedes it */
    uint32_t bit;      /* of this byte, 0 to 7 */
    int32_t predict[4]; /* each component's last DC coefficient */
};

/* As start(), at any MCU; bytes up to end may be read. */
void mr_jpeg_scan_start_at(struct mr_jpeg_scan *scan, const struct mr_kernel_ops *kernels,
                           const struct mr_scan_mcu *mcu, const struct mr_jpeg_scan_place *place,
                           const uint8_t *end, uint32_t restart);

/* Where the next MCU begins; the caller sets place_out->mcu. False: something is odd. */
bool mr_jpeg_scan_find_place(struct mr_jpeg_scan *scan, struct mr_jpeg_scan_place *place_out);
/* The byte of the file after the last consumed bit. */
const uint8_t *mr_jpeg_scan_find_end(struct mr_jpeg_scan *scan);

/*
 * Store the blocks of the next n MCUs, in natural order, whatever blocks held before; or skip the
 * MCUs. False: something is odd. The blocks are then undefined, and only a start may follow.
 */
bool mr_jpeg_scan_store(struct mr_jpeg_scan *scan, uint64_t n, int16_t (*blocks)[64]);
bool mr_jpeg_scan_skip(struct mr_jpeg_scan *scan, uint64_t n);

#endif
