/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of an epoch and the shard of a rank: index for index as PyTorch's DistributedSampler.
 * With `repeat` the order is that of torchvision's RASampler; with weights it is that of PyTorch's
 * WeightedRandomSampler, split among the ranks.
 *
 * A loader makes its sampler from its options. This header is for programs that need only the
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
    MR_TAIL_PAD = 0,  /* default: repeat samples from the start of the order, as
                         DistributedSampler(drop_last=False) */
    MR_TAIL_DROP = 1, /* leave out the last n_samples % world_size, as
                         DistributedSampler(drop_last=True) */
    MR_TAIL_EXACT = 2 /* each index once over all ranks; ranks with fewer samples get empty batches
                         at the end */
} mr_tail;

/** How an epoch is shuffled. */
typedef enum mr_order {
    MR_ORDER_TORCH = 0, /* default: torch.randperm(n) with the generator seed + epoch; takes an
                           array of n indices */
    MR_ORDER_KEYED = 1  /* a permutation that finds any position in O(1) time and memory */
} mr_order;

/**
 * The sampler that `repeat` follows. The two differ only if a dataset has fewer than 256 samples.
 */
typedef enum mr_repeat_form {
    MR_REPEAT_TORCHVISION = 0, /* default: RASampler of torchvision's training script; with fewer
                                  than 256 samples an epoch is empty */
    MR_REPEAT_TIMM = 1         /* timm's RepeatAugSampler: with fewer than 256 samples a rank has
                                  n_samples / world_size places, rounded up */
} mr_repeat_form;

/** How the sources of a mixture follow each other: see docs/mixtures.md. */
typedef enum mr_mix_order {
    MR_MIX_ORDER_EVEN = 0,    /* default: at every position each source has been drawn weight x
                                 position times, to less than one sample (Tijdeman 1980) */
    MR_MIX_ORDER_MEGATRON = 1 /* Megatron-Core's build_blending_indices() */
} mr_mix_order;

/** Where an epoch of a mixture ends. */
typedef enum mr_mix_stop {
    MR_MIX_STOP_NONE = 0,  /* default: never (after 2^40 samples) */
    MR_MIX_STOP_FIRST = 1, /* when the first source is used up */
    MR_MIX_STOP_ALL = 2    /* when every source was used up; the others go round */
} mr_mix_stop;

/** Options of mr_sampler_create(). */
typedef struct mr_sampler_options {
    size_t struct_size;
    int64_t n_samples;    /* 0 to 2^40 */
    uint32_t world_size;  /* number of ranks (num_replicas); 0 means 1 */
    uint32_t rank;        /* 0 to world_size - 1 */
    uint32_t tail;        /* an mr_tail; default: MR_TAIL_PAD */
    uint32_t order;       /* an mr_order; default: MR_ORDER_TORCH */
    uint64_t seed;        /* default: 0 */
    uint64_t epoch;       /* the first epoch; default: 0 */
    uint32_t repeat;      /* 1 to 65535: repeat each sample of the order this often, one after the
                             other. Each rank takes n_samples / 256 * 256 / world_size places, so
                             an epoch is about as long as without repeat. Not with weights, and only
                             with MR_TAIL_PAD; 0: no repetition */
    uint32_t repeat_form; /* an mr_repeat_form, with repeat; default: MR_REPEAT_TORCHVISION */
    bool no_shuffle;      /* sequential order; default: shuffled */
    bool no_replacement;  /* with weights: draw no sample twice in an epoch */
    uint8_t reserved[2];  /* 0 */
    uint32_t rank_slices; /* B: the order is cut into global batches of world_size * B samples, of
                             which rank r takes B in a row, from r * B on, as Megatron's
                             MegatronPretrainingSampler. A last, smaller one is cut into parts whose
                             sizes differ by at most one. A rank has as many samples as without.
                             Not with weights; 0: ranks take turns, as DistributedSampler */
    uint64_t n_draws;     /* with weights: draws of an epoch over all ranks, up to 2^40; 0 means
                             n_samples */
    const char *weights;  /* draw samples in proportion to the weights in this file, which
                             numpy.save() wrote with <f8, <f4, <i8 or <i4; NULL: none */
    const double *weight_values; /* instead of weights: the weights themselves, one for each
                                    sample, at most 2^32 - 1; copied; NULL: none */
    uint64_t n_weight_values;    /* entries of weight_values: n_samples */
} mr_sampler_options;

#define MR_SAMPLER_OPTIONS_INIT MR_STRUCT_INIT(mr_sampler_options)

/** Do as MR_SAMPLER_OPTIONS_INIT, for languages without macros; see "Structs" in status.h. Threads:
 * any. */
MR_API void mr_sampler_options_init(mr_sampler_options *options, size_t size);

typedef struct mr_sampler mr_sampler;

/**
 * Make a sampler that starts at options->epoch. error may be NULL.
 *
 * Returns MR_OK; MR_ERR_INVALID; MR_ERR_IO if the file of weights cannot be read; MR_ERR_NO_MEMORY.
 * Ownership: *sampler_out is the caller's, to be destroyed; NULL on failure.
 */
MR_API mr_status mr_sampler_create(const mr_sampler_options *options, mr_sampler **sampler_out,
                                   mr_error *error);
/** Free the sampler. NULL does nothing. */
MR_API void mr_sampler_destroy(mr_sampler *sampler);

/**
 * Move to another epoch. The order is that of a new sampler for that epoch. Returns MR_OK;
 * MR_ERR_INVALID and MR_ERR_NO_MEMORY: the order is unchanged.
 */
MR_API mr_status mr_sampler_set_epoch(mr_sampler *sampler, uint64_t epoch, mr_error *error);

/** Number of indices of this rank in this epoch. With MR_TAIL_EXACT ranks differ by at most one. */
MR_API int64_t mr_sampler_length(const mr_sampler *sampler);

/**
 * Dataset index at a position of this rank; MR_NO_INDEX outside 0 <= position <
 * mr_sampler_length().
 *
 * Threads: any, except during mr_sampler_set_epoch().
 */
MR_API int64_t mr_sampler_at(const mr_sampler *sampler, int64_t position);

/**
 * How often the order of all ranks has had this position's index before, by repeat or by weights.
 * The loader draws new random numbers for each occurrence of an index. Padding does not count as an
 * occurrence. 0 outside the order.
 *
 * Threads: as mr_sampler_at().
 */
MR_API uint32_t mr_sampler_occurrence(const mr_sampler *sampler, int64_t position);

#ifdef __cplusplus
}
#endif

#endif
