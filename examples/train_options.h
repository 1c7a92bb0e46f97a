/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of the training examples. */
#ifndef EXAMPLES_TRAIN_OPTIONS_H
#define EXAMPLES_TRAIN_OPTIONS_H

#include <millrace/batch.h>

#include "train_modes.h"

struct train_options {
    const char *data;
    const char *out;    /* NULL: nothing is written */
    const char *resume; /* NULL: from the start */
    uint64_t epochs;
    uint64_t seed;
    uint32_t batch_size; /* of all ranks together */
    uint32_t workers;    /* of each rank */
    double lr;
    const char *transform; /* of the training images; NULL: the program's own */
    uint32_t repeat;       /* how often an epoch has a sample */
    mr_dtype dtype;        /* MR_F32 or MR_F64 */
    bool eval_rank0;
    enum train_mode mode;
    const char *device;  /* of --mode ddp: "auto", "host", "cuda:local", "cuda:N" */
    const char *devices; /* of the others, with commas; NULL: all GPUs, else host:0,host:1 */
    const char *backend; /* NULL: the library's choice */
};

/*
 * What the command line says, over the defaults. Ends the program after a message where it is
 * wrong, or for --help.
 */
struct train_options train_options_parse(int argc, char **argv);

#endif
