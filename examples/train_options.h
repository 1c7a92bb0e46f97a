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
    uint32_t batch_size; /* samples in a step, on all ranks together */
    uint32_t workers;    /* worker processes of each rank */
    double lr;
    const char *transform; /* of the training images; NULL: the program's default */
    uint32_t repeat;       /* how often an epoch uses a sample */
    mr_dtype dtype;        /* MR_F32 or MR_F64 */
    bool eval_rank0;
    enum train_mode mode;
    const char *device;  /* for --mode ddp: "auto", "host", "cuda:local", "cuda:N" */
    const char *devices; /* for the other modes, with commas; NULL: all GPUs, else host:0,host:1 */
    const char *backend; /* NULL: the library's choice */
};

/* Parse the command line. Ends the program with a message if it is wrong, and for --help. */
struct train_options train_options_parse(int argc, char **argv);

#endif
