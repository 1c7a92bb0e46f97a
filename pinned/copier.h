/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of filled slots into device buffers, and their order with the consumer's streams.
 *
 *   issue    wait (on the device) for the streams of the last user, copy, finish, record *filled*
 *   await    sleep until the copies have ended: the slot is free, and the host may lend the batch
 *   use      make a consumer's stream wait for *filled*, and remember it
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
    const struct mr_slot_layout *layout; /* must outlive the copier */
    uint8_t *slab;                       /* where the slab is mapped; must outlive it too */
    /* Copied. Not one that lends slots; no two parts have images on one device. */
    const struct mr_placement *placement;
    const struct mr_finish *finish; /* copied; NULL: nothing is finished */
    uint32_t n_buffers;
    /*
     * Finish a batch on a second stream, from one of two stagings, while the next batch is copied.
     * Only devices that can do so.
     */
    bool overlaps;
};

/*
 * One part of one buffer. Addresses are constant; the rows are those of the batch that was issued
 * last.
 */
struct mr_copied_part {
    uint8_t *image; /* finished rows of this part */
    /*
     * The whole small block of the batch, at the slot's offsets less layout->small_off. Parts whose
     * labels are on one device share it.
     */
    uint8_t *small;
    uint32_t first_row;
    uint32_t n_rows;
    mr_device image_device;
    mr_device label_device;
};

/* What await measures. */
struct mr_copy_report {
    uint64_t bytes; /* of all parts */
    uint64_t ns;    /* spent by copies on the device that took longest; without the finish */
    /*
     * About the previous batch in this buffer: 1 if it was ready when part 0's stream reached it, 0
     * if the stream had to wait, -1 unknown.
     */
    int32_t was_ready;
};

/*
 * Open the devices and take all memory, streams and events. Memory is not page-locked yet. Threads:
 * the copier's.
 */
mr_status mr_copier_create(const struct mr_copier_options *options, struct mr_copier **copier_out,
                           mr_error *error);

/*
 * Wait for all that was recorded, and free everything. If a device has failed, each thing is tried
 * once.
 */
void mr_copier_destroy(struct mr_copier *copier);

/*
 * The calling thread, which is the library's but did not create the copier, works for the devices
 * from now on.
 */
void mr_copier_enter(struct mr_copier *copier);

/*
 * Page-lock the slots' data. MR_ERR_UNSUPPORTED: the system refuses, and the copier copies from
 * pageable memory. Threads: the copier's, before the first issue; workers may write meanwhile.
 */
mr_status mr_copier_pin(struct mr_copier *copier, mr_error *error);

/*
 * Copy the first n_rows rows of a filled slot; 0 is an empty batch. At most two copies per device,
 * or one for each row if rows differ in length. The caller has awaited and released what was
 * issued into this buffer before.
 *
 * Does not block, with two exceptions. If labels (or images) are in the host's memory and the rest
 * is on a GPU, the host's copy comes last, and sleeps until the GPU's released streams have done
 * the work they had at release. If the slots are not page-locked, CUDA may sleep in a copy until
 * what the copy waits for has ended. After a failure copies may still run: the slot must stay
 * unchanged until the copier is destroyed. MR_ERR_DEVICE is also returned when this buffer's
 * release could not be recorded: then it is unknown when the buffer may be overwritten.
 */
mr_status mr_copier_issue(struct mr_copier *copier, uint32_t buffer,
                          const struct mr_slot_view *slot, uint32_t n_rows, mr_error *error);
/*
 * Sleep until the copies that were issued last into this buffer have ended; once per issue.
 * MR_ERR_DEVICE also if a row whose mask is 1 could not be finished; the error has that row's
 * index.
 */
mr_status mr_copier_await(struct mr_copier *copier, uint32_t buffer,
                          struct mr_copy_report *report_out, mr_error *error);

/* Parts of the batch that was issued last; before the first issue, of a full batch. */
uint32_t mr_copier_n_parts(const struct mr_copier *copier, uint32_t buffer);
/* The device of part 0's images, with its resolved id; constant. */
mr_device mr_copier_image_device(const struct mr_copier *copier);
struct mr_copied_part mr_copier_part(const struct mr_copier *copier, uint32_t buffer,
                                     uint32_t part);

/*
 * Order a consumer's stream after the copy of a part. arrives: the stream is the one that was
 * passed to next.
 *
 * NULL is the default stream of the images' device. MR_ERR_INVALID for a stream of neither of the
 * part's devices; MR_ERR_STATE in a capture, or for more than MR_BUFFER_STREAMS streams. After a
 * failure the stream is not remembered. Between the host and a GPU nothing waits: the host's copies
 * have ended when issue returns.
 */
mr_status mr_copier_use(struct mr_copier *copier, uint32_t buffer, uint32_t part, void *stream,
                        bool arrives, mr_error *error);
/* The same, but NULL is the default stream of the labels' device. */
mr_status mr_copier_use_label(struct mr_copier *copier, uint32_t buffer, uint32_t part,
                              void *stream, mr_error *error);
/* Remember a stream, for a release on it, without making it wait. */
mr_status mr_copier_remember(struct mr_copier *copier, uint32_t buffer, uint32_t part, void *stream,
                             mr_error *error);
/*
 * Record what the next issue into this buffer waits for. MR_ERR_STATE if a stream is in a capture:
 * nothing is recorded. MR_ERR_DEVICE: every stream was tried once, and the buffer is given back all
 * the same.
 */
mr_status mr_copier_release(struct mr_copier *copier, uint32_t buffer, mr_error *error);

/* For the profiler: ranges of the calling thread. */
void mr_copier_range_push(struct mr_copier *copier, const char *name);
void mr_copier_range_pop(struct mr_copier *copier);

/* The NUMA node of the first image device; -1 if unknown. */
int32_t mr_copier_numa_node(const struct mr_copier *copier);

#endif
