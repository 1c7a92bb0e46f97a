/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders and batches by the lengths of samples, such as the tokens of documents: group_by_length of
 * Hugging Face's transformers, and max_tokens of fairseq.
 */
#ifndef SAMPLER_BUCKETS_H
#define SAMPLER_BUCKETS_H

#include <millrace/sampler.h>

#include <stdatomic.h>

struct mr_buckets_options {
    uint64_t n;          /* samples, below 2^32 */
    uint32_t group;      /* samples of a batch, of which megabatches are made; 0: no groups */
    uint32_t batch_size; /* with max_tokens: the most samples of a batch */
    uint32_t multiple;   /* with max_tokens: of samples, in batches that have more; at least 1 */
    uint64_t max_tokens; /* of a batch, padding included; 0: all batches have batch_size samples */
};

/* Shared by the samplers of a loader's two epochs. */
struct mr_buckets {
    _Atomic uint32_t n_refs;
    struct mr_buckets_options options;
    uint64_t digest;    /* of options and lengths */
    uint32_t lengths[]; /* of each sample */
};

/*
 * The caller fills in all lengths, and calls mr_buckets_check(). MR_ERR_INVALID: too many samples;
 * MR_ERR_NO_MEMORY.
 */
mr_status mr_buckets_create(const struct mr_buckets_options *options,
                            struct mr_buckets **buckets_out, mr_error *error);
/* Compute the digest. MR_ERR_INVALID: a sample is longer than max_tokens. */
mr_status mr_buckets_check(struct mr_buckets *buckets, mr_error *error);
struct mr_buckets *mr_buckets_ref(struct mr_buckets *buckets);
void mr_buckets_unref(struct mr_buckets *buckets); /* NULL does nothing */

/*
 * Turn a permutation of all samples into what get_length_grouped_indices() of transformers makes of
 * it: megabatches are sorted by length, the longest sample first. Then the first sample of all is
 * exchanged for the longest. MR_ERR_NO_MEMORY.
 */
mr_status mr_buckets_group(const struct mr_buckets *buckets, uint32_t *order, mr_error *error);

/* Batches, one after the other. The caller frees both arrays. */
struct mr_bucket_batches {
    uint32_t *samples;
    uint64_t n_samples;
    uint32_t *ends; /* the position after each batch */
    uint64_t n;
};

/*
 * Cut an order of all samples into batches as batch_by_size() of fairseq does, and take those of a
 * rank: r, r + W, ... If the last ranks lack one, MR_TAIL_PAD takes the first batches again,
 * MR_TAIL_DROP leaves the last ones out, and MR_TAIL_EXACT has batches without samples.
 * MR_ERR_NO_MEMORY.
 */
mr_status mr_buckets_batches(const struct mr_buckets *buckets, const uint32_t *order,
                             const mr_sampler_options *options,
                             struct mr_bucket_batches *batches_out, mr_error *error);

#endif
