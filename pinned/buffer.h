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
    void *was_read;    /* event: the finish of the batch that was here has read it; only where
                          there are two stagings */
    bool was_recorded; /* that event: the copier's */
};

/*
 * An open device, and what its copier's streams use alone, one batch after the other. Constant
 * after creation, but for what is the copier's.
 */
struct mr_buffer_device {
    struct mr_device_handle *handle;
    void *drained;                       /* event for waiting until a stream is empty */
    struct mr_buffer_staging staging[2]; /* only where images are finished; two where the finish
                                            has its own stream */
    uint32_t turn;                       /* of them, the one of the batch issued last: the
                                            copier's */
    float *tables;                       /* of struct mr_finish, on the device; only where images
                                            are finished */
    float *normals;                      /* mr_normal_nodes on the device, where boxes are erased */
    uint32_t part;                       /* whose images are here, or MR_BUFFER_NO_PART */
    bool has_small;                      /* labels are here, or descriptors for finishing are
                                            needed */
    bool is_pinned;                      /* its handle holds the slab's registration */
};
#define MR_BUFFER_NO_PART UINT32_MAX

/* What is the same for all buffers of a copier. Constant after creation. */
struct mr_buffer_shape {
    const struct mr_slot_layout *layout;
    struct mr_placement placement;
    struct mr_finish finish;
    uint32_t n_rows;    /* of the largest part */
    uint64_t row_bytes; /* of a lent row of images; n_rows of them do not overflow */
    struct mr_buffer_device devices[MR_PLACEMENT_DEVICES];
};

struct mr_buffer_share {
    uint8_t *image;   /* lent rows; NULL where this device has no images */
    uint8_t *small;   /* at the slot's offsets, less label_off; NULL where !has_small */
    uint32_t *status; /* words of the finished rows; NULL where nothing is finished */
    void *begin;      /* of the copy alone */
    void *end;
    void *filled[2]; /* used in turn, so that await can still compare the one before */
    bool was_filled[2];
};

/* The devices a stream of a part can belong to. */
enum { MR_BUFFER_IMAGE, MR_BUFFER_LABEL, MR_BUFFER_ENDS };

/*
 * A stream of the consumer. Written by the holder of the batch; by the copier between release and
 * the next issue.
 */
struct mr_buffer_stream {
    void *stream;
    uint32_t end;                   /* its device is the images' or the labels' */
    bool was_released;              /* released[end] holds what the next copy waits for */
    void *released[MR_BUFFER_ENDS]; /* events; of labels only where their device is not the
                                       images' */
};

struct mr_buffer_part {
    uint32_t device[MR_BUFFER_ENDS]; /* index into placement.devices; constant */
    uint32_t first_row;              /* of the batch that was issued last */
    uint32_t n_rows;
    uint32_t n_streams;
    struct mr_buffer_stream streams[MR_BUFFER_STREAMS];
};

struct mr_buffer {
    struct mr_buffer_share shares[MR_PLACEMENT_DEVICES]; /* as placement.devices */
    struct mr_buffer_part parts[MR_MAX_DEVICES];
    uint32_t n_parts;         /* of the batch that was issued last; the first ones */
    uint32_t turn;            /* which of two events that batch uses */
    void *arrives[2];         /* on part 0's image device: its stream came to the batch */
    bool was_asked[2];        /* that event was recorded; holder's for this turn, copier's for
                                 the other */
    mr_error unreleased;      /* why a stream could not be recorded at release; nothing may be
                                 copied here again */
    struct mr_slot_view slot; /* copier's: of that batch */
    uint32_t n_rows;          /* ditto */
    uint64_t bytes;           /* ditto: copied */
    bool is_issued;           /* ditto: and not awaited yet */
};

/*
 * Take memory and events. On failure what was taken is in *buffer, for mr_buffer_fini(). *buffer is
 * zero before.
 */
mr_status mr_buffer_init(const struct mr_buffer_shape *shape, struct mr_buffer *buffer,
                         mr_error *error);
/* Wait for every release and copy that was recorded, each once, whatever fails. */
void mr_buffer_settle(const struct mr_buffer_shape *shape, const struct mr_buffer *buffer);
void mr_buffer_fini(const struct mr_buffer_shape *shape, struct mr_buffer *buffer);

/* The parts of a batch of n_rows rows. */
void mr_buffer_split(const struct mr_buffer_shape *shape, struct mr_buffer *buffer,
                     uint32_t n_rows);
/* Has this device a share in the batch that was issued last? */
bool mr_buffer_has(const struct mr_buffer *buffer, uint32_t device);

/* Device's copy stream waits for all streams that have used its share. */
mr_status mr_buffer_wait(const struct mr_buffer_shape *shape, const struct mr_buffer *buffer,
                         uint32_t device, mr_error *error);
/* The copies that wait for them are under way: the streams of the batch's parts are forgotten. */
void mr_buffer_forget(struct mr_buffer *buffer);

/*
 * See mr_copier_use(), mr_copier_remember() and mr_copier_release(). end: whose default stream is
 * meant, if it is one. /
 */
mr_status mr_buffer_use(const struct mr_buffer_shape *shape, struct mr_buffer *buffer,
                        uint32_t part, uint32_t end, void *stream, bool arrives, mr_error *error);
mr_status mr_buffer_remember(const struct mr_buffer_shape *shape, struct mr_buffer *buffer,
                             uint32_t part, void *stream, mr_error *error);
mr_status mr_buffer_release(const struct mr_buffer_shape *shape, struct mr_buffer *buffer,
                            mr_error *error);

#endif
