/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes the Huffman codes of a baseline scan: coefficients of the MCUs that are wanted, and steps
 * over the others faster than decoding them. It knows nothing of libjpeg, and it judges nothing:
 * anything odd in the bytes (codes that are none, runs over the end of a block, bytes that are
 * missing or too many, markers out of turn) ends it, so that libjpeg can decode the file from its
 * first byte and say what it is.
 *
 * Invariant: an oddity counts only when its bits are consumed, and as long as there was none,
 * coefficients are those of libjpeg. Bytes may hold anything.
 */
#ifndef TRANSFORMS_JPEG_JPEG_SCAN_H
#define TRANSFORMS_JPEG_JPEG_SCAN_H

#include "transforms/jpeg/scan_reader.h"

struct mr_kernel_ops;

#define MR_JPEG_SCAN_WINDOW 16384 /* clean bytes that are held at once */
#define MR_JPEG_SCAN_HEAD 16      /* bytes in front of them, as a reader looks back */

/*
 * The tables of a code, and the code itself, so that the same one is not made again for the next
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

/* Of an image. Starts as zeros, at a multiple of 64 bytes; used for one image after the other. */
struct mr_jpeg_scan_codes {
    struct mr_jpeg_scan_ac ac[4];
    struct mr_jpeg_scan_dc dc[4];
    struct mr_scan_mcu mcu;
};

/* A place in a scan, which moves on. An image may have several. */
struct mr_jpeg_scan {
    const struct mr_kernel_ops *kernels;
    const struct mr_scan_mcu *mcu;
    struct mr_scan_reader reader;

    const uint8_t *from, *end; /* of the file: bytes that are not yet clean */
    const uint8_t *clean_end;
    bool ended;              /* nothing of this segment is behind clean_end */
    uint32_t restart;        /* MCUs to a segment; 0: there is only one */
    uint32_t n_left;         /* of this segment */
    uint32_t restart_number; /* of the next marker */

    uint64_t dropped;     /* clean bytes of this segment in front of the window */
    const uint8_t *known; /* a byte of the file, and the clean bytes of this segment in front of
                             it */
    uint64_t known_clean;
    uint8_t window[MR_JPEG_SCAN_HEAD + MR_JPEG_SCAN_WINDOW + MR_SCAN_SLACK];
};

/* Before start(): the tables, by the scan's numbers for them (0 to 3). False: it is no code. */
bool mr_jpeg_scan_set_ac(struct mr_jpeg_scan_codes *codes, uint32_t number,
                         const struct mr_scan_code *code);
bool mr_jpeg_scan_set_dc(struct mr_jpeg_scan_codes *codes, uint32_t number,
                         const struct mr_scan_code *code);

/*
 * Then the blocks of an MCU in the scan's order; the first call begins anew. At most
 * MR_SCAN_MAX_BLOCKS.
 */
void mr_jpeg_scan_clear_mcu(struct mr_jpeg_scan_codes *codes);
void mr_jpeg_scan_add_block(struct mr_jpeg_scan_codes *codes, uint32_t component, uint32_t dc,
                            uint32_t ac);

/*
 * To the first MCU. bytes: those behind the scan's header. They and mcu must stay valid. restart:
 * MCUs, or 0.
 */
void mr_jpeg_scan_start(struct mr_jpeg_scan *scan, const struct mr_kernel_ops *kernels,
                        const struct mr_scan_mcu *mcu, const uint8_t *bytes, size_t len,
                        uint32_t restart);

/* Where an MCU begins, and what must be known to decode it. */
struct mr_jpeg_scan_place {
    uint64_t mcu;       /* from the scan's first one on */
    const uint8_t *at;  /* its first byte in the file, behind the restart marker that may be in
                           front of it */
    uint32_t bit;       /* of this byte, 0 to 7 */
    int32_t predict[4]; /* each component's last DC coefficient */
};

/* As start(), to any MCU; bytes up to end may be read. */
void mr_jpeg_scan_start_at(struct mr_jpeg_scan *scan, const struct mr_kernel_ops *kernels,
                           const struct mr_scan_mcu *mcu, const struct mr_jpeg_scan_place *place,
                           const uint8_t *end, uint32_t restart);

/* Where the next MCU begins; place_out->mcu is the caller's to set. False: something is odd. */
bool mr_jpeg_scan_find_place(struct mr_jpeg_scan *scan, struct mr_jpeg_scan_place *place_out);
/* The byte of the file behind the last bit that was consumed. */
const uint8_t *mr_jpeg_scan_find_end(struct mr_jpeg_scan *scan);

/*
 * The next n MCUs: their blocks, whatever they hold before, in natural order, or none. False:
 * something is odd. The blocks are then undefined, and only a start may follow.
 */
bool mr_jpeg_scan_store(struct mr_jpeg_scan *scan, uint64_t n, int16_t (*blocks)[64]);
bool mr_jpeg_scan_skip(struct mr_jpeg_scan *scan, uint64_t n);

/*
 * For whoever calls the loops of the kernels by itself: before it, how many of the next n MCUs they
 * may decode now, and after it, that they have decoded n of them. 0 and false: something is odd.
 */
uint32_t mr_jpeg_scan_prepare(struct mr_jpeg_scan *scan, uint64_t n);
bool mr_jpeg_scan_pass(struct mr_jpeg_scan *scan, uint32_t n);

#endif
