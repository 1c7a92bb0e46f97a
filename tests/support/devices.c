/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the devices that a test runs on. */
#include "tests/support/devices.h"

#include <stdlib.h>
#include <string.h>

/* The names in MR_TEST_DEVICE, split once. */
static char *names[MR_MAX_DEVICES];
static uint32_t n_names;

static void read_names(void)
{
    const char *text = getenv("MR_TEST_DEVICE");
    if (n_names > 0 || !text || !*text)
        return;
    char *rest = strdup(text);
    for (char *name; n_names < MR_MAX_DEVICES && (name = strsep(&rest, ","));)
        names[n_names++] = name;
}

bool mr_test_copies(void)
{
    read_names();
    return n_names > 0;
}

mr_device mr_test_device(void)
{
    mr_device device = {.kind = MR_DEVICE_HOST};
    read_names();
    const char *colon = n_names > 0 ? strchr(names[0], ':') : NULL;
    if (colon) {
        device.kind = strncmp(names[0], "cuda", 4) == 0 ? MR_DEVICE_CUDA : MR_DEVICE_HOST;
        device.id = atoi(colon + 1);
    }
    return device;
}

void mr_test_set_devices(mr_loader_options *options)
{
    read_names();
    if (n_names == 0 || options->device || options->devices)
        return;
    if (n_names == 1) {
        options->device = names[0];
        return;
    }
    options->devices = (const char *const *)names;
    options->n_devices = n_names;
    if (options->num_workers == 0)
        options->num_workers = 4; /* tests expect the default for one device */
}

/* Defined in programs that are linked with the double of the CUDA runtime. */
__attribute__((weak)) void *double_host_view(const void *device);

void *mr_test_bytes(const mr_array *array)
{
    if (array->device.kind == MR_DEVICE_HOST)
        return array->data;
    return double_host_view ? double_host_view(array->data) : NULL;
}

void *mr_test_data(const mr_batch *batch, const char *name)
{
    const mr_array *array = mr_batch_array(batch, name);
    return array ? mr_test_bytes(array) : NULL;
}
