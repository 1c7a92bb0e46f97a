/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_DIST_RENDEZVOUS_FUZZ_STORE_H
#define TESTS_DIST_RENDEZVOUS_FUZZ_STORE_H

#include <stddef.h>
#include <stdint.h>

/*
 * One input through the parser of frames, and to a server as a stranger and as a rank; aborts where
 * they misbehave.
 */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#endif
