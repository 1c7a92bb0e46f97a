/* SPDX-License-Identifier: Apache-2.0 */
/* List files as a kind of dataset. */
#ifndef DATASET_LIST_H
#define DATASET_LIST_H

#include "dataset/kind.h"

mr_kind_open_fn mr_list_open;

/* Begins the first line of a list that has class names: they follow, separated by tabs, escaped as paths are. */
#define MR_LIST_CLASSES "# classes:"

#endif
