/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of a sampler that the loader and position.c use beside the public ones. The loader
 * owns two samplers, for the current epoch and the next. It writes the dataset indices of a batch
 * into the batch's slot when it publishes the slot, so workers need no sampler.
 */
#ifndef SAMPLER_SAMPLER_H
#define SAMPLER_SAMPLER_H

#include "sampler/buckets.h"
#include "sampler/groups.h"
#include "sampler/mixture.h"
#include "sampler/packing.h"

#include <millrace/sampler.h>

/* What an order may have beside its options. The sampler takes references. NULL: none. */
struct mr_sampler_parts {
    /*
     * The order is sorted into batches of one group (groups.h), with one id for each sample. It has
     * whole batches only, as many on every rank. Not with MR_TAIL_EXACT.
     */
    struct mr_groups *groups;
    /*
     * The order is that of a mixture. Not with groups, repeat and weights. Padding takes positions
     * beyond the epoch's end.
     */
    struct mr_mixture *mixture;
    /*
     * A shuffled order is grouped by length, and with max_tokens an order is cut into batches,
     * which ranks take by turns (mr_buckets_batches()). Not with the other parts, repeat and
     * weights.
     */
    struct mr_buckets *buckets;
    /*
     * The order is that of packed rows, as they are: n_samples are the documents, which are
     * shuffled, and an index is the number of a row in its epoch. Epochs differ in length. Not with
     * the other parts, repeat and weights.
     */
    struct mr_packing *packing;
    /* Only the first packed rows are counted (mr_sampler_is_begun()), so it is made soon. */
    bool begins;
};

/* mr_sampler_create() of an order with these parts. */
mr_status mr_sampler_create_with(const mr_sampler_options *options,
                                 const struct mr_sampler_parts *parts, mr_sampler **sampler_out,
                                 mr_error *error);
/* What the order has. Ownership: the sampler's. */
const struct mr_sampler_parts *mr_sampler_get_parts(const mr_sampler *sampler);
/* True: batches have up to max_tokens, and are the units of a position. */
bool mr_sampler_cuts_batches(const mr_sampler *sampler);
/*
 * Are packed rows left that were not counted? Then the steps are whole batches, and fewer than the
 * epoch has. mr_sampler_set_epoch() and mr_sampler_create_like() count all.
 */
bool mr_sampler_is_begun(const mr_sampler *sampler);
/* mr_packed_epoch_row() of a row of the present epoch. Threads: one at a time. */
uint32_t mr_sampler_pieces(mr_sampler *sampler, int64_t row, struct mr_token_piece *pieces_out);

/*
 * Use an order of the caller's for an epoch: n indices of this rank, copied, each checked against
 * n_samples. Occurrences of an index are counted in that order. Not with packed rows.
 */
mr_status mr_sampler_set_order(mr_sampler *sampler, uint64_t epoch, const int64_t *indices,
                               int64_t n, mr_error *error);

/*
 * True after mr_sampler_set_order(), until the next mr_sampler_set_epoch(). A position in such an
 * order cannot be saved.
 */
bool mr_sampler_has_order(const mr_sampler *sampler);

/*
 * The checked options, with world_size filled in and the current epoch. Ownership: the sampler's.
 */
const mr_sampler_options *mr_sampler_resolved(const mr_sampler *sampler);

/*
 * Make a sampler with the options and weights of another sampler, at an epoch. Returns as
 * mr_sampler_create().
 */
mr_status mr_sampler_create_like(const mr_sampler *like, uint64_t epoch, mr_sampler **sampler_out,
                                 mr_error *error);

/* Length of the order of all ranks, without padding. */
uint64_t mr_sampler_order_length(const mr_sampler *sampler);

/* A digest of weights, number of draws, groups, buckets and packing; 0 if there are none. */
uint64_t mr_sampler_digest(const mr_sampler *sampler);

/*
 * The number of samples of a batch, and the position of the first one. It is batch_size, or fewer
 * at the end, unless batches are cut by max_tokens.
 */
uint64_t mr_sampler_batch(const mr_sampler *sampler, uint64_t batch, uint32_t batch_size,
                          uint64_t *first_out);

/* Number of steps of every rank with batch_size. In exact mode the longest shard decides. */
uint64_t mr_sampler_steps(const mr_sampler *sampler, uint32_t batch_size, bool drop_last);

/* The same for the order that follows from the options, also while an order of the caller's is
 * used. */
uint64_t mr_sampler_own_steps(const mr_sampler *sampler, uint32_t batch_size, bool drop_last);

#endif
