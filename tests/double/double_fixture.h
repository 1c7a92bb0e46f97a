/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the double begin and end with. fixture_close() gives back everything that is
 * made here.
 */
#ifndef TESTS_DOUBLE_DOUBLE_FIXTURE_H
#define TESTS_DOUBLE_DOUBLE_FIXTURE_H

#include "tests/double/cuda_double.h"

#define OK(call) assert_int_equal((call), cudaSuccess)

/* Two devices, host threads that declare their order; the calling thread is number 0. */
void fixture_open(enum double_policy policy);
/* Give back what was made, close, and expect this many findings of a kind and none of another. */
void fixture_close(void);
void fixture_close_with(enum double_finding kind, uint32_t n);

/* Of the current device. */
cudaStream_t fixture_stream(void); /* non-blocking */
cudaStream_t fixture_blocking_stream(void);
cudaEvent_t fixture_event(void);
uint8_t *fixture_device(size_t len);
uint8_t *fixture_pinned(size_t len);

/* The bytes of device memory are all this now. */
void fixture_expect(const uint8_t *device, size_t len, uint8_t value);

#endif
