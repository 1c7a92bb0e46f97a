/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loader's position in an epoch, in a form that can be saved and that a loader with another world
 * size can continue.
 */
#ifndef SAMPLER_POSITION_H
#define SAMPLER_POSITION_H

#include "sampler/mixture.h"

#include <millrace/sampler.h>

/* The position of a loader, as it is saved: little-endian. */
struct mr_position {
    uint32_t magic;   /* MR_POSITION_MAGIC */
    uint32_t version; /* MR_POSITION_VERSION, or MR_POSITION_MIXED with sources */
    uint32_t len;     /* of the whole position, in bytes */
    uint32_t check;   /* CRC-32 of the bytes after it */
    uint32_t flags;   /* bit 0 no_shuffle, 1 drop_last, 2-3 tail, 4-5 order, 6 the epoch has
                         ended, 7 weights, 8 no_replacement, 9 repeat is timm's, 10 groups,
                         11 mixture, 12 in Megatron's order, 13 buckets, 14 packed rows, 16-31
                         repeat */
    uint32_t world_size;
    uint32_t batch_size;
    uint32_t rank; /* not read by the library */
    uint64_t seed;
    uint64_t epoch;
    uint64_t n_samples;
    uint64_t digest;    /* mr_sampler_digest() */
    uint32_t n_used;    /* number of entries of used: 1, since a loader has one dataset */
    uint32_t n_sources; /* of a mixture; otherwise 0 */
    uint64_t used[1];   /* samples that all ranks together have used in this epoch; batches, with
                           max_tokens */
    struct mr_mixture_count sources[];
};
#define MR_POSITION_MAGIC 0x5350524du /* "MRPS" */
#define MR_POSITION_VERSION 1
#define MR_POSITION_MIXED 2

/* Bytes of a position with so many sources. */
size_t mr_position_size(uint32_t n_sources);

/*
 * Fill in the position after `batches` batches of batch_size of this sampler's epoch. The position
 * is the same on all ranks except for `rank`. The sampler must not have an order of the caller's
 * (assert). position_out has room for mr_position_size() of its mixture's
 * sources.
 */
void mr_position_save(const mr_sampler *sampler, uint32_t batch_size, bool drop_last,
                      uint64_t batches, struct mr_position *position_out);

/*
 * Compute how many batches of this loader (the sampler's world_size, batch_size) the saved position
 * has used. Returns MR_OK, or MR_ERR_INVALID with one line that names what differs (seed,
 * n_samples, tail, order, shuffle, drop_last) or what does not divide. Only the sampler's options
 * are compared: it may be at another epoch. *epoch_out is the saved epoch. *batches_out may be more
 * than that epoch has, if it has ended.
 *
 * bytes  len bytes from outside, which may be cut, altered or something else
 *
 * Another world size and batch size are possible for this reason: rank r of W takes positions r,
 * r + W, ... of one order that does not depend on W. After k steps of batch_size B all ranks
 * together have used exactly the first k*W*B positions. Another W and B can continue if W*B divides
 * that number, and every sample is still used as often as without the change. The positions after
 * the last full round of W follow the new W: another number is padded (pad) or left out (drop). A
 * position saved at the end of an epoch is restored at its end with any W and B. With max_tokens
 * the order is one of batches: another W can continue if it divides the number of batches used.
 * With groups W and B must be the same, because groups are made from each rank's part of the order.
 * The order (torch, keyed) must be the saved one only if samples are shuffled. The sampler's
 * mixture, if it has one, is set to the saved counts (mr_mixture_restore()), in which weights and
 * sources may have changed.
 * Packed rows have the same numbers with any W and B, so the number of used rows finds the window
 * and the row in it.
 */
mr_status mr_position_restore(const void *bytes, size_t len, const mr_sampler *sampler,
                              uint32_t batch_size, bool drop_last, uint64_t *epoch_out,
                              uint64_t *batches_out, mr_error *error);

#endif
