/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a loader stands in an epoch, in a form that can be saved and that another world size can go
 * on from.
 */
#ifndef SAMPLER_POSITION_H
#define SAMPLER_POSITION_H

#include <millrace/sampler.h>

/* The position of a loader, as it is saved: little-endian. */
struct mr_position {
    uint32_t magic;   /* MR_POSITION_MAGIC */
    uint32_t version; /* MR_POSITION_VERSION */
    uint32_t len;     /* bytes of all */
    uint32_t check;   /* CRC-32 of the bytes after it */
    uint32_t flags;   /* bit 0 no_shuffle, 1 drop_last, 2-3 tail, 4-5 order, 6 the epoch was at its
                         end, 7 weights, 8 no_replacement, 9 repeat is timm's, 16-31 repeat */
    uint32_t world_size;
    uint32_t batch_size;
    uint32_t rank; /* for people who read it */
    uint64_t seed;
    uint64_t epoch;
    uint64_t n_samples;
    uint64_t digest; /* of weights and n_draws; 0 without weights */
    uint32_t n_used; /* counts that follow: 1, since a loader has one dataset */
    uint32_t reserved;
    uint64_t used[1]; /* samples that all ranks together have been given in this epoch */
};
#define MR_POSITION_MAGIC 0x5350524du /* "MRPS" */
#define MR_POSITION_VERSION 1

/*
 * Fill in a position: next() has returned `batches` batches of batch_size of this sampler's epoch.
 * The state is the same for all ranks but for `rank`, which is there for people to read. Not for an
 * order of the caller's own (assert).
 */
void mr_position_save(const mr_sampler *sampler, uint32_t batch_size, bool drop_last,
                      uint64_t batches, struct mr_position *position_out);

/*
 * How many batches of this loader (sampler's world_size, batch_size) the saved position has used
 * up. bytes: len of them, from outside. MR_ERR_INVALID with one line that names what differs (seed,
 * n_samples, tail, order, shuffle, drop_last) or what does not divide. The sampler may stand at
 * another epoch: only its options are compared; *epoch_out is the saved one.
 *
 * What is allowed: rank r of W takes positions r, r + W, ... of one order that does not depend on
 * W, so that after k steps of batch_size B all ranks together have used exactly the first k*W*B
 * positions. Another W and B can go on from there when W*B divides that number, and then every
 * sample still comes as often as it would have. What lies past the last full round of W positions
 * follows the new W: another number is padded (pad) or left out (drop). A state saved at the end of
 * an epoch is restored at the end of it with any W and B. The order (torch, keyed) must be the
 * saved one only where samples are shuffled.
 */
mr_status mr_position_restore(const void *bytes, size_t len, const mr_sampler *sampler,
                              uint32_t batch_size, bool drop_last, uint64_t *epoch_out,
                              uint64_t *batches_out, mr_error *error);

#endif
