/* SPDX-License-Identifier: Apache-2.0 */
/* Packs as a kind of dataset. */
#ifndef DATASET_PACK_OPEN_H
#define DATASET_PACK_OPEN_H

#include "dataset/kind.h"

mr_kind_open_fn mr_pack_open;

#endif
