/* SPDX-License-Identifier: Apache-2.0 */
/* Stores this rank's part of the draws. */
#include "sampler/drawn.h"

#include <stdlib.h>

mr_status mr_drawn_allocate(struct mr_drawn *drawn, const struct mr_weights *weights,
                            mr_error *error)
{
    drawn->indices = mr_weights_allocate(drawn->length, sizeof *drawn->indices, error);
    mr_status status = drawn->indices ? MR_OK : MR_ERR_NO_MEMORY;
    if (status == MR_OK && weights->cumulative) {
        drawn->occurrences = mr_weights_allocate(drawn->length, sizeof *drawn->occurrences, error);
        status = drawn->occurrences
                     ? mr_multinomial_counts_allocate(&drawn->counts, weights->n, error)
                     : MR_ERR_NO_MEMORY;
    }
    if (status != MR_OK)
        mr_drawn_free(drawn);
    return status;
}

static void put_draw(struct mr_drawn *drawn, uint64_t p, uint32_t index, uint32_t occurrence)
{
    drawn->indices[p] = index;
    if (drawn->occurrences)
        drawn->occurrences[p] = occurrence;
}

static void take_draw(void *user, uint64_t position, uint32_t index, uint32_t occurrence)
{
    struct mr_drawn *drawn = user;
    uint64_t p = position / drawn->world_size;
    if (position - p * drawn->world_size == drawn->rank && p < drawn->length)
        put_draw(drawn, p, index, occurrence);
    if (position == drawn->padded)
        put_draw(drawn, drawn->length - 1, index, occurrence);
}

mr_status mr_drawn_fill(struct mr_drawn *drawn, const struct mr_weights *weights, uint64_t seed,
                        mr_error *error)
{
    return mr_multinomial_draw(weights, drawn->n_draws, seed, &drawn->counts, take_draw, drawn,
                               error);
}

void mr_drawn_free(struct mr_drawn *drawn)
{
    free(drawn->indices);
    free(drawn->occurrences);
    mr_multinomial_counts_free(&drawn->counts);
    drawn->indices = drawn->occurrences = NULL;
}
