/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of an epoch and the shard of a rank, index for index as PyTorch's DistributedSampler.
 *
 * There is one order of all samples, and rank r of W takes its positions r, r + W, ... A shuffled
 * torch order is computed once and only this rank's shard of it is stored; other orders without
 * weights are computed for each position. Padding wraps around as often as needed, since n may be
 * below W. With `repeat` the order repeats each sample, one after the other, and the ranks together
 * take the first n / 256 * 256 positions. With weights the order is drawn. With groups the rank's
 * order is then sorted into batches of one group. With max_tokens the order of all samples is cut
 * into batches, and rank r takes batches r, r + W, ... Rows of packed documents are in the order of
 * their numbers.
 */
#include "sampler/sampler.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/options.h"
#include "base/xxh3.h"
#include "sampler/drawn.h"
#include "sampler/groups.h"
#include "sampler/keyed.h"
#include "sampler/randperm.h"
#include "sampler/sampler_options.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REPEAT_ROUND = 256, FILLED_UP = 1 << 24 };
enum source { SEQUENTIAL, KEYED, DRAWN, MIXED, TABLE_U32, TABLE_U64 };

struct mr_sampler {
    mr_sampler_options options; /* resolved */
    uint64_t length;            /* of this rank */
    enum source source;
    void *table;                /* TABLE_U32 and TABLE_U64: this rank's indices, of 4 or 8 bytes;
                                   otherwise NULL */
    uint32_t *occurrences;      /* for each index of the table, if the order is the caller's or is
                                   sorted by groups; otherwise NULL */
    bool has_own_order;         /* the order is the caller's */
    uint32_t *ends;             /* with max_tokens: the position after each batch; otherwise NULL */
    uint64_t n_batches;         /* entries of ends */
    struct mr_weights *weights; /* or NULL */
    struct mr_sampler_parts parts;
    struct mr_packed_epoch *packed; /* with parts.packing */
    struct mr_drawn drawn; /* with weights; not freed while an order of the caller's is used */
    struct mr_keyed keyed;
};

static bool has_weights(const mr_sampler_options *options)
{
    return options->weights || options->weight_values;
}

/* Number of positions of the order of all ranks, without padding. */
static uint64_t order_length(const mr_sampler_options *options)
{
    uint64_t n = (uint64_t)options->n_samples;
    if (has_weights(options) || options->n_draws != 0) /* or a mixture, or packed rows */
        return options->n_draws;
    return options->repeat != 0 ? n * options->repeat : n;
}

/* num_selected_samples of RASampler and RepeatAugSampler. */
static uint64_t selected_length(const mr_sampler_options *options)
{
    uint64_t n = (uint64_t)options->n_samples, world = options->world_size;
    if (n < REPEAT_ROUND && options->repeat_form == MR_REPEAT_TIMM)
        return (n + world - 1) / world;
    return n / REPEAT_ROUND * REPEAT_ROUND / world;
}

/* Number of indices of a rank. Rank 0 has the longest shard in every mode. */
static uint64_t shard_length(const mr_sampler_options *options, uint32_t rank)
{
    uint64_t n = order_length(options), world = options->world_size;
    if (options->repeat != 0)
        return selected_length(options);
    switch (options->tail) {
    case MR_TAIL_PAD: return (n + world - 1) / world;
    case MR_TAIL_DROP: return n / world;
    case MR_TAIL_EXACT: return n > rank ? (n - rank + world - 1) / world : 0;
    }
    return 0;
}

/* With rank_slices: position p of this rank among those of all ranks, padding included. */
static uint64_t sliced_position(const mr_sampler_options *options, uint64_t p)
{
    uint64_t world = options->world_size, rank = options->rank, slice = options->rank_slices;
    uint64_t first = p / slice * slice * world; /* of the global batch */
    uint64_t n =
        options->tail == MR_TAIL_EXACT ? order_length(options) : shard_length(options, 0) * world;
    uint64_t left = n - first < slice * world ? n - first : slice * world;
    uint64_t more = left % world; /* so many ranks have one sample more of a last batch */
    return first + left / world * rank + (rank < more ? rank : more) + p % slice;
}

/* The position in the order of all ranks of position p of this rank. The order is not empty. */
static uint64_t global_position(const mr_sampler *sampler, uint64_t p)
{
    uint64_t n = order_length(&sampler->options);
    uint64_t at = sampler->options.rank_slices != 0
                      ? sliced_position(&sampler->options, p)
                      : sampler->options.rank + p * sampler->options.world_size;
    return at < n || sampler->parts.mixture ? at : at % n;
}

/* The position in the permutation of all samples of position p of this rank. */
static uint64_t sample_position(const mr_sampler *sampler, uint64_t p)
{
    uint64_t at = global_position(sampler, p);
    return sampler->options.repeat != 0 ? at / sampler->options.repeat : at;
}

/*
 * Allocate a table of n elements. A table larger than the machine's memory is refused here, because
 * an overcommitting kernel would not refuse it.
 */
static void *allocate_table(uint64_t n, size_t element, mr_error *error)
{
    size_t len;
    if (!mr_checked_mul(n, element, &len))
        len = SIZE_MAX;
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    bool fits = pages <= 0 || page <= 0 || len / (size_t)page < (size_t)pages;
    void *table = fits ? malloc(len ? len : 1) : NULL;
    if (!table)
        mr_error_set(error, MR_ERR_NO_MEMORY,
                     "cannot allocate %zu bytes for an order of %llu samples", len,
                     (unsigned long long)n);
    return table;
}

static uint64_t read_table(enum source source, const void *table, uint64_t i)
{
    return source == TABLE_U32 ? ((const uint32_t *)table)[i] : ((const uint64_t *)table)[i];
}

static void write_table(enum source source, void *table, uint64_t i, uint64_t value)
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

/* This rank's shard of the shuffled torch order; NULL if there is no memory. */
static void *make_torch_table(const mr_sampler *sampler, enum source source, uint64_t length,
                              uint64_t seed, mr_error *error)
{
    uint64_t n = (uint64_t)sampler->options.n_samples;
    void *all = allocate_table(n, table_element(source), error);
    if (!all)
        return NULL;
    if (source == TABLE_U32)
        mr_randperm_u32(all, n, seed, n >= MR_RANDPERM_WIDE);
    else
        mr_randperm_u64(all, n, seed);
    if (sampler->parts.buckets && sampler->parts.buckets->options.group > 0 &&
        mr_buckets_group(sampler->parts.buckets, all, error) != MR_OK) {
        free(all);
        return NULL;
    }
    if (sampler->options.world_size == 1 && sampler->options.repeat == 0)
        return all;
    void *shard = allocate_table(length, table_element(source), error);
    for (uint64_t p = 0; shard && p < length; p++)
        write_table(source, shard, p, read_table(source, all, sample_position(sampler, p)));
    free(all);
    return shard;
}

struct order {
    enum source source;
    void *table;
    uint32_t *occurrences;
    uint64_t length;
    uint32_t *ends;
    uint64_t n_batches;
};

/* Replace the old order by a new one. */
static void replace_order(mr_sampler *sampler, const struct order *order, uint64_t epoch)
{
    free(sampler->table);
    free(sampler->occurrences);
    free(sampler->ends);
    sampler->ends = order->ends;
    sampler->n_batches = order->n_batches;
    sampler->occurrences = order->occurrences;
    sampler->source = order->source;
    sampler->table = order->table;
    sampler->length = order->length;
    sampler->options.epoch = epoch;
}

/*
 * Take the samples at these positions of an order. A sample that fills up another batch has draws
 * of its own.
 */
static mr_status take_positions(const mr_sampler *from, const uint64_t *positions,
                                struct order *order_out, mr_error *error)
{
    uint32_t *n_uses = mr_weights_allocate_zeros(from->length, sizeof *n_uses, error);
    order_out->source = table_source((uint64_t)from->options.n_samples);
    order_out->table = allocate_table(order_out->length, table_element(order_out->source), error);
    order_out->occurrences = allocate_table(order_out->length, sizeof(uint32_t), error);
    bool ok = n_uses && order_out->table && order_out->occurrences;
    for (uint64_t i = 0; ok && i < order_out->length; i++) {
        int64_t p = (int64_t)positions[i];
        write_table(order_out->source, order_out->table, i, (uint64_t)mr_sampler_at(from, p));
        order_out->occurrences[i] = mr_sampler_occurrence(from, p) + n_uses[p]++ * FILLED_UP;
    }
    free(n_uses);
    return ok ? MR_OK : MR_ERR_NO_MEMORY;
}

static mr_sampler with_order(const mr_sampler *sampler, const struct order *order)
{
    mr_sampler with = *sampler;
    with.source = order->source;
    with.table = order->table;
    with.occurrences = NULL;
    with.length = order->length;
    return with;
}

/* Sort an order into batches of one group. Its table is freed. */
static mr_status sort_by_groups(const mr_sampler *sampler, struct order *order, mr_error *error)
{
    const mr_sampler from = with_order(sampler, order);
    struct order sorted = {.length = order->length / sampler->parts.groups->batch_size *
                                     sampler->parts.groups->batch_size};
    uint8_t *ids = allocate_table(from.length, 1, error);
    uint64_t *positions = allocate_table(sorted.length, sizeof *positions, error);
    mr_status status = ids && positions ? MR_OK : MR_ERR_NO_MEMORY;
    for (uint64_t p = 0; status == MR_OK && p < from.length; p++)
        ids[p] = sampler->parts.groups->ids[mr_sampler_at(&from, (int64_t)p)];
    if (status == MR_OK)
        status =
            mr_groups_sort(ids, from.length, sampler->parts.groups->batch_size, positions, error);
    if (status == MR_OK)
        status = take_positions(&from, positions, &sorted, error);
    free(ids);
    free(positions);
    free(order->table);
    *order = sorted;
    return status;
}

/* The order of all samples. */
static mr_sampler whole_order(const mr_sampler *sampler)
{
    mr_sampler whole = *sampler;
    whole.options.world_size = 1;
    whole.options.rank = 0;
    return whole;
}

/* Cut the order of all samples into batches by max_tokens. Its table is freed. */
static mr_status cut_batches(const mr_sampler *sampler, struct order *order, mr_error *error)
{
    mr_sampler whole = whole_order(sampler);
    const mr_sampler from = with_order(&whole, order);
    struct mr_bucket_batches batches = {0};
    uint32_t *all = allocate_table(from.length, sizeof *all, error);
    for (uint64_t p = 0; all && p < from.length; p++)
        all[p] = (uint32_t)mr_sampler_at(&from, (int64_t)p);
    mr_status status =
        all ? mr_buckets_batches(sampler->parts.buckets, all, &sampler->options, &batches, error)
            : MR_ERR_NO_MEMORY;
    free(all);
    free(order->table);
    *order = (struct order){.source = TABLE_U32,
                            .table = batches.samples,
                            .length = batches.n_samples,
                            .ends = batches.ends,
                            .n_batches = batches.n};
    return status;
}

/* The rows are numbered in their order. */
static mr_status pack_rows(mr_sampler *sampler, uint64_t epoch, mr_error *error)
{
    mr_status status = mr_packed_epoch_set(sampler->packed, epoch, sampler->parts.begins, error);
    if (status == MR_OK)
        sampler->options.n_draws = mr_packed_epoch_n_rows(sampler->packed);
    return status;
}

/* Make the order of an epoch that follows from the options. On failure the old order stays. */
static mr_status build_order(mr_sampler *sampler, uint64_t epoch, mr_error *error)
{
    const bool cuts = mr_sampler_cuts_batches(sampler);
    mr_status status = sampler->packed ? pack_rows(sampler, epoch, error) : MR_OK;
    const mr_sampler from = cuts ? whole_order(sampler) : *sampler;
    const mr_sampler_options *options = &from.options;
    uint64_t n = (uint64_t)options->n_samples;
    struct order order = {.source = SEQUENTIAL, .length = shard_length(options, options->rank)};

    if (sampler->packed) {
        /* SEQUENTIAL, or it has failed */
    } else if (sampler->parts.mixture) {
        order.source = MIXED;
        status = mr_mixture_check_epoch(sampler->parts.mixture, epoch, error);
    } else if (sampler->weights) {
        order.source = DRAWN;
        status = mr_drawn_fill(&sampler->drawn, sampler->weights, options->seed + epoch, error);
    } else if (!options->no_shuffle && options->order == MR_ORDER_KEYED) {
        order.source = KEYED;
        mr_keyed_init(&sampler->keyed, n, options->seed, epoch);
    } else if (!options->no_shuffle) {
        order.source = table_source(n);
        order.table =
            make_torch_table(&from, order.source, order.length, options->seed + epoch, error);
        status = order.table ? MR_OK : MR_ERR_NO_MEMORY;
    }
    if (status == MR_OK && sampler->parts.groups)
        status = sort_by_groups(sampler, &order, error);
    if (status == MR_OK && cuts)
        status = cut_batches(sampler, &order, error);
    if (status != MR_OK) {
        free(order.table);
        free(order.occurrences);
        return status;
    }
    sampler->has_own_order = false;
    replace_order(sampler, &order, epoch);
    return MR_OK;
}

/* Allocate the tables for the draws of an epoch. */
static mr_status allocate_drawn(mr_sampler *sampler, mr_error *error)
{
    const mr_sampler_options *o = &sampler->options;
    struct mr_drawn *drawn = &sampler->drawn;
    *drawn = (struct mr_drawn){.n_draws = o->n_draws,
                               .world_size = o->world_size,
                               .rank = o->rank,
                               .length = shard_length(o, o->rank),
                               .padded = UINT64_MAX};
    if (drawn->length > 0 && o->rank + (drawn->length - 1) * o->world_size >= o->n_draws)
        drawn->padded = global_position(sampler, drawn->length - 1);
    return mr_drawn_allocate(drawn, sampler->weights, error);
}

/* weights may be NULL; the sampler takes a reference of it. */
static mr_status make_sampler(const mr_sampler_options *options, struct mr_weights *weights,
                              const struct mr_sampler_parts *parts, mr_sampler **sampler_out,
                              mr_error *error)
{
    mr_sampler *sampler = calloc(1, sizeof *sampler);
    if (!sampler)
        return mr_error_memory(error, sizeof *sampler);
    sampler->options = *options;
    sampler->weights = weights ? mr_weights_ref(weights) : NULL;
    sampler->parts.groups = parts->groups ? mr_groups_ref(parts->groups) : NULL;
    sampler->parts.mixture = parts->mixture ? mr_mixture_ref(parts->mixture) : NULL;
    sampler->parts.buckets = parts->buckets ? mr_buckets_ref(parts->buckets) : NULL;
    sampler->parts.packing = parts->packing ? mr_packing_ref(parts->packing) : NULL;
    mr_status status = weights ? allocate_drawn(sampler, error) : MR_OK;
    if (status == MR_OK && parts->packing)
        status = mr_packed_epoch_create(parts->packing, options, &sampler->packed, error);
    sampler->parts.begins = parts->begins;
    if (status == MR_OK)
        status = build_order(sampler, options->epoch, error);
    sampler->parts.begins = false;
    if (status == MR_OK)
        *sampler_out = sampler;
    else
        mr_sampler_destroy(sampler);
    return status;
}

mr_status mr_sampler_create(const mr_sampler_options *options, mr_sampler **sampler_out,
                            mr_error *error)
{
    const struct mr_sampler_parts none = {0};
    return mr_sampler_create_with(options, &none, sampler_out, error);
}

mr_status mr_sampler_create_with(const mr_sampler_options *options,
                                 const struct mr_sampler_parts *parts, mr_sampler **sampler_out,
                                 mr_error *error)
{
    if (!sampler_out)
        return mr_error_set(error, MR_ERR_INVALID, "sampler_out is NULL");
    *sampler_out = NULL;
    mr_sampler_options resolved;
    mr_status status =
        mr_options_copy(&resolved, sizeof resolved, options, "mr_sampler_options", error);
    if (status == MR_OK)
        status = mr_options_check_reserved(resolved.reserved, sizeof resolved.reserved,
                                           "mr_sampler_options", error);
    if (status != MR_OK)
        return status;
    if (resolved.world_size == 0)
        resolved.world_size = 1;
    status = mr_sampler_options_check(&resolved, error);
    if (status == MR_OK && has_weights(&resolved) && resolved.n_draws == 0)
        resolved.n_draws = (uint64_t)resolved.n_samples;
    if (status == MR_OK && (parts->mixture || parts->packing) &&
        (resolved.repeat != 0 || has_weights(&resolved)))
        status = mr_error_set(error, MR_ERR_INVALID, "%s and %s exclude each other",
                              parts->mixture ? "a mixture" : "packed documents",
                              resolved.repeat != 0 ? "repeat" : "weights of samples");
    if (status == MR_OK && parts->mixture)
        resolved.n_draws = mr_mixture_length(parts->mixture);
    struct mr_weights *weights = NULL;
    if (status == MR_OK && has_weights(&resolved))
        status = mr_sampler_options_weights(&resolved, &weights, error);
    if (status == MR_OK)
        status = make_sampler(&resolved, weights, parts, sampler_out, error);
    mr_weights_unref(weights);
    return status;
}

mr_status mr_sampler_create_like(const mr_sampler *like, uint64_t epoch, mr_sampler **sampler_out,
                                 mr_error *error)
{
    mr_sampler_options options = like->options;
    *sampler_out = NULL;
    options.epoch = epoch;
    return make_sampler(&options, like->weights, &like->parts, sampler_out, error);
}

void mr_sampler_destroy(mr_sampler *sampler)
{
    if (!sampler)
        return;
    free(sampler->table);
    free(sampler->occurrences);
    free(sampler->ends);
    mr_drawn_free(&sampler->drawn);
    mr_weights_unref(sampler->weights);
    mr_groups_unref(sampler->parts.groups);
    mr_mixture_unref(sampler->parts.mixture);
    mr_buckets_unref(sampler->parts.buckets);
    mr_packed_epoch_destroy(sampler->packed);
    mr_packing_unref(sampler->parts.packing);
    free(sampler);
}

mr_status mr_sampler_set_epoch(mr_sampler *sampler, uint64_t epoch, mr_error *error)
{
    if (!sampler)
        return mr_error_set(error, MR_ERR_INVALID, "sampler is NULL");
    if (epoch == sampler->options.epoch && !sampler->has_own_order && !mr_sampler_is_begun(sampler))
        return MR_OK;
    return build_order(sampler, epoch, error);
}

static mr_status check_indices(const mr_sampler *sampler, const int64_t *indices, int64_t n,
                               mr_error *error)
{
    int64_t n_samples = sampler->options.n_samples;
    if (n < 0 || (n > 0 && !indices))
        return mr_error_set(error, MR_ERR_INVALID, "an order of %lld indices%s", (long long)n,
                            n < 0 ? "" : " is given as NULL");
    for (int64_t i = 0; i < n; i++)
        if (indices[i] < 0 || indices[i] >= n_samples)
            return mr_error_set(error, MR_ERR_INVALID,
                                "index %lld at position %lld of the order is not in 0 .. %lld",
                                (long long)indices[i], (long long)i, (long long)n_samples - 1);
    return MR_OK;
}

/* How often the order has had each index before; NULL if there is no memory. */
static uint32_t *count_occurrences(const int64_t *indices, uint64_t n, uint64_t n_samples,
                                   mr_error *error)
{
    uint32_t *occurrences = allocate_table(n, sizeof *occurrences, error);
    uint32_t *counts =
        occurrences ? mr_weights_allocate_zeros(n_samples, sizeof *counts, error) : NULL;
    if (!counts) {
        free(occurrences);
        return NULL;
    }
    for (uint64_t i = 0; i < n; i++)
        occurrences[i] = counts[indices[i]]++;
    free(counts);
    return occurrences;
}

mr_status mr_sampler_set_order(mr_sampler *sampler, uint64_t epoch, const int64_t *indices,
                               int64_t n, mr_error *error)
{
    if (sampler->packed)
        return mr_error_set(error, MR_ERR_UNSUPPORTED,
                            "an order of the caller's is not for packed documents");
    mr_status status = check_indices(sampler, indices, n, error);
    if (status != MR_OK)
        return status;
    enum source source = table_source((uint64_t)sampler->options.n_samples);
    uint32_t *occurrences =
        count_occurrences(indices, (uint64_t)n, (uint64_t)sampler->options.n_samples, error);
    void *table = occurrences ? allocate_table((uint64_t)n, table_element(source), error) : NULL;
    if (!table) {
        free(occurrences);
        return MR_ERR_NO_MEMORY;
    }
    for (int64_t i = 0; i < n; i++)
        write_table(source, table, (uint64_t)i, (uint64_t)indices[i]);
    const struct order order = {source, table, occurrences, (uint64_t)n, NULL, 0};
    sampler->has_own_order = true;
    replace_order(sampler, &order, epoch);
    return MR_OK;
}

bool mr_sampler_has_order(const mr_sampler *sampler)
{
    return sampler->has_own_order;
}

const struct mr_sampler_parts *mr_sampler_get_parts(const mr_sampler *sampler)
{
    return &sampler->parts;
}

bool mr_sampler_cuts_batches(const mr_sampler *sampler)
{
    return sampler->parts.buckets && sampler->parts.buckets->options.max_tokens > 0;
}

bool mr_sampler_is_begun(const mr_sampler *sampler)
{
    return sampler->packed && mr_packed_epoch_is_begun(sampler->packed);
}

uint32_t mr_sampler_pieces(mr_sampler *sampler, int64_t row, struct mr_token_piece *pieces_out)
{
    return mr_packed_epoch_row(sampler->packed, (uint64_t)row, pieces_out);
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
    uint64_t p = (uint64_t)position, pass;
    if (!sampler || p >= sampler->length)
        return MR_NO_INDEX;
    switch (sampler->source) {
    case SEQUENTIAL: return (int64_t)sample_position(sampler, p);
    case KEYED: return (int64_t)mr_keyed_at(&sampler->keyed, sample_position(sampler, p));
    case DRAWN: return sampler->drawn.indices[p];
    case MIXED:
        return mr_mixture_at(sampler->parts.mixture, sampler->options.epoch,
                             global_position(sampler, p), &pass);
    case TABLE_U32:
    case TABLE_U64: return (int64_t)read_table(sampler->source, sampler->table, p);
    }
    return MR_NO_INDEX;
}

uint32_t mr_sampler_occurrence(const mr_sampler *sampler, int64_t position)
{
    uint64_t p = (uint64_t)position;
    if (!sampler || p >= sampler->length)
        return 0;
    if (sampler->occurrences)
        return sampler->occurrences[p];
    if (sampler->drawn.occurrences)
        return sampler->drawn.occurrences[p];
    if (sampler->source == MIXED) {
        uint64_t pass;
        mr_mixture_at(sampler->parts.mixture, sampler->options.epoch, global_position(sampler, p),
                      &pass);
        return (uint32_t)pass;
    }
    return sampler->options.repeat != 0
               ? (uint32_t)(global_position(sampler, p) % sampler->options.repeat)
               : 0;
}

uint64_t mr_sampler_order_length(const mr_sampler *sampler)
{
    return order_length(&sampler->options);
}

uint64_t mr_sampler_digest(const mr_sampler *sampler)
{
    const struct mr_sampler_parts *parts = &sampler->parts;
    if (sampler->packed)
        return mr_packing_digest(parts->packing);
    if (!sampler->weights && !parts->groups && !parts->buckets)
        return 0;
    const uint64_t words[] = {sampler->weights ? sampler->weights->digest : 0,
                              sampler->options.n_draws,
                              parts->groups    ? parts->groups->digest
                              : parts->buckets ? parts->buckets->digest
                                               : 0};
    uint64_t digest = mr_xxh3(words, words[2] ? sizeof words : 2 * sizeof *words);
    return digest != 0 ? digest : 1;
}

uint64_t mr_sampler_batch(const mr_sampler *sampler, uint64_t batch, uint32_t batch_size,
                          uint64_t *first_out)
{
    if (sampler->ends) {
        *first_out = batch > 0 ? sampler->ends[batch - 1] : 0;
        return sampler->ends[batch] - *first_out;
    }
    *first_out = batch * batch_size;
    uint64_t left = sampler->length > *first_out ? sampler->length - *first_out : 0;
    return left < batch_size ? left : batch_size;
}

static uint64_t count_steps(uint64_t length, uint32_t batch_size, bool drop_last)
{
    assert(batch_size > 0);
    return drop_last ? length / batch_size : (length + batch_size - 1) / batch_size;
}

uint64_t mr_sampler_steps(const mr_sampler *sampler, uint32_t batch_size, bool drop_last)
{
    if (sampler->has_own_order)
        return count_steps(sampler->length, batch_size, drop_last);
    return mr_sampler_own_steps(sampler, batch_size, drop_last);
}

uint64_t mr_sampler_own_steps(const mr_sampler *sampler, uint32_t batch_size, bool drop_last)
{
    if (sampler->ends)
        return sampler->n_batches;
    if (mr_sampler_is_begun(sampler))
        return order_length(&sampler->options) /
               ((uint64_t)batch_size * sampler->options.world_size);
    return count_steps(shard_length(&sampler->options, 0), batch_size,
                       drop_last || sampler->parts.groups);
}
