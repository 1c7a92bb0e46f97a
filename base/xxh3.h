/* SPDX-License-Identifier: Apache-2.0 */
/* XXH3 in 64 bits, seed 0, of libxxhash: checksums against chance, not against an attacker. */
#ifndef BASE_XXH3_H
#define BASE_XXH3_H

#include <stddef.h>
#include <stdint.h>

uint64_t mr_xxh3(const void *bytes, size_t len);
/* Of two pieces, one after the other; the second may be NULL when it has no bytes. */
uint64_t mr_xxh3_pair(const void *first, size_t first_len, const void *second, size_t second_len);

#endif
