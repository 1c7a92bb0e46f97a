/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a kind of device among those that this program was linked with. */
#include "pinned/device.h"

const struct mr_device_ops *mr_device_find(mr_device_kind kind)
{
    for (size_t i = 0; mr_device_tables[i]; i++)
        if (mr_device_tables[i]->kind == kind)
            return mr_device_tables[i];
    return NULL;
}
