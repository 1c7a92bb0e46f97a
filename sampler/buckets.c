/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules are those of transformers 5 (trainer_pt_utils.py) and fairseq 0.12.2
 * (data/data_utils_fast.pyx).
 */
#include "sampler/buckets.h"

#include "base/error.h"
#include "base/xxh3.h"

#include <stdlib.h>
#include <string.h>

enum { MEGABATCHES = 4, MAX_MEGABATCH = 50 };

mr_status mr_buckets_create(const struct mr_buckets_options *options,
                            struct mr_buckets **buckets_out, mr_error *error)
{
    *buckets_out = NULL;
    if (options->n > UINT32_MAX)
        return mr_error_set(error, MR_ERR_INVALID, "lengths of %llu samples: 2^32 - 1 is the limit",
                            (unsigned long long)options->n);
    size_t bytes = sizeof **buckets_out + options->n * sizeof(uint32_t);
    struct mr_buckets *buckets = calloc(1, bytes);
    if (!buckets)
        return mr_error_memory(error, bytes);
    buckets->n_refs = 1;
    buckets->options = *options;
    *buckets_out = buckets;
    return MR_OK;
}

mr_status mr_buckets_check(struct mr_buckets *buckets, mr_error *error)
{
    const struct mr_buckets_options *o = &buckets->options;
    for (uint64_t i = 0; o->max_tokens > 0 && i < o->n; i++)
        if (buckets->lengths[i] > o->max_tokens)
            return mr_error_set(
                error, MR_ERR_INVALID, "sample %llu has length %u, which is above max_tokens %llu",
                (unsigned long long)i, buckets->lengths[i], (unsigned long long)o->max_tokens);
    const uint64_t words[] = {o->group, o->max_tokens ? o->batch_size : 0, o->multiple,
                              o->max_tokens,
                              mr_xxh3(buckets->lengths, o->n * sizeof *buckets->lengths)};
    buckets->digest = mr_xxh3(words, sizeof words);
    return MR_OK;
}

struct mr_buckets *mr_buckets_ref(struct mr_buckets *buckets)
{
    atomic_fetch_add_explicit(&buckets->n_refs, 1, memory_order_relaxed);
    return buckets;
}

void mr_buckets_unref(struct mr_buckets *buckets)
{
    if (buckets && atomic_fetch_sub_explicit(&buckets->n_refs, 1, memory_order_acq_rel) == 1)
        free(buckets);
}

struct keyed_sample {
    uint32_t length, place, sample;
};

/* Longer ones first; of equal ones, the earlier. */
static int compare_samples(const void *a, const void *b)
{
    const struct keyed_sample *x = a, *y = b;
    if (x->length != y->length)
        return x->length > y->length ? -1 : 1;
    return x->place < y->place ? -1 : 1;
}

mr_status mr_buckets_group(const struct mr_buckets *buckets, uint32_t *order, mr_error *error)
{
    const uint64_t n = buckets->options.n, group = buckets->options.group;
    const uint32_t *lengths = buckets->lengths;
    uint64_t n_batches = n / (group * MEGABATCHES), longest = 0;
    n_batches = n_batches > MAX_MEGABATCH ? MAX_MEGABATCH : n_batches > 0 ? n_batches : 1;
    const uint64_t mega = n_batches * group < n ? n_batches * group : n;
    struct keyed_sample *samples = malloc((mega + 1) * sizeof *samples);
    if (!samples)
        return mr_error_memory(error, (mega + 1) * sizeof *samples);
    for (uint64_t first = 0; first < n; first += mega) {
        const uint64_t size = n - first < mega ? n - first : mega;
        for (uint32_t i = 0; i < size; i++)
            samples[i] = (struct keyed_sample){lengths[order[first + i]], i, order[first + i]};
        qsort(samples, size, sizeof *samples, compare_samples);
        for (uint64_t i = 0; i < size; i++)
            order[first + i] = samples[i].sample;
        if (lengths[order[first]] > lengths[order[longest]])
            longest = first;
    }
    free(samples);
    if (longest > 0) {
        uint32_t sample = order[0];
        order[0] = order[longest];
        order[longest] = sample;
    }
    return MR_OK;
}

/* ends_out has room for all samples. Returns the number of batches. */
static uint64_t cut_order(const struct mr_buckets *buckets, const uint32_t *order,
                          uint32_t *ends_out)
{
    const struct mr_buckets_options *o = &buckets->options;
    uint64_t n_batches = 0;
    for (uint64_t begin = 0, end; begin < o->n; begin = end) {
        uint64_t longest = 0;
        for (end = begin; end < o->n && end - begin < o->batch_size; end++) {
            uint64_t length = buckets->lengths[order[end]];
            longest = length > longest ? length : longest;
            if (longest * (end + 1 - begin) > o->max_tokens)
                break;
        }
        if (end - begin > o->multiple)
            end -= (end - begin) % o->multiple;
        ends_out[n_batches++] = (uint32_t)end;
    }
    return n_batches;
}

/* Take the batches of a rank from n of all. With samples NULL only their sizes are computed. */
static void take_batches(const uint32_t *order, const uint32_t *ends, uint64_t n,
                         const mr_sampler_options *o, struct mr_bucket_batches *batches)
{
    batches->n_samples = 0;
    for (uint64_t i = 0; i < batches->n; i++) {
        uint64_t b = i * o->world_size + o->rank, at = b % n, begin = at > 0 ? ends[at - 1] : 0;
        uint64_t size = b < n || o->tail == MR_TAIL_PAD ? ends[at] - begin : 0;
        if (batches->samples)
            memcpy(batches->samples + batches->n_samples, order + begin, size * sizeof *order);
        batches->n_samples += size;
        batches->ends[i] = (uint32_t)batches->n_samples;
    }
}

mr_status mr_buckets_batches(const struct mr_buckets *buckets, const uint32_t *order,
                             const mr_sampler_options *options,
                             struct mr_bucket_batches *batches_out, mr_error *error)
{
    struct mr_bucket_batches b = {0};
    const uint64_t round_up = options->tail == MR_TAIL_DROP ? 0 : options->world_size - 1;
    size_t bytes = buckets->options.n * sizeof(uint32_t);
    uint32_t *ends = malloc(bytes);
    if (ends) {
        uint64_t n = cut_order(buckets, order, ends);
        b.n = (n + round_up) / options->world_size;
        bytes = (b.n + 1) * sizeof *b.ends;
        b.ends = malloc(bytes);
        if (b.ends) {
            take_batches(order, ends, n, options, &b);
            bytes = (b.n_samples + 1) * sizeof *b.samples;
            b.samples = malloc(bytes);
        }
        if (b.samples)
            take_batches(order, ends, n, options, &b);
        free(ends);
    }
    if (!b.samples) {
        free(b.ends);
        return mr_error_memory(error, bytes);
    }
    *batches_out = b;
    return MR_OK;
}
