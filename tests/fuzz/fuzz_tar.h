/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a tar file. */
#ifndef TESTS_FUZZ_FUZZ_TAR_H
#define TESTS_FUZZ_FUZZ_TAR_H

#include <stddef.h>
#include <stdint.h>

/* One input through everything that reads shards; aborts where it misbehaves. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#endif
