/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only part of gpu_contract that reads a device: gets the bytes of a batch, also of one on the
 * host.
 */
#ifndef TESTS_GPU_GPU_FETCH_H
#define TESTS_GPU_GPU_FETCH_H

#include <millrace/batch.h>

/* Copy len_bytes to the host. Returns 0, or the CUDA runtime's error. */
int gpu_fetch(void *to, mr_device from_device, const void *from, size_t len_bytes);

#endif
