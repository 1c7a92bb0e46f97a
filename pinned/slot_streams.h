/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Page-locked slots that the program copies from by itself. A lent slot remembers the streams that
 * read it, its release records an event on each, and the slot is free when all of them have ended.
 *
 * Nothing here locks: the caller passes a slot from one side to the other. Use and release belong
 * to the holder of the slot's batch, await to one thread after the release.
 */
#ifndef PINNED_SLOT_STREAMS_H
#define PINNED_SLOT_STREAMS_H

#include "pinned/placement.h"
#include "pinned/slot.h"

struct mr_slot_streams;

/*
 * The GPU for create: LOCAL_RANK's, or the calling thread's current one. The error says why there
 * is none.
 */
mr_status mr_slot_streams_find(struct mr_device_name *device_out, mr_error *error);

/*
 * Open the GPU; nothing is page-locked yet. The calling thread, which is one of the library's,
 * works for it from now on.
 */
mr_status mr_slot_streams_create(const struct mr_device_name *device, uint32_t n_slots,
                                 struct mr_slot_streams **streams_out, mr_error *error);
/* The NUMA node of the GPU; -1 if unknown. */
int32_t mr_slot_streams_numa_node(const struct mr_slot_streams *streams);
/* Page-lock the slots' data for all GPUs; workers may write meanwhile. */
mr_status mr_slot_streams_pin(struct mr_slot_streams *streams, const struct mr_slot_layout *layout,
                              uint8_t *slab, mr_error *error);
/* Another of the library's threads works for the GPU from now on. */
void mr_slot_streams_enter(struct mr_slot_streams *streams);
/*
 * Wait for all that was recorded, and free everything. If a device has failed, each thing is tried
 * once.
 */
void mr_slot_streams_destroy(struct mr_slot_streams *streams);

/*
 * Remember a stream, of any GPU, that reads the lent slot. MR_ERR_INVALID if it is not a stream;
 * MR_ERR_STATE in a capture, or for more than MR_BUFFER_STREAMS streams. After any failure it is
 * not remembered.
 */
mr_status mr_slot_streams_use(struct mr_slot_streams *streams, uint32_t slot, void *stream,
                              mr_error *error);
/*
 * Note that a stream that could not be remembered, because of this error, reads the slot: the
 * slot's release fails with this error.
 */
void mr_slot_streams_lose(struct mr_slot_streams *streams, uint32_t slot, const mr_error *error);
/*
 * Record what await waits for. *waits_out is false if no stream was remembered: the slot is free at
 * once. MR_ERR_STATE if a stream is in a capture: nothing is recorded. MR_ERR_DEVICE: await fails
 * too.
 */
mr_status mr_slot_streams_release(struct mr_slot_streams *streams, uint32_t slot, bool *waits_out,
                                  mr_error *error);
/*
 * Sleep until the streams have done the work they had at the release. After a failure the slot is
 * not free.
 */
mr_status mr_slot_streams_await(struct mr_slot_streams *streams, uint32_t slot, mr_error *error);

#endif
