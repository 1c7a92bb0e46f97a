/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a tile of a pack. */
#ifndef TESTS_FUZZ_FUZZ_TILE_H
#define TESTS_FUZZ_FUZZ_TILE_H

#include <stddef.h>
#include <stdint.h>

/* libFuzzer's entry; aborts when an expander breaks a promise. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#endif
