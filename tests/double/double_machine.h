/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the double: the one machine, and what its files call of each other. All of it belongs to
 * the holder of the lock that double_call_begin() or double_machine_lock() takes.
 *
 * An operation refers only to operations that were issued before it, so a thread that waits for one
 * can always run what it needs itself. No part of the double runs in a thread of its own.
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
/* Everything before `from` is before `into` too. */
void double_clock_join(struct double_clock *into, const struct double_clock *from);

/* ---- double_shadow.c: who touched which bytes last ---- */

/* Step of a stream or host thread; what it did and who that is, for a report. */
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
/* Judge an access of [begin, end) of a region and remember it. */
void double_shadow_touch(struct double_region *region, size_t begin, size_t end, bool write,
                         struct double_epoch who, const struct double_clock *clock);
/*
 * The region ends for devices, and for host threads too if so said: what they did must have come
 * before.
 */
void double_shadow_end(struct double_region *region, bool for_hosts, struct double_epoch who,
                       const struct double_clock *clock);

/* ---- double_memory.c ---- */

enum { DOUBLE_HOST = -1 };

struct double_region {
    struct double_region *next;
    uint32_t refs;  /* of the list, and one per operation that touches it */
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
    struct double_region *region; /* NULL: pageable, judged by nobody */
    uint8_t *view;
    size_t offset;
    size_t len;
    bool write;
};

struct double_region *double_memory_find(const void *address); /* also one that is gone */
bool double_memory_is_device(const void *address);             /* by the address alone */
void double_memory_unref(struct double_region *region);
cudaError_t double_memory_alloc(int device, size_t len, void **memory_out);
/* What of the stretch is usable on this device: cudaSuccess, or reported. */
cudaError_t double_memory_touch(int device, const void *address, size_t len, bool write,
                                const char *what, struct double_touch *touch_out);
/*
 * Is the stretch page-locked for this device? cudaErrorInvalidValue when it runs over the end of a
 * registration.
 */
cudaError_t double_memory_locked(int device, const void *address, size_t len,
                                 struct double_region **region_out);

/* ---- double_pages.c ---- */

/* Pages of the stretch that this process has not mapped yet; 0 where the kernel does not say. */
uint64_t double_pages_absent(const void *address, size_t len);

/* ---- double_driver.c ---- */

/* The calling thread needs a context: the one that it has, else that of its current device. */
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
    cudaHostFn_t host; /* DOUBLE_OP_HOST: with payload as its argument, not copied,
                          without the lock */
    int gate;          /* -1: none */
    const bool *when;  /* may be NULL: it does not run before this is true, which is
                          set under the lock */
    /* may be NULL: before the payload goes, whether it was run or not */
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
    struct double_clock clock; /* all that comes before its end */
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
    bool hidden;   /* a lane of a graph, or another thread's default stream */
    bool destroyed;
    uint32_t component;
    struct double_clock clock; /* of its last operation */
    struct double_op *head;    /* not yet run */
    struct double_op *last;    /* issued last, run or not; a reference */
    uint64_t last_end_ns;
    struct double_capture *capture;
    uint32_t lane; /* of the capture */
    int32_t tail;  /* its last node there, -1 before the first */
    char name[24];
};

/*
 * The stream behind a handle for the calling thread; NULL after cudaErrorInvalidResourceHandle,
 * which was reported.
 */
struct double_stream *double_queue_stream(cudaStream_t handle);
struct double_stream *double_queue_first(void);
void double_queue_forget_after(struct double_op *op);
int double_queue_device(const void *handle); /* -1 for what is no stream's */
struct double_stream *double_queue_create(int device, bool blocking);
/*
 * Issue what work says behind the stream, the thread and the operations in after, or note it in the
 * stream's capture. Takes over work->payload and the references in its touches, also on failure.
 * op_out (may be NULL): a reference, NULL for what was captured.
 */
cudaError_t double_queue_issue(struct double_stream *stream, struct double_work *work,
                               struct double_op *const *after, uint32_t n_after,
                               struct double_op **op_out);
/* The same without a look at captures. */
struct double_op *double_queue_push(struct double_stream *stream, struct double_work *work,
                                    struct double_op *const *after, uint32_t n_after);
void double_queue_drop_work(struct double_work *work);
void double_queue_ref(struct double_op *op);
void double_queue_unref(struct double_op *op);

/* ---- double_schedule.c ---- */

/*
 * Run until it has ended; the calling thread is then behind it. The machine is locked again, but
 * was not meanwhile.
 */
void double_schedule_wait(struct double_op *op);
void double_schedule_wait_device(int device);
/* Run all that was given to the device, which orders nothing. */
void double_schedule_finish_device(int device);
/* Run what touches it, which orders nothing. */
void double_schedule_finish_region(const struct double_region *region);
/*
 * Has it ended, as far as the calling thread can know? Then the thread is behind it. The other asks
 * and changes nothing; NULL has ended.
 */
bool double_schedule_is_over(struct double_op *op);
bool double_schedule_seems_over(const struct double_op *op);
/* Of all that was given to a stream; of the default stream with what it is ordered with. */
void double_schedule_wait_stream(struct double_stream *stream);
bool double_schedule_is_stream_over(struct double_stream *stream);
/* Let the policy run what it likes. */
void double_schedule_pump(void);
/*
 * Run it and what it needs as far as that can go on, which orders nothing: devices do get on by
 * themselves.
 */
void double_schedule_advance(struct double_op *op);
/* The device is broken: what waits there ends without having been run. */
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
    int32_t after;                  /* a node of another lane, or -1 */
    int32_t seen[DOUBLE_MAX_LANES]; /* the last node of each lane that comes before this one's
                                       end, or -1 */
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
    struct double_stream *lanes[DOUBLE_MAX_LANES]; /* of an executable: lane 0 is the stream of
                                                      the launch */
    struct double_op *last;                        /* the end of its last launch */
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
 * May the calling thread do what captures forbid? Else cudaErrorStreamCaptureUnsupported, and those
 * captures end.
 */
cudaError_t double_capture_check_unsafe(void);
/*
 * May this stream be used, being or not being the legacy stream? Invalidates when not, if told to.
 */
cudaError_t double_capture_check_legacy(const struct double_stream *stream, bool invalidate);
/* It is synchronised with or queried: not while it captures. */
cudaError_t double_capture_check_sync(struct double_stream *stream);
cudaError_t double_capture_check_device(int device);
/* Add a node behind the stream's last; takes over the work. */
cudaError_t double_capture_add(struct double_stream *stream, struct double_work *work,
                               int32_t after);
/* A stream waits for a captured event: it joins the capture, or the wait fails. */
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
    bool has_context;    /* hundreds of MB, once and for the process */
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
    int device; /* the current one: its context's, else that which it chose */
    int chosen; /* by cudaSetDevice */
    int bound;  /* its context's device + 1; 0: none */
    cudaError_t last_error;
    enum cudaStreamCaptureMode mode;
    uint64_t now_ns;
    struct double_counts counts; /* since the mark */
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
pid_t double_machine_process(void); /* the calling one, also after a fork */
void double_machine_lock(void);
void double_machine_unlock(void);
/* Wait for another thread; the machine is unlocked meanwhile. */
void double_machine_sleep(void);
void double_machine_wake(void);
struct double_thread_state *double_machine_thread(void);
uint32_t double_machine_thread_number(void);
bool double_machine_is_broken(void); /* any device */
/*
 * The clock of the calling thread (that of all of them where they are trusted), and its component.
 */
struct double_clock *double_machine_clock(uint32_t *component_out);
struct double_epoch double_machine_epoch(const char *what);
/* The calling thread has given its clock to somebody: what it does from now on is a later step. */
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
    DOUBLE_CONTEXT = 1,         /* needs a device that is not broken */
    DOUBLE_RELEASES = 2,        /* is done in spite of errors */
    DOUBLE_BLOCKS = 4,          /* counted */
    DOUBLE_ALLOCATES = 8,       /* counted */
    DOUBLE_UNSAFE = 16,         /* forbidden where a capture says so */
    DOUBLE_NO_DRIVER = 32,      /* works without a driver */
    DOUBLE_MAKES_CONTEXT = 128, /* makes the current device's context, and needs none that works */
    DOUBLE_OF_TEST = 64         /* no function of CUDA's: not counted, not made to fail */
};

struct double_call {
    const char *function;
    struct double_thread_state *thread;
    cudaError_t error; /* what it will return, unless the body fails first */
};

/*
 * Locks. False: nothing is to be done. handle: a stream, event or device memory that says whose
 * call it is, or NULL.
 */
bool double_call_begin(struct double_call *call, const char *function, const void *handle,
                       unsigned is);
/* Unlocks, and notes the last error. */
cudaError_t double_call_end(struct double_call *call, cudaError_t error);
/* An operation runs: the error that was ordered for it. */
cudaError_t double_call_run_error(void);
void double_call_reset(void);

/* ---- double_timeline.c ---- */

void double_timeline_op(const struct double_op *op);
void double_timeline_host(const char *name, uint64_t begin_ns, uint64_t end_ns);
void double_timeline_reset(void);

#endif
