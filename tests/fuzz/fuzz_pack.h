/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the index of a pack or the part of a finished shard. */
#ifndef TESTS_FUZZ_FUZZ_PACK_H
#define TESTS_FUZZ_FUZZ_PACK_H

#include <stddef.h>
#include <stdint.h>

/* The first byte of an input says what the rest is. */
enum {
    FUZZ_PACK_PART = 1,   /* a part of an unfinished pack, else an index */
    FUZZ_PACK_MEND = 2,   /* checksums are made right first, so the fuzzer gets past them */
    FUZZ_PACK_MARKS = 4,  /* the part is of a pack with marks; the seed's index has marks */
    FUZZ_PACK_MEMBERS = 8 /* the same for further members */
};
#define FUZZ_PACK_SAMPLES 6
#define FUZZ_PACK_SHARD 1500

#endif
