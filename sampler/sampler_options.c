/* SPDX-License-Identifier: Apache-2.0 */
/* What options of a sampler may be, and the weights that they name. */
#include "sampler/sampler_options.h"

#include "base/error.h"
#include "sampler/keyed.h"

enum { MAX_REPEAT = 65535 };

static mr_status check_repeat(const mr_sampler_options *options, mr_error *error)
{
    if (options->repeat > MAX_REPEAT)
        return mr_error_set(error, MR_ERR_INVALID, "repeat %u is above the limit of %d",
                            options->repeat, MAX_REPEAT);
    if ((unsigned)options->repeat_form > MR_REPEAT_TIMM)
        return mr_error_set(error, MR_ERR_INVALID, "repeat_form %u is not an mr_repeat_form",
                            (unsigned)options->repeat_form);
    if (options->tail != MR_TAIL_PAD)
        return mr_error_set(error, MR_ERR_INVALID, "repeat has its own tail: tail must be pad");
    if (options->weights || options->weight_values)
        return mr_error_set(error, MR_ERR_INVALID, "repeat and weights exclude each other");
    return MR_OK;
}

static mr_status check_weights(const mr_sampler_options *options, mr_error *error)
{
    if (!options->weights && !options->weight_values) {
        if (options->n_draws != 0 || options->no_replacement)
            return mr_error_set(error, MR_ERR_INVALID, "%s needs weights",
                                options->n_draws != 0 ? "n_draws" : "no_replacement");
        return MR_OK;
    }
    if (options->weights && options->weight_values)
        return mr_error_set(error, MR_ERR_INVALID, "weights and weight_values exclude each other");
    if (options->weight_values && options->n_weight_values != (uint64_t)options->n_samples)
        return mr_error_set(error, MR_ERR_INVALID, "%llu weight_values for %lld samples",
                            (unsigned long long)options->n_weight_values,
                            (long long)options->n_samples);
    if (options->no_shuffle || options->order != MR_ORDER_TORCH)
        return mr_error_set(error, MR_ERR_INVALID, "weights exclude %s",
                            options->no_shuffle ? "no_shuffle" : "the keyed order");
    if (options->n_draws > MR_KEYED_MAX_N)
        return mr_error_set(error, MR_ERR_INVALID, "n_draws %llu is above 2^40",
                            (unsigned long long)options->n_draws);
    return MR_OK;
}

mr_status mr_sampler_options_check(const mr_sampler_options *options, mr_error *error)
{
    if (options->rank_slices != 0 && (options->weights || options->weight_values))
        return mr_error_set(error, MR_ERR_INVALID, "rank_slices and weights exclude each other");
    if (options->n_samples < 0 || (uint64_t)options->n_samples > MR_KEYED_MAX_N)
        return mr_error_set(error, MR_ERR_INVALID, "n_samples %lld is not between 0 and 2^40",
                            (long long)options->n_samples);
    if (options->rank >= options->world_size)
        return mr_error_set(error, MR_ERR_INVALID, "rank %u is not below world_size %u",
                            options->rank, options->world_size);
    if ((unsigned)options->tail > MR_TAIL_EXACT)
        return mr_error_set(error, MR_ERR_INVALID, "tail %u is not an mr_tail",
                            (unsigned)options->tail);
    if ((unsigned)options->order > MR_ORDER_KEYED)
        return mr_error_set(error, MR_ERR_INVALID, "order %u is not an mr_order",
                            (unsigned)options->order);
    if (options->repeat == 0 && options->repeat_form != MR_REPEAT_TORCHVISION)
        return mr_error_set(error, MR_ERR_INVALID, "repeat_form needs repeat");
    return options->repeat != 0 ? check_repeat(options, error) : check_weights(options, error);
}

mr_status mr_sampler_options_weights(const mr_sampler_options *options,
                                     struct mr_weights **weights_out, mr_error *error)
{
    uint64_t n = (uint64_t)options->n_samples;
    bool cumulate = !options->no_replacement && options->n_draws != 1;
    mr_status status =
        options->weights
            ? mr_weights_load(options->weights, n, cumulate, weights_out, error)
            : mr_weights_create(options->weight_values, n, cumulate, weights_out, error);
    if (status != MR_OK)
        return status;
    uint64_t limit = cumulate && n > 0 ? options->n_draws : (*weights_out)->n_positive;
    return options->n_draws <= limit
               ? MR_OK
               : mr_error_set(error, MR_ERR_INVALID,
                              "n_draws %llu is above the %llu samples that have a weight above 0",
                              (unsigned long long)options->n_draws, (unsigned long long)limit);
}
