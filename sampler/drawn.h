/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order that weights draw, of which this rank's part is kept. The tables serve one epoch after
 * the other.
 */
#ifndef SAMPLER_DRAWN_H
#define SAMPLER_DRAWN_H

#include "sampler/multinomial.h"

struct mr_drawn {
    uint64_t n_draws; /* of all ranks */
    uint64_t world_size;
    uint64_t rank;
    uint64_t length; /* of this rank */
    uint64_t padded; /* the position of the order that this rank's last place repeats;
                        UINT64_MAX: none */
    uint32_t *indices;
    uint32_t *occurrences; /* how often the order had the index before; NULL without replacement */
    struct mr_multinomial_counts counts;
};

/*
 * Get the memory. All but the pointers are the caller's to set. On failure nothing is left to free.
 * MR_ERR_NO_MEMORY. /
 */
mr_status mr_drawn_allocate(struct mr_drawn *drawn, const struct mr_weights *weights,
                            mr_error *error);
/* Draw an order. MR_ERR_NO_MEMORY, and then the order stays as it was. */
mr_status mr_drawn_fill(struct mr_drawn *drawn, const struct mr_weights *weights, uint64_t seed,
                        mr_error *error);
void mr_drawn_free(struct mr_drawn *drawn); /* of zeros: does nothing */

#endif
