/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Surrounds calls of the CUDA runtime: the library leaves the calling thread's device, last error
 * and captures as they were, and a failure becomes one line.
 *
 * Invariant: a device is set only if the call needs it and another one is current. Since CUDA 12
 * cudaSetDevice() makes a context of several hundred MB on a device that has none. Setting a thread
 * back to device 0, which it never chose, would make one there from every rank of a node. The
 * library's threads choose their device at their start (device_cuda.c, enter_device); work before
 * that runs in a separate thread. A thread of the program that never chose one (a garbage
 * collector's, a destructor's) has no context: until mr_cuda_call_end() it borrows the context of
 * the device that the call is about.
 */
#ifndef PINNED_CUDA_CALL_H
#define PINNED_CUDA_CALL_H

#include "base/error.h"

#include <cuda_runtime_api.h>

#define MR_CUDA_ANY_DEVICE (-1)

struct mr_cuda_call {
    /* Result of begin, then of the call itself, which is made only if this is cudaSuccess. */
    cudaError_t code;
    const char *failed;              /* the function of begin that failed, else NULL */
    cudaError_t pending;             /* the caller's last error, which stays the caller's */
    enum cudaStreamCaptureMode mode; /* of the caller's thread */
    bool relaxed;
    int previous; /* the caller's device, or MR_CUDA_ANY_DEVICE if it was not changed */
    /* The device whose context the thread has until mr_cuda_call_end(), or MR_CUDA_ANY_DEVICE. */
    int borrowed;
};

/*
 * Until mr_cuda_call_end() this thread may make calls that captures forbid, and they go to that
 * device.
 */
struct mr_cuda_call mr_cuda_call_begin(int32_t device);
/*
 * The same for a call that does not depend on the current device but concerns this device. With
 * MR_CUDA_ANY_DEVICE the device is unknown, and a thread without a context gets that of device 0.
 */
struct mr_cuda_call mr_cuda_call_begin_any(int32_t device);
/*
 * The same for a call with this stream, of this device. The handles 0, 1 and 2 are names for the
 * current device's default streams.
 */
struct mr_cuda_call mr_cuda_call_begin_on(const void *stream, int32_t device);

/*
 * Undo what begin did, also on a failed device, and turn call->code into a status. Its message has
 * the device, what was called (format, which begins with the function's name) and CUDA's message.
 * The caller's pending error stays, unless one of the library's calls replaced it.
 */
mr_status mr_cuda_call_end(const struct mr_cuda_call *call, int32_t device, mr_error *error,
                           const char *format, ...) MR_PRINTF(4, 5);

#endif
