/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices that batches are copied to: one table of functions per kind. `host` is always available
 * and is the readable specification; `cuda` is device_cuda.c. A program links one of
 * device_tables_*.c, which lists the program's kinds.
 *
 * Unless stated otherwise a function may be called from any thread and leaves that thread's current
 * device, last error and captures as they were. Failures are MR_ERR_DEVICE, MR_ERR_NO_MEMORY or
 * MR_ERR_NO_DEVICE, with the name of the runtime's function that failed and the runtime's message.
 */
#ifndef PINNED_DEVICE_H
#define PINNED_DEVICE_H

#include "base/error.h"
#include "pinned/finish.h"

/* An open device with a copy stream of its own. Each table's own struct begins with this. */
struct mr_device_handle {
    const struct mr_device_ops *ops;
    mr_device device;    /* id as resolved */
    void *copy_stream;   /* never NULL; not ordered with the default stream */
    void *finish_stream; /* NULL: finish and copy_out are on the copy stream, too */
};

/*
 * The handles 0, 1 and 2 name default streams of whichever device is the current one; CUDA's legacy
 * stream has two of them. Every other handle is a stream of one device.
 */
static inline bool mr_stream_is_default(const void *stream)
{
    return (uintptr_t)stream <= 2;
}

/* id: what launchers mean by local, LOCAL_RANK among the visible devices or the only one. */
#define MR_DEVICE_LOCAL (-1)

struct mr_device_ops {
    const char *name; /* the word before the colon in names of devices */
    mr_device_kind kind;
    /*
     * How many there are. May initialise the kind's runtime in this process. MR_ERR_NO_DEVICE says
     * why there is none. /
     */
    mr_status (*count)(uint32_t *n_out, mr_error *error);

    mr_status (*open)(int32_t id, struct mr_device_handle **handle_out, mr_error *error);
    void (*close)(struct mr_device_handle *handle);
    /*
     * The calling thread, which is one of ours, works for devices from now on: its captures are
     * relaxed.
     */
    mr_status (*enter)(struct mr_device_handle *handle, mr_error *error);

    /*
     * Make n_slots x slot_bytes from base on known to all devices of the kind (page-locked), before
     * the first copy. In pieces that end on slot boundaries where the whole is refused. Once per
     * handle, until unpin. MR_ERR_UNSUPPORTED: the system refuses; the memory can be copied from
     * and to all the same, but calls of copy may sleep, and take their bytes at any time up to the
     * copy's end.
     */
    mr_status (*pin)(struct mr_device_handle *handle, void *base, uint64_t slot_bytes,
                     uint32_t n_slots, mr_error *error);
    void (*unpin)(struct mr_device_handle *handle);

    mr_status (*alloc)(struct mr_device_handle *handle, uint64_t len_bytes, void **memory_out,
                       mr_error *error);
    void (*free)(struct mr_device_handle *handle, void *memory);

    /*
     * From now on finish and copy_out have a stream of their own, which nothing orders with the
     * copy stream; the host, where nothing would overlap, stays as it is. Once per handle.
     */
    mr_status (*split)(struct mr_device_handle *handle, mr_error *error);

    /*
     * On the copy stream, asynchronously where the host's side is pinned. The event after it covers
     * both sides.
     */
    mr_status (*copy_in)(struct mr_device_handle *handle, void *device, const void *host,
                         uint64_t len_bytes, mr_error *error);
    /* On the finishing stream, where the handle has one, as is finish. */
    mr_status (*copy_out)(struct mr_device_handle *handle, void *host, const void *device,
                          uint64_t len_bytes, mr_error *error);
    mr_status (*finish)(struct mr_device_handle *handle, const struct mr_finish_job *job,
                        mr_error *error);

    /*
     * Events keep time and let the host sleep. The functions of events, and check_capture, use
     * nothing of the handle but its device: the caller may make one for another device of the kind,
     * which is not open.
     */
    mr_status (*event_create)(struct mr_device_handle *handle, void **event_out, mr_error *error);
    void (*event_destroy)(struct mr_device_handle *handle, void *event);
    /*
     * A default stream is the handle's device's. record: MR_ERR_INVALID when the stream is another
     * device's.
     */
    mr_status (*record)(struct mr_device_handle *handle, void *event, void *stream,
                        mr_error *error);
    /* The event may be another device's. */
    mr_status (*wait)(struct mr_device_handle *handle, void *stream, void *event, mr_error *error);
    /*
     * Sleep until what was recorded has ended; at once for an event that was never recorded. Never
     * called in the caller's threads.
     */
    mr_status (*sync)(struct mr_device_handle *handle, void *event, mr_error *error);
    /* Time between two events that have ended. */
    mr_status (*elapsed)(struct mr_device_handle *handle, void *begin, void *end, int64_t *ns_out,
                         mr_error *error);
    /*
     * MR_ERR_STATE when the stream is in a capture (NULL: or one of this thread's captures forbids
     * its use).
     */
    mr_status (*check_capture)(struct mr_device_handle *handle, void *stream, mr_error *error);
    /*
     * The device of a stream of the program; of NULL, the calling thread's current one. near (may
     * be NULL): a thread that has chosen no device works there meanwhile.
     */
    mr_status (*stream_device)(const struct mr_device_handle *near, const void *stream,
                               int32_t *id_out, mr_error *error);

    /* The NUMA node that the device hangs on; -1 when unknown. */
    int32_t (*numa_node)(struct mr_device_handle *handle);
    /* A named range of this thread for a profiler. */
    void (*range_push)(const char *name);
    void (*range_pop)(void);
};

/* Where finish and copy_out are. */
static inline void *mr_device_finish_stream(const struct mr_device_handle *handle)
{
    return handle->finish_stream ? handle->finish_stream : handle->copy_stream;
}

extern const struct mr_device_ops mr_device_host;
extern const struct mr_device_ops mr_device_cuda;

/* Ends with NULL. */
extern const struct mr_device_ops *const mr_device_tables[];

/* The table of a kind; NULL when this build has none. */
const struct mr_device_ops *mr_device_find(mr_device_kind kind);

#endif
