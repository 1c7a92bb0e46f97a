/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Setup and teardown of the double's tests. fixture_close() gives back everything that was made
 * here.
 */
#ifndef TESTS_DOUBLE_DOUBLE_FIXTURE_H
#define TESTS_DOUBLE_DOUBLE_FIXTURE_H

#include "tests/double/cuda_double.h"

#define OK(call) assert_int_equal((call), cudaSuccess)

/* Open two devices, with host threads that declare their order; the calling thread is number 0. */
void fixture_open(enum double_policy policy);
/*
 * Give back what was made, close, and expect this many findings of one kind and none of the others.
 */
void fixture_close(void);
void fixture_close_with(enum double_finding kind, uint32_t n);

/* Made on the current device. */
cudaStream_t fixture_stream(void); /* non-blocking */
cudaStream_t fixture_blocking_stream(void);
cudaEvent_t fixture_event(void);
uint8_t *fixture_device(size_t len);
uint8_t *fixture_pinned(size_t len);

/* Check that all these bytes of device memory have this value now. */
void fixture_expect(const uint8_t *device, size_t len, uint8_t value);

#endif
