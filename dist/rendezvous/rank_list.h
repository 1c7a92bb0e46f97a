/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of ranks as bits, and their spelling in messages. Rank r is bit r % 8 of byte r / 8. */
#ifndef DIST_RENDEZVOUS_RANK_LIST_H
#define DIST_RENDEZVOUS_RANK_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool mr_rank_list_has(const uint8_t *bits, uint32_t rank)
{
    return bits[rank / 8] >> rank % 8 & 1;
}

static inline void mr_rank_list_add(uint8_t *bits, uint32_t rank)
{
    bits[rank / 8] = (uint8_t)(bits[rank / 8] | 1u << rank % 8);
}

/*
 * Writes "2, 5-7", the ranks below n whose bit is set. Ends with "..." if size is too small for
 * all.
 */
void mr_rank_list_spell(const uint8_t *bits, uint32_t n, char *text_out, size_t size);

#endif
