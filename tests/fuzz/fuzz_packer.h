/* SPDX-License-Identifier: Apache-2.0 */
/* A byte that chooses how, then a file for the packer. */
#ifndef TESTS_FUZZ_FUZZ_PACKER_H
#define TESTS_FUZZ_FUZZ_PACKER_H

#include <stddef.h>
#include <stdint.h>

/* Bits of the first byte. */
#define FUZZ_PACKER_SMALL 4u /* max_side */
#define FUZZ_PACKER_ALTER 8u /* restore from altered bytes */

/* libFuzzer's entry; aborts when the packer breaks a promise. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#endif
