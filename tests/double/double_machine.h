/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the double: the one machine, and what its files call of each other. All of it belongs to
 * the holder of the lock that double_call_begin() or double_machine_lock() takes.
 *
 * An operation refers only to operations that were issued before it, so a thread that waits for one
 * can always run what it needs itself. The double has no threads.
 */
#ifndef TESTS_DOUBLE_DOUBLE_MACHINE_H
#define TESTS_DOUBLE_DOUBLE_MACHINE_H

#include "tests/double/cuda_double.h"

#include <pthread.h>
#include <sys/types.h>

/* ---- double_clock.c: vector clocks ---- */

/* Component i counts the steps of one host thread or stream; those past n are zero. */
struct double_clock {
    uint32_t n;
    uint64_t *at;
};

void double_clock_fini(struct double_clock *clock);
uint64_t double_clock_get(const struct double_clock *clock, uint32_t component);
void double_clock_set(struct double_clock *clock, uint32_t component, uint64_t value);
/* Order everything before `from` before `into` too. */
void double_clock_join(struct double_clock *into, const struct double_clock *from);

/* ---- double_shadow.c: the last accesses to each byte ---- */

/* Step of a stream or host thread; its work and its name, for a report. */
struct double_epoch {
    uint32_t component;
    uint64_t step;
    const char *what;
    const char *who;
    bool of_host;
};

struct double_segment;
struct double_shadow {
    struct double_segment *segments; /* sorted, without gaps or overlaps, from 0 to len */
    uint32_t n;
    uint32_t room;
};

struct double_region;
struct double_thread_state;
void double_shadow_init(struct double_shadow *shadow, size_t len);
void double_shadow_fini(struct double_shadow *shadow);
/* Judge an access to [begin, end) of a region and remember it. */
void double_shadow_touch(struct double_region *region, size_t begin, size_t end, bool write,
                         struct double_epoch who, const struct double_clock *clock);
/*
 * End the region for devices, and with for_hosts also for host threads: their accesses must have
 * come before.
 */
void double_shadow_end(struct double_region *region, bool for_hosts, struct double_epoch who,
                       const struct double_clock *clock);

/* ---- double_memory.c ---- */

enum { DOUBLE_HOST = -1 };

struct double_region {
    struct double_region *next;
    uint32_t refs;  /* one for the list, and one per operation that touches it */
    int device;     /* DOUBLE_HOST: page-locked host memory */
    bool gone;      /* given back */
    bool allocated; /* by cudaHostAlloc */
    bool portable;  /* known to all devices; else to home only */
    int home;
    uintptr_t base;
    size_t len;
    uint8_t *view;
    struct double_shadow shadow;
};

/* One stretch of memory that an operation touches. */
struct double_touch {
    struct double_region *region; /* NULL: pageable, not judged */
    uint8_t *view;
    size_t offset;
    size_t len;
    bool write;
};

struct double_region *double_memory_find(const void *address); /* finds freed regions too */
bool double_memory_is_device(const void *address);             /* by the address alone */
void double_memory_unref(struct double_region *region);
cudaError_t double_memory_alloc(int device, size_t len, void **memory_out);
/* Check that the stretch can be used on this device: cudaSuccess, or reported. */
cudaError_t double_memory_touch(int device, const void *address, size_t len, bool write,
                                const char *what, struct double_touch *touch_out);
/*
 * True if the stretch is page-locked for this device. cudaErrorInvalidValue if it crosses the end
 * of a registration.
 */
cudaError_t double_memory_locked(int device, const void *address, size_t len,
                                 struct double_region **region_out);

/* ---- double_pages.c ---- */

/* Pages of the stretch that this process has not mapped yet; 0 if the kernel does not tell. */
uint64_t double_pages_absent(const void *address, size_t len);

/* ---- double_driver.c ---- */

/* Give the calling thread a context: its own, else that of its current device. */
void double_driver_need_context(struct double_thread_state *thread);
void double_driver_left_over(void);
void double_memory_left_over(void);
void double_memory_reset(void);

/* ---- double_queue.c: operations, streams and the scheduler ---- */

struct double_stream;
struct double_op;

enum double_kind {
    DOUBLE_OP_NONE,
    DOUBLE_OP_H2D,
    DOUBLE_OP_D2H,
    DOUBLE_OP_D2D,
    DOUBLE_OP_SET,
    DOUBLE_OP_KERNEL,
    DOUBLE_OP_HOST
};

/* What an operation does. payload is the double's own copy. */
struct double_work {
    enum double_kind kind;
    const char *name; /* lives as long as the machine */
    uint64_t ns;      /* DOUBLE_OP_NONE: none */
    struct double_touch touches[DOUBLE_MAX_ACCESSES];
    uint32_t n_touches;
    void (*run)(void *payload, void *const *views);
    void *payload;
    size_t payload_len;
    /* DOUBLE_OP_HOST: called with payload, which is not copied, and without the lock. */
    cudaHostFn_t host;
    int gate; /* -1: none */
    /* May be NULL. The operation does not run before this is true; it is set under the lock. */
    const bool *when;
    /* may be NULL; called before the payload is freed, whether it has run or not */
    void (*drop)(void *payload);
};

#define DOUBLE_NO_GATE (-1)

struct double_op {
    uint32_t refs;
    struct double_work work;
    struct double_stream *stream;
    struct double_op *next; /* in the stream's queue */
    struct double_op **after;
    uint32_t n_after;
    struct double_clock clock; /* everything that comes before its end */
    uint64_t step;
    uint64_t issue_ns;
    uint64_t begin_ns;
    uint64_t end_ns;
    uint32_t n_queries;
    bool done;
    bool running;
};

struct double_capture;

/* A stream's handle is its address. Records stay until the machine is closed. */
struct double_stream {
    struct double_stream *next;
    uint32_t number; /* in order of creation, from 1; 0 is a default stream */
    int device;
    bool legacy;
    bool blocking; /* synchronises with the legacy stream */
    bool hidden;   /* a lane of a graph, or the default stream of another thread */
    bool destroyed;
    uint32_t component;
    struct double_clock clock; /* of its last operation */
    struct double_op *head;    /* not yet run */
    struct double_op *last;    /* issued last, whether it has run or not; a reference */
    uint64_t last_end_ns;
    struct double_capture *capture;
    uint32_t lane; /* its lane in the capture */
    int32_t tail;  /* its last node in the capture, -1 before the first */
    char name[24];
};

/*
 * The stream of a handle, for the calling thread; NULL after cudaErrorInvalidResourceHandle, which
 * was reported.
 */
struct double_stream *double_queue_stream(cudaStream_t handle);
struct double_stream *double_queue_first(void);
void double_queue_forget_after(struct double_op *op);
int double_queue_device(const void *handle); /* -1 if it is not a stream's */
struct double_stream *double_queue_create(int device, bool blocking);
/*
 * Issue work after the stream, the thread and the operations in after, or add it to the stream's
 * capture. Takes over work->payload and the references in its touches, also on failure. op_out (may
 * be NULL): a reference, NULL if it was captured.
 */
cudaError_t double_queue_issue(struct double_stream *stream, struct double_work *work,
                               struct double_op *const *after, uint32_t n_after,
                               struct double_op **op_out);
/* The same without regard to captures. */
struct double_op *double_queue_push(struct double_stream *stream, struct double_work *work,
                                    struct double_op *const *after, uint32_t n_after);
void double_queue_drop_work(struct double_work *work);
void double_queue_ref(struct double_op *op);
void double_queue_unref(struct double_op *op);

/* ---- double_schedule.c ---- */

/*
 * Run until it has ended, and order the calling thread after it. Meanwhile the machine may be
 * unlocked; it is locked on return.
 */
void double_schedule_wait(struct double_op *op);
void double_schedule_wait_device(int device);
/* Run all that was issued to the device; orders nothing. */
void double_schedule_finish_device(int device);
/* Run all that touches the region; orders nothing. */
void double_schedule_finish_region(const struct double_region *region);
/*
 * is_over: true if it has ended, as far as the calling thread can know, and orders the thread after
 * it. seems_over: only asks. NULL has ended.
 */
bool double_schedule_is_over(struct double_op *op);
bool double_schedule_seems_over(const struct double_op *op);
/*
 * Wait for all that was issued to a stream; for the default stream, also for what it is ordered
 * with.
 */
void double_schedule_wait_stream(struct double_stream *stream);
bool double_schedule_is_stream_over(struct double_stream *stream);
/* Run operations as the policy decides. */
void double_schedule_pump(void);
/*
 * Run it and what it needs as far as possible; orders nothing. (Devices make progress by
 * themselves.)
 */
void double_schedule_advance(struct double_op *op);
/* The device is broken: end its waiting operations without running them. */
void double_schedule_abandon(int device);
void double_queue_left_over(void);
void double_queue_reset(void);

/* ---- double_event.c ---- */

void double_event_left_over(void);
void double_event_reset(void);
int double_event_device(const void *handle);

/* ---- double_capture.c, double_graph.c ---- */

#define DOUBLE_MAX_LANES 16

struct double_node {
    struct double_work work;
    uint32_t lane;
    int32_t after; /* a node of another lane, or -1 */
    /* The last node of each lane that comes before this node's end, or -1. */
    int32_t seen[DOUBLE_MAX_LANES];
};

struct double_graph {
    struct double_graph *next;
    bool destroyed;
    bool is_exec;
    int devices[DOUBLE_MAX_LANES];
    uint32_t n_lanes;
    struct double_node *nodes;
    uint32_t n;
    uint32_t room;
    /* Of an executable graph: lane 0 is the stream of the launch. */
    struct double_stream *lanes[DOUBLE_MAX_LANES];
    struct double_op *last; /* the end of its last launch */
};

struct double_capture {
    struct double_capture *next;
    uint64_t id;
    struct double_stream *origin;
    enum cudaStreamCaptureMode mode;
    uint32_t thread;
    bool active;
    bool invalid;
    struct double_graph *graph;
};

/*
 * Check that the calling thread may do what captures forbid. Otherwise
 * cudaErrorStreamCaptureUnsupported, and those captures are invalidated.
 */
cudaError_t double_capture_check_unsafe(void);
/*
 * Check that this stream may be used, in case it is the legacy stream. With invalidate, invalidates
 * the captures otherwise.
 */
cudaError_t double_capture_check_legacy(const struct double_stream *stream, bool invalidate);
/* Check that a stream may be synchronised with or queried: not while it captures. */
cudaError_t double_capture_check_sync(struct double_stream *stream);
cudaError_t double_capture_check_device(int device);
/* Add a node after the stream's last; takes over the work. */
cudaError_t double_capture_add(struct double_stream *stream, struct double_work *work,
                               int32_t after);
/* Make a stream wait for a captured event: the stream joins the capture, or the wait fails. */
cudaError_t double_capture_join(struct double_stream *stream, struct double_capture *capture,
                                int32_t node);
void double_capture_invalidate(struct double_capture *capture);
void double_capture_reset(void);
struct double_graph *double_graph_create(void);
int32_t double_graph_add(struct double_graph *graph, struct double_work *work, uint32_t lane,
                         int32_t previous, int32_t after);
void double_graph_destroy(struct double_graph *graph);
void double_graph_left_over(void);
void double_graph_reset(void);

/* ---- double_kernel.c ---- */

/* Issue a kernel with these accesses, on a stream of the current device; payload is copied. */
cudaError_t double_kernel_issue(cudaStream_t handle, const struct double_access *accesses,
                                uint32_t n, struct double_work *work, const void *payload,
                                size_t len);

/* ---- double_machine.c ---- */

struct double_device {
    cudaError_t broken;
    bool has_context;    /* hundreds of MB; made once per process */
    uint32_t n_retained; /* by cuDevicePrimaryCtxRetain */
    uint64_t used;
    uint64_t engine_free_ns[2]; /* H2D, D2H */
    struct double_stream *legacy;
};

struct double_thread_state {
    bool known;
    char name[24];
    uint32_t component;
    struct double_clock clock;
    int device; /* current device: its context's, else the chosen one */
    int chosen; /* by cudaSetDevice */
    int bound;  /* its context's device + 1; 0: none */
    cudaError_t last_error;
    enum cudaStreamCaptureMode mode;
    uint64_t now_ns;
    struct double_counts counts; /* since the last mark */
    const char *next_name;
    uint64_t next_ns;
    struct double_stream *own_stream[DOUBLE_MAX_DEVICES]; /* cudaStreamPerThread */
};

struct double_machine {
    struct double_options options;
    uint64_t random;
    uint32_t n_components;
    bool gates[64];
    struct double_device devices[DOUBLE_MAX_DEVICES];
    struct double_thread_state threads[DOUBLE_MAX_THREADS];
    pthread_cond_t changed; /* an operation has ended, or a gate was opened */
};

struct double_machine *double_machine(void);
pid_t double_machine_process(void); /* the calling process, also after a fork */
void double_machine_lock(void);
void double_machine_unlock(void);
/* Sleep until another thread wakes it; the machine is unlocked meanwhile. */
void double_machine_sleep(void);
void double_machine_wake(void);
struct double_thread_state *double_machine_thread(void);
uint32_t double_machine_thread_number(void);
bool double_machine_is_broken(void); /* any device */
/* The clock of the calling thread (trusted threads share one), and its component. */
struct double_clock *double_machine_clock(uint32_t *component_out);
struct double_epoch double_machine_epoch(const char *what);
/* The calling thread has given its clock away: what it does from now on is a later step. */
void double_machine_next_step(void);
uint32_t double_machine_component(void);
uint64_t double_machine_random(uint64_t below);
void *double_machine_alloc(size_t len); /* zeroed, never NULL */

void double_machine_break(int device, cudaError_t error);

/* ---- double_report.c ---- */

void double_report_add(enum double_finding kind, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void double_report_reset(void);
uint32_t double_report_count(void);

/* ---- double_call.c: what every entry point begins and ends with ---- */

enum double_call_is {
    DOUBLE_CONTEXT = 1,    /* needs a device that is not broken */
    DOUBLE_RELEASES = 2,   /* is done even if it fails */
    DOUBLE_BLOCKS = 4,     /* counted */
    DOUBLE_ALLOCATES = 8,  /* counted */
    DOUBLE_UNSAFE = 16,    /* forbidden by some captures */
    DOUBLE_NO_DRIVER = 32, /* works without a driver */
    DOUBLE_MAKES_CONTEXT =
        128,            /* makes the current device's context, and does not need a working one */
    DOUBLE_OF_TEST = 64 /* not a function of CUDA: not counted, never made to fail */
};

struct double_call {
    const char *function;
    struct double_thread_state *thread;
    cudaError_t error; /* the call's result, unless the body fails first */
};

/*
 * Locks. False: the call must do nothing. handle: a stream, event or device memory whose device the
 * call concerns, or NULL.
 */
bool double_call_begin(struct double_call *call, const char *function, const void *handle,
                       unsigned is);
/* Unlocks, and sets the last error. */
cudaError_t double_call_end(struct double_call *call, cudaError_t error);
/* The error injected into an operation that runs. */
cudaError_t double_call_run_error(void);
void double_call_reset(void);

/* ---- double_timeline.c ---- */

void double_timeline_op(const struct double_op *op);
void double_timeline_host(const char *name, uint64_t begin_ns, uint64_t end_ns);
void double_timeline_reset(void);

#endif
