/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The freeing thread: sleeps until the program's own copies from a page-locked slot have ended, and
 * frees the slot. It also opens the GPU and page-locks the slots.
 *
 * Invariant: a slot that was released on streams is COPYING until this thread has seen their events
 * complete. If the loader is destroyed first, the last owner of the host waits for them (host.c).
 */
#include "loader/freeing.h"

#include "loader/numa.h"
#include "loader/slab_reserve.h"

/*
 * Place pages that were not touched yet near the GPU, move workers there before their next sample,
 * and page-lock the slots.
 */
static mr_status lock_slots(struct mr_host *host, struct mr_slot_streams *streams, mr_error *error)
{
    int32_t node = mr_slot_streams_numa_node(streams);
    mr_numa_prefer_memory(NULL, &host->slab, node);
    mr_numa_place_workers(NULL, &host->shared, node);
    mr_status status = mr_slab_reserve_populate(host, error);
    if (status != MR_OK) {
        mr_host_fail(host, error); /* the slots need their pages even if they are not page-locked */
        return status;
    }
    return mr_slot_streams_pin(streams, &host->shared.control->layout, host->slab.base, error);
}

/*
 * Open the GPU. Its streams are waited for even if page-locking is refused: copies from pageable
 * slots may be asynchronous too.
 */
static void open_gpu(struct mr_host *host)
{
    mr_error error;
    struct mr_slot_streams *streams;
    mr_status status =
        mr_slot_streams_create(&host->pin_device, host->options.n_slots, &streams, &error);
    if (status == MR_OK)
        status = lock_slots(host, streams, &error);
    pthread_mutex_lock(&host->lock);
    host->opened = true;
    host->slot_streams = streams;
    host->is_page_locked = status == MR_OK;
    if (status != MR_OK)
        host->open_error = error;
    pthread_cond_broadcast(&host->opened_changed);
    pthread_mutex_unlock(&host->lock);
}

/* With the lock held: the batch whose slot has been COPYING for longest; NULL if there is none. */
static struct mr_batch *find_oldest(const struct mr_host *host)
{
    struct mr_batch *oldest = NULL;
    for (uint32_t i = 0; i < host->n_batch_objects; i++) {
        struct mr_batch *batch = &host->batches[i];
        if (mr_slot_state(mr_host_slot(host, i).slot) == MR_SLOT_COPYING &&
            (!oldest || batch->freed_at < oldest->freed_at))
            oldest = batch;
    }
    return oldest;
}

/* With the lock held on entry and return; released in between. False: the device has failed. */
static bool free_slot(struct mr_host *host, struct mr_batch *batch)
{
    mr_error error;
    uint32_t slot = batch->slot;
    pthread_mutex_unlock(&host->lock);
    mr_status status = mr_slot_streams_await(host->slot_streams, slot, &error);
    if (status != MR_OK)
        mr_host_fail(host, &error);
    pthread_mutex_lock(&host->lock);
    if (status != MR_OK)
        return false;
    mr_slot_move(mr_host_slot(host, slot).slot, MR_SLOT_COPYING, MR_SLOT_FREE);
    mr_host_publish(host);
    mr_control_wake_host(&host->shared); /* a next() without workers makes the batch itself */
    return true;
}

static void *freeing_main(void *arg)
{
    struct mr_host *host = arg;
    open_gpu(host);
    pthread_mutex_lock(&host->lock);
    while (host->slot_streams && !host->closed) {
        struct mr_batch *batch = find_oldest(host);
        if (!batch)
            pthread_cond_wait(&host->freeing_wanted, &host->lock);
        else if (!free_slot(host, batch))
            break;
    }
    pthread_mutex_unlock(&host->lock);
    return NULL;
}

mr_status mr_freeing_start(struct mr_host *host, struct mr_thread *thread, mr_error *error)
{
    mr_status status = mr_slot_streams_find(&host->pin_device, error);
    if (status == MR_OK)
        status = mr_thread_run(thread, "the thread that frees page-locked slots", freeing_main,
                               host, error);
    if (status == MR_OK)
        status = mr_host_await_open(host, error);
    if (!host->slot_streams)
        mr_thread_join(thread);
    return status;
}
