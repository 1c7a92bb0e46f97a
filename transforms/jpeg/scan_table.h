/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables that decode Huffman codes of JPEG scans. They are made for an image from the codes as its
 * file gives them.
 *
 * The lowest 16 bits of an entry for AC coefficients are added to the reader's state
 * (scan_reader.h): bits 0 to 7 are bits consumed, bits 8 to 15 places in zigzag order. An end of
 * block counts as 128 places, and a code that is not in the table as 192. So one test of the two
 * highest bits sees the end of a block, place 64, and an escape.
 *
 * An entry for storing has one or two symbols. The first of two has its value in the entry. The
 * value of the last symbol, or of the only one, is computed, so only its code must fit into the
 * table's bits.
 */
#ifndef TRANSFORMS_JPEG_SCAN_TABLE_H
#define TRANSFORMS_JPEG_SCAN_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#define MR_SCAN_STORE_BITS 10 /* one or two symbols */
#define MR_SCAN_SKIP_BITS 11  /* as many symbols as fit, without values */
#define MR_SCAN_MOST 18       /* bits that an entry may consume: three entries fit into a refill */
#define MR_SCAN_DC_BITS 10

#define MR_SCAN_END 0x8000u
#define MR_SCAN_ESCAPE 0xc000u
#define MR_SCAN_STOP 0xc000u

/* Where the other parts of an entry for storing begin. */
#define MR_SCAN_FIRST_PLACES 16 /* places of the first of two symbols, or MR_SCAN_ALONE */
#define MR_SCAN_LAST_VALUE 24   /* bits before the value of the last symbol */
#define MR_SCAN_LAST_SIZE 32    /* of that value */
#define MR_SCAN_FIRST_BITS 40   /* bits of the first of two symbols */
#define MR_SCAN_FIRST_VALUE 48
#define MR_SCAN_ALONE UINT64_C(64) /* always past the end of a block */

/* A baseline JPEG has no larger values. */
#define MR_SCAN_MAX_AC_SIZE 10
#define MR_SCAN_MAX_DC_SIZE 11

/*
 * A code as the file gives it: counts[l] codes of l bits, 1 to 16, and their symbols in the order
 * of the codes.
 */
struct mr_scan_code {
    uint8_t counts[17];
    uint8_t symbols[256];
};

/* For codes that are longer than a table's index. */
struct mr_scan_canon {
    uint32_t limit[17]; /* codes of l bits are below it, both shifted to the left of 16 bits */
    int32_t offset[17]; /* from a code of l bits to the index of its symbol */
    uint8_t symbols[256];
};

struct mr_scan_ac {
    _Alignas(64) uint64_t store[1 << MR_SCAN_STORE_BITS];
    /*
     * Tables of 1 bit to MR_SCAN_SKIP_BITS; that of j bits begins at 1 << j. Only the last one is
     * used; it is made from the others.
     */
    uint16_t skip[2 << MR_SCAN_SKIP_BITS];
    struct mr_scan_canon canon;
};

struct mr_scan_dc {
    /* Bits of code and value | size << 8 | bits of the code << 12; 0: not in this table. */
    _Alignas(64) uint16_t look[1 << MR_SCAN_DC_BITS];
    struct mr_scan_canon canon;
};

/* False if it is not a code: too many symbols, or more codes than their bits allow. */
bool mr_scan_table_make_ac(struct mr_scan_ac *table, const struct mr_scan_code *code);
bool mr_scan_table_make_dc(struct mr_scan_dc *table, const struct mr_scan_code *code);

#endif
