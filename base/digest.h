/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A 64-bit digest of bytes with a key, for seeds and for what ranks compare (names, files). Equal
 * digests by chance have probability 2^-64; it is not safe against deliberate collisions.
 *
 * Every 32 bytes, little-endian and padded with zeros, are the counter of one block of
 * Philox4x64-10. The first key is {key, 0}; the first two words of a block are the key of the next
 * block. A last block has the counter {number of bytes, tag, 0, 0}, and its first word is the
 * digest. Philox is used because base/ has it, it is tested against the published results, and
 * Random123 and numpy compute the same numbers, so a seed can be reproduced elsewhere.
 */
#ifndef BASE_DIGEST_H
#define BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/export.h"
#include "base/rng.h"

enum { MR_DIGEST_BLOCK = 32 };

struct mr_digest {
    uint64_t key[2];
    uint64_t len; /* bytes so far */
    unsigned char block[MR_DIGEST_BLOCK];
};

static inline void mr_digest_init(struct mr_digest *digest, uint64_t key)
{
    memset(digest, 0, sizeof *digest);
    digest->key[0] = key;
}

static inline uint64_t mr_digest_word(struct mr_rng *rng)
{
    uint64_t low = mr_rng_u32(rng);
    return low | (uint64_t)mr_rng_u32(rng) << 32;
}

static inline void mr_digest_mix(struct mr_digest *digest, const uint64_t counter[4])
{
    struct mr_rng rng;
    mr_rng_init(&rng, digest->key[0], digest->key[1], 0);
    memcpy(rng.counter, counter, sizeof rng.counter);
    digest->key[0] = mr_digest_word(&rng);
    digest->key[1] = mr_digest_word(&rng);
}

static inline void mr_digest_mix_block(struct mr_digest *digest)
{
    uint64_t counter[4] = {0};
    for (unsigned i = 0; i < MR_DIGEST_BLOCK; i++)
        counter[i / 8] |= (uint64_t)digest->block[i] << i % 8 * 8;
    mr_digest_mix(digest, counter);
    memset(digest->block, 0, sizeof digest->block);
}

static inline void mr_digest_add(struct mr_digest *digest, const void *bytes, size_t len)
{
    const unsigned char *from = (const unsigned char *)bytes;
    while (len > 0) {
        size_t used = digest->len % MR_DIGEST_BLOCK;
        size_t n = len < MR_DIGEST_BLOCK - used ? len : MR_DIGEST_BLOCK - used;
        memcpy(digest->block + used, from, n);
        digest->len += n;
        from += n;
        len -= n;
        if (digest->len % MR_DIGEST_BLOCK == 0)
            mr_digest_mix_block(digest);
    }
}

/* Add eight bytes, little-endian. */
static inline void mr_digest_add_u64(struct mr_digest *digest, uint64_t value)
{
    unsigned char bytes[8];
    for (unsigned i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(value >> 8 * i);
    mr_digest_add(digest, bytes, sizeof bytes);
}

/* Add a text with its final NUL, so that "ab", "c" differs from "a", "bc". */
static inline void mr_digest_add_text(struct mr_digest *digest, const char *text)
{
    mr_digest_add(digest, text, strlen(text) + 1);
}

/*
 * Finish and return the digest. Different tags give different digests of the same bytes. Add
 * nothing afterwards.
 */
static inline uint64_t mr_digest_end(struct mr_digest *digest, uint64_t tag)
{
    if (digest->len % MR_DIGEST_BLOCK != 0)
        mr_digest_mix_block(digest);
    mr_digest_mix(digest, (const uint64_t[4]){digest->len, tag, 0, 0});
    return digest->key[0];
}

/*
 * A seed for a purpose, derived from the seed of a run: mr_seed() with a tag as its comment defines
 * it, 0 or rank + 1. purpose NULL is "".
 */
MR_BASE_EXPORT uint64_t mr_seed_derive(uint64_t seed, const char *purpose, uint64_t tag);

#endif
