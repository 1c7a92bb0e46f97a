/* SPDX-License-Identifier: Apache-2.0 */
/* What a fuzz target defines, and how it reports that something is wrong. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* libFuzzer's entry: takes any bytes, and aborts if the fuzzed code breaks a promise. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static inline void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, what);
    abort();
}

#endif
