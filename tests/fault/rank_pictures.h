/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures in CIFAR-10's files that a training run can be started on; they teach little. */
#ifndef TESTS_FAULT_RANK_PICTURES_H
#define TESTS_FAULT_RANK_PICTURES_H

#include <stdint.h>

/*
 * data_batch_1.bin, test_batch.bin, batches.meta.txt; the same bytes each time. What fails ends the
 * test program.
 */
void mr_rank_pictures_write(const char *folder, uint32_t n_train, uint32_t n_test);

#endif
