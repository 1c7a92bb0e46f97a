/* SPDX-License-Identifier: Apache-2.0 */
/* mix:WEIGHT*(SPEC)|WEIGHT*(SPEC)...: several datasets as one. */
#ifndef DATASET_MIX_OPEN_H
#define DATASET_MIX_OPEN_H

#include "dataset/kind.h"

mr_kind_open_fn mr_mix_open;

#endif
