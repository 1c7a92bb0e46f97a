/* SPDX-License-Identifier: Apache-2.0 */
/* The helper program, carried inside the library (worker_image.S). */
#ifndef LOADER_WORKER_IMAGE_H
#define LOADER_WORKER_IMAGE_H

#include <stdint.h>

extern const uint8_t mr_worker_image[];
extern const uint8_t mr_worker_image_end[];

#endif
