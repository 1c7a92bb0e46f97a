/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices that batches are copied to: one table of functions per kind. `host` is always available
 * and is the readable specification; `cuda` is device_cuda.c. A program links one of
 * device_tables_*.c, which lists the program's kinds.
 *
 * Unless stated otherwise a function may be called from any thread, and leaves that thread's
 * current device, last error and captures as they were. Failures are MR_ERR_DEVICE,
 * MR_ERR_NO_MEMORY or MR_ERR_NO_DEVICE, with the name of the runtime's function that failed and the
 * runtime's message.
 */
#ifndef PINNED_DEVICE_H
#define PINNED_DEVICE_H

#include "base/error.h"
#include "pinned/finish.h"

/* An open device with its copy stream. Each table's own struct begins with this. */
struct mr_device_handle {
    const struct mr_device_ops *ops;
    mr_device device;    /* id as resolved */
    void *copy_stream;   /* never NULL; not ordered with the default stream */
    void *finish_stream; /* NULL: finish runs on the copy stream */
};

/*
 * True for the handles 0, 1 and 2, which name default streams of the current device; two of them
 * name CUDA's legacy stream. Every other handle is a stream of one device.
 */
static inline bool mr_stream_is_default(const void *stream)
{
    return (uintptr_t)stream <= 2;
}

/*
 * An id: the device that launchers mean by local, which is LOCAL_RANK among the visible devices, or
 * the only one.
 */
#define MR_DEVICE_LOCAL (-1)

struct mr_device_ops {
    const char *name; /* the word before the colon in a device's name */
    mr_device_kind kind;
    /*
     * How many devices there are. May initialise the kind's runtime in this process.
     * MR_ERR_NO_DEVICE says why there is none.
     */
    mr_status (*count)(uint32_t *n_out, mr_error *error);

    mr_status (*open)(int32_t id, struct mr_device_handle **handle_out, mr_error *error);
    void (*close)(struct mr_device_handle *handle);
    /*
     * The calling thread, which is one of the library's, works for devices from now on: its
     * captures are relaxed.
     */
    mr_status (*enter)(struct mr_device_handle *handle, mr_error *error);

    /*
     * Page-lock n_slots x slot_bytes from base on for all devices of the kind, before the first
     * copy. If the whole is refused, in pieces that end where slots end. Once per handle, until
     * unpin. MR_ERR_UNSUPPORTED: the system refuses. Copies from and to the memory still work, but
     * their calls may sleep, and may take the bytes at any time up to the copy's end.
     */
    mr_status (*pin)(struct mr_device_handle *handle, void *base, uint64_t slot_bytes,
                     uint32_t n_slots, mr_error *error);
    void (*unpin)(struct mr_device_handle *handle);

    mr_status (*alloc)(struct mr_device_handle *handle, uint64_t len_bytes, void **memory_out,
                       mr_error *error);
    void (*free)(struct mr_device_handle *handle, void *memory);

    /*
     * From now on finish runs on a second stream, which nothing orders with the copy stream. The
     * host, where nothing would overlap, does not change. Once per handle.
     */
    mr_status (*split)(struct mr_device_handle *handle, mr_error *error);

    /*
     * On the copy stream; asynchronous if the host's side is pinned. The event after it covers both
     * sides.
     */
    mr_status (*copy_in)(struct mr_device_handle *handle, void *device, const void *host,
                         uint64_t len_bytes, mr_error *error);
    /* On the finishing stream if the handle has one. */
    mr_status (*finish)(struct mr_device_handle *handle, const struct mr_finish_job *job,
                        mr_error *error);

    /*
     * Events keep time and let the host sleep. The functions for events, and check_capture, use
     * only the handle's device. So the caller may pass a handle that it filled in for another
     * device of the kind, which is not open.
     */
    mr_status (*event_create)(struct mr_device_handle *handle, void **event_out, mr_error *error);
    void (*event_destroy)(struct mr_device_handle *handle, void *event);
    /*
     * A default stream means the handle's device. record: MR_ERR_INVALID if the stream is another
     * device's.
     */
    mr_status (*record)(struct mr_device_handle *handle, void *event, void *stream,
                        mr_error *error);
    /* The event may be another device's. */
    mr_status (*wait)(struct mr_device_handle *handle, void *stream, void *event, mr_error *error);
    /*
     * Sleep until what was recorded has ended; returns at once for an event that was never
     * recorded. Never called in the caller's threads.
     */
    mr_status (*sync)(struct mr_device_handle *handle, void *event, mr_error *error);
    /* Time between two events that have ended. */
    mr_status (*elapsed)(struct mr_device_handle *handle, void *begin, void *end, int64_t *ns_out,
                         mr_error *error);
    /*
     * MR_ERR_STATE if the stream is in a capture (NULL: or if a capture of this thread forbids its
     * use).
     */
    mr_status (*check_capture)(struct mr_device_handle *handle, void *stream, mr_error *error);
    /*
     * The device of a stream of the program; for NULL, the calling thread's current device. near
     * (may be NULL): a thread that has chosen no device works on that one meanwhile.
     */
    mr_status (*stream_device)(const struct mr_device_handle *near, const void *stream,
                               int32_t *id_out, mr_error *error);

    /* The NUMA node of the device; -1 if unknown. */
    int32_t (*numa_node)(struct mr_device_handle *handle);
    /* A named range of this thread for a profiler. */
    void (*range_push)(const char *name);
    void (*range_pop)(void);
};

/* The stream of finish. */
static inline void *mr_device_finish_stream(const struct mr_device_handle *handle)
{
    return handle->finish_stream ? handle->finish_stream : handle->copy_stream;
}

extern const struct mr_device_ops mr_device_host;
extern const struct mr_device_ops mr_device_cuda;

/* Ends with NULL. */
extern const struct mr_device_ops *const mr_device_tables[];

/* The table of a kind; NULL if this build has none. */
const struct mr_device_ops *mr_device_find(mr_device_kind kind);

#endif
