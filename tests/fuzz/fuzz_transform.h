/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the text of a transform. */
#ifndef TESTS_FUZZ_FUZZ_TRANSFORM_H
#define TESTS_FUZZ_FUZZ_TRANSFORM_H

#include <stddef.h>
#include <stdint.h>

/*
 * One input as a text: parsed, written and parsed again, explained, and run on a small picture; aborts where that goes
 * wrong. Bytes from 128 on stand for the names of operations, of their parameters and of choices.
 */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#endif
