/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices that batches are lent on: one table of functions per kind, chosen by name in device.c. `host` is always
 * there.
 */
#ifndef PINNED_DEVICE_H
#define PINNED_DEVICE_H

#include <millrace/batch.h>

#include "base/error.h"

struct mr_device_table {
    const char *name; /* what stands before the colon */
    mr_device_kind kind;
    /* How many devices of the kind there are. */
    uint32_t (*count)(void);
    /* Make the slab's memory known to the device, before the first copy; undone by unpin. */
    mr_status (*pin)(int32_t id, void *base, uint64_t len_bytes, mr_error *error);
    void (*unpin)(int32_t id, void *base, uint64_t len_bytes);
    /* True when a slot's own memory is lent, without a copy. */
    bool lends_slots;
};

extern const struct mr_device_table mr_device_host;

/*
 * Find the device of a name such as "host" or "host:0"; NULL means "host".
 * MR_ERR_INVALID when the name is none; MR_ERR_NO_DEVICE when there is no such device; MR_ERR_UNSUPPORTED when this
 * build has no such kind.
 */
mr_status mr_device_find(const char *name, const struct mr_device_table **table_out, mr_device *device_out,
                         mr_error *error);

#endif
