/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_DIST_RENDEZVOUS_FUZZ_STORE_H
#define TESTS_DIST_RENDEZVOUS_FUZZ_STORE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Feeds one input to the frame parser, and to a server as a stranger and as a rank. Aborts if they
 * misbehave.
 */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#endif
