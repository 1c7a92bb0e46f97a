/* SPDX-License-Identifier: Apache-2.0 */
/* The weights of a dataset's samples, shared by the samplers of a loader's two epochs. */
#ifndef SAMPLER_WEIGHTS_H
#define SAMPLER_WEIGHTS_H

#include <millrace/status.h>

#include <stdatomic.h>

struct mr_weights {
    _Atomic uint32_t n_refs;
    uint64_t n;          /* up to 2^32 - 1 */
    uint64_t n_positive; /* weights above zero */
    uint64_t digest;     /* of the values as f64 */
    double *values;      /* as given; NULL if they became `cumulative` */
    double *cumulative;  /* running sums of the values, divided by the last sum; NULL without
                            replacement */
    uint32_t *guide;     /* 2^guide_bits + 1 entries: guide[b] is the first i with
                            cumulative[i] >= b / 2^guide_bits */
    unsigned guide_bits;
};

/*
 * Copy n weights. They must be finite and not negative, and at least one above zero. Set cumulate
 * for draws with replacement.
 */
mr_status mr_weights_create(const double *values, uint64_t n, bool cumulate,
                            struct mr_weights **weights_out, mr_error *error);
/*
 * The same from a .npy file of one dimension with n values, <f8 or <f4. MR_ERR_IO if it cannot be
 * read, MR_ERR_INVALID.
 */
mr_status mr_weights_load(const char *path, uint64_t n, bool cumulate,
                          struct mr_weights **weights_out, mr_error *error);
struct mr_weights *mr_weights_ref(struct mr_weights *weights);
void mr_weights_unref(struct mr_weights *weights); /* NULL does nothing */

/*
 * Memory for tables that are read at random places, in large pages if the kernel has them. Free it
 * with free().
 */
void *mr_weights_allocate(uint64_t n, size_t element, mr_error *error);
/* The same, all zero. */
void *mr_weights_allocate_zeros(uint64_t n, size_t element, mr_error *error);

#endif
