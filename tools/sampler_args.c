/* SPDX-License-Identifier: Apache-2.0 */
/* The options for order and shard of an epoch. The library checks whether rank, world size and tail fit together. */
#include "tools/sampler_args.h"

#include "tools/arg_value.h"

enum {
    KEY_WORLD_SIZE = 256,
    KEY_RANK,
    KEY_EPOCH,
    KEY_SEED,
    KEY_NO_SHUFFLE,
    KEY_TAIL,
    KEY_ORDER,
    KEY_REPEAT,
    KEY_REPEAT_FORM,
    KEY_WEIGHTS,
    KEY_DRAWS,
    KEY_NO_REPLACEMENT
};

static const struct mr_arg_field fields[] = {
    {KEY_WORLD_SIZE, "world-size", "world_size"},
    {KEY_RANK, "rank", "rank"},
    {KEY_EPOCH, "epoch", "epoch"},
    {KEY_SEED, "seed", "seed"},
    {KEY_NO_SHUFFLE, "no-shuffle", "no_shuffle"},
    {KEY_TAIL, "tail", "tail"},
    {KEY_ORDER, "order", "order"},
    {KEY_REPEAT, "repeat", "repeat"},
    {KEY_REPEAT_FORM, "repeat-form", "repeat_form"},
    {KEY_WEIGHTS, "weights", "weights"},
    {KEY_DRAWS, "draws", "n_draws"},
    {KEY_NO_REPLACEMENT, "no-replacement", "no_replacement"},
    {0, NULL, NULL},
};

static const struct argp_option options[] = {
    {"world-size", KEY_WORLD_SIZE, "W", 0, "Number of ranks that share an epoch (default 1)", 0},
    {"rank", KEY_RANK, "R", 0, "This rank, 0 to W - 1 (default 0)", 0},
    {"epoch", KEY_EPOCH, "E", 0, "Epoch (default 0)", 0},
    {"seed", KEY_SEED, "S", 0, "Seed of order and augmentation (default 0)", 0},
    {"no-shuffle", KEY_NO_SHUFFLE, NULL, 0, "Sequential order", 0},
    {"tail", KEY_TAIL, "pad|drop|exact", 0,
     "If W does not divide the number of samples: repeat some, leave some out, or give each once to ranks of unequal "
     "length (default pad)",
     0},
    {"order", KEY_ORDER, "torch|keyed", 0, "PyTorch's permutation, or a keyed one that needs no memory (default torch)",
     0},
    {"repeat", KEY_REPEAT, "N", 0,
     "Repeated augmentation: each sample N times in turn, of which the ranks take as many as an epoch has samples", 0},
    {"repeat-form", KEY_REPEAT_FORM, "torchvision|timm", 0,
     "Whose sampler --repeat follows; they differ below 256 samples (default torchvision)", 0},
    {"weights", KEY_WEIGHTS, "FILE", 0, "Draw samples in proportion to the weights in a .npy file", 0},
    {"draws", KEY_DRAWS, "N", 0, "With --weights: draws of an epoch (default: the number of samples)", 0},
    {"no-replacement", KEY_NO_REPLACEMENT, NULL, 0, "With --weights: draw no sample twice in an epoch", 0},
    {0}};

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    return mr_arg_value_field(state, fields, key, value, state->input) ? 0 : ARGP_ERR_UNKNOWN;
}

const struct argp *mr_sampler_args_argp(void)
{
    static const struct argp argp = {options, parse_option, NULL, NULL, NULL, NULL, NULL};

    return &argp;
}

mr_sampler_options mr_sampler_args_options(const mr_loader_options *loader, int64_t n_samples)
{
    mr_sampler_options sampler = MR_SAMPLER_OPTIONS_INIT;

    sampler.n_samples = n_samples;
    sampler.world_size = loader->world_size;
    sampler.rank = loader->rank;
    sampler.seed = loader->seed;
    sampler.epoch = loader->epoch;
    sampler.no_shuffle = loader->no_shuffle;
    sampler.tail = loader->tail;
    sampler.order = loader->order;
    sampler.repeat = loader->repeat;
    sampler.repeat_form = loader->repeat_form;
    sampler.weights = loader->weights;
    sampler.n_draws = loader->n_draws;
    sampler.no_replacement = loader->no_replacement;
    return sampler;
}
