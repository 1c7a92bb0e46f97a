/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of ranges as a kind of dataset. */
#ifndef DATASET_RANGES_H
#define DATASET_RANGES_H

#include "dataset/kind.h"

mr_kind_open_fn mr_ranges_open;

#endif
