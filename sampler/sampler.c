/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of an epoch and the shard of a rank: PyTorch's DistributedSampler, index for index.
 *
 * There is one order of all samples, and rank r of W takes its positions r, r + W, ... A shuffled torch order is
 * computed once and only this rank's shard of it is kept; the other orders are arithmetic. Padding wraps around as
 * often as needed, since n may be below W.
 */
#include "sampler/sampler.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/options.h"
#include "sampler/keyed.h"
#include "sampler/randperm.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum source { SEQUENTIAL, KEYED, TABLE_U32, TABLE_U64 };

struct mr_sampler {
    mr_sampler_options options; /* resolved */
    uint64_t length;            /* of this rank */
    enum source source;
    bool custom; /* the table is the caller's own order */
    void *table; /* this rank's indices, of 4 or 8 bytes; NULL for the other sources */
    struct mr_keyed keyed;
};

static mr_status check_options(const mr_sampler_options *options, mr_error *error)
{
    if (options->n_samples < 0 || (uint64_t)options->n_samples > MR_KEYED_MAX_N)
        return mr_error_set(error, MR_ERR_INVALID, "n_samples %lld is not between 0 and 2^40",
                            (long long)options->n_samples);
    if (options->rank >= options->world_size)
        return mr_error_set(error, MR_ERR_INVALID, "rank %u is not below world_size %u", options->rank,
                            options->world_size);
    if ((unsigned)options->tail > MR_TAIL_EXACT)
        return mr_error_set(error, MR_ERR_INVALID, "tail %u is not an mr_tail", (unsigned)options->tail);
    if ((unsigned)options->order > MR_ORDER_KEYED)
        return mr_error_set(error, MR_ERR_INVALID, "order %u is not an mr_order", (unsigned)options->order);
    return MR_OK;
}

/* Indices of a rank; rank 0 has the longest shard in every mode. */
static uint64_t shard_length(const mr_sampler_options *options, uint32_t rank)
{
    uint64_t n = (uint64_t)options->n_samples, world = options->world_size;
    switch (options->tail) {
    case MR_TAIL_PAD: return (n + world - 1) / world;
    case MR_TAIL_DROP: return n / world;
    case MR_TAIL_EXACT: return n > rank ? (n - rank + world - 1) / world : 0;
    }
    return 0;
}

/* Where position p of this rank lies in the order of all samples; n is not 0. */
static uint64_t global_position(const mr_sampler *sampler, uint64_t p)
{
    uint64_t n = (uint64_t)sampler->options.n_samples;
    uint64_t at = sampler->options.rank + p * sampler->options.world_size;
    return at < n ? at : at % n;
}

/* A table of n elements; refused where memory cannot hold it, because an overcommitting kernel would not refuse it. */
static void *allocate_table(uint64_t n, size_t element, mr_error *error)
{
    size_t len;
    if (!mr_checked_mul(n, element, &len))
        len = SIZE_MAX;
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    bool fits = pages <= 0 || page <= 0 || len / (size_t)page < (size_t)pages;
    void *table = fits ? malloc(len ? len : 1) : NULL;
    if (!table)
        mr_error_set(error, MR_ERR_NO_MEMORY, "cannot allocate %zu bytes for an order of %llu samples", len,
                     (unsigned long long)n);
    return table;
}

static uint64_t table_at(enum source source, const void *table, uint64_t i)
{
    return source == TABLE_U32 ? ((const uint32_t *)table)[i] : ((const uint64_t *)table)[i];
}

static void table_put(enum source source, void *table, uint64_t i, uint64_t value)
{
    if (source == TABLE_U32)
        ((uint32_t *)table)[i] = (uint32_t)value;
    else
        ((uint64_t *)table)[i] = value;
}

static enum source table_source(uint64_t n)
{
    return n <= UINT64_C(1) << 32 ? TABLE_U32 : TABLE_U64;
}

static size_t table_element(enum source source)
{
    return source == TABLE_U32 ? sizeof(uint32_t) : sizeof(uint64_t);
}

/* The whole order with one rank, else this rank's shard of it; NULL without memory. */
static void *torch_table(const mr_sampler *sampler, enum source source, uint64_t length, uint64_t seed, mr_error *error)
{
    uint64_t n = (uint64_t)sampler->options.n_samples;
    void *all = allocate_table(n, table_element(source), error);
    if (!all)
        return NULL;
    if (source == TABLE_U32)
        mr_randperm_u32(all, n, seed, n >= MR_RANDPERM_WIDE);
    else
        mr_randperm_u64(all, n, seed);
    if (sampler->options.world_size == 1)
        return all;
    void *shard = allocate_table(length, table_element(source), error);
    for (uint64_t p = 0; shard && p < length; p++)
        table_put(source, shard, p, table_at(source, all, global_position(sampler, p)));
    free(all);
    return shard;
}

/* Put a new order in place of the old one. */
static void take_order(mr_sampler *sampler, enum source source, void *table, uint64_t length, uint64_t epoch)
{
    free(sampler->table);
    sampler->source = source;
    sampler->table = table;
    sampler->length = length;
    sampler->options.epoch = epoch;
}

/* The sampler's own order of an epoch; on failure the old order stays. */
static mr_status build_order(mr_sampler *sampler, uint64_t epoch, mr_error *error)
{
    const mr_sampler_options *options = &sampler->options;
    uint64_t n = (uint64_t)options->n_samples, length = shard_length(options, options->rank);
    enum source source = SEQUENTIAL;
    void *table = NULL;

    if (!options->no_shuffle && options->order == MR_ORDER_KEYED) {
        source = KEYED;
        mr_keyed_init(&sampler->keyed, n, options->seed, epoch);
    } else if (!options->no_shuffle) {
        source = table_source(n);
        table = torch_table(sampler, source, length, options->seed + epoch, error);
        if (!table)
            return MR_ERR_NO_MEMORY;
    }
    take_order(sampler, source, table, length, epoch);
    sampler->custom = false;
    return MR_OK;
}

mr_status mr_sampler_create(const mr_sampler_options *options, mr_sampler **sampler_out, mr_error *error)
{
    if (!sampler_out)
        return mr_error_set(error, MR_ERR_INVALID, "sampler_out is NULL");
    *sampler_out = NULL;
    mr_sampler_options resolved;
    mr_status status = mr_options_copy(&resolved, sizeof resolved, options, error);
    if (status != MR_OK)
        return status;
    if (resolved.world_size == 0)
        resolved.world_size = 1;
    status = check_options(&resolved, error);
    if (status != MR_OK)
        return status;
    mr_sampler *sampler = calloc(1, sizeof *sampler);
    if (!sampler)
        return mr_error_memory(error, sizeof *sampler);
    sampler->options = resolved;
    status = build_order(sampler, resolved.epoch, error);
    if (status == MR_OK)
        *sampler_out = sampler;
    else
        mr_sampler_destroy(sampler);
    return status;
}

void mr_sampler_destroy(mr_sampler *sampler)
{
    if (!sampler)
        return;
    free(sampler->table);
    free(sampler);
}

mr_status mr_sampler_set_epoch(mr_sampler *sampler, uint64_t epoch, mr_error *error)
{
    if (!sampler)
        return mr_error_set(error, MR_ERR_INVALID, "sampler is NULL");
    if (epoch == sampler->options.epoch && !sampler->custom)
        return MR_OK;
    return build_order(sampler, epoch, error);
}

static mr_status check_indices(const mr_sampler *sampler, const int64_t *indices, int64_t n, mr_error *error)
{
    int64_t n_samples = sampler->options.n_samples;
    if (n < 0 || (n > 0 && !indices))
        return mr_error_set(error, MR_ERR_INVALID, "an order of %lld indices%s", (long long)n,
                            n < 0 ? "" : " is given as NULL");
    for (int64_t i = 0; i < n; i++)
        if (indices[i] < 0 || indices[i] >= n_samples)
            return mr_error_set(error, MR_ERR_INVALID, "index %lld at position %lld of the order is not in 0 .. %lld",
                                (long long)indices[i], (long long)i, (long long)n_samples - 1);
    return MR_OK;
}

mr_status mr_sampler_set_order(mr_sampler *sampler, uint64_t epoch, const int64_t *indices, int64_t n, mr_error *error)
{
    mr_status status = check_indices(sampler, indices, n, error);
    if (status != MR_OK)
        return status;
    enum source source = table_source((uint64_t)sampler->options.n_samples);
    void *table = allocate_table((uint64_t)n, table_element(source), error);
    if (!table)
        return MR_ERR_NO_MEMORY;
    for (int64_t i = 0; i < n; i++)
        table_put(source, table, (uint64_t)i, (uint64_t)indices[i]);
    take_order(sampler, source, table, (uint64_t)n, epoch);
    sampler->custom = true;
    return MR_OK;
}

bool mr_sampler_has_order(const mr_sampler *sampler)
{
    return sampler->custom;
}

const mr_sampler_options *mr_sampler_resolved(const mr_sampler *sampler)
{
    return &sampler->options;
}

int64_t mr_sampler_length(const mr_sampler *sampler)
{
    return sampler ? (int64_t)sampler->length : 0;
}

int64_t mr_sampler_at(const mr_sampler *sampler, int64_t position)
{
    uint64_t p = (uint64_t)position;
    if (!sampler || p >= sampler->length)
        return MR_NO_INDEX;
    switch (sampler->source) {
    case SEQUENTIAL: return (int64_t)global_position(sampler, p);
    case KEYED: return (int64_t)mr_keyed_at(&sampler->keyed, global_position(sampler, p));
    case TABLE_U32:
    case TABLE_U64: return (int64_t)table_at(sampler->source, sampler->table, p);
    }
    return MR_NO_INDEX;
}

static uint64_t steps_of(uint64_t length, uint32_t batch_size, bool drop_last)
{
    assert(batch_size > 0);
    return drop_last ? length / batch_size : (length + batch_size - 1) / batch_size;
}

uint64_t mr_sampler_steps(const mr_sampler *sampler, uint32_t batch_size, bool drop_last)
{
    if (sampler->custom)
        return steps_of(sampler->length, batch_size, drop_last);
    return mr_sampler_own_steps(sampler, batch_size, drop_last);
}

uint64_t mr_sampler_own_steps(const mr_sampler *sampler, uint32_t batch_size, bool drop_last)
{
    return steps_of(shard_length(&sampler->options, 0), batch_size, drop_last);
}
