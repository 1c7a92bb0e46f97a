/* SPDX-License-Identifier: Apache-2.0 */
/* Easy to get wrong: strtoull() takes "-1" for the largest number there is. */
#include "examples/train_options.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <millrace/loader.h>
#include <stdlib.h>
#include <string.h>

static const struct argp_option argp_options[] = {
    {"data", 'd', "DIR", 0, "folder of the images (needed)", 0},
    {"epochs", 'e', "N", 0, "default 18; 0: only test what --resume names", 0},
    {"batch-size", 'b', "N", 0, "samples of a step, on all ranks together (32)", 0},
    {"lr", 'l', "X", 0, "largest learning rate (0.02)", 0},
    {"workers", 'w', "N", 0, "decoding processes of each rank (1); 0: none", 0},
    {"dtype", 't', "f32|f64", 0, "of weights and arithmetic (f32)", 0},
    {"seed", 's', "N", 0, "of weights, order and augmentation (1)", 0},
    {"out", 'o', "DIR", 0, "write best.ckpt, last.ckpt and log.tsv there", 0},
    {"resume", 'r', "FILE", 0, "continue from a checkpoint", 0},
    {"eval", 'v', "all|rank0", 0, "which ranks test (all)", 0},
    {0},
};

static uint64_t parse_whole(const char *text, uint64_t min, uint64_t max, struct argp_state *state)
{
    char *end;

    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || value < min || value > max)
        argp_error(state, "'%s' is no number from %" PRIu64 " to %" PRIu64, text, min, max);
    return value;
}

static double parse_rate(const char *text, struct argp_state *state)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end != '\0' || !(value > 0 && value < 1000))
        argp_error(state, "'%s' is no learning rate", text);
    return value;
}

static bool parse_either(const char *text, const char *no, const char *yes, struct argp_state *state)
{
    if (strcmp(text, no) != 0 && strcmp(text, yes) != 0)
        argp_error(state, "'%s' is neither %s nor %s", text, no, yes);
    return strcmp(text, yes) == 0;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct train_options *o = state->input;

    switch (key) {
    case 'd': o->data = text; break;
    case 'e': o->epochs = parse_whole(text, 0, 1000000, state); break;
    case 'b': o->batch_size = (uint32_t)parse_whole(text, 1, 65535, state); break;
    case 'l': o->lr = parse_rate(text, state); break;
    case 'w': o->workers = (uint32_t)parse_whole(text, 0, MR_MAX_WORKERS, state); break;
    case 't': o->dtype = parse_either(text, "f32", "f64", state) ? MR_F64 : MR_F32; break;
    case 's': o->seed = parse_whole(text, 0, UINT64_MAX, state); break;
    case 'o': o->out = text; break;
    case 'r': o->resume = text; break;
    case 'v': o->eval_rank0 = parse_either(text, "all", "rank0", state); break;
    case ARGP_KEY_END:
        if (o->data == NULL)
            argp_error(state, "--data is missing");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

struct train_options train_options_parse(int argc, char **argv)
{
    const struct argp argp = {argp_options, parse_option, NULL, "Train a small network.", NULL, NULL, NULL};
    struct train_options o = {.epochs = 18, .batch_size = 32, .workers = 1, .lr = 0.02, .dtype = MR_F32, .seed = 1};

    argp_parse(&argp, argc, argv, 0, NULL, &o);
    return o;
}
