/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kind of dataset is, and what the kinds have in common: the root directory, the description
 * of samples.
 */
#ifndef DATASET_KIND_H
#define DATASET_KIND_H

#include <limits.h>

#include <millrace/dataset.h>

#include "dataset/catalog.h"

struct mr_spec;

/*
 * Open the dataset of a SPEC: fds_out[] get the catalog, the names file where there is one, and the
 * root directory.
 *
 * options are resolved. Ownership: what is not -1 in fds_out is the caller's, on failure too.
 */
typedef mr_status mr_kind_open_fn(struct mr_spec *spec, const mr_dataset_options *options,
                                  int fds_out[MR_CATALOG_N_FDS], mr_error *error);

/* A name that a SPEC can begin with. */
struct mr_kind {
    const char *name;
    bool many_paths; /* a comma separates paths */
    bool raw_paths;  /* %XX stays in them, for mr_spec_decode() */
    mr_kind_open_fn *open;
};

/*
 * Open a directory from which paths will start, so that a chdir of the program changes nothing, and
 * find its absolute path ("" where that is not known).
 */
mr_status mr_kind_open_root(const char *path, int *fd_out, char absolute_out[PATH_MAX],
                            mr_error *error);

/* One integer as the label. */
void mr_kind_set_integer_label(struct mr_sample_kind *kind);
/*
 * Shape and dtype of raw samples or of label records: each dimension at least 1; the product in
 * bytes to *bytes_out. False when a dimension is not positive or the product is beyond INT64_MAX.
 */
bool mr_kind_shape_bytes(mr_dtype dtype, uint32_t ndim, const int64_t *shape, uint64_t *bytes_out);
/* Set dtype, shape, layout, data_bytes and picture of a raw sample. False as above. */
bool mr_kind_set_raw(struct mr_sample_kind *kind, mr_dtype dtype, uint32_t ndim,
                     const int64_t *shape, mr_layout layout);

#endif
