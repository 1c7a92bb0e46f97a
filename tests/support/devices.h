/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract suite runs the same programs on several devices. MR_TEST_DEVICE names one
 * ("host:0"), or several with commas, for loaders of tests that do not name one themselves.
 */
#ifndef TESTS_SUPPORT_DEVICES_H
#define TESTS_SUPPORT_DEVICES_H

#include <millrace/loader.h>

/*
 * Is MR_TEST_DEVICE set? Then batches are copied. If it names several devices, batches have parts.
 */
bool mr_test_copies(void);

/* The device of batches, or of their first part; host 0 if MR_TEST_DEVICE is not set. */
mr_device mr_test_device(void);

/* Set the devices in options without devices. The names are valid as long as the program runs. */
void mr_test_set_devices(mr_loader_options *options);

/* The bytes of an array, or of the array of that name, even if they are on the double's device. */
void *mr_test_bytes(const mr_array *array);
void *mr_test_data(const mr_batch *batch, const char *name);

#endif
