/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Huffman codes of blocks.
 *
 * Invariant: differences of DCs are taken in 16 bits, because decoders keep that many bits of their sum. 32768, and
 * coefficients of -32768, have no code. A byte of 0xff is followed by a zero, also the padded byte before a marker.
 */
#include "packs/packer_entropy.h"

#include <inttypes.h>
#include <string.h>

#define MAX_CODE_BITS 16
#define MAX_CATEGORY 15
#define RUN_OF_16 0xf0
#define RST0 0xd0
/* 64 codes with their values, every byte stuffed, and a restart. */
#define MAX_BLOCK_BYTES (64 * 2 * 4 + 8)
/* The symbols, and one that takes the code of all ones, which JPEG does not allow. */
#define N_NODES 257

const uint8_t mr_packer_entropy_natural[64] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
};

/* ---- Tables ---- */

bool mr_packer_entropy_derive(const struct mr_huffman_spec *spec, struct mr_huffman_codes *codes_out)
{
    uint32_t code = 0, k = 0;
    memset(codes_out, 0, sizeof *codes_out);
    for (uint32_t len = 1; len <= MAX_CODE_BITS; len++, code <<= 1) {
        for (uint32_t i = 0; i < spec->counts[len]; i++, k++, code++) {
            if (k >= 256 || code >> len != 0)
                return false;
            uint8_t symbol = spec->symbols[k];
            if (codes_out->len[symbol] != 0)
                return false;
            codes_out->code[symbol] = (uint16_t)code;
            codes_out->len[symbol] = (uint8_t)len;
        }
    }
    return true;
}

/* The node of least weight, the last of several; not `but`. N_NODES where there is none. */
static uint32_t find_least(const uint64_t weight[N_NODES], uint32_t but)
{
    uint32_t least = N_NODES;
    for (uint32_t i = 0; i < N_NODES; i++)
        if (weight[i] != 0 && i != but && (least == N_NODES || weight[i] <= weight[least]))
            least = i;
    return least;
}

/* Join the two lightest trees until one is left; a symbol is one bit longer each time its tree is joined. */
static void measure_codes(uint64_t weight[N_NODES], uint32_t bits[N_NODES])
{
    uint32_t next[N_NODES]; /* of the same tree; N_NODES ends it */
    for (uint32_t i = 0; i < N_NODES; i++)
        next[i] = N_NODES;
    for (;;) {
        uint32_t a = find_least(weight, N_NODES), b = find_least(weight, a);
        if (b == N_NODES)
            return;
        weight[a] += weight[b];
        weight[b] = 0;
        uint32_t end = a;
        for (bits[end]++; next[end] != N_NODES; bits[end]++)
            end = next[end];
        next[end] = b;
        for (; b != N_NODES; b = next[b])
            bits[b]++;
    }
}

/* Codes of each length, shortened to 16 bits: two of a length become one a bit shorter and two below another code. */
static void shorten_codes(uint32_t counts[N_NODES])
{
    for (uint32_t len = N_NODES - 1; len > MAX_CODE_BITS; len--) {
        while (counts[len] > 0) {
            uint32_t shorter = len - 2;
            while (counts[shorter] == 0)
                shorter--;
            counts[len] -= 2;
            counts[len - 1]++;
            counts[shorter + 1] += 2;
            counts[shorter]--;
        }
    }
}

void mr_packer_entropy_optimise(const struct mr_huffman_uses *uses, struct mr_huffman_spec *spec_out)
{
    uint64_t weight[N_NODES];
    uint32_t bits[N_NODES] = {0}, counts[N_NODES] = {0}, k = 0, longest = MAX_CODE_BITS;
    memcpy(weight, uses->n, sizeof uses->n);
    weight[N_NODES - 1] = 1;
    memset(spec_out, 0, sizeof *spec_out);
    measure_codes(weight, bits);
    for (uint32_t i = 0; i < N_NODES; i++)
        counts[bits[i]]++;
    counts[0] = 0;
    shorten_codes(counts);
    while (longest > 0 && counts[longest] == 0)
        longest--;
    if (longest > 0)
        counts[longest]--; /* the one of all ones */
    for (uint32_t len = 1; len <= MAX_CODE_BITS; len++)
        spec_out->counts[len] = (uint8_t)counts[len];
    for (uint32_t len = 1; len < N_NODES; len++)
        for (uint32_t i = 0; i < 256; i++)
            if (bits[i] == len)
                spec_out->symbols[k++] = (uint8_t)i;
}

/* ---- Blocks ---- */

static uint32_t category_of(int32_t value)
{
    uint32_t magnitude = (uint32_t)(value < 0 ? -value : value);
    return magnitude ? 32 - (uint32_t)__builtin_clz(magnitude) : 0;
}

static int16_t difference_of(int16_t dc, int16_t last)
{
    return (int16_t)(uint16_t)((uint16_t)dc - (uint16_t)last);
}

static mr_status no_code(int32_t value, mr_error *error)
{
    return mr_error_set(error, MR_ERR_UNSUPPORTED, "the JPEG's tables have no code for a coefficient of %" PRId32,
                        value);
}

/* Which coefficients are not zero, bit i for zigzag order i. */
static uint64_t find_nonzero(const int16_t block[64])
{
    uint64_t mask = 0;
    for (uint32_t k = 1; k < 64; k++)
        mask |= (uint64_t)(block[mr_packer_entropy_natural[k]] != 0) << k;
    return mask;
}

static void put_byte(struct mr_packer_entropy *e, uint8_t byte)
{
    struct mr_packer_bytes *out = e->out;
    out->at[out->len++] = byte;
    if (byte == 0xff)
        out->at[out->len++] = 0;
}

/* n is at most 31. */
static void put_bits(struct mr_packer_entropy *e, uint32_t value, uint32_t n)
{
    e->bits = e->bits << n | value;
    e->n_bits += n;
    while (e->n_bits >= 8) {
        e->n_bits -= 8;
        put_byte(e, (uint8_t)(e->bits >> e->n_bits));
    }
}

/* A symbol and the value behind it, of `category` bits. False: no code. */
static bool put_symbol(struct mr_packer_entropy *e, const struct mr_huffman_codes *codes, uint32_t symbol,
                       int32_t value, uint32_t category)
{
    uint32_t len = codes->len[symbol];
    uint32_t low = (uint32_t)(value < 0 ? value - 1 : value) & ((1u << category) - 1);
    put_bits(e, (uint32_t)codes->code[symbol] << category | low, len + category);
    return len != 0;
}

static mr_status write_block(struct mr_packer_entropy *e, uint32_t c, const int16_t block[64], mr_error *error)
{
    const struct mr_huffman_codes *ac = e->ac[c];
    int32_t diff = difference_of(block[0], e->last_dc[c]);
    uint32_t category = category_of(diff), last = 0;
    if (category > MAX_CATEGORY || !put_symbol(e, e->dc[c], category, diff, category))
        return no_code(diff, error);
    e->last_dc[c] = block[0];
    for (uint64_t left = find_nonzero(block); left; left &= left - 1) {
        uint32_t k = (uint32_t)__builtin_ctzll(left), run = k - last - 1;
        int32_t value = block[mr_packer_entropy_natural[k]];
        bool has_code = true;
        for (; run >= 16; run -= 16)
            has_code &= put_symbol(e, ac, RUN_OF_16, 0, 0);
        category = category_of(value);
        if (!has_code || category > MAX_CATEGORY || !put_symbol(e, ac, run << 4 | category, value, category))
            return no_code(value, error);
        last = k;
    }
    return last == 63 || put_symbol(e, ac, 0, 0, 0) ? MR_OK : no_code(0, error);
}

static mr_status count_block(struct mr_packer_entropy *e, uint32_t c, const int16_t block[64], mr_error *error)
{
    int32_t diff = difference_of(block[0], e->last_dc[c]);
    uint32_t category = category_of(diff), last = 0;
    if (category > MAX_CATEGORY)
        return no_code(diff, error);
    e->dc_uses[c]->n[category]++;
    e->last_dc[c] = block[0];
    for (uint64_t left = find_nonzero(block); left; left &= left - 1) {
        uint32_t k = (uint32_t)__builtin_ctzll(left), run = k - last - 1;
        int32_t value = block[mr_packer_entropy_natural[k]];
        category = category_of(value);
        if (category > MAX_CATEGORY)
            return no_code(value, error);
        e->ac_uses[c]->n[RUN_OF_16] += run / 16;
        e->ac_uses[c]->n[run % 16 << 4 | category]++;
        last = k;
    }
    e->ac_uses[c]->n[0] += last != 63;
    return MR_OK;
}

/* ---- Scans ---- */

static void pad_byte(struct mr_packer_entropy *e)
{
    uint32_t n = (8 - e->n_bits % 8) % 8;
    put_bits(e, e->pads_with_zeros ? 0 : (1u << n) - 1, n);
}

static void put_restart(struct mr_packer_entropy *e)
{
    struct mr_packer_bytes *out = e->out;
    pad_byte(e);
    out->at[out->len++] = 0xff;
    out->at[out->len++] = (uint8_t)(RST0 + e->n_restarts++ % 8);
    memset(e->last_dc, 0, sizeof e->last_dc);
    e->n_mcus = 0;
}

static mr_status write_mcu(struct mr_packer_entropy *e, const int16_t (*blocks)[64], mr_error *error)
{
    mr_status status = mr_packer_bytes_reserve(e->out, (size_t)MR_PACKED_MAX_MCU_BLOCKS * MAX_BLOCK_BYTES, error);
    if (status == MR_OK && e->restart_interval && e->n_mcus == e->restart_interval)
        put_restart(e);
    e->n_mcus++;
    for (uint32_t c = 0; c < e->n_components; c++)
        for (uint32_t i = 0; status == MR_OK && i < e->n_blocks[c]; i++)
            status = write_block(e, c, *blocks++, error);
    return status;
}

static uint32_t blocks_of_mcu(const struct mr_packer_entropy *e)
{
    uint32_t n = 0;
    for (uint32_t c = 0; c < e->n_components; c++)
        n += e->n_blocks[c];
    return n;
}

mr_status mr_packer_entropy_write(struct mr_packer_entropy *entropy, const int16_t (*blocks)[64], uint32_t n_mcus,
                                  mr_error *error)
{
    mr_status status = MR_OK;
    for (uint32_t m = 0; status == MR_OK && m < n_mcus; m++, blocks += blocks_of_mcu(entropy))
        status = write_mcu(entropy, blocks, error);
    return status;
}

mr_status mr_packer_entropy_end(struct mr_packer_entropy *entropy, mr_error *error)
{
    mr_status status = mr_packer_bytes_reserve(entropy->out, MAX_BLOCK_BYTES, error);
    if (status == MR_OK)
        pad_byte(entropy);
    return status;
}

mr_status mr_packer_entropy_count(struct mr_packer_entropy *entropy, const int16_t (*blocks)[64], uint32_t n_mcus,
                                  mr_error *error)
{
    mr_status status = MR_OK;
    for (uint32_t m = 0; m < n_mcus; m++)
        for (uint32_t c = 0; c < entropy->n_components; c++)
            for (uint32_t i = 0; status == MR_OK && i < entropy->n_blocks[c]; i++)
                status = count_block(entropy, c, *blocks++, error);
    return status;
}
