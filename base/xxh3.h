/* SPDX-License-Identifier: Apache-2.0 */
/* libxxhash's XXH3 with 64 bits and seed 0. It finds accidental changes, not deliberate ones. */
#ifndef BASE_XXH3_H
#define BASE_XXH3_H

#include <stddef.h>
#include <stdint.h>

uint64_t mr_xxh3(const void *bytes, size_t len);
/* The hash of two pieces, one after the other. The second may be NULL if it has no bytes. */
uint64_t mr_xxh3_pair(const void *first, size_t first_len, const void *second, size_t second_len);

#endif
