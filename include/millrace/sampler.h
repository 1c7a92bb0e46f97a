/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of an epoch and the shard of a rank: PyTorch's DistributedSampler, index for index;
 * with `repeat` torchvision's RASampler, with weights PyTorch's WeightedRandomSampler, dealt out to
 * ranks.
 *
 * A loader makes its own sampler from its options; this header is for programs that need only the
 * order.
 */
#ifndef MILLRACE_SAMPLER_H
#define MILLRACE_SAMPLER_H

#include <millrace/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What happens if n_samples is not divisible by world_size. */
typedef enum mr_tail {
    MR_TAIL_PAD = 0,  /* repeat samples from the start, as DistributedSampler(drop_last=False) */
    MR_TAIL_DROP = 1, /* leave out the last n_samples % world_size, as
                         DistributedSampler(drop_last=True) */
    MR_TAIL_EXACT = 2 /* each index once over all ranks; ranks that run out of samples step with
                         empty batches */
} mr_tail;

/** How an epoch is shuffled. */
typedef enum mr_order {
    MR_ORDER_TORCH = 0, /* torch.randperm(n, generator=seed + epoch); one array of n indices per
                           epoch */
    MR_ORDER_KEYED = 1  /* keyed permutation: any position in O(1) time and memory */
} mr_order;

/**
 * Whose sampler of repeated augmentation `repeat` follows. They differ for fewer than 256 samples
 * only.
 */
typedef enum mr_repeat_form {
    MR_REPEAT_TORCHVISION = 0, /* RASampler of torchvision's training script: an epoch of fewer
                                  than 256 is empty */
    MR_REPEAT_TIMM = 1         /* timm's RepeatAugSampler: an epoch of fewer than 256 has each
                                  rank's part of them */
} mr_repeat_form;

/** Options of mr_sampler_create(). */
typedef struct mr_sampler_options {
    size_t struct_size;
    int64_t n_samples;   /* 0 to 2^40 */
    uint32_t world_size; /* number of ranks (num_replicas); 0 means 1 */
    uint32_t rank;       /* 0 to world_size - 1 */
    bool no_shuffle;     /* sequential order */
    mr_tail tail;
    mr_order order;
    uint64_t seed;
    uint64_t epoch;
    uint32_t repeat;             /* 1 to 65535: each sample of the order that many times in turn,
                                    of which ranks take n_samples / 256 * 256 / world_size places
                                    each, so an epoch is as long as without; not with a tail or
                                    weights; 0: no repetition */
    mr_repeat_form repeat_form;  /* with repeat */
    bool no_replacement;         /* with weights: draw no sample twice in an epoch */
    uint64_t n_draws;            /* with weights: draws of an epoch over all ranks, up to 2^40; 0
                                    means n_samples */
    const char *weights;         /* draw samples in proportion to the weights in this file of
                                    numpy.save(), <f8 or <f4 */
    const double *weight_values; /* or to these, one for each sample, which are copied; up to
                                    2^32 - 1 */
    uint64_t n_weight_values;
} mr_sampler_options;

#define MR_SAMPLER_OPTIONS_INIT MR_STRUCT_INIT(mr_sampler_options)

typedef struct mr_sampler mr_sampler;

/**
 * Make a sampler that starts at options->epoch.
 *
 * Returns MR_OK; MR_ERR_INVALID, MR_ERR_NO_MEMORY. error may be NULL.
 * Ownership: *sampler_out is the caller's, to be destroyed; NULL on failure.
 */
MR_API mr_status mr_sampler_create(const mr_sampler_options *options, mr_sampler **sampler_out,
                                   mr_error *error);
/** Free the sampler. NULL does nothing. */
MR_API void mr_sampler_destroy(mr_sampler *sampler);

/**
 * Move to another epoch: the order is that of a new sampler for that epoch. Returns MR_OK;
 * MR_ERR_INVALID, MR_ERR_NO_MEMORY, and then the order stays as it was.
 */
MR_API mr_status mr_sampler_set_epoch(mr_sampler *sampler, uint64_t epoch, mr_error *error);

/**
 * Number of indices of this rank in this epoch. With MR_TAIL_EXACT it differs between ranks by at
 * most one.
 */
MR_API int64_t mr_sampler_length(const mr_sampler *sampler);

/**
 * Dataset index at a position of this rank; MR_NO_INDEX outside 0 <= position <
 * mr_sampler_length().
 *
 * Threads: any, except during mr_sampler_set_epoch().
 */
MR_API int64_t mr_sampler_at(const mr_sampler *sampler, int64_t position);

/**
 * How often the order of all ranks has had the index of this position before, on purpose: by repeat
 * or by weights. The loader gives each occurrence of an index draws of its own. Padding is no
 * occurrence. 0 outside the order.
 *
 * Threads: as mr_sampler_at().
 */
MR_API uint32_t mr_sampler_occurrence(const mr_sampler *sampler, int64_t position);

#ifdef __cplusplus
}
#endif

#endif
