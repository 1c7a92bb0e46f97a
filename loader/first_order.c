/* SPDX-License-Identifier: Apache-2.0 */
/* Gives the sampler what its order needs of the dataset: groups, sources, lengths. */
#include "loader/first_order.h"

#include <assert.h>
#include <stdlib.h>

#include "dataset/catalog_mix.h"
#include "dataset/dataset.h"
#include "loader/aspect_groups.h"
#include "loader/length_buckets.h"

/* NULL if the dataset is not a mixture. */
static mr_status make_mixture(const mr_loader_options *o, const mr_dataset *dataset,
                              struct mr_mixture **mixture_out, mr_error *error)
{
    static_assert((int)MR_CATALOG_MAX_SOURCES <= (int)MR_MIXTURE_MAX, "all sources fit");
    struct mr_mixture_source sources[MR_MIXTURE_MAX];
    const struct mr_catalog *catalog = mr_dataset_catalog(dataset);
    uint32_t n = catalog ? mr_catalog_n_sources(catalog) : 0;
    *mixture_out = NULL;
    for (uint32_t k = 0; k < n; k++)
        sources[k] = (struct mr_mixture_source){
            .n = (uint64_t)mr_catalog_count(mr_catalog_mix_catalog(catalog, k)),
            .weight = mr_catalog_mix_source(catalog, k)->weight};
    struct mr_mixture_options options = {.sources = sources,
                                         .n_sources = n,
                                         .mix_order = o->mix_order,
                                         .stop = o->mix_stop,
                                         .order = o->order,
                                         .no_shuffle = o->no_shuffle,
                                         .seed = o->seed,
                                         .n_samples = o->mix_samples};
    return n > 0 ? mr_mixture_create(&options, mixture_out, error) : MR_OK;
}

static uint32_t find_length(const void *catalog, uint64_t document)
{
    return (uint32_t)mr_catalog_length(catalog, (int64_t)document);
}

static mr_status check_lengths(const void *catalog, mr_error *error)
{
    return mr_catalog_check(catalog, 0, error);
}

/* NULL if the dataset's documents are not packed. */
static mr_status make_packing(struct mr_host *host, const mr_dataset *dataset,
                              struct mr_packing **packing_out, mr_error *error)
{
    const struct mr_sample_kind *kind = mr_dataset_kind(dataset);
    const struct mr_packing_options options = {.length = find_length,
                                               .check = check_lengths,
                                               .user = mr_dataset_catalog(dataset),
                                               .n_documents =
                                                   (uint64_t)mr_dataset_n_samples(dataset),
                                               .pack = kind->pack,
                                               .row = kind->tokens,
                                               .window = kind->pack_window};
    *packing_out = NULL;
    if (kind->pack == MR_PACK_NONE)
        return MR_OK;
    size_t n_pieces = mr_packing_most_pieces(kind->tokens, kind->pack_window);
    host->pieces = malloc(n_pieces * sizeof *host->pieces);
    return host->pieces ? mr_packing_create(&options, packing_out, error)
                        : mr_error_memory(error, n_pieces * sizeof *host->pieces);
}

/*
 * Refused here: a program that sets the next epoch at each MR_END would loop forever without any
 * message.
 */
static mr_status check_batches(const struct mr_host *host, mr_error *error)
{
    const mr_loader_options *o = &host->options;
    long long n_samples = mr_sampler_length(host->sampler);
    if (o->allow_empty_epoch || mr_sampler_steps(host->sampler, o->batch_size, o->drop_last) > 0)
        return MR_OK;
    if (o->aspect_ratio_groups != 0)
        return mr_error_set(error, MR_ERR_INVALID,
                            "an epoch has 0 batches: a rank's part of %lld samples is smaller than "
                            "batch_size %u, and aspect_ratio_groups has whole batches only",
                            (long long)host->sampler_options.n_samples, o->batch_size);
    if (o->max_tokens != 0)
        return mr_error_set(error, MR_ERR_INVALID,
                            "an epoch has 0 batches: max_tokens %llu makes fewer batches than "
                            "world_size %u, and tail drop leaves them out",
                            (unsigned long long)o->max_tokens, o->world_size);
    if (n_samples == 0 && o->repeat > 0)
        return mr_error_set(
            error, MR_ERR_INVALID,
            "an epoch has 0 batches: of %lld samples repeat takes multiples of 256, which are too "
            "few for world_size %u%s",
            (long long)host->sampler_options.n_samples, o->world_size,
            host->sampler_options.n_samples < 256 ? "; repeat_form timm takes fewer, too" : "");
    if (n_samples == 0)
        return mr_error_set(error, MR_ERR_INVALID,
                            "an epoch has 0 batches: %lld samples are fewer than world_size %u, "
                            "and tail drop leaves them out",
                            (long long)mr_sampler_order_length(host->sampler), o->world_size);
    return mr_error_set(
        error, MR_ERR_INVALID,
        "an epoch has 0 batches: %lld samples of this rank are fewer than batch_size %u, and "
        "drop_last leaves them out",
        n_samples, o->batch_size);
}

mr_status mr_first_order_make(struct mr_host *host, mr_dataset *dataset, const struct mr_plan *plan,
                              mr_error *error)
{
    const mr_loader_options *o = &host->options;
    int64_t n_samples = mr_dataset_n_samples(dataset);
    struct mr_sampler_parts parts = {0};
    host->has_next_epoch = o->num_workers != MR_NO_WORKERS;
    host->sampler_options = (mr_sampler_options){.struct_size = sizeof(mr_sampler_options),
                                                 .n_samples = n_samples,
                                                 .world_size = o->world_size,
                                                 .rank = o->rank,
                                                 .seed = o->seed,
                                                 .epoch = o->epoch,
                                                 .no_shuffle = o->no_shuffle,
                                                 .tail = o->tail,
                                                 .order = o->order,
                                                 .rank_slices = o->rank_slices ? o->batch_size : 0,
                                                 .repeat = o->repeat,
                                                 .repeat_form = o->repeat_form,
                                                 .no_replacement = o->no_replacement,
                                                 .n_draws = o->n_draws,
                                                 .weights = o->weights,
                                                 .weight_values = o->weight_values,
                                                 .n_weight_values = o->n_weight_values};
    mr_status status = mr_aspect_groups_make(dataset, plan->use_exif, o, &parts.groups, error);
    if (status == MR_OK)
        status = make_mixture(o, dataset, &parts.mixture, error);
    if (status == MR_OK)
        status = mr_length_buckets_make(dataset, o, &parts.buckets, error);
    if (status == MR_OK)
        status = make_packing(host, dataset, &parts.packing, error);
    parts.begins = host->has_next_epoch; /* which then counts all rows */
    if (status == MR_OK)
        status = mr_sampler_create_with(&host->sampler_options, &parts, &host->sampler, error);
    if (status == MR_OK && mr_sampler_is_begun(host->sampler) &&
        mr_sampler_steps(host->sampler, o->batch_size, o->drop_last) == 0)
        status = mr_sampler_set_epoch(host->sampler, o->epoch, error);
    mr_groups_unref(parts.groups);
    mr_mixture_unref(parts.mixture);
    mr_buckets_unref(parts.buckets);
    mr_packing_unref(parts.packing);
    host->options.weight_values = NULL; /* the sampler has its own copy */
    host->options.n_weight_values = 0;
    return status == MR_OK ? check_batches(host, error) : status;
}
