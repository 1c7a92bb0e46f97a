/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA's names and texts of errors. */
#include "tests/double/cuda_double.h"
#include "tests/double/double_names.h"

#define DOUBLE_WORDS(name, value, text) {value, #name, text},

struct words {
    int error;
    const char *name;
    const char *text;
};

static const struct words all_words[] = {DOUBLE_ERRORS(DOUBLE_WORDS)};

static const struct words *find(cudaError_t error)
{
    static const struct words none = {-1, "unrecognized error code", "unrecognized error code"};
    for (size_t i = 0; i < sizeof all_words / sizeof *all_words; i++)
        if (all_words[i].error == (int)error)
            return &all_words[i];
    return &none;
}

const char *cudaGetErrorName(cudaError_t error)
{
    return find(error)->name;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return find(error)->text;
}
