/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch.multinomial. With replacement, each draw searches the sums for a uniform number
 * (at::native::multinomial_with_replacement_kernel_impl). Without replacement, the draws are the
 * largest values of weight / exponential number (the exponential trick). torch does the latter for
 * a single draw too.
 *
 * Draws with replacement read tables of many megabytes at random places. They are made in blocks,
 * and each step of a block prefetches the memory of the next step, so that the cache misses of a
 * block overlap.
 */
#include "sampler/multinomial.h"

#include "base/error.h"
#include "base/mt19937.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FULL = 255, BLOCK = 128, MANTISSA = 53, FEW = 8, DIGIT_BITS = 11, N_DIGITS = 6 };

/* at::uniform_real_distribution<double>(0, 1), as a multiple of 2^-53. */
static uint64_t draw_mantissa(struct mr_mt19937 *mt)
{
    uint64_t high = mr_mt19937_u32(mt);
    return (high << 32 | mr_mt19937_u32(mt)) & ((UINT64_C(1) << MANTISSA) - 1);
}

/* The first index of [low, high] whose sum is at least value. The sum at high is at least value. */
static uint32_t search_sums(const double *sums, uint32_t low, uint32_t high, double value)
{
    if (high - low <= FEW) { /* nearly always; no early exit: it would be mispredicted */
        uint32_t at = low;
        for (uint32_t i = low; i < high; i++)
            at += sums[i] < value;
        return at;
    }
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (sums[middle] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

mr_status mr_multinomial_counts_allocate(struct mr_multinomial_counts *counts_out, uint64_t n,
                                         mr_error *error)
{
    *counts_out = (struct mr_multinomial_counts){.low = mr_weights_allocate_zeros(n, 1, error)};
    if (counts_out->low)
        counts_out->more = mr_weights_allocate_zeros(n, sizeof *counts_out->more, error);
    if (counts_out->more)
        return MR_OK;
    mr_multinomial_counts_free(counts_out);
    return MR_ERR_NO_MEMORY;
}

void mr_multinomial_counts_free(struct mr_multinomial_counts *counts)
{
    free(counts->low);
    free(counts->more);
    *counts = (struct mr_multinomial_counts){0};
}

static void clear_counts(struct mr_multinomial_counts *counts, uint64_t n)
{
    memset(counts->low, 0, n);
    if (counts->is_full)
        memset(counts->more, 0, n * sizeof *counts->more);
    counts->is_full = false;
}

static uint32_t count_draw(struct mr_multinomial_counts *counts, uint32_t index)
{
    if (counts->low[index] < FULL)
        return counts->low[index]++;
    counts->is_full = true;
    return FULL + counts->more[index]++;
}

static void find_block(const struct mr_weights *weights, struct mr_mt19937 *mt, size_t n,
                       const uint8_t *counts, uint32_t indices_out[BLOCK])
{
    uint64_t mantissas[BLOCK];
    uint32_t low[BLOCK], high[BLOCK];
    unsigned shift = MANTISSA - weights->guide_bits;
    for (size_t i = 0; i < n; i++) {
        mantissas[i] = draw_mantissa(mt);
        __builtin_prefetch(&weights->guide[mantissas[i] >> shift]);
    }
    for (size_t i = 0; i < n; i++) {
        const uint32_t *guide = &weights->guide[mantissas[i] >> shift];
        low[i] = guide[0];
        high[i] = guide[1];
        if (low[i] != high[i]) {
            __builtin_prefetch(&weights->cumulative[low[i]]);
            __builtin_prefetch(&weights->cumulative[high[i] - 1]);
        }
    }
    for (size_t i = 0; i < n; i++) {
        double value = (double)mantissas[i] * 0x1p-53;
        indices_out[i] = search_sums(weights->cumulative, low[i], high[i], value);
        __builtin_prefetch(&counts[indices_out[i]], 1);
    }
}

static void draw_with_replacement(const struct mr_weights *weights, uint64_t n,
                                  struct mr_mt19937 *mt, struct mr_multinomial_counts *counts,
                                  mr_multinomial_take take, void *user)
{
    uint32_t indices[BLOCK];
    clear_counts(counts, weights->n);
    for (uint64_t done = 0; done < n;) {
        size_t len = n - done < BLOCK ? (size_t)(n - done) : BLOCK;
        find_block(weights, mt, len, counts->low, indices);
        for (size_t i = 0; i < len; i++, done++)
            take(user, done, indices[i], count_draw(counts, indices[i]));
    }
}

struct candidate {
    uint64_t order; /* larger for a smaller quotient */
    uint32_t index;
};

/* Quotients are not negative, so their bits have the same order as their values. */
static void fill_candidates(const struct mr_weights *weights, struct mr_mt19937 *mt,
                            struct candidate *candidates)
{
    for (uint64_t i = 0; i < weights->n; i++) {
        double quotient = weights->values[i] / -log1p(-((double)draw_mantissa(mt) * 0x1p-53));
        uint64_t bits;
        memcpy(&bits, &quotient, sizeof bits);
        candidates[i] = (struct candidate){.order = ~bits, .index = (uint32_t)i};
    }
}

static void sort_digit(const struct candidate *from, struct candidate *to, uint64_t n,
                       unsigned shift)
{
    uint32_t at[1 << DIGIT_BITS] = {0}, sum = 0; /* n is below 2^32 */
    for (uint64_t i = 0; i < n; i++)
        at[from[i].order >> shift & ((1 << DIGIT_BITS) - 1)]++;
    for (size_t digit = 0; digit < 1 << DIGIT_BITS; digit++) {
        uint32_t count = at[digit];
        at[digit] = sum;
        sum += count;
    }
    for (uint64_t i = 0; i < n; i++)
        to[at[from[i].order >> shift & ((1 << DIGIT_BITS) - 1)]++] = from[i];
}

static mr_status draw_without_replacement(const struct mr_weights *weights, uint64_t n,
                                          struct mr_mt19937 *mt, mr_multinomial_take take,
                                          void *user, mr_error *error)
{
    assert(n <= weights->n_positive);
    struct candidate *candidates = mr_weights_allocate(weights->n, sizeof *candidates, error);
    struct candidate *sorted =
        candidates ? mr_weights_allocate(weights->n, sizeof *sorted, error) : NULL;
    if (sorted) {
        fill_candidates(weights, mt, candidates);
        for (unsigned digit = 0; digit < N_DIGITS; digit += 2) {
            sort_digit(candidates, sorted, weights->n, digit * DIGIT_BITS);
            sort_digit(sorted, candidates, weights->n, (digit + 1) * DIGIT_BITS);
        }
        for (uint64_t i = 0; i < n; i++)
            take(user, i, candidates[i].index, 0);
    }
    free(candidates);
    free(sorted);
    return sorted ? MR_OK : MR_ERR_NO_MEMORY;
}

mr_status mr_multinomial_draw(const struct mr_weights *weights, uint64_t n, uint64_t seed,
                              struct mr_multinomial_counts *counts, mr_multinomial_take take,
                              void *user, mr_error *error)
{
    struct mr_mt19937 mt;
    mr_mt19937_init(&mt, seed);
    if (!weights->cumulative)
        return draw_without_replacement(weights, n, &mt, take, user, error);
    draw_with_replacement(weights, n, &mt, counts, take, user);
    return MR_OK;
}
