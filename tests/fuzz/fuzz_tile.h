/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FUZZ_FUZZ_TILE_H
#define TESTS_FUZZ_FUZZ_TILE_H

#include <stddef.h>
#include <stdint.h>

/* libFuzzer's entry; aborts when an expander breaks a promise. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#endif
