/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reserves the slab's pages, so that a machine that runs out of memory later causes no SIGBUS in the middle of an
 * epoch. The limits were checked when the slab was created.
 */
#include "loader/slab_reserve.h"

#include <sys/resource.h>

#include "base/thread.h"

#define PIECE_BYTES (UINT64_C(4) << 20)

mr_status mr_slab_reserve_now(struct mr_core *core, mr_error *error)
{
    return mr_slab_reserve(&core->slab, 0, core->slab.len_bytes, error);
}

static bool is_closed(struct mr_core *core)
{
    pthread_mutex_lock(&core->lock);
    bool closed = core->closed;
    pthread_mutex_unlock(&core->lock);
    return closed;
}

static void *reserve_main(void *arg)
{
    struct mr_core *core = arg;
    mr_error error;
    mr_status status = MR_OK;
    setpriority(PRIO_PROCESS, 0, 19); /* of this thread */
    for (uint64_t off = 0; status == MR_OK && off < core->slab.len_bytes && !is_closed(core); off += PIECE_BYTES) {
        uint64_t left = core->slab.len_bytes - off;
        status = mr_slab_reserve(&core->slab, off, left < PIECE_BYTES ? left : PIECE_BYTES, &error);
    }
    if (status != MR_OK)
        mr_core_fail(core, &error);
    return NULL;
}

int mr_slab_reserve_start(struct mr_core *core, pthread_t *thread_out)
{
    return mr_thread_start(thread_out, reserve_main, core);
}
