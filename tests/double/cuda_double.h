/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A double of the CUDA runtime: linked instead of cudart (target mr_cuda_double), with the same
 * entry points and no GPU. This header has the functions that tests call besides those entry
 * points.
 *
 * Streams are queues of operations. Nothing runs by itself: while a thread is inside an entry
 * point, one scheduler runs operations, in virtual time, by a policy and a seed. A copy touches its
 * bytes when it runs; pageable bytes may be taken before.
 *
 * Orders are judged separately, whatever the timing. Every operation has a vector clock, made when
 * the operation is issued from the clocks of its stream, of the issuing thread and of what it waits
 * for. Two accesses to a byte, one of them a write, that are not ordered are reported. Reports are
 * text, valid until double_close().
 *
 * cudaFree() never waits, although CUDA's mostly does: no caller may rely on that, so freeing is
 * judged as a write by the calling thread.
 *
 * Invariant: device pointers are not memory of the process; reading one on the host faults, as with
 * a GPU. double_host_view() gives the address of the bytes.
 */
#ifndef TESTS_DOUBLE_CUDA_DOUBLE_H
#define TESTS_DOUBLE_CUDA_DOUBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cuda_runtime_api.h>

/* ---- the machine ---- */

enum double_policy {
    /* An operation runs only when a thread waits for it, and only with what that wait needs. */
    DOUBLE_LATE,
    /* It runs when it is issued; its end becomes visible when the virtual time is reached. */
    DOUBLE_EARLY,
    /*
     * At each entry point some of the ready operations run, in any order that streams and events
     * allow.
     */
    DOUBLE_RANDOM
};

enum double_threads {
    /*
     * Each call on the double comes after all calls before it, by whichever thread. For real
     * threads, whose synchronisation the double cannot see. Accesses on devices are judged all the
     * same.
     */
    DOUBLE_THREADS_TRUSTED,
    /* Only double_handoff(), double_release() and double_acquire() order host threads. */
    DOUBLE_THREADS_DECLARED
};

#define DOUBLE_MAX_DEVICES 16

/* Zero means the value in brackets. */
struct double_options {
    enum double_policy policy;
    enum double_threads threads;
    uint64_t seed;
    uint32_t n_devices; /* (1) */
    bool no_device;     /* the driver is installed, but there is no device */
    /* (the runtime's) -1: no driver; less than the runtime's: too old. */
    int driver_version;
    uint64_t device_bytes; /* memory of each device (16 GiB) */
    /* A longer cudaHostRegister is refused with cudaErrorMemoryAllocation (no limit). */
    uint64_t registration_bytes;
    /*
     * cudaDevAttrHostRegisterSupported is 0, and cudaHostRegister fails with cudaErrorNotSupported.
     */
    bool no_registration;
    uint64_t page_bytes; /* size of a page (4096): two registrations cannot share a page */
    /* Virtual time of cudaHostRegister, during which every other call waits (none). */
    uint64_t register_mb_per_s;
    /* Its additional time for each page that the process has not mapped yet (none). */
    uint64_t absent_page_ns;
    uint64_t h2d_mb_per_s; /* of copies to a device, one after the other (50,000) */
    uint64_t d2h_mb_per_s; /* (50,000) */
    uint64_t kernel_ns;    /* of every kernel without another duration (10,000) */
    uint64_t call_ns;      /* virtual time of the host for every call (1,000) */
    bool trace;            /* record what ran when, for double_timeline_write() */
};

/*
 * Begin with a new machine; closes the one before. A program that never calls this gets one from
 * the environment, MR_CUDA_DOUBLE="devices=2,policy=late|early|random,seed=7,registration=no" (all
 * optional). If that program ends with reports or leftovers, they are written to stderr and the
 * exit status is 86. Threads: no other thread may be inside an entry point.
 */
void double_open(const struct double_options *options);
/*
 * Run the remaining operations, and report what was not given back (memory, registrations, streams,
 * events, graphs) as left over. Returns the number of all reports; double_report() still has their
 * text.
 */
uint32_t double_close(void);

/*
 * True if this process has made a call that initialises CUDA. Calls in its forked children then
 * fail.
 */
bool double_is_initialised(void);
/* True if a call has made a context on this device. */
bool double_has_context(int device);
/*
 * The device of the calling thread's context, -1 for none. A thread has none before its first call
 * that needs one; that call takes the thread's current device. cudaGetDriverEntryPoint finds
 * cuCtxGetCurrent, cuCtxSetCurrent, cuDeviceGet, cuDevicePrimaryCtxRetain and
 * cuDevicePrimaryCtxRelease.
 */
int double_thread_context(void);
/* In CUDA's headers since 12.5. */
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function,
                                             unsigned int version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *result);

/* ---- findings ---- */

enum double_finding {
    DOUBLE_UNORDERED, /* two accesses without an order */
    /* Memory that was freed, is another device's or too short; a handle that was destroyed; ... */
    DOUBLE_MISUSE,
    DOUBLE_LEFT_OVER, /* found by double_close() */
    DOUBLE_N_FINDINGS
};
uint32_t double_found(enum double_finding kind);
/*
 * One line for each finding (the first 64); "" if there is none. Valid until the next call on the
 * double.
 */
const char *double_report(void);
/* Forget all findings so far. */
void double_forget(void);

/* ---- host threads ---- */

#define DOUBLE_MAX_THREADS 64

/*
 * From now on the calling OS thread acts as host thread i, 0 to 31: with its clock, current device,
 * last error, capture mode, counts and virtual time. Threads that never call this have numbers from
 * 32 on.
 */
void double_as_thread(uint32_t i);
uint32_t double_thread(void);

/* Order all that `from` has done so far before all that `to` does from now on. */
void double_handoff(uint32_t from, uint32_t to);
/*
 * The same through a token, which is any address (a slot, a lock): what releasing threads did
 * before is ordered before what an acquiring thread does after. Tokens collect: a later release
 * does not undo an earlier one.
 */
void double_release(const void *token);
void double_acquire(const void *token);

/*
 * The calling thread reads or writes len bytes of host memory. Judged, and true, if the memory is
 * registered or from cudaHostAlloc. The bytes are not touched.
 */
bool double_host_read(const void *memory, size_t len);
bool double_host_write(void *memory, size_t len);

/* The calling thread works for ns of virtual time; a name puts the work into the timeline. */
void double_host_work(const char *name, uint64_t ns);
uint64_t double_now_ns(void);

/* ---- devices' memory, as the test sees it ---- */

/*
 * The address of the bytes of device memory in this process; NULL if it is not device memory (any
 * more). Reading there is not judged, and shows what has run so far.
 */
void *double_host_view(const void *device);
/* The device of a device pointer; -1 for any other. */
int double_device_of(const void *device);
uint64_t double_device_used(int device);

/* ---- running by hand ---- */

/* Run one ready operation, picked by the seed, whatever the policy; false if there is none. */
bool double_step(void);
/* Run all that can run; what waits for a closed gate stays. Orders nothing. */
void double_run_all(void);

/*
 * ---- kernels of tests. They return what a launch returns: the stream must be the current
 * device's. ----
 */

/* Gets the bytes when the kernel runs, on whatever thread runs it. May not call the double. */
typedef void double_read_fn(void *user, const uint8_t *bytes, size_t len);

/* Reads len bytes, and passes them to read (may be NULL). */
cudaError_t double_launch_read(cudaStream_t stream, const void *device, size_t len,
                               double_read_fn *read, void *user);
/* Reads len bytes, and writes double_sum() of them to *sum_out when it runs. */
cudaError_t double_launch_sum(cudaStream_t stream, const void *device, size_t len,
                              uint64_t *sum_out);
/* Writes len bytes of this value. */
cudaError_t double_launch_fill(cudaStream_t stream, void *device, size_t len, uint8_t value);
/* Reads and writes: adds one to each byte. */
cudaError_t double_launch_add_one(cudaStream_t stream, void *device, size_t len);
/* Takes virtual time and touches nothing. */
cudaError_t double_launch_spin(cudaStream_t stream, uint64_t ns);
/*
 * The next launch of the calling thread takes ns instead of kernel_ns, and has this name in the
 * timeline (NULL: its usual name).
 */
void double_next_launch(const char *name, uint64_t ns);
uint64_t double_sum(const void *bytes, size_t len);

/*
 * Blocks the stream until double_open_gate(gate); a thread that waits for it really sleeps. Gates
 * are 0 to 63 and closed at first.
 */
cudaError_t double_launch_gate(cudaStream_t stream, uint32_t gate);
void double_open_gate(uint32_t gate);

/* A kernel defined by the test: len bytes at each address are read or written when it runs. */
struct double_access {
    void *memory; /* of the stream's device, or registered host memory */
    size_t len;
    bool write;
};
#define DOUBLE_MAX_ACCESSES 8
struct double_kernel {
    const char *name;
    uint64_t ns; /* 0: kernel_ns */
    struct double_access accesses[DOUBLE_MAX_ACCESSES];
    uint32_t n_accesses;
    /*
     * views[i] is the address of the bytes of accesses[i]. Runs under the double's lock and may not
     * call the double; NULL: does nothing.
     */
    void (*run)(void *user, void *const *views);
    void *user;
};
cudaError_t double_launch(cudaStream_t stream, const struct double_kernel *kernel);

/* ---- injected errors ---- */

/*
 * The nth call (1: the next) of a function from now on returns this error and does nothing else. A
 * function that gives something back (cudaFree, cudaEventDestroy, ...) still does so, because
 * CUDA's may return an earlier failure.
 * function  such as "cudaMalloc"; NULL: any function that can fail; DOUBLE_RUN: an operation when
 * it runs on its device, which is an asynchronous failure and breaks the device. Sticky errors
 * (cudaErrorIllegalAddress, cudaErrorLaunchFailure, ...: see double_is_sticky) break the device.
 * Functions that reach no device, such as cudaGetDevice and cudaThreadExchangeStreamCaptureMode,
 * never return a sticky error and do not count.
 */
#define DOUBLE_RUN "run"
void double_fail_at(const char *function, uint64_t nth, cudaError_t error);
/* The same for this call and all later ones. */
void double_fail_from(const char *function, uint64_t nth, cudaError_t error);
/* Inject no more errors. */
void double_fail_never(void);
/* The number of injected errors that were returned. */
uint32_t double_n_failed(void);
/* The function that returned the last of them; NULL before. */
const char *double_failed_in(void);

/* From now on every call that reaches this device returns the error and does nothing else. */
void double_break_device(int device, cudaError_t error);
bool double_is_sticky(cudaError_t error);

/* ---- counts ---- */

#define DOUBLE_ALL_THREADS UINT32_MAX

struct double_counts {
    uint64_t calls; /* of all functions that can fail */
    /*
     * cudaEventSynchronize, cudaStreamSynchronize, cudaDeviceSynchronize, cudaMemcpy, cudaFree,
     * cudaHostUnregister, cudaFreeHost, and copies to pageable memory.
     */
    uint64_t blocking;
    uint64_t pageable; /* copies from or to host memory that is not registered */
    /* Pages that a cudaHostRegister found not mapped yet, and had to map itself. */
    uint64_t absent_pages;
    /* cudaMalloc, cudaHostAlloc, cudaHostRegister, streams, events, graphs. */
    uint64_t allocations;
    uint64_t copies;
    uint64_t bytes_h2d;
    uint64_t bytes_d2h;
    uint64_t bytes_d2d;
    uint64_t kernels;
};
/* Counts since the last mark or double_open(), of calls issued by this thread. */
struct double_counts double_count(uint32_t thread);
void double_mark(void);
/* Calls of one function since the mark, by all threads. */
uint64_t double_calls(const char *function);

/* ---- the timeline (option trace) ---- */

/* Name the row of this stream; NULL is the current device's default stream. */
void double_name_stream(cudaStream_t stream, const char *name);
/*
 * Write what ran as a Chrome trace: a process per device and one for the host, a row per stream and
 * thread.
 */
void double_timeline_write(FILE *file);
/* The same as text, one line each: begin and end in microseconds, row, name. */
void double_timeline_print(FILE *file);

#endif
