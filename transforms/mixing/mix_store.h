/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's store of mixed rows: makes the tensor of one row from two samples' u8 pixels, in one
 * pass. It may run any number of times with the same result, because it writes nothing that it
 * reads.
 */
#ifndef TRANSFORMS_MIX_STORE_H
#define TRANSFORMS_MIX_STORE_H

#include "base/erasing.h"
#include "base/mix.h"
#include "transforms/plan.h"

struct mr_mix_store; /* a worker's scratch */

/* A row of the batch before it is mixed. */
struct mr_mix_row {
    const uint8_t *pixels;        /* out_height x out_width x channels, interleaved */
    const struct mr_erase *erase; /* its boxes; NULL: none */
};

/* plan describes the finished tensor, with its erasing. It must outlive the object. */
mr_status mr_mix_store_create(const struct mr_plan *plan, struct mr_mix_store **store_out,
                              mr_error *error);
void mr_mix_store_destroy(struct mr_mix_store *store);

/* Write one row's tensor, plan->out_bytes bytes. With MR_MIX_NONE the partner is not read. */
void mr_mix_store_run(struct mr_mix_store *store, const struct mr_mix *mix,
                      const struct mr_mix_row *own, const struct mr_mix_row *partner, void *out);

/*
 * A row of soft labels: n values, from one-hot labels with smoothing, mixed by lambda. A label
 * outside 0 to n - 1 has no class. f32; each product and each sum is rounded separately.
 */
void mr_mix_store_label(const struct mr_mix *mix, double smoothing, int64_t own, int64_t partner,
                        uint32_t n, float *out);

#endif
