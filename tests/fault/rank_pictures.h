/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures in CIFAR-10's files for a training run. They teach little. */
#ifndef TESTS_FAULT_RANK_PICTURES_H
#define TESTS_FAULT_RANK_PICTURES_H

#include <stdint.h>

/*
 * Write data_batch_1.bin, test_batch.bin and batches.meta.txt, the same bytes each time. A failure
 * ends the test program.
 */
void mr_rank_pictures_write(const char *folder, uint32_t n_train, uint32_t n_test);

#endif
