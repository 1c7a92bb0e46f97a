/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashes with libxxhash. Only its header is used, so nothing is linked. The streaming state must be
 * aligned to 64 bytes; the type XXH3_state_t has that alignment.
 */
#include "base/xxh3.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t mr_xxh3(const void *bytes, size_t len)
{
    return XXH3_64bits(bytes, len);
}

uint64_t mr_xxh3_pair(const void *first, size_t first_len, const void *second, size_t second_len)
{
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, first, first_len);
    if (second_len > 0)
        XXH3_64bits_update(&state, second, second_len);
    return XXH3_64bits_digest(&state);
}
