/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device buffer: the memory of one batch on every device that has a share in it, the events that
 * show its copies' progress, and the consumer's streams that the next copy into it must wait for.
 *
 * A share is what one device holds of a buffer: the images of at most one part, and one small
 * block, used by all parts whose labels are on that device.
 *
 * Invariant: await (the copier's thread) may run at the same time as use and release (the batch's
 * holder), so neither side writes what the other reads.
 */
#ifndef PINNED_BUFFER_H
#define PINNED_BUFFER_H

#include "pinned/placement.h"
#include "pinned/slot.h"

#define MR_BUFFER_STREAMS 8 /* consumer's streams per part of a buffer */

/* Pixels before finishing. */
struct mr_buffer_staging {
    uint8_t *memory;
    /*
     * Event: the finish of the last batch in this staging has read it. Only if there are two
     * stagings.
     */
    void *was_read;
    bool was_recorded; /* that event was; written by the copier */
};

/*
 * An open device, and memory that only the copier's streams use, one batch after the other.
 * Constant after creation, except what the copier writes.
 */
struct mr_buffer_device {
    struct mr_device_handle *handle;
    void *drained; /* event for waiting until a stream is empty */
    /* Only if images are finished; two if the finish has its own stream. */
    struct mr_buffer_staging staging[2];
    /* Index of the staging of the batch issued last; written by the copier. */
    uint32_t turn;
    /* Of struct mr_finish, on the device; only if images are finished. */
    float *tables;
    float *normals; /* mr_normal_nodes on the device, if boxes are erased */
    uint32_t part;  /* the part whose images are here, or MR_BUFFER_NO_PART */
    /* Labels are here, or the mask and the boxes, which finishing needs. */
    bool has_small;
    bool is_pinned; /* its handle holds the slab's registration */
};
#define MR_BUFFER_NO_PART UINT32_MAX

/* What all buffers of a copier have in common. Constant after creation. */
struct mr_buffer_shape {
    const struct mr_slot_layout *layout;
    struct mr_placement placement;
    struct mr_finish finish;
    uint32_t n_rows;    /* of the largest part */
    uint64_t row_bytes; /* of a lent row of images; n_rows x row_bytes does not overflow */
    struct mr_buffer_device devices[MR_PLACEMENT_DEVICES];
};

struct mr_buffer_share {
    uint8_t *image; /* lent rows; NULL if this device has no images */
    uint8_t *small; /* at the slot's offsets, less small_off; NULL if !has_small */
    void *begin;    /* event: the copy begins, without the finish */
    void *end;
    void *filled[2]; /* used in turn, so that await can still compare the batch before */
    bool was_filled[2];
};

/* The devices that a stream of a part can belong to. */
enum { MR_BUFFER_IMAGE, MR_BUFFER_LABEL, MR_BUFFER_ENDS };

/*
 * A stream of the consumer. Written by the holder of the batch; between release and the next issue
 * by the copier.
 */
struct mr_buffer_stream {
    void *stream;
    uint32_t end;      /* whether its device is the images' or the labels' */
    bool was_released; /* the next copy waits for released[end] */
    /* Events; the labels' only if their device is not the images'. */
    void *released[MR_BUFFER_ENDS];
};

struct mr_buffer_part {
    uint32_t device[MR_BUFFER_ENDS]; /* index into placement.devices; constant */
    uint32_t first_row;              /* in the batch that was issued last */
    uint32_t n_rows;
    uint32_t n_streams;
    struct mr_buffer_stream streams[MR_BUFFER_STREAMS];
};

struct mr_buffer {
    struct mr_buffer_share shares[MR_PLACEMENT_DEVICES]; /* in the order of placement.devices */
    struct mr_buffer_part parts[MR_MAX_DEVICES];
    uint32_t n_parts; /* of the batch that was issued last: the first n_parts of parts */
    uint32_t turn;    /* which of two events the batch issued last uses */
    void *arrives[2]; /* on part 0's image device: its stream has reached the batch */
    /* That event was recorded. The holder writes it for this turn, the copier for the other. */
    bool was_asked[2];
    /* Why a stream could not be recorded at release; after that, nothing may be copied here. */
    mr_error unreleased;
    struct mr_slot_view slot; /* of the batch issued last; written by the copier */
    uint32_t n_rows;          /* ditto */
    uint64_t bytes;           /* ditto: bytes copied */
    bool is_issued;           /* ditto: issued and not awaited yet */
};

/*
 * Take memory and events. On failure *buffer holds what was taken, for mr_buffer_fini(). The caller
 * passes *buffer zeroed.
 */
mr_status mr_buffer_init(const struct mr_buffer_shape *shape, struct mr_buffer *buffer,
                         mr_error *error);
/* Wait once for each recorded release and copy, whatever fails. */
void mr_buffer_settle(const struct mr_buffer_shape *shape, const struct mr_buffer *buffer);
void mr_buffer_fini(const struct mr_buffer_shape *shape, struct mr_buffer *buffer);

/* Divide a batch of n_rows rows into parts. */
void mr_buffer_split(const struct mr_buffer_shape *shape, struct mr_buffer *buffer,
                     uint32_t n_rows);
/* True if this device has a share in the batch that was issued last. */
bool mr_buffer_has(const struct mr_buffer *buffer, uint32_t device);

/* Make the device's copy stream wait for all streams that have used its share. */
mr_status mr_buffer_wait(const struct mr_buffer_shape *shape, const struct mr_buffer *buffer,
                         uint32_t device, mr_error *error);
/* Forget the streams of the batch's parts: the copies that wait for them are issued. */
void mr_buffer_forget(struct mr_buffer *buffer);

/*
 * See mr_copier_use(), mr_copier_remember() and mr_copier_release(). end: if the stream is a
 * default one, of which device.
 */
mr_status mr_buffer_use(const struct mr_buffer_shape *shape, struct mr_buffer *buffer,
                        uint32_t part, uint32_t end, void *stream, bool arrives, mr_error *error);
mr_status mr_buffer_remember(const struct mr_buffer_shape *shape, struct mr_buffer *buffer,
                             uint32_t part, void *stream, mr_error *error);
mr_status mr_buffer_release(const struct mr_buffer_shape *shape, struct mr_buffer *buffer,
                            mr_error *error);

#endif
