/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the index or the journal of a pack. */
#ifndef TESTS_FUZZ_FUZZ_PACK_H
#define TESTS_FUZZ_FUZZ_PACK_H

#include <stddef.h>
#include <stdint.h>

/* The first byte of an input says what the rest is. */
enum {
    FUZZ_PACK_JOURNAL = 1, /* a journal, else an index */
    FUZZ_PACK_MEND = 2,    /* checksums are made right first, so that what they protect is looked at */
    FUZZ_PACK_MARKS = 4    /* the journal is of a pack with marks; the seed's index is of version 2 */
};
#define FUZZ_PACK_SAMPLES 6
#define FUZZ_PACK_SHARD 1500

/* One input through the readers of packs; aborts where they misbehave. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#endif
