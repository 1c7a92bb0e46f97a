/* SPDX-License-Identifier: Apache-2.0 */
/* The double of the driver: a list of ranges. For a pointer outside all of them it writes zeros. */
#include "tests/dist/group/driver_double.h"

#include <stdint.h>
#include <stdlib.h>

enum { MAX_RANGES = 16 };
enum { MEMORY_TYPE = 2, IS_MANAGED = 8, DEVICE_ORDINAL = 9, INVALID_VALUE = 1 };

static struct range {
    uintptr_t at;
    size_t len;
    unsigned type;
    unsigned is_managed;
    int ordinal;
} ranges[MAX_RANGES];

static unsigned n_ranges;

void driver_double_say(const void *at, size_t len, bool is_device, bool is_managed, int ordinal)
{
    if (n_ranges == MAX_RANGES)
        abort();
    ranges[n_ranges++] =
        (struct range){(uintptr_t)at, len, is_device || is_managed ? 2 : 1, is_managed, ordinal};
}

__attribute__((visibility("default"))) int
cuPointerGetAttributes(unsigned n, int *attributes, void **data, unsigned long long pointer);

int cuPointerGetAttributes(unsigned n, int *attributes, void **data, unsigned long long pointer)
{
    struct range is = {0};
    for (unsigned i = 0; i < n_ranges; i++)
        if (pointer >= ranges[i].at && pointer < ranges[i].at + ranges[i].len)
            is = ranges[i];
    for (unsigned i = 0; i < n; i++) {
        switch (attributes[i]) {
        case MEMORY_TYPE: *(unsigned *)data[i] = is.type; break;
        case IS_MANAGED: *(unsigned *)data[i] = is.is_managed; break;
        case DEVICE_ORDINAL: *(int *)data[i] = is.ordinal; break;
        default: return INVALID_VALUE;
        }
    }
    return 0;
}
