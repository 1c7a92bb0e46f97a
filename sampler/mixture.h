/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of a mixture: which source each position comes from, and which of its samples. The
 * positions of all epochs are one sequence. Draw j of a source with n samples is position j mod n
 * of that source's own order for epoch j div n.
 *
 * Invariant: the sequence depends on the weights, the sizes, the seed and the kind of order alone.
 * Memory does not grow with positions: to go back, steps are made again from a kept place.
 */
#ifndef SAMPLER_MIXTURE_H
#define SAMPLER_MIXTURE_H

#include <millrace/sampler.h>

enum { MR_MIXTURE_MAX = 100 }; /* sources */
/* Samples of an epoch at most, and of an epoch without end. */
#define MR_MIXTURE_MAX_SAMPLES (UINT64_C(1) << 40)

struct mr_mixture_source {
    uint64_t n;    /* samples, 1 to 2^40 */
    double weight; /* above 0; mr_mixture_create() divides the weights by their sum */
};

struct mr_mixture_options {
    const struct mr_mixture_source *sources; /* copied */
    uint32_t n_sources;
    uint32_t mix_order; /* an mr_mix_order */
    uint32_t stop;      /* an mr_mix_stop */
    uint32_t order;     /* of each source, an mr_order */
    bool no_shuffle;
    uint64_t seed;
    uint64_t n_samples; /* of an epoch, instead of stop; 0: not given */
};

/* What a saved position has of a source. Counts are over all epochs. */
struct mr_mixture_count {
    uint64_t n;
    double weight;  /* divided by the sum */
    uint64_t first; /* draws before the weights became these */
    uint64_t count; /* draws */
};

struct mr_mixture; /* shared by the samplers of a loader's two epochs */

mr_status mr_mixture_create(const struct mr_mixture_options *options,
                            struct mr_mixture **mixture_out, mr_error *error);
struct mr_mixture *mr_mixture_ref(struct mr_mixture *mixture);
void mr_mixture_unref(struct mr_mixture *mixture); /* NULL does nothing */

uint32_t mr_mixture_n_sources(const struct mr_mixture *mixture);
bool mr_mixture_is_megatron(const struct mr_mixture *mixture);
/* Samples of an epoch of all ranks. */
uint64_t mr_mixture_length(const struct mr_mixture *mixture);
/* MR_ERR_INVALID if the epoch begins after MR_MIXTURE_MAX_SAMPLES. Threads: any. */
mr_status mr_mixture_check_epoch(const struct mr_mixture *mixture, uint64_t epoch, mr_error *error);

/*
 * The sample at a position of an epoch, as its index in the concatenated sources, and in *pass_out
 * how often its source was used whole before. The position may be beyond the epoch's end. It is
 * fast if positions ascend; a step over a position takes some nanoseconds for each source.
 * Threads: one at a time, as the two functions that follow.
 */
int64_t mr_mixture_at(struct mr_mixture *mixture, uint64_t epoch, uint64_t position,
                      uint64_t *pass_out);

/* The counts before a position of an epoch, one for each source. */
void mr_mixture_save(struct mr_mixture *mixture, uint64_t epoch, uint64_t position,
                     struct mr_mixture_count counts_out[MR_MIXTURE_MAX]);

/*
 * Continue with saved counts before a position of an epoch. Sources may have been added at the end,
 * and weights may be others: the sequence then begins anew with them, and no sample is drawn again
 * before its source's pass ends. same_order: the mix_order is the saved one. MR_ERR_INVALID names
 * what differs otherwise, and nothing changes.
 */
mr_status mr_mixture_restore(struct mr_mixture *mixture, uint64_t epoch, uint64_t position,
                             const struct mr_mixture_count *counts, uint32_t n, bool same_order,
                             mr_error *error);

#endif
