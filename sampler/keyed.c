/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keyed permutation: a generalised Feistel network over Z_a x Z_b with a*b just above n,
 * followed by cycle walking (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA
 * 2002). Shuffles on GPUs use a domain that is a power of two (Mitchell et al., "Bandwidth-Optimal
 * Random Shuffling for GPUs", 2022) and walk at every second lookup. Here walks are rare: fewer
 * than ceil(sqrt(n)) of the a*b points are outside 0 .. n - 1. Round keys come from Philox.
 *
 * Invariant: a small n needs more rounds, not fewer. A round makes one half uniform only if the
 * other half differs between two positions, and two halves of s values are equal with probability
 * 1/s. The bias after r rounds is therefore of the order of s^(-r/2).
 */
#include "sampler/keyed.h"

#include "base/rng.h"

#include <assert.h>

enum { ROUNDS_LARGE = 12, LARGE_N = 1 << 16 };

static uint64_t ceil_sqrt(uint64_t n)
{
    uint64_t lo = 1, hi = UINT64_C(1) << 20; /* hi * hi >= n always holds */
    while (lo < hi) {
        uint64_t mid = (lo + hi) / 2;
        if (mid * mid >= n)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

static uint64_t draw_u64(struct mr_rng *rng)
{
    uint64_t high = mr_rng_u32(rng);
    return high << 32 | mr_rng_u32(rng);
}

void mr_keyed_init(struct mr_keyed *keyed, uint64_t n, uint64_t seed, uint64_t epoch)
{
    assert(n <= MR_KEYED_MAX_N);
    keyed->n = n;
    keyed->n_left = ceil_sqrt(n);
    keyed->n_right = (n + keyed->n_left - 1) / keyed->n_left;
    keyed->n_rounds = n < LARGE_N ? MR_KEYED_MAX_ROUNDS : ROUNDS_LARGE;

    struct mr_rng rng;
    /* UINT64_MAX is not a dataset index, so no sample draws from this stream */
    mr_rng_init(&rng, seed, epoch, UINT64_MAX);
    for (uint32_t i = 0; i < MR_KEYED_MAX_ROUNDS; i++) {
        keyed->keys[i][0] = draw_u64(&rng);
        keyed->keys[i][1] = draw_u64(&rng);
    }
}

/*
 * A keyed function of x with values below limit: the halves of a 128-bit product are combined by
 * xor and scaled.
 */
static uint64_t round_value(const uint64_t key[2], uint64_t x, uint64_t limit)
{
    unsigned __int128 product = (unsigned __int128)(x ^ key[0]) * key[1];
    uint64_t hash = (uint64_t)product ^ (uint64_t)(product >> 64);
    return (uint64_t)((unsigned __int128)hash * limit >> 64);
}

static uint64_t add_mod(uint64_t a, uint64_t b, uint64_t limit)
{
    uint64_t sum = a + b;
    return sum >= limit ? sum - limit : sum;
}

uint64_t mr_keyed_at(const struct mr_keyed *keyed, uint64_t position)
{
    assert(position < keyed->n);
    uint64_t left = position % keyed->n_left, right = position / keyed->n_left;
    do {
        for (uint32_t i = 0; i < keyed->n_rounds; i += 2) {
            left = add_mod(left, round_value(keyed->keys[i], right, keyed->n_left), keyed->n_left);
            right = add_mod(right, round_value(keyed->keys[i + 1], left, keyed->n_right),
                            keyed->n_right);
        }
    } while (right * keyed->n_left + left >=
             keyed->n); /* ends, because the cycle contains position, which is below n */
    return right * keyed->n_left + left;
}
