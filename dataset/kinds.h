/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of dataset that a SPEC can name. */
#ifndef DATASET_KINDS_H
#define DATASET_KINDS_H

#include "dataset/kind.h"

/* Ends with a NULL name. The first kind is that of a plain directory. */
extern const struct mr_kind mr_kinds[];

#endif
