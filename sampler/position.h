/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a loader stands in an epoch, in a form that can be saved and that another world size can go
 * on from.
 */
#ifndef SAMPLER_POSITION_H
#define SAMPLER_POSITION_H

#include <millrace/sampler.h>

/* The position of a loader: plain, little-endian, fits mr_loader_state. */
struct mr_position {
    uint32_t magic; /* MR_POSITION_MAGIC, which also versions it */
    uint32_t flags; /* bit 0 no_shuffle, 1 drop_last, 2-3 tail, 4-5 order, 6 the epoch was at its
                       end, 7 weights, 8 no_replacement, 9 repeat is timm's, 16-31 repeat */
    uint64_t seed;
    uint64_t epoch;
    uint64_t n_samples;
    uint64_t used; /* samples that all ranks together have been given in this epoch */
    uint32_t world_size;
    uint32_t batch_size;
    uint32_t rank;
    uint32_t check;  /* crc or hash of the bytes before it */
    uint64_t digest; /* of weights and n_draws; 0 without weights */
};
#define MR_POSITION_MAGIC 0x31504d52u

/*
 * Fill in a position: next() has returned `batches` batches of batch_size of this sampler's epoch.
 * The state is the same for all ranks but for `rank`, which is there for people to read. Not for an
 * order of the caller's own (assert).
 */
void mr_position_save(const mr_sampler *sampler, uint32_t batch_size, bool drop_last,
                      uint64_t batches, struct mr_position *position_out);

/*
 * How many batches of this loader (sampler's world_size, batch_size) the saved position has used
 * up. MR_ERR_INVALID with one line that names what differs (seed, n_samples, tail, order, shuffle,
 * drop_last) or what does not divide. The sampler may stand at another epoch: only its options are
 * compared; *epoch_out is the saved one.
 *
 * What is allowed: rank r of W takes positions r, r + W, ... of one order that does not depend on
 * W, so that after k steps of batch_size B all ranks together have used exactly the first k*W*B
 * positions. Another W and B can go on from there when W*B divides that number, and then every
 * sample still comes as often as it would have. What lies past the last full round of W positions
 * follows the new W: another number is padded (pad) or left out (drop). A state saved at the end of
 * an epoch is restored at the end of it with any W and B. The order (torch, keyed) must be the
 * saved one only where samples are shuffled.
 */
mr_status mr_position_restore(const struct mr_position *position, const mr_sampler *sampler,
                              uint32_t batch_size, bool drop_last, uint64_t *epoch_out,
                              uint64_t *batches_out, mr_error *error);

#endif
