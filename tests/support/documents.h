/* SPDX-License-Identifier: Apache-2.0 */
/* Documents of tokens as Megatron-Core writes them. A failure here ends the test program. */
#ifndef TESTS_SUPPORT_DOCUMENTS_H
#define TESTS_SUPPORT_DOCUMENTS_H

#include <stdint.h>

enum { MR_TEST_IDX_U8 = 1, MR_TEST_IDX_I32 = 4 }; /* Megatron-Core's numbers of dtypes */

/* Write folder/name, the .idx of n documents that follow each other. */
void mr_test_documents_write_idx(const char *folder, const char *name, int dtype,
                                 const int32_t *lengths, uint64_t n);
/* Write folder/stem.idx and folder/stem.bin, whose i32 ids are 0, 1, 2 ... Returns how many. */
int64_t mr_test_documents_write(const char *folder, const char *stem, const int32_t *lengths,
                                uint64_t n);

#endif
