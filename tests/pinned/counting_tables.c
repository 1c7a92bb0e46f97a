/* SPDX-License-Identifier: Apache-2.0 */
/* Device tables with only kind and count: opening such a device crashes. */
#include "tests/pinned/counting_tables.h"

struct counting *counting_state(void)
{
    static struct counting counting;
    return &counting;
}

static mr_status count(uint32_t *n_out, mr_error *error)
{
    struct counting *counting = counting_state();
    counting->n_calls++;
    if (counting->count)
        return counting->count(n_out, error);
    *n_out = counting->n;
    return counting->n ? MR_OK : mr_error_set(error, MR_ERR_NO_DEVICE, "no driver in this test");
}

static const struct mr_device_ops counting_cuda = {
    .name = "cuda", .kind = MR_DEVICE_CUDA, .count = count};

const struct mr_device_ops *const mr_device_tables[] = {&mr_device_host, &counting_cuda, NULL};
