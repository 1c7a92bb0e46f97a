/* SPDX-License-Identifier: Apache-2.0 */
/* Children of a test program, and time. A failure here ends the test program. */
#ifndef TESTS_SUPPORT_PROCESSES_H
#define TESTS_SUPPORT_PROCESSES_H

/*
 * Defined under AddressSanitizer, whose shadow memory needs an unlimited address space. Before LLVM
 * 18 its allocator stays locked in a child that is forked while another thread allocates, so
 * nothing is forked beside the threads of a server of the tests, unless it calls exec() at once.
 */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MR_TEST_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define MR_TEST_ASAN 1
#endif

/*
 * Defined under ThreadSanitizer, which mistakes descriptors that a starting worker opens for those
 * of the test, so workers are threads.
 */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MR_TEST_TSAN 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define MR_TEST_TSAN 1
#endif

void mr_test_sleep_ms(long ms);

/* Run f in a child. Returns its result (0 to 127), or 128 + the signal that ended it. */
int mr_test_in_child(int (*f)(void));

#endif
