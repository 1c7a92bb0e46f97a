/* SPDX-License-Identifier: Apache-2.0 */
/* The host as a device: its memory needs no pinning, and a slot is lent as it lies. */
#include "pinned/device.h"

static uint32_t count(void)
{
    return 1;
}

static mr_status pin(int32_t id, void *base, uint64_t len_bytes, mr_error *error)
{
    (void)id, (void)base, (void)len_bytes, (void)error;
    return MR_OK;
}

static void unpin(int32_t id, void *base, uint64_t len_bytes)
{
    (void)id, (void)base, (void)len_bytes;
}

const struct mr_device_table mr_device_host = {
    .name = "host",
    .kind = MR_DEVICE_HOST,
    .count = count,
    .pin = pin,
    .unpin = unpin,
    .lends_slots = true,
};
