/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reserves the slab's pages, so that a machine that runs out of memory later does not raise SIGBUS
 * in the middle of an epoch. The limits were checked when the slab was created.
 */
#include "loader/slab_reserve.h"

#include <sys/resource.h>

#define PIECE_BYTES (UINT64_C(4) << 20)

mr_status mr_slab_reserve_now(struct mr_host *host, mr_error *error)
{
    return mr_slab_reserve(&host->slab, 0, host->slab.len_bytes, error);
}

static bool is_closed(struct mr_host *host)
{
    pthread_mutex_lock(&host->lock);
    bool closed = host->closed;
    pthread_mutex_unlock(&host->lock);
    return closed;
}

typedef mr_status piece_fn(const struct mr_slab *slab, uint64_t off, uint64_t len_bytes,
                           mr_error *error);

/*
 * Handle the slab piece by piece, so that the destruction of a loader does not wait for the rest:
 * MR_END.
 */
static mr_status walk_pieces(struct mr_host *host, piece_fn *handle_piece, mr_error *error)
{
    mr_status status = MR_OK;
    for (uint64_t off = 0; status == MR_OK && off < host->slab.len_bytes; off += PIECE_BYTES) {
        uint64_t left = host->slab.len_bytes - off;
        status = is_closed(host) ? MR_END
                                 : handle_piece(&host->slab, off,
                                                left < PIECE_BYTES ? left : PIECE_BYTES, error);
    }
    return status;
}

mr_status mr_slab_reserve_populate(struct mr_host *host, mr_error *error)
{
    return walk_pieces(host, mr_slab_populate, error);
}

static void *reserve_main(void *arg)
{
    struct mr_host *host = arg;
    mr_error error;
    setpriority(PRIO_PROCESS, 0, 19); /* of this thread */
    if (walk_pieces(host, mr_slab_reserve, &error) < 0)
        mr_host_fail(host, &error);
    return NULL;
}

mr_status mr_slab_reserve_start(struct mr_host *host, struct mr_thread *thread, mr_error *error)
{
    return mr_thread_run(thread, "the thread that reserves the slab", reserve_main, host, error);
}
