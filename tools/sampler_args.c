/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options for the order and shard of an epoch. The library checks rank, world size and tail
 * against each other.
 */
#include "tools/sampler_args.h"

#include "tools/arg_list.h"

static const struct mr_arg list[] = {
    {"world-size", "W", "Number of ranks that share an epoch (default 1)",
     MR_ARG_FIELD(0, world_size)},
    {"rank", "R", "This rank, 0 to W - 1 (default 0)", MR_ARG_FIELD(0, rank)},
    {"epoch", "E", "Epoch (default 0)", MR_ARG_FIELD(0, epoch)},
    {"seed", "S", "Seed of order and augmentation (default 0)", MR_ARG_FIELD(0, seed)},
    {"no-shuffle", NULL, "Sequential order", MR_ARG_FIELD(0, no_shuffle)},
    {"tail", "pad|drop|exact",
     "If W does not divide the number of samples: repeat some, drop some, or use each once, with "
     "ranks of unequal length (default pad)",
     MR_ARG_FIELD(0, tail)},
    {"order", "torch|keyed",
     "PyTorch's permutation, or a keyed one that needs no memory (default torch)",
     MR_ARG_FIELD(0, order)},
    {"rank-slices", NULL,
     "Each rank takes a row of B samples of a global batch of W * B, as Megatron's sampler; "
     "otherwise by turns",
     MR_ARG_FIELD(0, rank_slices)},
    {"repeat", "N",
     "Repeated augmentation: the order repeats each sample N times in a row; the ranks take only "
     "as many places as there are samples",
     MR_ARG_FIELD(0, repeat)},
    {"repeat-form", "torchvision|timm",
     "The sampler that --repeat copies; they differ below 256 samples (default torchvision)",
     MR_ARG_FIELD(0, repeat_form)},
    {"weights", "FILE", "Draw samples in proportion to the weights in a .npy file",
     MR_ARG_FIELD(0, weights)},
    {"draws", "N", "With --weights: draws per epoch (default: the number of samples)",
     MR_ARG_FIELD(0, n_draws)},
    {"no-replacement", NULL, "With --weights: draw no sample twice in an epoch",
     MR_ARG_FIELD(0, no_replacement)},
    {0},
};

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    return mr_arg_list_parse(state, list, key, value);
}

const struct argp *mr_sampler_args_argp(void)
{
    static struct argp_option options[sizeof list / sizeof *list];
    static struct argp argp = {.options = options, .parser = parse_option};

    mr_arg_list_options(list, options);
    return &argp;
}

mr_sampler_options mr_sampler_args_options(const mr_loader_options *loader, int64_t n_samples)
{
    mr_sampler_options sampler = MR_SAMPLER_OPTIONS_INIT;
    uint32_t batch_size = loader->batch_size > 0 ? loader->batch_size : 64; /* its default */

    sampler.n_samples = n_samples;
    sampler.world_size = loader->world_size;
    sampler.rank = loader->rank;
    sampler.seed = loader->seed;
    sampler.epoch = loader->epoch;
    sampler.no_shuffle = loader->no_shuffle;
    sampler.tail = loader->tail;
    sampler.order = loader->order;
    sampler.rank_slices = loader->rank_slices ? batch_size : 0;
    sampler.repeat = loader->repeat;
    sampler.repeat_form = loader->repeat_form;
    sampler.weights = loader->weights;
    sampler.n_draws = loader->n_draws;
    sampler.no_replacement = loader->no_replacement;
    return sampler;
}
