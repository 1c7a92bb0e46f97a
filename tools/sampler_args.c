/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the options for order and shard of an epoch. The library checks whether rank, world size and tail fit
 * together, so that the messages exist once.
 */
#include "tools/sampler_args.h"

#include "tools/arg_value.h"

enum { KEY_WORLD_SIZE = 256, KEY_RANK, KEY_EPOCH, KEY_SEED, KEY_NO_SHUFFLE, KEY_TAIL, KEY_ORDER };

static const struct mr_arg_choice tails[] = {
    {"pad", MR_TAIL_PAD}, {"drop", MR_TAIL_DROP}, {"exact", MR_TAIL_EXACT}, {NULL, 0}};
static const struct mr_arg_choice orders[] = {{"torch", MR_ORDER_TORCH}, {"keyed", MR_ORDER_KEYED}, {NULL, 0}};

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
    {0}};

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    mr_sampler_options *sampler = state->input;

    switch (key) {
    case KEY_WORLD_SIZE:
        sampler->world_size = (uint32_t)mr_arg_value_number(state, "world-size", value, 1, UINT32_MAX);
        return 0;
    case KEY_RANK: sampler->rank = (uint32_t)mr_arg_value_number(state, "rank", value, 0, UINT32_MAX); return 0;
    case KEY_EPOCH: sampler->epoch = mr_arg_value_number(state, "epoch", value, 0, UINT64_MAX); return 0;
    case KEY_SEED: sampler->seed = mr_arg_value_number(state, "seed", value, 0, UINT64_MAX); return 0;
    case KEY_NO_SHUFFLE: sampler->no_shuffle = true; return 0;
    case KEY_TAIL: sampler->tail = (mr_tail)mr_arg_value_choice(state, "tail", value, tails); return 0;
    case KEY_ORDER: sampler->order = (mr_order)mr_arg_value_choice(state, "order", value, orders); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

const struct argp *mr_sampler_args_argp(void)
{
    static const struct argp argp = {options, parse_option, NULL, NULL, NULL, NULL, NULL};

    return &argp;
}
