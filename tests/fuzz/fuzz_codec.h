/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes for the codec. */
#ifndef TESTS_FUZZ_FUZZ_CODEC_H
#define TESTS_FUZZ_FUZZ_CODEC_H

#include <stddef.h>
#include <stdint.h>

/* libFuzzer's entry; aborts when the codec breaks a promise. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#endif
