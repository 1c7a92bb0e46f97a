/* SPDX-License-Identifier: Apache-2.0 */
/* Writes an .idx: its header, then lengths, pointers, and the first sequence of each document. */
#include "tests/support/documents.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/die.h"
#include "tests/support/folder.h"

static void *allocate(uint64_t len)
{
    void *bytes = calloc(len + 1, 1);
    if (!bytes)
        mr_test_die("documents");
    return bytes;
}

static uint8_t *put(uint8_t *at, const void *bytes, size_t len)
{
    memcpy(at, bytes, len);
    return at + len;
}

void mr_test_documents_write_idx(const char *folder, const char *name, int dtype,
                                 const int32_t *lengths, uint64_t n)
{
    const uint64_t len = 34 + 20 * n + 8, token_bytes = dtype == MR_TEST_IDX_U8 ? 1 : 4;
    uint8_t *idx = allocate(len), *at = put(idx, "MMIDIDX\0\0\1\0\0\0\0\0\0\0", 17);
    *at++ = (uint8_t)dtype;
    at = put(at, (uint64_t[]){n, n + 1}, 16);
    at = put(at, lengths, 4 * n);
    for (uint64_t i = 0, begin = 0; i < n; begin += token_bytes * (uint64_t)lengths[i++])
        at = put(at, &begin, 8);
    for (uint64_t i = 0; i <= n; i++)
        at = put(at, &i, 8);
    mr_test_folder_write(folder, name, idx, len);
    free(idx);
}

int64_t mr_test_documents_write(const char *folder, const char *stem, const int32_t *lengths,
                                uint64_t n)
{
    char name[64];
    int64_t n_ids = 0;
    for (uint64_t i = 0; i < n; i++)
        n_ids += lengths[i];
    int32_t *ids = allocate((uint64_t)n_ids * sizeof *ids);
    for (int32_t i = 0; i < n_ids; i++)
        ids[i] = i;
    snprintf(name, sizeof name, "%s.bin", stem);
    mr_test_folder_write(folder, name, ids, (uint64_t)n_ids * sizeof *ids);
    snprintf(name, sizeof name, "%s.idx", stem);
    mr_test_documents_write_idx(folder, name, MR_TEST_IDX_I32, lengths, n);
    free(ids);
    return n_ids;
}
