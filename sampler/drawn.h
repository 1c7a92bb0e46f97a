/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This rank's part of an order that is drawn by weights. The tables are filled again for each
 * epoch.
 */
#ifndef SAMPLER_DRAWN_H
#define SAMPLER_DRAWN_H

#include "sampler/multinomial.h"

struct mr_drawn {
    uint64_t n_draws; /* of all ranks */
    uint64_t world_size;
    uint64_t rank;
    uint64_t length; /* of this rank */
    uint64_t padded; /* the position of the order that this rank's last place repeats as padding;
                        UINT64_MAX: none */
    uint32_t *indices;
    uint32_t *occurrences; /* how often the order had the index before; NULL without replacement */
    struct mr_multinomial_counts counts;
};

/*
 * Allocate the tables. The caller has set all fields but the pointers. Returns MR_OK or
 * MR_ERR_NO_MEMORY: nothing is left to free.
 */
mr_status mr_drawn_allocate(struct mr_drawn *drawn, const struct mr_weights *weights,
                            mr_error *error);
/* Draw an order. Returns MR_OK or MR_ERR_NO_MEMORY: the order is then unchanged. */
mr_status mr_drawn_fill(struct mr_drawn *drawn, const struct mr_weights *weights, uint64_t seed,
                        mr_error *error);
void mr_drawn_free(struct mr_drawn *drawn); /* does nothing for a struct of zeros */

#endif
