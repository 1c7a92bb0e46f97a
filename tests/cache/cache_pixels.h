/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the pixels of samples in a cache, of either form, with those of their files. A
 * difference fails the test.
 */
#ifndef TESTS_CACHE_CACHE_PIXELS_H
#define TESTS_CACHE_CACHE_PIXELS_H

#include "tests/cache/cache_rig.h"

/*
 * Assert that every sample that can be packed or marked is in the cache, and gives the pixels of
 * its file for several crops.
 */
void cache_pixels_compare(struct cache_run *run);

#endif
