/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the tables of a Huffman code. */
#include "transforms/jpeg/scan_table.h"

#include <stddef.h>
#include <string.h>

#define RUN_OF_ZEROS 15 /* the run of the only symbol without a value that does not end a block */

struct symbol {
    uint16_t code;
    uint8_t len; /* bits of the code */
    uint8_t run;
    uint8_t size; /* bits of the value after it */
    bool ends;    /* ends the block */
    bool odd;     /* not in a baseline JPEG */
};

struct symbols {
    uint32_t n;
    struct symbol at[256];
};

static struct symbol make_symbol(uint32_t code, uint32_t len, uint8_t value)
{
    struct symbol symbol = {.code = (uint16_t)code,
                            .len = (uint8_t)len,
                            .run = value >> 4,
                            .size = value & 15,
                            .ends = value == 0};
    symbol.odd = symbol.size > MR_SCAN_MAX_AC_SIZE ||
                 (symbol.size == 0 && symbol.run != 0 && symbol.run != RUN_OF_ZEROS);
    return symbol;
}

/* Number the codes; false if they do not fit. */
static bool list_symbols(const struct mr_scan_code *code, struct symbols *symbols,
                         struct mr_scan_canon *canon)
{
    uint32_t next = 0;
    symbols->n = 0;
    memset(canon, 0, sizeof *canon);
    for (uint32_t len = 1; len <= 16; len++, next <<= 1) {
        canon->offset[len] = (int32_t)symbols->n - (int32_t)next;
        for (uint32_t i = 0; i < code->counts[len]; i++, next++) {
            uint32_t n = symbols->n;
            if (n == 256 || next >= 1u << len)
                return false;
            canon->symbols[n] = code->symbols[n];
            symbols->at[n] = make_symbol(next, len, code->symbols[n]);
            symbols->n++;
        }
        canon->limit[len] = next << (16 - len);
    }
    return symbols->n > 0;
}

static void fill_u16(uint16_t *to, uint32_t value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (uint16_t)value;
}

static void fill_u64(uint64_t *to, uint64_t value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = value;
}

bool mr_scan_table_make_dc(struct mr_scan_dc *table, const struct mr_scan_code *code)
{
    struct symbols symbols;
    bool good = list_symbols(code, &symbols, &table->canon);
    memset(table->look, 0, sizeof table->look);
    for (uint32_t i = 0; good && i < symbols.n; i++) {
        uint32_t len = symbols.at[i].len, size = code->symbols[i];
        if (len > MR_SCAN_DC_BITS || size > MR_SCAN_MAX_DC_SIZE)
            continue;
        size_t n = (size_t)1 << (MR_SCAN_DC_BITS - len);
        fill_u16(table->look + symbols.at[i].code * n, (len + size) | size << 8 | len << 12, n);
    }
    return good;
}

/* What an entry for a symbol and its value adds to the reader's state. */
static uint32_t find_step(const struct symbol *symbol)
{
    uint32_t places = symbol->ends ? MR_SCAN_END : (symbol->run + 1u) << 8;
    return (uint32_t)symbol->len + symbol->size + places;
}

/* An entry for storing a lone symbol. */
static uint64_t make_single(const struct symbol *symbol)
{
    return find_step(symbol) | MR_SCAN_ALONE << MR_SCAN_FIRST_PLACES |
           (uint64_t)symbol->len << MR_SCAN_LAST_VALUE |
           (uint64_t)symbol->size << MR_SCAN_LAST_SIZE;
}

/* Put a symbol and its value before the symbol of another entry. */
static uint64_t make_pair(const struct symbol *symbol, int32_t value, uint64_t single)
{
    uint64_t used = (uint64_t)symbol->len + symbol->size;
    single -= MR_SCAN_ALONE << MR_SCAN_FIRST_PLACES;
    return single + find_step(symbol) + ((symbol->run + UINT64_C(1)) << MR_SCAN_FIRST_PLACES) +
           (used << MR_SCAN_LAST_VALUE) + (used << MR_SCAN_FIRST_BITS) +
           ((uint64_t)value << MR_SCAN_FIRST_VALUE);
}

/* For the indexes that begin with a symbol: the pairs that fit. */
static void add_pairs(uint64_t *store, const uint64_t *singles, const struct symbol *symbol)
{
    const uint32_t used = (uint32_t)symbol->len + symbol->size, left = MR_SCAN_STORE_BITS - used;
    uint32_t i = (uint32_t)symbol->code << (MR_SCAN_STORE_BITS - symbol->len);
    for (int32_t m = 0; m < 1 << symbol->size; m++) {
        bool negative = symbol->size > 0 && m >> (symbol->size - 1) == 0;
        int32_t value = negative ? m - (1 << symbol->size) + 1 : m;
        for (uint32_t rest = 0; rest < 1u << left; rest++, i++) {
            uint64_t single = singles[rest << used];
            if ((single >> MR_SCAN_LAST_VALUE & 63) <= left && used + (single & 63) <= MR_SCAN_MOST)
                store[i] = make_pair(symbol, value, single);
        }
    }
}

static void make_store(struct mr_scan_ac *table, const struct symbols *symbols)
{
    /* The value of an escape seems to begin after all bits, so it fits nowhere. */
    const uint64_t escape =
        MR_SCAN_ESCAPE | MR_SCAN_ALONE << MR_SCAN_FIRST_PLACES | UINT64_C(63) << MR_SCAN_LAST_VALUE;
    uint64_t singles[1 << MR_SCAN_STORE_BITS];
    fill_u64(singles, escape, (size_t)1 << MR_SCAN_STORE_BITS);
    for (uint32_t i = 0; i < symbols->n && symbols->at[i].len <= MR_SCAN_STORE_BITS; i++) {
        const struct symbol *symbol = &symbols->at[i];
        uint32_t left = MR_SCAN_STORE_BITS - (uint32_t)symbol->len;
        if (!symbol->odd && (uint32_t)symbol->len + symbol->size <= MR_SCAN_MOST)
            fill_u64(singles + ((size_t)symbol->code << left), make_single(symbol),
                     (size_t)1 << left);
    }
    memcpy(table->store, singles, sizeof singles);
    for (uint32_t i = 0; i < symbols->n; i++) {
        const struct symbol *symbol = &symbols->at[i];
        if (!symbol->odd && !symbol->ends && symbol->len + symbol->size < MR_SCAN_STORE_BITS)
            add_pairs(table->store, singles, symbol);
    }
}

/*
 * Tables of j bits for every j, with all symbols that fit. The symbols after one are found in the
 * table of the bits that it leaves.
 */
struct pyramid {
    uint16_t *tables;                       /* that of j bits begins at 1 << j */
    uint32_t places[MR_SCAN_SKIP_BITS + 1]; /* at most, of any entry; so sums stay below 64 */
};

/* The places of the table of `bits` bits are the most of any entry. */
static void note_places(struct pyramid *pyramid, uint32_t bits, uint32_t places)
{
    if (pyramid->places[bits] < places)
        pyramid->places[bits] = places;
}

/*
 * A symbol that leaves no bits. Its value may extend beyond the table's bits, unless the entry
 * becomes too long.
 */
static void skip_one(struct pyramid *pyramid, uint32_t bits, const struct symbol *symbol,
                     uint16_t *to)
{
    uint32_t used = (uint32_t)symbol->len + symbol->size;
    if (used + MR_SCAN_SKIP_BITS - bits > MR_SCAN_MOST)
        return;
    if (!symbol->ends)
        note_places(pyramid, bits, symbol->run + 1u);
    fill_u16(to, find_step(symbol), (size_t)1 << (bits - symbol->len));
}

/* A symbol and, if they fit, those after it. Nothing follows an end of block. */
static void skip_more(struct pyramid *pyramid, uint32_t bits, const struct symbol *symbol,
                      uint16_t *to)
{
    uint32_t left = bits - symbol->len - symbol->size,
             places = symbol->run + 1u + pyramid->places[left];
    bool alone = symbol->ends || places > 63;
    if (!symbol->ends)
        note_places(pyramid, bits, alone ? symbol->run + 1u : places);
    for (uint32_t m = 0; m < 1u << symbol->size; m++, to += (size_t)1 << left) {
        for (uint32_t i = 0; i < 1u << left; i++)
            to[i] =
                (uint16_t)(find_step(symbol) + (alone ? 0u : pyramid->tables[(1u << left) + i]));
    }
}

static void make_skip(struct mr_scan_ac *table, const struct symbols *symbols)
{
    struct pyramid pyramid = {.tables = table->skip};
    memset(table->skip, 0, sizeof table->skip);
    for (uint32_t bits = 1; bits <= MR_SCAN_SKIP_BITS; bits++) {
        uint16_t *level = pyramid.tables + (1u << bits);
        if (bits == MR_SCAN_SKIP_BITS)
            fill_u16(level, MR_SCAN_ESCAPE, (size_t)1 << bits);
        for (uint32_t i = 0; i < symbols->n && symbols->at[i].len <= bits; i++) {
            const struct symbol *symbol = &symbols->at[i];
            uint16_t *to = level + ((size_t)symbol->code << (bits - symbol->len));
            if (symbol->odd)
                continue;
            if ((uint32_t)symbol->len + symbol->size < bits)
                skip_more(&pyramid, bits, symbol, to);
            else
                skip_one(&pyramid, bits, symbol, to);
        }
    }
}

bool mr_scan_table_make_ac(struct mr_scan_ac *table, const struct mr_scan_code *code)
{
    struct symbols symbols;
    if (!list_symbols(code, &symbols, &table->canon))
        return false;
    make_store(table, &symbols);
    make_skip(table, &symbols);
    return true;
}
