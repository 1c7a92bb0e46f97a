/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A double of the CUDA runtime: linked instead of cudart (target mr_cuda_double), with the same
 * entry points and no GPU. This header is what tests call beside those entry points.
 *
 * Streams are queues of operations. Nothing runs by itself: one scheduler runs operations while a
 * thread is inside one of the entry points, in virtual time, by a policy and a seed. A copy touches
 * its bytes when it runs; those of pageable memory may be taken before.
 *
 * Orders are judged separately, whatever the timing. Every operation has a vector clock, made when
 * it is issued from the clocks of its stream, of the issuing thread and of what it waits for. Two
 * accesses to a byte, one of them a write, that are not ordered are reported. Reports are text that
 * is kept until double_close().
 *
 * cudaFree() never waits, although CUDA's mostly does: nothing may rely on it, so freeing is judged
 * as a write by the calling thread.
 *
 * Invariant: device pointers are not memory of the process; reading one on the host faults, as with
 * a GPU. double_host_view() says where the bytes are.
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
    DOUBLE_LATE,  /* an operation runs only when somebody waits for it, and only what that wait
                     needs */
    DOUBLE_EARLY, /* it runs as it is issued; its end is visible when the virtual time has come */
    DOUBLE_RANDOM /* at each entry point some of those that may run do, in any order that streams
                     and events allow */
};

enum double_threads {
    /*
     * Each call on the double is ordered behind all calls before it, by whichever thread: for real
     * threads whose handing over the double cannot see. Accesses on devices are judged all the
     * same.
     */
    DOUBLE_THREADS_TRUSTED,
    /* Host threads are ordered by double_handoff(), double_release() and double_acquire() alone. */
    DOUBLE_THREADS_DECLARED
};

#define DOUBLE_MAX_DEVICES 16

/* Zero means what stands in brackets. */
struct double_options {
    enum double_policy policy;
    enum double_threads threads;
    uint64_t seed;
    uint32_t n_devices;          /* (1) */
    bool no_device;              /* the driver is there, no device is */
    int driver_version;          /* (the runtime's) -1: there is no driver; less than the
                                    runtime's: too old */
    uint64_t device_bytes;       /* memory of each device (16 GiB) */
    uint64_t registration_bytes; /* a longer cudaHostRegister is refused with
                                    cudaErrorMemoryAllocation (no limit) */
    bool no_registration;        /* cudaDevAttrHostRegisterSupported is 0, and cudaHostRegister is
                                    cudaErrorNotSupported */
    uint64_t page_bytes;         /* (4096) of the system: two registrations cannot share a page */
    uint64_t register_mb_per_s;  /* virtual time of cudaHostRegister, in which every other call
                                    waits (none) */
    uint64_t absent_page_ns;     /* more of it for each page that the process has not mapped yet
                                    (none) */
    uint64_t h2d_mb_per_s;       /* (50,000) of a device's copies to it, one after the other */
    uint64_t d2h_mb_per_s;       /* (50,000) */
    uint64_t kernel_ns;          /* (10,000) of every kernel that does not say otherwise */
    uint64_t call_ns;            /* (1,000) virtual time of the host that every call takes */
    bool trace;                  /* keep what ran when, for double_timeline_write() */
};

/*
 * Begin with a new machine; closes the one before. A program that never calls this gets one from
 * the environment, MR_CUDA_DOUBLE="devices=2,policy=late|early|random,seed=7,registration=no" (all
 * optional), and when such a program ends with anything reported or left over, it is said on stderr
 * and the exit status is 86. Threads: no other may be inside an entry point.
 */
void double_open(const struct double_options *options);
/*
 * Everything ends: operations that are left run, then what was not given back (memory,
 * registrations, streams, events, graphs) is reported as left over. Returns how many reports there
 * were in all; double_report() still has the text.
 */
uint32_t double_close(void);

/*
 * Has this process done anything with this machine that initialises CUDA? In its forked children
 * calls then fail.
 */
bool double_is_initialised(void);
/* Has a call made a context on this device? */
bool double_has_context(int device);
/*
 * The device whose context is the calling thread's, -1 for none. A thread has none before its first
 * call that needs one, which takes the thread's current device. cudaGetDriverEntryPoint finds
 * cuCtxGetCurrent, cuCtxSetCurrent, cuDeviceGet, cuDevicePrimaryCtxRetain and
 * cuDevicePrimaryCtxRelease.
 */
int double_thread_context(void);
/* Headers have it since 12.5. */
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function,
                                             unsigned int version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *result);

/* ---- what was found ---- */

enum double_finding {
    DOUBLE_UNORDERED, /* two accesses without an order */
    DOUBLE_MISUSE,    /* memory that was freed, is another device's or too short; a handle that
                         was destroyed; ... */
    DOUBLE_LEFT_OVER, /* by double_close() */
    DOUBLE_N_FINDINGS
};
uint32_t double_found(enum double_finding kind);
/*
 * One line for each (the first 64), "" when nothing was found. Valid until the next call on the
 * double.
 */
const char *double_report(void);
/* Forget what was found so far. */
void double_forget(void);

/* ---- host threads ---- */

#define DOUBLE_MAX_THREADS 64

/*
 * The calling OS thread acts as host thread i, 0 to 31, from now on: its clock, current device,
 * last error, capture mode, counts and virtual time. Threads that never call this have numbers of
 * their own, from 32 on.
 */
void double_as_thread(uint32_t i);
uint32_t double_thread(void);

/* All that `from` has done so far comes before all that `to` does from now on. */
void double_handoff(uint32_t from, uint32_t to);
/*
 * The same by way of a token, any address (a slot, a lock): what the releasing threads did before
 * is ordered before what an acquiring thread does after. Tokens collect: a later release does not
 * undo an earlier one.
 */
void double_release(const void *token);
void double_acquire(const void *token);

/*
 * The calling thread reads or writes len bytes of host memory: judged where the memory is
 * registered or from cudaHostAlloc, and then true. The bytes are not touched.
 */
bool double_host_read(const void *memory, size_t len);
bool double_host_write(void *memory, size_t len);

/* The calling thread works for a while, in virtual time; a name puts it into the timeline. */
void double_host_work(const char *name, uint64_t ns);
uint64_t double_now_ns(void);

/* ---- devices' memory, seen from the test ---- */

/*
 * Where the bytes of device memory are in this process; NULL for what is no device memory (any
 * more). Reading them so is judged by nobody, and shows what has run so far.
 */
void *double_host_view(const void *device);
/* The device of a device pointer; -1 for any other. */
int double_device_of(const void *device);
uint64_t double_device_used(int device);

/* ---- running by hand ---- */

/*
 * Run one operation that may run, picked by the seed, whatever the policy; false when there is
 * none.
 */
bool double_step(void);
/* Run all that may run; what waits for a closed gate stays. Orders nothing. */
void double_run_all(void);

/*
 * ---- kernels of tests. Returns what a launch returns: the stream must be the current device's.
 * ----
 */

/* Sees the bytes when the kernel runs, on whatever thread runs it; may not call the double. */
typedef void double_read_fn(void *user, const uint8_t *bytes, size_t len);

/* Reads len bytes, and tells read (may be NULL). */
cudaError_t double_launch_read(cudaStream_t stream, const void *device, size_t len,
                               double_read_fn *read, void *user);
/* Reads len bytes; *sum_out is written when it runs: double_sum() of them. */
cudaError_t double_launch_sum(cudaStream_t stream, const void *device, size_t len,
                              uint64_t *sum_out);
/* Writes len bytes of this value. */
cudaError_t double_launch_fill(cudaStream_t stream, void *device, size_t len, uint8_t value);
/* Reads and writes: adds one to each byte. */
cudaError_t double_launch_add_one(cudaStream_t stream, void *device, size_t len);
/* Takes virtual time and touches nothing. */
cudaError_t double_launch_spin(cudaStream_t stream, uint64_t ns);
/*
 * The next launch of the calling thread takes ns instead of kernel_ns and is called name in the
 * timeline (NULL: as it is).
 */
void double_next_launch(const char *name, uint64_t ns);
uint64_t double_sum(const void *bytes, size_t len);

/*
 * Stands in the stream until double_open_gate(gate); whoever waits for it sleeps for real. Gates
 * are 0 to 63 and closed at first.
 */
cudaError_t double_launch_gate(cudaStream_t stream, uint32_t gate);
void double_open_gate(uint32_t gate);

/* A kernel as the test writes it: len bytes at each address are read or written when it runs. */
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
     * views[i] is where the bytes of accesses[i] are; runs under the double's lock and may not call
     * it; NULL: nothing. /
     */
    void (*run)(void *user, void *const *views);
    void *user;
};
cudaError_t double_launch(cudaStream_t stream, const struct double_kernel *kernel);

/* ---- errors on purpose ---- */

/*
 * The nth call (1: the next) of a function from now on returns this error and does nothing else; a
 * function that gives something back (cudaFree, cudaEventDestroy, ...) gives it back all the same,
 * as CUDA's may return an earlier failure.
 * function  as in "cudaMalloc"; NULL: any function that can fail; DOUBLE_RUN: an operation as it
 *           runs on its device, which is an asynchronous failure and breaks the device.
 * Sticky errors (cudaErrorIllegalAddress, cudaErrorLaunchFailure, ...: see double_is_sticky) break
 * the device; functions that reach no device, as cudaGetDevice and
 * cudaThreadExchangeStreamCaptureMode, never return one and do not count.
 */
#define DOUBLE_RUN "run"
void double_fail_at(const char *function, uint64_t nth, cudaError_t error);
/* The same for this call and all after it. */
void double_fail_from(const char *function, uint64_t nth, cudaError_t error);
/* No error is to come any more. */
void double_fail_never(void);
/* How many of those errors were returned. */
uint32_t double_n_failed(void);
/* The name of the function that returned the last of them, NULL before. */
const char *double_failed_in(void);

/*
 * From now on every call that reaches this device returns the error; what it had to do is dropped.
 */
void double_break_device(int device, cudaError_t error);
bool double_is_sticky(cudaError_t error);

/* ---- counts ---- */

#define DOUBLE_ALL_THREADS UINT32_MAX

struct double_counts {
    uint64_t calls;        /* of all functions that can fail */
    uint64_t blocking;     /* cudaEventSynchronize, cudaStreamSynchronize, cudaDeviceSynchronize,
                              cudaMemcpy, cudaFree, cudaHostUnregister, cudaFreeHost, and copies
                              to pageable memory */
    uint64_t pageable;     /* copies from or to host memory that is not registered */
    uint64_t absent_pages; /* that a cudaHostRegister found not mapped yet, and had to bring
                              itself */
    uint64_t allocations;  /* cudaMalloc, cudaHostAlloc, cudaHostRegister, streams, events,
                              graphs */
    uint64_t copies;
    uint64_t bytes_h2d;
    uint64_t bytes_d2h;
    uint64_t bytes_d2d;
    uint64_t kernels;
};
/* Since the last mark, or double_open(). By the thread that issued. */
struct double_counts double_count(uint32_t thread);
void double_mark(void);
/* Calls of one function since the mark, by all threads. */
uint64_t double_calls(const char *function);

/* ---- the timeline (option trace) ---- */

/* The row of this stream is called so; NULL is the current device's default stream. */
void double_name_stream(cudaStream_t stream, const char *name);
/*
 * What ran, as a Chrome trace: a process per device and one for the host, a row per stream and
 * thread.
 */
void double_timeline_write(FILE *file);
/* The same as text, a line each: begin and end in microseconds, row, name. */
void double_timeline_print(FILE *file);

#endif
