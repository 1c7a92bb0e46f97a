/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the loader and position.c need from the sampler beside the public calls. The loader owns two
 * samplers, one per epoch in work. It writes the dataset indices of a batch into the batch's slot
 * when it publishes the slot, so workers know no sampler.
 */
#ifndef SAMPLER_SAMPLER_H
#define SAMPLER_SAMPLER_H

#include <millrace/sampler.h>

/*
 * Take the caller's own order for an epoch: n indices of this rank, copied, each checked against
 * n_samples. An index's occurrences are counted in that order.
 */
mr_status mr_sampler_set_order(mr_sampler *sampler, uint64_t epoch, const int64_t *indices,
                               int64_t n, mr_error *error);

/*
 * True after mr_sampler_set_order(), until the next mr_sampler_set_epoch(): such an order has no
 * position to save.
 */
bool mr_sampler_has_order(const mr_sampler *sampler);

/*
 * The options as checked, with world_size filled in and epoch the present one. Ownership: the
 * sampler's.
 */
const mr_sampler_options *mr_sampler_resolved(const mr_sampler *sampler);

/*
 * A sampler with the options of another one, which has its weights too, at an epoch. Returns as
 * mr_sampler_create().
 */
mr_status mr_sampler_create_like(const mr_sampler *like, uint64_t epoch, mr_sampler **sampler_out,
                                 mr_error *error);

/* Length of the order of all ranks, without padding. */
uint64_t mr_sampler_order_length(const mr_sampler *sampler);

/* A digest of the weights and the number of draws; 0 without weights. */
uint64_t mr_sampler_digest(const mr_sampler *sampler);

/* Number of steps every rank takes with batch_size: in exact mode that of the longest shard. */
uint64_t mr_sampler_steps(const mr_sampler *sampler, uint32_t batch_size, bool drop_last);

/* The same of the sampler's own order, also while an order of the caller's stands in for it. */
uint64_t mr_sampler_own_steps(const mr_sampler *sampler, uint32_t batch_size, bool drop_last);

#endif
