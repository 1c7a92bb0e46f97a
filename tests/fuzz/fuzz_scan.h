/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a JPEG, by libjpeg alone and by our decoder of scans. */
#ifndef TESTS_FUZZ_FUZZ_SCAN_H
#define TESTS_FUZZ_FUZZ_SCAN_H

#include <stddef.h>
#include <stdint.h>

/* Boxes that were compared so far, and those without a look back at libjpeg. */
void fuzz_scan_count(uint32_t *n_compared_out, uint32_t *n_own_out);

#endif
