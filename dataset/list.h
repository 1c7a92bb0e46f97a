/* SPDX-License-Identifier: Apache-2.0 */
/* List files as a kind of dataset. */
#ifndef DATASET_LIST_H
#define DATASET_LIST_H

#include "dataset/extra.h"
#include "dataset/kind.h"

mr_kind_open_fn mr_list_open;

struct mr_catalog_builder;

/*
 * Scan a text of len bytes whose descriptor is in fds, and finish the catalog. builder: of the
 * scheme of lists, with a root. name: of the list, for messages. label_dtype: MR_DTYPE_DEFAULT
 * derives it from the labels. extra: the members whose paths follow the label in each line.
 */
mr_status mr_list_scan(struct mr_catalog_builder *builder, const char *name, size_t len,
                       mr_dtype label_dtype, const struct mr_extra_list *extra,
                       int fds[MR_CATALOG_N_FDS], mr_error *error);
/*
 * Open the root, and scan as above. name: path of the list, in whose folder relative paths start.
 */
mr_status mr_list_scan_beside(const char *name, size_t len, mr_dtype label_dtype,
                              const struct mr_extra_list *extra, int fds[MR_CATALOG_N_FDS],
                              mr_error *error);

/* The same for n >= 1 paths and their labels. labels NULL: every label is 0. */
mr_status mr_list_make(const char *const *paths, const int64_t *labels, int64_t n,
                       int fds_out[MR_CATALOG_N_FDS], mr_error *error);

/*
 * Open the folder of the list, where relative paths start. In messages it is as the user wrote it,
 * with its slash, or "".
 */
mr_status mr_list_open_root(const char *path, struct mr_catalog_builder *builder, int *fd_out,
                            mr_error *error);

/*
 * A list with class names begins with a line of this text and the names. A tab precedes each name;
 * names are escaped as paths are.
 */
#define MR_LIST_CLASSES "# classes:"

#endif
