/* SPDX-License-Identifier: Apache-2.0 */
/* Seeds for each purpose and rank, derived from the seed of a run. */
#ifndef BASE_SEED_H
#define BASE_SEED_H

#include <stdint.h>

#include "base/export.h"

/* mr_seed() with a tag as its comment defines it: 0, or rank + 1. purpose NULL is "". */
MR_BASE_EXPORT uint64_t mr_seed_derive(uint64_t seed, const char *purpose, uint64_t tag);

#endif
