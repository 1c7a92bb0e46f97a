/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops over the symbols of a scan, compiled once for each set of instructions. They are plain
 * C, but shifts without flags (BMI2) make them faster. scan_table.h describes the entries of the
 * tables.
 *
 * A refill loads without branches and leaves at least 56 bits, from which a fixed number of symbols
 * is taken. Each symbol adds its entry to one number, which counts bits used and places; one test
 * of that number detects everything except an ordinary symbol.
 *
 * Invariant: static functions only, as in all headers of the vector files.
 */
#ifndef TRANSFORMS_SIMD_SCAN_LOOPS_H
#define TRANSFORMS_SIMD_SCAN_LOOPS_H

#include "transforms/jpeg/scan_reader.h"

#include <string.h>

#ifndef INLINE
#define INLINE static inline __attribute__((always_inline))
#endif
#define APART static __attribute__((noinline))
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* The reader's state in registers. Bits 8 to 15 of used: the place of the next coefficient. */
struct scan_bits {
    uint64_t bits;
    const uint8_t *next;
    uint32_t used;
};

enum scan_block_state { SCAN_GOES_ON, SCAN_COMPLETE, SCAN_ODD };

/*
 * Index: the place after a coefficient; value: the coefficient's place in natural order. The value
 * for escapes and for places past the end of a block is 0. What is stored there does not matter:
 * the DC coefficient overwrites it.
 */
static const uint8_t scan_places[256] = {
    0,  0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40,
    48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15,
    23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

INLINE uint64_t load_be64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    return value;
}

INLINE void refill(struct scan_bits *b)
{
    b->bits |= load_be64(b->next) >> (~b->used & 63);
    b->next += (b->used & 0xff) >> 3;
    b->used &= ~0xf8u;
}

INLINE uint32_t get_place(const struct scan_bits *b)
{
    return b->used >> 8 & 0xff;
}

/* Load the bits again after they were shifted too far; used must be correct. */
INLINE void reload(struct scan_bits *b)
{
    uint32_t have = 63 - (b->used & 0xff);
    const uint8_t *at = b->next - ((have + 7) >> 3);
    uint32_t shift = (8 - (have & 7)) & 7;
    b->bits = load_be64(at) << shift;
    b->next = at + 7;
    b->used = (b->used & ~0xffu) | (7 + shift);
}

/* The value of the highest `size` bits, in JPEG's coding; size may be 0. */
INLINE int32_t decode_value(uint64_t bits, uint32_t size)
{
    uint64_t negative = ~(uint64_t)((int64_t)bits >> 63);
    return (int32_t)((bits >> 1 >> (63 - size)) - (negative >> 1 >> (63 - size)));
}

/* Find a symbol by its canonical code; false if no code begins like this. */
APART bool find_symbol(const struct mr_scan_canon *canon, uint64_t bits, uint32_t *len_out,
                       uint32_t *symbol_out)
{
    uint32_t code = (uint32_t)(bits >> 48);
    for (uint32_t len = 1; len <= 16; len++) {
        if (code >= canon->limit[len])
            continue;
        *len_out = len;
        *symbol_out = canon->symbols[(canon->offset[len] + (int32_t)(code >> (16 - len))) & 255];
        return true;
    }
    return false;
}

/* Decode the difference of a DC coefficient, from at most 27 bits. */
INLINE bool take_dc(struct scan_bits *b, const struct mr_scan_dc *table, uint32_t *difference)
{
    uint32_t entry = table->look[b->bits >> (64 - MR_SCAN_DC_BITS)];
    uint32_t used = entry & 0xff, size = entry >> 8 & 15, len = entry >> 12;
    if (UNLIKELY(entry == 0)) {
        /* Separate variables, so that len and size stay in registers. */
        uint32_t found_len, found_size;
        if (!find_symbol(&table->canon, b->bits, &found_len, &found_size) ||
            found_size > MR_SCAN_MAX_DC_SIZE)
            return false;
        len = found_len;
        size = found_size;
        used = len + size;
    }
    *difference = (uint32_t)decode_value(b->bits << len, size);
    b->bits <<= used;
    b->used += used;
    return true;
}

/* Decode the value of a symbol that does not end the block; with block NULL nothing is stored. */
INLINE enum scan_block_state take_value(struct scan_bits *b, uint32_t len, uint32_t size,
                                        uint32_t run, int16_t *block)
{
    int32_t value = decode_value(b->bits << len, size);
    b->bits <<= len + size;
    b->used += len + size + ((run + 1) << 8);
    uint32_t place = get_place(b);
    if (UNLIKELY(place > 64))
        return SCAN_ODD;
    if (block && size > 0)
        block[scan_places[place]] = (int16_t)value;
    return place == 64 ? SCAN_COMPLETE : SCAN_GOES_ON;
}

/* Decode a symbol that is in no entry. */
APART enum scan_block_state take_code(struct scan_bits *b, const struct mr_scan_ac *table,
                                      int16_t *block)
{
    uint32_t len, symbol;
    if (!find_symbol(&table->canon, b->bits, &len, &symbol))
        return SCAN_ODD;
    uint32_t size = symbol & 15, run = symbol >> 4;
    if (size > MR_SCAN_MAX_AC_SIZE || (size == 0 && run != 0 && run != 15))
        return SCAN_ODD;
    if (symbol != 0)
        return take_value(b, len, size, run, block);
    b->bits <<= len;
    b->used += len;
    return SCAN_COMPLETE;
}

INLINE bool is_complete(const struct scan_bits *b)
{
    uint32_t place = get_place(b);
    return place == 64 || (place > 128 && place < 192);
}

/*
 * After an entry of the table for storing that neither goes on nor ends the block. *b stays in
 * registers: the separate function works on a copy.
 */
INLINE enum scan_block_state leave_storing(struct scan_bits *b, const struct mr_scan_ac *table,
                                           uint64_t entry, int16_t *block)
{
    if ((entry & 0xffff) != MR_SCAN_ESCAPE) {
        /* The block may end after the first of the two symbols: go back to there. */
        b->used -= (uint32_t)entry;
        b->used += (uint32_t)(entry >> MR_SCAN_FIRST_BITS & 0xff) +
                   ((uint32_t)(entry >> MR_SCAN_FIRST_PLACES) << 8);
        reload(b);
        return get_place(b) == 64 ? SCAN_COMPLETE : SCAN_ODD;
    }
    b->used -= MR_SCAN_ESCAPE;
    refill(b);
    struct scan_bits copy = *b;
    enum scan_block_state state = take_code(&copy, table, block);
    *b = copy;
    return state;
}

INLINE uint64_t get_entry(const struct scan_bits *b, const struct mr_scan_ac *table)
{
    return table->store[b->bits >> (64 - MR_SCAN_STORE_BITS)];
}

/*
 * Decode the symbols of an entry with their values; true if it ends the loop. The last symbol's
 * value is stored last: a symbol without a value stores 0, and in an entry of one symbol the first
 * value goes to the place of the DC coefficient.
 */
INLINE bool store_symbols(struct scan_bits *b, uint64_t entry, int16_t *block)
{
    uint32_t first = ((uint32_t)(entry >> MR_SCAN_FIRST_PLACES) + (b->used >> 8)) & 0xff;
    int32_t last = decode_value(b->bits << (entry >> MR_SCAN_LAST_VALUE & 63),
                                entry >> MR_SCAN_LAST_SIZE & 63);
    b->bits <<= entry & 63;
    b->used += (uint32_t)entry;
    block[scan_places[first]] = (int16_t)(entry >> MR_SCAN_FIRST_VALUE);
    block[scan_places[get_place(b)]] = (int16_t)last;
    return UNLIKELY(b->used & MR_SCAN_STOP);
}

/* Four calls: gcc makes one memset of 128 bytes slower than decoding a few symbols. */
INLINE void clear_block(int16_t *block)
{
    memset(block, 0, 32);
    memset(block + 16, 0, 32);
    memset(block + 32, 0, 32);
    memset(block + 48, 0, 32);
}

/*
 * Decode the coefficients after a DC coefficient; at least 29 bits are loaded. The bits that are
 * left are enough for the next index, so the refill does not delay the lookup.
 */
INLINE bool store_block(struct scan_bits *bits, const struct mr_scan_ac *table, int16_t *block)
{
    struct scan_bits b = *bits;
    uint64_t entry = get_entry(&b, table);
    bool stops = store_symbols(&b, entry, block);
    enum scan_block_state state = SCAN_GOES_ON;
    for (;;) {
        if (stops) {
            state = is_complete(&b) ? SCAN_COMPLETE : leave_storing(&b, table, entry, block);
            if (state != SCAN_GOES_ON)
                break;
        }
        entry = get_entry(&b, table);
        refill(&b);
        stops = store_symbols(&b, entry, block);
        if (stops)
            continue;
        entry = get_entry(&b, table);
        stops = store_symbols(&b, entry, block);
    }
    *bits = b;
    return state == SCAN_COMPLETE;
}

/* Skip as many symbols as an entry has; true if it ends the loop. */
INLINE bool skip_symbols(struct scan_bits *b, const struct mr_scan_ac *table, uint32_t *entry_out)
{
    uint32_t entry = table->skip[(1u << MR_SCAN_SKIP_BITS) + (b->bits >> (64 - MR_SCAN_SKIP_BITS))];
    b->bits <<= entry & 63;
    b->used += entry;
    *entry_out = entry;
    return UNLIKELY(b->used & MR_SCAN_STOP);
}

/*
 * An entry of several symbols went past the block's end: go back before it and decode symbol by
 * symbol.
 */
APART enum scan_block_state finish_block(struct scan_bits *b, const struct mr_scan_ac *table,
                                         uint32_t entry)
{
    int16_t nowhere[64];
    b->used -= entry;
    reload(b);
    refill(b);
    return store_block(b, table, nowhere) ? SCAN_COMPLETE : SCAN_ODD;
}

INLINE enum scan_block_state leave_skipping(struct scan_bits *b, const struct mr_scan_ac *table,
                                            uint32_t entry)
{
    struct scan_bits copy = *b;
    enum scan_block_state state;
    if (entry == MR_SCAN_ESCAPE) {
        copy.used -= MR_SCAN_ESCAPE;
        refill(&copy);
        state = take_code(&copy, table, NULL);
    } else {
        state = finish_block(&copy, table, entry);
    }
    *b = copy;
    return state;
}

INLINE bool skip_block(struct scan_bits *bits, const struct mr_scan_ac *table)
{
    struct scan_bits b = *bits;
    uint32_t e;
    bool stops = skip_symbols(&b, table, &e);
    enum scan_block_state state = SCAN_GOES_ON;
    for (;;) {
        if (stops) {
            state = is_complete(&b) ? SCAN_COMPLETE : leave_skipping(&b, table, e);
            if (state != SCAN_GOES_ON)
                break;
        }
        refill(&b);
        stops = skip_symbols(&b, table, &e) || skip_symbols(&b, table, &e) ||
                skip_symbols(&b, table, &e);
    }
    *bits = b;
    return state == SCAN_COMPLETE;
}

/* Decode a block, or only skip it if stores is false. Its DC coefficient must fit into 16 bits. */
INLINE bool run_block(struct scan_bits *b, const struct mr_scan_block *kind, int32_t *before,
                      bool stores, int16_t *block)
{
    uint32_t difference;
    refill(b);
    if (UNLIKELY(!take_dc(b, kind->dc, &difference)))
        return false;
    uint32_t dc = (uint32_t)before[kind->component] + difference;
    before[kind->component] = (int32_t)dc;
    b->used = (b->used & 0xff) | 1 << 8;
    if (UNLIKELY((dc + 32768) >> 16))
        return false;
    if (!stores)
        return skip_block(b, kind->ac);
    clear_block(block);
    bool good = store_block(b, kind->ac, block);
    block[0] = (int16_t)dc;
    return good;
}

/* Decode at most n MCUs; returns how many, 0 if something is odd. */
INLINE uint32_t run_mcus(struct mr_scan_reader *reader, const struct mr_scan_mcu *mcu, uint32_t n,
                         bool stores, int16_t (*blocks)[64])
{
    struct scan_bits b = {.bits = reader->bits, .next = reader->next, .used = reader->used};
    uint32_t done = 0;
    for (; done < n && b.next <= reader->stop; done++)
        for (uint32_t i = 0; i < mcu->n_blocks; i++)
            if (!run_block(&b, &mcu->blocks[i], reader->before, stores, stores ? *blocks++ : NULL))
                return 0;
    reader->bits = b.bits;
    reader->next = b.next;
    reader->used = b.used;
    return done;
}

#endif
