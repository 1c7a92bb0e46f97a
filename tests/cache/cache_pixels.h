/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pixels of samples in a cache, of either form, against those of their files. A difference fails
 * the test.
 */
#ifndef TESTS_CACHE_CACHE_PIXELS_H
#define TESTS_CACHE_CACHE_PIXELS_H

#include "tests/cache/cache_rig.h"

/* Every sample that fits must be in the cache, and give its file's pixels for several crops. */
void cache_pixels_compare(struct cache_run *run);

#endif
