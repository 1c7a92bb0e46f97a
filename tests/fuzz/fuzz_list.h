/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a list. */
#ifndef TESTS_FUZZ_FUZZ_LIST_H
#define TESTS_FUZZ_FUZZ_LIST_H

#include <stddef.h>
#include <stdint.h>

/* One input through the parsers of lists and SPECs; aborts where they misbehave. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#endif
