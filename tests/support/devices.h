/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract suite runs the same programs on several devices. MR_TEST_DEVICE names one
 * ("host:0"), or several with commas, for loaders whose test does not name one itself.
 */
#ifndef TESTS_SUPPORT_DEVICES_H
#define TESTS_SUPPORT_DEVICES_H

#include <millrace/loader.h>

/*
 * Is there such a variable? Then batches are copied, and have parts where it names several devices.
 */
bool mr_test_copies(void);

/* Where batches lie, or their first part: host 0 without such a variable. */
mr_device mr_test_device(void);

/* Set the devices in options that name none. The names live as long as the program. */
void mr_test_set_devices(mr_loader_options *options);

/*
 * The bytes of an array, and of the one of that name, wherever they lie: also on a device that a
 * double stands for.
 */
void *mr_test_bytes(const mr_array *array);
void *mr_test_data(const mr_batch *batch, const char *name);

#endif
