/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a JPEG's markers without libjpeg: the length of the header, and how its one sequential scan was encoded. */
#ifndef PACKS_PACKER_HEAD_H
#define PACKS_PACKER_HEAD_H

#include "base/packed_image.h"
#include "packs/packer_entropy.h"

#include <stdbool.h>
#include <stddef.h>

struct mr_packer_head {
    size_t len;      /* up to the first scan's data; 0: there is no scan */
    bool sequential; /* Huffman codes, one scan of all components in the header's order; the rest is known then */
    uint32_t restart_interval; /* MCUs, 0: none */
    uint32_t n_components;
    uint8_t h[MR_PACKED_MAX_COMPONENTS];
    uint8_t v[MR_PACKED_MAX_COMPONENTS];
    uint8_t dc[MR_PACKED_MAX_COMPONENTS]; /* the table of each component */
    uint8_t ac[MR_PACKED_MAX_COMPONENTS];
    bool has_dc[MR_HUFFMAN_TABLES];
    bool has_ac[MR_HUFFMAN_TABLES];
    struct mr_huffman_spec dc_tables[MR_HUFFMAN_TABLES];
    struct mr_huffman_spec ac_tables[MR_HUFFMAN_TABLES];
};

/* Read the header of any bytes. */
void mr_packer_head_read(const uint8_t *bytes, size_t len, struct mr_packer_head *head_out);

/* The end of a scan's data that begin at `from`: the first marker that is not a restart, or the end of the bytes. */
size_t mr_packer_head_scan_end(const uint8_t *bytes, size_t len, size_t from);

#endif
