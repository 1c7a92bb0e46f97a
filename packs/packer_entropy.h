/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sequential Huffman coding of a JPEG's only scan, for blocks of any 16-bit coefficients: with given tables, to restore
 * a file exactly, or with the best tables for the blocks.
 */
#ifndef PACKS_PACKER_ENTROPY_H
#define PACKS_PACKER_ENTROPY_H

#include "base/packed_image.h"
#include "packs/packer_bytes.h"

#include <stdbool.h>

#define MR_HUFFMAN_TABLES 4

/* As in a DHT segment. */
struct mr_huffman_spec {
    uint8_t counts[17]; /* codes of each length; [0] is 0 */
    uint8_t symbols[256];
};

struct mr_huffman_codes {
    uint16_t code[256];
    uint8_t len[256]; /* bits; 0: the symbol has no code */
};

/* How often each symbol comes. */
struct mr_huffman_uses {
    uint64_t n[256];
};

/* The codes of a table. False if its lengths are not those of a code. */
bool mr_packer_entropy_derive(const struct mr_huffman_spec *spec, struct mr_huffman_codes *codes_out);

/* The shortest codes, none longer than 16 bits, by the procedure of the standard's annex K.2. */
void mr_packer_entropy_optimise(const struct mr_huffman_uses *uses, struct mr_huffman_spec *spec_out);

/* What a scan is made with. The caller sets the first part and leaves the rest zero. */
struct mr_packer_entropy {
    uint32_t n_components;
    uint32_t n_blocks[MR_PACKED_MAX_COMPONENTS]; /* to an MCU */
    const struct mr_huffman_codes *dc[MR_PACKED_MAX_COMPONENTS];
    const struct mr_huffman_codes *ac[MR_PACKED_MAX_COMPONENTS];
    struct mr_huffman_uses *dc_uses[MR_PACKED_MAX_COMPONENTS]; /* for counting only */
    struct mr_huffman_uses *ac_uses[MR_PACKED_MAX_COMPONENTS];
    uint32_t restart_interval; /* MCUs, 0: none */
    bool pads_with_zeros;      /* the last byte before a marker; the standard wants ones */
    struct mr_packer_bytes *out;

    uint64_t bits; /* the lowest n_bits are not written yet */
    uint32_t n_bits;
    int16_t last_dc[MR_PACKED_MAX_COMPONENTS];
    uint32_t n_mcus; /* since the last restart */
    uint32_t n_restarts;
};

/* The next MCUs. MR_ERR_UNSUPPORTED: a coefficient has no code; MR_ERR_NO_MEMORY. */
mr_status mr_packer_entropy_write(struct mr_packer_entropy *entropy, const int16_t (*blocks)[64], uint32_t n_mcus,
                                  mr_error *error);
/* After the last one. */
mr_status mr_packer_entropy_end(struct mr_packer_entropy *entropy, mr_error *error);

/* Instead of write and end: only count the symbols. */
mr_status mr_packer_entropy_count(struct mr_packer_entropy *entropy, const int16_t (*blocks)[64], uint32_t n_mcus,
                                  mr_error *error);

/* Natural order by zigzag order. */
extern const uint8_t mr_packer_entropy_natural[64];

#endif
