/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernels' loops read and write: the position in the clean bytes of a scan, and what an
 * MCU is made of. jpeg_scan.c supplies the bytes.
 */
#ifndef TRANSFORMS_JPEG_SCAN_READER_H
#define TRANSFORMS_JPEG_SCAN_READER_H

#include "transforms/jpeg/scan_table.h"

#include <assert.h>
#include <stddef.h>

#define MR_SCAN_MAX_BLOCKS 10 /* per MCU, by the standard */

/*
 * Readable bytes that the loops need after reader->stop: the longest MCU (a DC coefficient of 27
 * bits and 63 symbols of 26 bits in each block), and what is read ahead.
 */
#define MR_SCAN_SLACK 2176
static_assert(MR_SCAN_SLACK >= (MR_SCAN_MAX_BLOCKS * (27 + 63 * 26) + 7) / 8 + 16,
              "the longest MCU");

/* A block of an MCU, in the order of the scan. */
struct mr_scan_block {
    const struct mr_scan_ac *ac;
    const struct mr_scan_dc *dc;
    uint32_t component;
};

struct mr_scan_mcu {
    uint32_t n_blocks;
    struct mr_scan_block blocks[MR_SCAN_MAX_BLOCKS];
};

struct mr_scan_reader {
    uint64_t bits;       /* the next bits, the first one highest */
    const uint8_t *next; /* the next byte to load; at most 8 bytes ahead of the position */
    uint32_t used; /* bits 0 to 7: bits consumed since the last refill, plus what that refill left
                      over */
    const uint8_t *stop; /* an MCU may begin while next <= stop */
    int32_t before[4];   /* DC coefficients of each component's last block */
};

/* Bits from base to the position. */
static inline int64_t mr_scan_reader_position(const struct mr_scan_reader *reader,
                                              const uint8_t *base)
{
    return (int64_t)(reader->next - base) * 8 - 63 + (reader->used & 0xff);
}

#endif
