/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups of samples, such as images of a similar shape: every batch of a rank has samples of one
 * group, as by GroupedBatchSampler of torchvision's references/detection.
 */
#ifndef SAMPLER_GROUPS_H
#define SAMPLER_GROUPS_H

#include <millrace/status.h>

#include <stdatomic.h>

enum { MR_GROUPS_MAX = 256 };

/* Shared by the samplers of a loader's two epochs. */
struct mr_groups {
    _Atomic uint32_t n_refs;
    uint32_t batch_size;
    uint64_t n;      /* samples */
    uint64_t digest; /* of the ids */
    uint8_t ids[];   /* of each sample */
};

/* Copy the ids of n samples. */
mr_status mr_groups_create(const uint8_t *ids, uint64_t n, uint32_t batch_size,
                           struct mr_groups **groups_out, mr_error *error);
struct mr_groups *mr_groups_ref(struct mr_groups *groups);
void mr_groups_unref(struct mr_groups *groups); /* NULL does nothing */

/*
 * Sort a rank's order into batches. ids[p] is the group of its position p, of n. positions_out gets
 * the positions of n / batch_size batches, one after the other: first each group's batches in the
 * order in which they become full, then batches of what is left, of the group with most left first.
 * Each of these is filled up with its group's first samples, again from the first one if those are
 * too few. If two groups have as much left, the one comes first whose last full batch, or first
 * sample if it had none, was earlier. MR_ERR_NO_MEMORY.
 */
mr_status mr_groups_sort(const uint8_t *ids, uint64_t n, uint32_t batch_size,
                         uint64_t *positions_out, mr_error *error);

#endif
