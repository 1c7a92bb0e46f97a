/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kind of dataset is, and what all kinds share: opening the root directory, describing
 * samples.
 */
#ifndef DATASET_KIND_H
#define DATASET_KIND_H

#include <limits.h>

#include <millrace/dataset.h>

#include "dataset/catalog.h"

struct mr_spec;

/*
 * Open the dataset of a SPEC. fds_out[] receives the catalog, the names file if the kind has one,
 * and the root directory.
 *
 * options are resolved. Ownership: the caller closes every descriptor in fds_out that is not -1,
 * after a failure too.
 */
typedef mr_status mr_kind_open_fn(struct mr_spec *spec, const mr_dataset_options *options,
                                  int fds_out[MR_CATALOG_N_FDS], mr_error *error);

/* A name that a SPEC can begin with. */
struct mr_kind {
    const char *name;
    bool many_paths;    /* commas separate several paths */
    bool raw_paths;     /* paths still contain %XX; the kind calls mr_spec_decode() */
    bool whole;         /* the rest of the text is the path: it may have ? and & */
    bool remote;        /* a path may be a URL */
    const char *advice; /* what to do instead of naming a URL; NULL: as with an unknown scheme */
    mr_kind_open_fn *open;
};

/*
 * Open the directory that relative paths start from, and find its absolute path ("" if unknown). A
 * later chdir of the program has no effect. The URL of a folder is its own absolute path, and has
 * no descriptor and no query.
 */
mr_status mr_kind_open_root(const char *path, int *fd_out, char absolute_out[PATH_MAX],
                            mr_error *error);

/* The label is one integer. */
void mr_kind_set_integer_label(struct mr_sample_kind *kind);
/*
 * The size of an array, for raw samples and label records: writes the bytes to *bytes_out. False if
 * a dimension is below 1, or the size is above INT64_MAX.
 */
bool mr_kind_shape_bytes(mr_dtype dtype, uint32_t ndim, const int64_t *shape, uint64_t *bytes_out);
/* Set dtype, shape, layout, data_bytes and picture of a raw sample. False as above. */
bool mr_kind_set_raw(struct mr_sample_kind *kind, mr_dtype dtype, uint32_t ndim,
                     const int64_t *shape, mr_layout layout);

/* True if elements of this dtype can be token ids. */
bool mr_kind_may_be_token(mr_dtype dtype);

#endif
