/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that export, bench, tune and preview share: everything that decides which batches a
 * loader gives.
 */
#ifndef TOOLS_LOADER_ARGS_H
#define TOOLS_LOADER_ARGS_H

#include <argp.h>

#include <millrace/loader.h>

#include "tools/pack_watch.h"

enum { MR_LOADER_ARGS_MAX_WORKERS = 32 };

/* The argument of the commands that have --data, and the help of --data; list has both too. */
#define MR_LOADER_ARGS_DOC "[PATH|SPEC]"
#define MR_LOADER_ARGS_DATA_HELP                                                                   \
    "Dataset: imagefolder:DIR, cifar10:DIR[?split=train|test], list:FILE[?label=DTYPE], "          \
    "records:FILE,...?bytes=N, "                                                                   \
    "tar:SHARD,..., pack:DIR, or a directory (needed, here or as the argument)"

struct mr_loader_args {
    const char *data;
    char spec[MR_PACK_WATCH_SPEC_BYTES]; /* of data, where that is the folder of a pack */
    const char *transform;               /* NULL: the library's default */
    double mean[3];
    double std[3];
    unsigned n_channels; /* of mean and std; 0: not given */
    mr_dataset_options dataset;
    mr_loader_options loader;
    int32_t cpus[MR_MAX_WORKERS];
    /* Values of --workers; 0 is MR_NO_WORKERS. */
    uint32_t workers[MR_LOADER_ARGS_MAX_WORKERS];
    size_t n_workers;
    size_t max_workers; /* how many values --workers takes */
    unsigned n_mean;    /* while parsing */
    unsigned n_std;
};

/* Defaults of the library; --workers takes up to max_workers values and has none. */
void mr_loader_args_init(struct mr_loader_args *args, size_t max_workers);
/* For struct argp_child; input: the struct. */
const struct argp *mr_loader_args_argp(void);
/*
 * The SPEC of what was given: the same text, or in spec that of a folder which holds a pack. NULL:
 * an error.
 */
const char *mr_loader_args_check_data(const char *data, char spec[MR_PACK_WATCH_SPEC_BYTES],
                                      struct argp_state *state);
/* The loader's options for one value of --workers. */
mr_loader_options mr_loader_args_options(const struct mr_loader_args *args, uint32_t workers);

#endif
