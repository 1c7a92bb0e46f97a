/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that kills the workers of a loader. A failure here ends the test program. */
#ifndef TESTS_SUPPORT_KILLER_H
#define TESTS_SUPPORT_KILLER_H

#include <millrace/loader.h>

struct mr_test_killer;

/*
 * Send a signal to one living worker every 30 ms, in turn. If no batch has come since the last kill
 * (on a loaded machine), up to 300 ms more pass: workers that are killed repeatedly before they
 * have begun end the loader.
 */
struct mr_test_killer *mr_test_killer_start(mr_loader *loader, int signal_number);
uint32_t mr_test_killer_n_kills(const struct mr_test_killer *killer);
/* End the thread and free the killer. The loader must still exist. */
void mr_test_killer_stop(struct mr_test_killer *killer);

#endif
