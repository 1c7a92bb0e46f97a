/* SPDX-License-Identifier: Apache-2.0 */
/* Writes scans block by block: draws a symbol's run and value, and writes its code. */
#include "tests/support/scans.h"

#include <stdlib.h>
#include <string.h>

#define MAX_SYMBOLS 162 /* runs 0 to 15 of sizes 1 to 10, end of block, run of 16 zeros */
#define END 0x00
#define ZEROS 0xf0
#define MAX_DC 15000

struct code {
    uint32_t n;
    uint8_t symbols[MAX_SYMBOLS];
    uint8_t counts[17];
    uint16_t codes[256]; /* by symbol */
    uint8_t lengths[256];
};

struct writer {
    const struct mr_test_scan *options;
    uint32_t random;
    struct code dc, ac;
    uint8_t *bytes;
    size_t len, room;
    uint64_t bits; /* not yet written, the last one lowest */
    uint32_t n_bits;
    int32_t before[4];
};

static uint32_t draw(struct writer *w, uint32_t below)
{
    w->random = w->random * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(w->random >> 4) * below >> 28);
}

static void put_byte(struct writer *w, uint32_t byte)
{
    if (w->len == w->room) {
        w->room = w->room * 2 + 4096;
        w->bytes = realloc(w->bytes, w->room);
        if (!w->bytes)
            abort();
    }
    w->bytes[w->len++] = (uint8_t)byte;
}

static void put_u16(struct writer *w, uint32_t value)
{
    put_byte(w, value >> 8);
    put_byte(w, value & 0xff);
}

static void put_bits(struct writer *w, uint32_t value, uint32_t n)
{
    w->bits = w->bits << n | value;
    for (w->n_bits += n; w->n_bits >= 8; w->n_bits -= 8) {
        uint32_t byte = (uint32_t)(w->bits >> (w->n_bits - 8)) & 0xff;
        put_byte(w, byte);
        if (byte == 0xff)
            put_byte(w, 0);
    }
}

static void pad_bits(struct writer *w)
{
    if (w->n_bits > 0)
        put_bits(w, (1u << (8 - w->n_bits)) - 1, 8 - w->n_bits);
}

/* Codes. */

/* The length of the code of the i-th of n symbols; it never decreases with i. */
static uint32_t length_of(enum mr_test_code kind, uint32_t i, uint32_t n)
{
    switch (kind) {
    case MR_TEST_CODE_SHORT: return i < 2 ? 2 : i < 6 ? i + 1 : n > 20 ? 14 : 10;
    case MR_TEST_CODE_LONG: return i < 4 ? i + 2 : 16;
    default: return n > 20 ? 8 : 4;
    }
}

static void number_codes(struct code *code, enum mr_test_code kind)
{
    uint32_t next = 0, len = 1;
    for (uint32_t i = 0; i < code->n; i++, next++) {
        uint32_t want = length_of(kind, i, code->n);
        next <<= want - len;
        len = want;
        code->counts[len]++;
        code->codes[code->symbols[i]] = (uint16_t)next;
        code->lengths[code->symbols[i]] = (uint8_t)len;
    }
}

/*
 * Small runs and values get the first codes. If all codes have the same length, the order does not
 * matter.
 */
static void make_codes(struct writer *w)
{
    uint8_t *to = w->ac.symbols;
    *to++ = END;
    for (uint32_t sum = 1; sum <= 25; sum++)
        for (uint32_t size = 1; size <= 10 && size <= sum; size++)
            if (sum - size <= 15)
                *to++ = (uint8_t)((sum - size) << 4 | size);
    *to++ = ZEROS;
    w->ac.n = MAX_SYMBOLS;
    w->dc.n = 12;
    for (uint8_t size = 0; size < 12; size++)
        w->dc.symbols[size] = size;
    number_codes(&w->ac, w->options->code);
    number_codes(&w->dc, w->options->code);
}

/* Headers. */

static void put_code(struct writer *w, const struct code *code, uint32_t class)
{
    put_u16(w, 0xffc4);
    put_u16(w, 2 + 17 + code->n);
    put_byte(w, class << 4);
    for (uint32_t i = 1; i <= 16; i++)
        put_byte(w, code->counts[i]);
    for (uint32_t i = 0; i < code->n; i++)
        put_byte(w, code->symbols[i]);
}

static uint32_t factor(const struct mr_test_scan *options, uint32_t c, uint32_t axis)
{
    return options->sampling[c][axis] ? options->sampling[c][axis] : 1;
}

static void put_head(struct writer *w)
{
    const struct mr_test_scan *o = w->options;
    put_u16(w, 0xffd8);
    put_u16(w, 0xffdb);
    put_u16(w, 67);
    for (uint32_t i = 0; i < 65; i++)
        put_byte(w, i == 0 ? 0 : 2);
    put_u16(w, 0xffc0);
    put_u16(w, 8 + 3 * o->n_components);
    put_byte(w, 8);
    put_u16(w, o->height);
    put_u16(w, o->width);
    put_byte(w, o->n_components);
    for (uint32_t c = 0; c < o->n_components; c++) {
        put_byte(w, c + 1);
        put_byte(w, factor(o, c, 0) << 4 | factor(o, c, 1));
        put_byte(w, 0);
    }
    put_code(w, &w->dc, 0);
    put_code(w, &w->ac, 1);
    if (o->restart) {
        put_u16(w, 0xffdd);
        put_u16(w, 4);
        put_u16(w, o->restart);
    }
    put_u16(w, 0xffda);
    put_u16(w, 6 + 2 * o->n_components);
    put_byte(w, o->n_components);
    for (uint32_t c = 0; c < o->n_components; c++)
        put_u16(w, (c + 1) << 8);
    put_byte(w, 0);
    put_u16(w, 63 << 8);
}

/* Blocks. */

static void put_symbol(struct writer *w, const struct code *code, uint32_t symbol)
{
    if (code->lengths[symbol] == 0)
        abort();
    put_bits(w, code->codes[symbol], code->lengths[symbol]);
}

static uint32_t size_of(int32_t value)
{
    uint32_t magnitude = (uint32_t)abs(value), size = 0;
    while (magnitude >> size)
        size++;
    return size;
}

static void put_value(struct writer *w, int32_t value, uint32_t size)
{
    put_bits(w, (uint32_t)(value < 0 ? value - 1 : value) & ((1u << size) - 1), size);
}

static int32_t draw_value(struct writer *w, uint32_t max_size)
{
    int32_t limit = (1 << (1 + draw(w, max_size))) - 1,
            value = 1 + (int32_t)draw(w, (uint32_t)limit);
    return draw(w, 2) ? value : -value;
}

static void put_dc(struct writer *w, uint32_t c)
{
    int32_t difference = draw(w, 4) ? draw_value(w, 11) : 0;
    if (w->options->dc_grows && c == 0)
        difference = 2047;
    else if (abs(w->before[c] + difference) > MAX_DC)
        difference = 0;
    w->before[c] += difference;
    put_symbol(w, &w->dc, size_of(difference));
    put_value(w, difference, size_of(difference));
}

static void put_block(struct writer *w, uint32_t c)
{
    const bool small = w->options->code == MR_TEST_CODE_SHORT;
    uint32_t k = 1, density = draw(w, 3);
    put_dc(w, c);
    while (k < 64 && !w->options->dc_only && draw(w, small ? 12 : 24) > 0) {
        uint32_t most = density == 0 ? 63 - k : density == 1 && k < 60 ? 3 : 0;
        uint32_t run = draw(w, (most < 63 - k ? most : 63 - k) + 1);
        int32_t value = draw_value(w, small && draw(w, 40) > 0 ? 1 : 10);
        for (k += run; run > 15; run -= 16)
            put_symbol(w, &w->ac, ZEROS);
        put_symbol(w, &w->ac, run << 4 | size_of(value));
        put_value(w, value, size_of(value));
        k++;
    }
    if (k < 64)
        put_symbol(w, &w->ac, END);
}

static void put_restart(struct writer *w, uint32_t mcu)
{
    pad_bits(w);
    put_u16(w, 0xffd0 + (mcu / w->options->restart - 1) % 8);
    memset(w->before, 0, sizeof w->before);
}

static void put_mcus(struct writer *w)
{
    const struct mr_test_scan *o = w->options;
    uint32_t h = 1, v = 1;
    for (uint32_t c = 0; c < o->n_components && o->n_components > 1; c++) {
        h = factor(o, c, 0) > h ? factor(o, c, 0) : h;
        v = factor(o, c, 1) > v ? factor(o, c, 1) : v;
    }
    uint32_t n = (o->width + 8 * h - 1) / (8 * h) * ((o->height + 8 * v - 1) / (8 * v));
    for (uint32_t i = 0; i < n; i++) {
        if (o->restart && i > 0 && i % o->restart == 0)
            put_restart(w, i);
        for (uint32_t c = 0; c < o->n_components; c++)
            for (uint32_t b = 0; b < (o->n_components > 1 ? factor(o, c, 0) * factor(o, c, 1) : 1);
                 b++)
                put_block(w, c);
    }
    pad_bits(w);
}

struct mr_test_image mr_test_scan(const struct mr_test_scan *options)
{
    struct writer w = {.options = options, .random = options->seed * 2654435761u + 1};
    make_codes(&w);
    put_head(&w);
    put_mcus(&w);
    put_u16(&w, 0xffd9);
    return (struct mr_test_image){w.bytes, w.len};
}

size_t mr_test_scan_start(const struct mr_test_image *image)
{
    const uint8_t *at = image->bytes;
    size_t i = 2;
    while (i + 3 < image->len && !(at[i] == 0xff && at[i + 1] == 0xda))
        i += 2 + ((size_t)at[i + 2] << 8 | at[i + 3]);
    if (i + 3 >= image->len)
        abort();
    return i + 2 + ((size_t)at[i + 2] << 8 | at[i + 3]);
}
