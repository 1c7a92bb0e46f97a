/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of filled slots into device buffers, and their order with the consumer's streams.
 *
 *   issue    wait (on the device) for the streams of the last user, copy, finish, record *filled*
 *   await    until the copies have ended: the slot is free, the batch is there for the host too
 *   use      a consumer's stream waits for *filled*, and is remembered
 *   release  record *released* on every stream that was remembered
 *
 * Nothing here locks: the caller passes a buffer from one side to the other. Issue and await belong
 * to one thread (the copier's). Use, remember and release belong to the holder of the batch, which
 * may call them before await or at the same time.
 *
 * Invariant: an event says nothing before it is recorded, and a wait uses what was recorded when it
 * was called.
 */
#ifndef PINNED_COPIER_H
#define PINNED_COPIER_H

#include "pinned/placement.h"
#include "pinned/slot.h"

struct mr_copier;

struct mr_copier_options {
    const struct mr_slot_layout *layout;  /* must outlive the copier */
    uint8_t *slab;                        /* where the slab is mapped; must outlive it too */
    const struct mr_placement *placement; /* copied; not one that lends slots; no two parts'
                                             images on one device */
    const struct mr_finish *finish;       /* copied; NULL is the same as nothing needed */
    uint32_t n_buffers;
    /*
     * A batch is finished on another stream, from one of two stagings, while the next one is
     * copied; on devices that can.
     */
    bool overlaps;
};

/*
 * One part of one buffer. Constant addresses; the rows are those of the batch that was issued last.
 */
struct mr_copied_part {
    uint8_t *image; /* finished rows of this part, from its first on */
    uint8_t *small; /* the whole small block of the batch: at the slot's offsets, less
                       layout->label_off. Parts whose labels lie on one device have it in common */
    uint32_t first_row;
    uint32_t n_rows;
    mr_device image_device;
    mr_device label_device;
};

/* What await found out. */
struct mr_copy_report {
    uint64_t bytes;    /* copied, all parts */
    uint64_t ns;       /* on the copy streams, the longest device's; without the finishing */
    int32_t was_ready; /* of the batch before in this buffer: 1 when part 0's stream found it
                          ready, 0 when it came too early, -1 unknown */
};

/*
 * Open the devices and take all memory, streams and events. Memory is not pinned yet. Threads: the
 * copier's.
 */
mr_status mr_copier_create(const struct mr_copier_options *options, struct mr_copier **copier_out,
                           mr_error *error);

/*
 * Waits for all that was recorded, and gives everything back; after a failed device each thing is
 * tried once.
 */
void mr_copier_destroy(struct mr_copier *copier);

/*
 * The calling thread, which is one of ours and is not the one that created it, works for the
 * devices from now on.
 */
void mr_copier_enter(struct mr_copier *copier);

/*
 * Page-lock the slots' data. MR_ERR_UNSUPPORTED: the system refuses, and the copier copies from
 * pageable memory.
 * Threads: the copier's, before the first issue; workers may write meanwhile.
 */
mr_status mr_copier_pin(struct mr_copier *copier, mr_error *error);

/*
 * Copy the first n_rows rows of a filled slot; 0 is an empty batch. At most two copies per device.
 * What was issued into this buffer before was awaited and released.
 *
 * Never blocks, but for two cases. Where labels (or images) are in the host's memory and the rest
 * is on a GPU, the host's copy is last, and sleeps until the GPU's streams that were released have
 * done what they were given. Where the slots are not page-locked CUDA may sleep in a copy, until
 * what it has to wait for has ended. On failure copies may be under way: the slot stays as it is
 * until the copier is destroyed. MR_ERR_DEVICE also when this buffer's release could not be
 * recorded: nothing says when it may be overwritten.
 */
mr_status mr_copier_issue(struct mr_copier *copier, uint32_t buffer,
                          const struct mr_slot_view *slot, uint32_t n_rows, mr_error *error);
/*
 * Sleep until the copies that were issued last into this buffer have ended; once per issue.
 * MR_ERR_DEVICE also when a row whose mask is 1 could not be finished, with its index.
 */
mr_status mr_copier_await(struct mr_copier *copier, uint32_t buffer,
                          struct mr_copy_report *report_out, mr_error *error);

/* Parts of the batch that was issued last; before the first one, of a full batch. */
uint32_t mr_copier_n_parts(const struct mr_copier *copier, uint32_t buffer);
/* The device of the images of part 0, as it was opened; constant. */
mr_device mr_copier_image_device(const struct mr_copier *copier);
struct mr_copied_part mr_copier_part(const struct mr_copier *copier, uint32_t buffer,
                                     uint32_t part);

/*
 * Order a consumer's stream behind the copy of a part. arrives: it is the stream that next was
 * asked for.
 *
 * NULL is the default stream of the images' device. MR_ERR_INVALID for a stream of neither of the
 * part's devices; MR_ERR_STATE in a capture, or for a stream more than MR_BUFFER_STREAMS; after a
 * failure it is not remembered. Between the host and a GPU nothing waits: the host's copies have
 * ended when issue returns.
 */
mr_status mr_copier_use(struct mr_copier *copier, uint32_t buffer, uint32_t part, void *stream,
                        bool arrives, mr_error *error);
/* The same, but NULL is the default stream of the labels' device. */
mr_status mr_copier_use_label(struct mr_copier *copier, uint32_t buffer, uint32_t part,
                              void *stream, mr_error *error);
/* Remember a stream without making it wait: a release on it. */
mr_status mr_copier_remember(struct mr_copier *copier, uint32_t buffer, uint32_t part, void *stream,
                             mr_error *error);
/*
 * Record what the next issue into this buffer waits for. MR_ERR_STATE when a stream is in a
 * capture: nothing is recorded. MR_ERR_DEVICE: every stream was tried once; the buffer is given
 * back all the same.
 */
mr_status mr_copier_release(struct mr_copier *copier, uint32_t buffer, mr_error *error);

/* For the profiler: ranges of the calling thread. */
void mr_copier_range_push(struct mr_copier *copier, const char *name);
void mr_copier_range_pop(struct mr_copier *copier);

/* The NUMA node that the first image device hangs on; -1 when unknown. */
int32_t mr_copier_numa_node(const struct mr_copier *copier);

#endif
