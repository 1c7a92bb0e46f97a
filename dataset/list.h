/* SPDX-License-Identifier: Apache-2.0 */
/* List files as a kind of dataset. */
#ifndef DATASET_LIST_H
#define DATASET_LIST_H

#include "dataset/kind.h"

mr_kind_open_fn mr_list_open;

/*
 * The same of a text of len bytes, whose descriptor is in fds. name: the list's path, for messages
 * and for its folder. label_dtype: MR_DTYPE_DEFAULT finds it by looking.
 */
mr_status mr_list_scan(const char *name, size_t len, mr_dtype label_dtype,
                       int fds[MR_CATALOG_N_FDS], mr_error *error);

/* The same of n paths, at least 1, and their labels; NULL: each label is 0. */
mr_status mr_list_make(const char *const *paths, const int64_t *labels, int64_t n,
                       int fds_out[MR_CATALOG_N_FDS], mr_error *error);

/*
 * Begins the first line of a list that has class names: they follow, separated by tabs, escaped as
 * paths are.
 */
#define MR_LIST_CLASSES "# classes:"

#endif
