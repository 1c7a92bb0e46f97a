/* SPDX-License-Identifier: Apache-2.0 */
/* The options that export, bench, tune and preview share: dataset, transform and loader. */
#ifndef TOOLS_LOADER_ARGS_H
#define TOOLS_LOADER_ARGS_H

#include <argp.h>

#include <millrace/loader.h>

#include "tools/pack_watch.h"

enum { MR_LOADER_ARGS_MAX_WORKERS = 32 };

/* The argument of the commands that have --data, and the help of --data. list uses both too. */
#define MR_LOADER_ARGS_DOC "[PATH|SPEC]"
#define MR_LOADER_ARGS_DATA_HELP                                                                   \
    "Dataset: imagefolder:DIR, cifar10:DIR[?split=train|test], list:FILE[?label=DTYPE], "          \
    "ranges:FILE, records:FILE,...?bytes=N, tokens:FILE,...?window=T, "                            \
    "tar:SHARD,..., voc:ROOT, coco:IMAGES?annotations=FILE, yolo:LIST, "                           \
    "pack:DIR, mix:W*(SPEC)|W*(SPEC)..., or a directory (required, here or as the argument)"

struct mr_loader_args {
    const char *data;
    char spec[MR_PACK_WATCH_SPEC_BYTES]; /* used for data if that is the folder of a pack */
    const char *transform;               /* NULL: the library's default */
    double mean[3];
    double std[3];
    unsigned n_channels; /* values in mean and std; 0: not given */
    mr_dataset_options dataset;
    mr_loader_options loader;
    int32_t cpus[MR_MAX_WORKERS];
    /* Values of --workers; 0 is stored as MR_NO_WORKERS. */
    uint32_t workers[MR_LOADER_ARGS_MAX_WORKERS];
    size_t n_workers;
    size_t max_workers; /* the most values that --workers accepts */
    unsigned n_mean;    /* n_mean and n_std are used while parsing */
    unsigned n_std;
};

/* Set the library's defaults. --workers accepts up to max_workers values and has none yet. */
void mr_loader_args_init(struct mr_loader_args *args, size_t max_workers);
/* For struct argp_child; its input is a struct mr_loader_args. */
const struct argp *mr_loader_args_argp(void);
/*
 * The SPEC for data: the text itself or, for a folder that holds a pack, a SPEC written to spec.
 * data NULL ends the program with a message.
 */
const char *mr_loader_args_check_data(const char *data, char spec[MR_PACK_WATCH_SPEC_BYTES],
                                      struct argp_state *state);
/* The loader's options for one value of --workers. */
mr_loader_options mr_loader_args_options(const struct mr_loader_args *args, uint32_t workers);

#endif
