/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a JPEG, with libjpeg alone and with our decoder of scans. */
#ifndef TESTS_FUZZ_FUZZ_SCAN_H
#define TESTS_FUZZ_FUZZ_SCAN_H

#include <stddef.h>
#include <stdint.h>

/* Boxes compared so far, and those that libjpeg did not have to decode again. */
void fuzz_scan_count(uint32_t *n_compared_out, uint32_t *n_own_out);

#endif
