/* SPDX-License-Identifier: Apache-2.0 */
/* List files: the header line that a saved list may begin with. */
#ifndef DATASET_LIST_H
#define DATASET_LIST_H

/* Begins the first line of a list that has class names: they follow, separated by tabs, escaped as paths are. */
#define MR_LIST_CLASSES "# classes:"

#endif
