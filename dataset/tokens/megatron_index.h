/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The .idx of Megatron-Core beside a .bin of tokens: where each document (Megatron: sequence) is.
 * Numbers are little-endian and not aligned. The layout is that of Megatron-LM, commit d98e8a64
 * (megatron/core/datasets/indexed_dataset.py):
 *
 *   0 "MMIDIDX\0\0", 9 u64 version 1, 17 u8 dtype, 18 u64 sequences, 26 u64 entries of documents,
 *   34 i32 lengths[sequences], i64 pointers[sequences], i64 documents[entries], [i8 modes]
 */
#ifndef DATASET_TOKENS_MEGATRON_INDEX_H
#define DATASET_TOKENS_MEGATRON_INDEX_H

#include <stddef.h>
#include <string.h>

#include <millrace/batch.h>

#include "base/error.h"

struct mr_megatron_index {
    int fd; /* the open file; -1 after it was taken */
    const uint8_t *map;
    size_t map_len;
    mr_dtype dtype;
    uint64_t n_sequences;
    uint64_t n_tokens; /* the sum of all lengths, after the check */
};

enum { MR_MEGATRON_HEADER = 34 };

/*
 * Map the index of PREFIX.bin, and check its header. Returns MR_OK; MR_PENDING: the path does not
 * end with .bin, or there is no PREFIX.idx; MR_ERR_IO, MR_ERR_DAMAGED, MR_ERR_UNSUPPORTED (another
 * version or dtype).
 * Ownership: the caller closes the index after MR_OK.
 */
mr_status mr_megatron_index_open(int root, const char *path, const char *shown,
                                 struct mr_megatron_index *index_out, mr_error *error);
/*
 * Check where all sequences are in the .bin, which has bin_bytes, and set n_tokens.
 * MR_ERR_DAMAGED, with the number of the sequence.
 */
mr_status mr_megatron_index_check(struct mr_megatron_index *index, const char *shown,
                                  uint64_t bin_bytes, mr_error *error);
void mr_megatron_index_close(struct mr_megatron_index *index);

/* The number of tokens of a sequence, and where it begins in the .bin, in bytes. i is in range. */
static inline uint32_t mr_megatron_length(const struct mr_megatron_index *index, uint64_t i)
{
    uint32_t length;
    memcpy(&length, index->map + MR_MEGATRON_HEADER + i * sizeof length, sizeof length);
    return length;
}

static inline uint64_t mr_megatron_pointer(const struct mr_megatron_index *index, uint64_t i)
{
    uint64_t pointer;
    memcpy(&pointer,
           index->map + MR_MEGATRON_HEADER + index->n_sequences * sizeof(uint32_t) +
               i * sizeof pointer,
           sizeof pointer);
    return pointer;
}

#endif
