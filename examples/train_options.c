/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the command line of the training examples. strtoull() reads "-1" as a huge number, so
 * signs are refused first.
 */
#include "train_options.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <millrace/loader.h>
#include <stdlib.h>
#include <string.h>

static const struct argp_option argp_options[] = {
    {"data", 'd', "DIR", 0, "folder of the images (required)", 0},
    {"epochs", 'e', "N", 0, "default 18; 0: only test the checkpoint of --resume", 0},
    {"batch-size", 'b', "N", 0, "samples in a step, on all ranks together (32)", 0},
    {"lr", 'l', "X", 0, "largest learning rate (0.02)", 0},
    {"transform", 'T', "TEXT", 0,
     "operations on training images (cifar; train_imagefolder: train:32)", 0},
    {"repeat", 'R', "N", 0,
     "use each image N times in a row, and N times fewer images in an epoch (1)", 0},
    {"workers", 'w', "N", 0, "decoding processes of each rank (1); 0: none", 0},
    {"dtype", 't', "f32|f64", 0, "type of weights and arithmetic (f32)", 0},
    {"seed", 's', "N", 0, "seed of weights, order and augmentation (1)", 0},
    {"out", 'o', "DIR", 0, "write best.ckpt, last.ckpt and log.tsv there", 0},
    {"resume", 'r', "FILE", 0, "continue from a checkpoint", 0},
    {"eval", 'v', "all|rank0", 0, "which ranks test (all)", 0},
    {"mode", 'm', "ddp|dp|dp-loss|mp", 0, "how devices share a step (ddp); see below", 0},
    {"device", 'D', "auto|host|cuda:local|cuda:N", 0,
     "where a rank of --mode ddp computes (auto: a GPU if each rank has one, else host)", 0},
    {"devices", 'M', "NAME,NAME...", 0,
     "for the other modes: cuda:N or host:N (all GPUs; without a GPU host:0,host:1)", 0},
    {"backend", 'B', "gloo|mpi|nccl", 0,
     "for several ranks (nccl on GPUs, mpi under mpirun if available, else gloo)", 0},
    {0},
};

static const char doc[] =
    "Train a small network.\v"
    "ddp: one device in each process. Start several by a launcher; each takes its share of "
    "a step's samples.\n"
    "dp: one process, several devices: images are scattered, scores gathered on the first device, "
    "which has the labels "
    "and computes the loss.\n"
    "dp-loss: labels are scattered too, and each device computes its samples' loss.\n"
    "mp: one process, two devices: the first half of the network on one, the second half and the "
    "labels on the other.\n"
    "All modes give the same weights, apart from the order of sums.\n"
    "GPUs need a build with CUDA and cuBLAS; several ranks on GPUs also need NCCL.";

static const char *const modes[] = {
    [TRAIN_DDP] = "ddp", [TRAIN_DP] = "dp", [TRAIN_DP_LOSS] = "dp-loss", [TRAIN_MP] = "mp"};

static uint64_t parse_whole(const char *name, const char *text, uint64_t min, uint64_t max,
                            struct argp_state *state)
{
    char *end;

    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || value < min || value > max)
        argp_error(state, "%s: '%s' is not a number from %" PRIu64 " to %" PRIu64, name, text, min,
                   max);
    return value;
}

static double parse_rate(const char *text, struct argp_state *state)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end != '\0' || !(value > 0 && value < 1000))
        argp_error(state, "--lr: '%s' is not a learning rate above 0 and below 1000", text);
    return value;
}

static bool parse_either(const char *name, const char *text, const char *no, const char *yes,
                         struct argp_state *state)
{
    if (strcmp(text, no) != 0 && strcmp(text, yes) != 0)
        argp_error(state, "%s: '%s' is neither %s nor %s", name, text, no, yes);
    return strcmp(text, yes) == 0;
}

static enum train_mode parse_mode(const char *text, struct argp_state *state)
{
    for (int mode = TRAIN_DDP; mode <= TRAIN_MP; mode++) {
        if (strcmp(text, modes[mode]) == 0)
            return (enum train_mode)mode;
    }
    argp_error(state, "--mode: '%s' is none of ddp, dp, dp-loss, mp", text);
    return TRAIN_DDP;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct train_options *o = state->input;

    switch (key) {
    case 'd': o->data = text; break;
    case 'e': o->epochs = parse_whole("--epochs", text, 0, 1000000, state); break;
    case 'b': o->batch_size = (uint32_t)parse_whole("--batch-size", text, 1, 65535, state); break;
    case 'l': o->lr = parse_rate(text, state); break;
    case 'T': o->transform = text; break;
    case 'R': o->repeat = (uint32_t)parse_whole("--repeat", text, 1, 1000, state); break;
    case 'w':
        o->workers = (uint32_t)parse_whole("--workers", text, 0, MR_MAX_WORKERS, state);
        break;
    case 't':
        o->dtype = parse_either("--dtype", text, "f32", "f64", state) ? MR_F64 : MR_F32;
        break;
    case 's': o->seed = parse_whole("--seed", text, 0, UINT64_MAX, state); break;
    case 'o': o->out = text; break;
    case 'r': o->resume = text; break;
    case 'v': o->eval_rank0 = parse_either("--eval", text, "all", "rank0", state); break;
    case 'm': o->mode = parse_mode(text, state); break;
    case 'D': o->device = text; break;
    case 'M': o->devices = text; break;
    case 'B': o->backend = text; break;
    case ARGP_KEY_END:
        if (o->data == NULL)
            argp_error(state, "--data is missing");
        if (o->mode == TRAIN_DDP ? o->devices != NULL : o->device != NULL)
            argp_error(state, "--mode ddp takes --device, the others take --devices");
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

struct train_options train_options_parse(int argc, char **argv)
{
    const struct argp argp = {argp_options, parse_option, NULL, doc, NULL, NULL, NULL};
    struct train_options o = {
        .epochs = 18, .batch_size = 32, .workers = 1, .lr = 0.02, .dtype = MR_F32, .seed = 1};

    argp_parse(&argp, argc, argv, 0, NULL, &o);
    return o;
}
