/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the CUDA runtime's interface that the double has, as lists. Without a toolkit
 * include/cuda_runtime_api.h is made from them; with one, test_double_agrees.c compares them with
 * the toolkit's header.
 */
#ifndef TESTS_DOUBLE_DOUBLE_NAMES_H
#define TESTS_DOUBLE_DOUBLE_NAMES_H

/* X(name, value, text of cudaGetErrorString) */
#define DOUBLE_ERRORS(X)                                                                           \
    X(cudaSuccess, 0, "no error")                                                                  \
    X(cudaErrorInvalidValue, 1, "invalid argument")                                                \
    X(cudaErrorMemoryAllocation, 2, "out of memory")                                               \
    X(cudaErrorInitializationError, 3, "initialization error")                                     \
    X(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                          \
    X(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")                    \
    X(cudaErrorInsufficientDriver, 35,                                                             \
      "CUDA driver version is insufficient for CUDA runtime version")                              \
    X(cudaErrorDevicesUnavailable, 46, "CUDA-capable device(s) is/are busy or unavailable")        \
    X(cudaErrorInvalidDeviceFunction, 98, "invalid device function")                               \
    X(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")                                \
    X(cudaErrorInvalidDevice, 101, "invalid device ordinal")                                       \
    X(cudaErrorNoKernelImageForDevice, 209,                                                        \
      "no kernel image is available for execution on the device")                                  \
    X(cudaErrorECCUncorrectable, 214, "uncorrectable ECC error encountered")                       \
    X(cudaErrorNvlinkUncorrectable, 220,                                                           \
      "uncorrectable NVLink error detected during the execution")                                  \
    X(cudaErrorOperatingSystem, 304, "OS call failed or operation not supported on this OS")       \
    X(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                              \
    X(cudaErrorIllegalState, 401, "the operation cannot be performed in the present state")        \
    X(cudaErrorNotReady, 600, "device not ready")                                                  \
    X(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered")                    \
    X(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch")               \
    X(cudaErrorLaunchTimeout, 702, "the launch timed out and was terminated")                      \
    X(cudaErrorContextIsDestroyed, 709, "context is destroyed")                                    \
    X(cudaErrorAssert, 710, "device-side assert triggered")                                        \
    X(cudaErrorHostMemoryAlreadyRegistered, 712,                                                   \
      "part or all of the requested memory range is already mapped")                               \
    X(cudaErrorHostMemoryNotRegistered, 713,                                                       \
      "pointer does not correspond to a registered memory region")                                 \
    X(cudaErrorHardwareStackError, 714, "hardware stack error")                                    \
    X(cudaErrorIllegalInstruction, 715, "an illegal instruction was encountered")                  \
    X(cudaErrorMisalignedAddress, 716, "misaligned address")                                       \
    X(cudaErrorInvalidAddressSpace, 717, "operation not supported on global/shared address space") \
    X(cudaErrorInvalidPc, 718, "invalid program counter")                                          \
    X(cudaErrorLaunchFailure, 719, "unspecified launch failure")                                   \
    X(cudaErrorNotPermitted, 800, "operation not permitted")                                       \
    X(cudaErrorNotSupported, 801, "operation not supported")                                       \
    X(cudaErrorSystemNotReady, 802, "system not yet initialized")                                  \
    X(cudaErrorSystemDriverMismatch, 803,                                                          \
      "system has unsupported display driver / cuda driver combination")                           \
    X(cudaErrorCompatNotSupportedOnDevice, 804,                                                    \
      "forward compatibility was attempted on non supported HW")                                   \
    X(cudaErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing")  \
    X(cudaErrorStreamCaptureInvalidated, 901,                                                      \
      "operation failed due to a previous error during capture")                                   \
    X(cudaErrorStreamCaptureMerge, 902,                                                            \
      "operation would result in a merge of separate capture sequences")                           \
    X(cudaErrorStreamCaptureUnmatched, 903,                                                        \
      "capture was not ended in the same stream as it began")                                      \
    X(cudaErrorStreamCaptureUnjoined, 904, "capturing stream has unjoined work")                   \
    X(cudaErrorStreamCaptureIsolation, 905,                                                        \
      "dependency created on uncaptured work in another stream")                                   \
    X(cudaErrorStreamCaptureImplicit, 906,                                                         \
      "operation would make the legacy stream depend on a capturing blocking stream")              \
    X(cudaErrorCapturedEvent, 907,                                                                 \
      "operation not permitted on an event last recorded in a capturing stream")                   \
    X(cudaErrorStreamCaptureWrongThread, 908,                                                      \
      "attempt to terminate a thread-local capture sequence from another thread")                  \
    X(cudaErrorUnknown, 999, "unknown error")

/* X(name, value) */
#define DOUBLE_COPY_KINDS(X)                                                                       \
    X(cudaMemcpyHostToHost, 0)                                                                     \
    X(cudaMemcpyHostToDevice, 1)                                                                   \
    X(cudaMemcpyDeviceToHost, 2)                                                                   \
    X(cudaMemcpyDeviceToDevice, 3)                                                                 \
    X(cudaMemcpyDefault, 4)

#define DOUBLE_CAPTURE_STATUSES(X)                                                                 \
    X(cudaStreamCaptureStatusNone, 0)                                                              \
    X(cudaStreamCaptureStatusActive, 1)                                                            \
    X(cudaStreamCaptureStatusInvalidated, 2)

#define DOUBLE_CAPTURE_MODES(X)                                                                    \
    X(cudaStreamCaptureModeGlobal, 0)                                                              \
    X(cudaStreamCaptureModeThreadLocal, 1)                                                         \
    X(cudaStreamCaptureModeRelaxed, 2)

#define DOUBLE_ENTRY_POINTS(X)                                                                     \
    X(cudaDriverEntryPointSuccess, 0)                                                              \
    X(cudaDriverEntryPointSymbolNotFound, 1)                                                       \
    X(cudaDriverEntryPointVersionNotSufficent, 2)

/* The answers of the double's devices. X(name, value, answer) */
#define DOUBLE_ATTRIBUTES(X)                                                                       \
    X(cudaDevAttrMaxThreadsPerBlock, 1, 1024)                                                      \
    X(cudaDevAttrMultiProcessorCount, 16, 132)                                                     \
    X(cudaDevAttrIntegrated, 18, 0)                                                                \
    X(cudaDevAttrCanMapHostMemory, 19, 1)                                                          \
    X(cudaDevAttrComputeMode, 20, 0)                                                               \
    X(cudaDevAttrPciBusId, 33, 0)                                                                  \
    X(cudaDevAttrPciDeviceId, 34, 0)                                                               \
    X(cudaDevAttrAsyncEngineCount, 40, 3)                                                          \
    X(cudaDevAttrUnifiedAddressing, 41, 1)                                                         \
    X(cudaDevAttrPciDomainId, 50, 0)                                                               \
    X(cudaDevAttrComputeCapabilityMajor, 75, 9)                                                    \
    X(cudaDevAttrComputeCapabilityMinor, 76, 0)                                                    \
    X(cudaDevAttrCanUseHostPointerForRegisteredMem, 91, 1)                                         \
    X(cudaDevAttrHostRegisterSupported, 99, 1)                                                     \
    X(cudaDevAttrHostRegisterReadOnlySupported, 113, 1)

/* Macros. */
#define DOUBLE_FLAGS(X)                                                                            \
    X(cudaHostAllocDefault, 0)                                                                     \
    X(cudaHostAllocPortable, 1)                                                                    \
    X(cudaHostAllocMapped, 2)                                                                      \
    X(cudaHostAllocWriteCombined, 4)                                                               \
    X(cudaHostRegisterDefault, 0)                                                                  \
    X(cudaHostRegisterPortable, 1)                                                                 \
    X(cudaHostRegisterMapped, 2)                                                                   \
    X(cudaHostRegisterIoMemory, 4)                                                                 \
    X(cudaHostRegisterReadOnly, 8)                                                                 \
    X(cudaStreamDefault, 0)                                                                        \
    X(cudaStreamNonBlocking, 1)                                                                    \
    X(cudaEventDefault, 0)                                                                         \
    X(cudaEventBlockingSync, 1)                                                                    \
    X(cudaEventDisableTiming, 2)                                                                   \
    X(cudaEventInterprocess, 4)                                                                    \
    X(cudaEventRecordDefault, 0)                                                                   \
    X(cudaEventRecordExternal, 1)                                                                  \
    X(cudaEventWaitDefault, 0)                                                                     \
    X(cudaEventWaitExternal, 1)                                                                    \
    X(cudaEnableDefault, 0)

/* X(return type, name, parameters) */
#define DOUBLE_FUNCTIONS(X)                                                                        \
    X(cudaError_t, cudaDriverGetVersion, (int *version))                                           \
    X(cudaError_t, cudaRuntimeGetVersion, (int *version))                                          \
    X(cudaError_t, cudaGetDeviceCount, (int *count))                                               \
    X(cudaError_t, cudaGetDevice, (int *device))                                                   \
    X(cudaError_t, cudaSetDevice, (int device))                                                    \
    X(cudaError_t, cudaDeviceSynchronize, (void))                                                  \
    X(cudaError_t, cudaDeviceGetPCIBusId, (char *id, int len, int device))                         \
    X(cudaError_t, cudaDeviceGetAttribute,                                                         \
      (int *value, enum cudaDeviceAttr attribute, int device))                                     \
    X(cudaError_t, cudaGetDeviceProperties, (struct cudaDeviceProp * properties, int device))      \
    X(cudaError_t, cudaDeviceGetStreamPriorityRange, (int *least, int *greatest))                  \
    X(cudaError_t, cudaDeviceCanAccessPeer, (int *can, int device, int peer))                      \
    X(cudaError_t, cudaGetDriverEntryPoint,                                                        \
      (const char *symbol, void **function, unsigned long long flags,                              \
       enum cudaDriverEntryPointQueryResult *result))                                              \
    X(cudaError_t, cudaGetDriverEntryPointByVersion,                                               \
      (const char *symbol, void **function, unsigned int version, unsigned long long flags,        \
       enum cudaDriverEntryPointQueryResult *result))                                              \
    X(cudaError_t, cudaMemGetInfo, (size_t * free, size_t * total))                                \
    X(cudaError_t, cudaMalloc, (void **memory, size_t len))                                        \
    X(cudaError_t, cudaFree, (void *memory))                                                       \
    X(cudaError_t, cudaHostRegister, (void *memory, size_t len, unsigned int flags))               \
    X(cudaError_t, cudaHostUnregister, (void *memory))                                             \
    X(cudaError_t, cudaHostAlloc, (void **memory, size_t len, unsigned int flags))                 \
    X(cudaError_t, cudaMallocHost, (void **memory, size_t len))                                    \
    X(cudaError_t, cudaFreeHost, (void *memory))                                                   \
    X(cudaError_t, cudaMemcpy, (void *to, const void *from, size_t len, enum cudaMemcpyKind kind)) \
    X(cudaError_t, cudaMemcpyAsync,                                                                \
      (void *to, const void *from, size_t len, enum cudaMemcpyKind kind, cudaStream_t stream))     \
    X(cudaError_t, cudaMemset, (void *memory, int value, size_t len))                              \
    X(cudaError_t, cudaMemsetAsync, (void *memory, int value, size_t len, cudaStream_t stream))    \
    X(cudaError_t, cudaStreamCreate, (cudaStream_t * stream))                                      \
    X(cudaError_t, cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned int flags))         \
    X(cudaError_t, cudaStreamCreateWithPriority,                                                   \
      (cudaStream_t * stream, unsigned int flags, int priority))                                   \
    X(cudaError_t, cudaStreamDestroy, (cudaStream_t stream))                                       \
    X(cudaError_t, cudaStreamSynchronize, (cudaStream_t stream))                                   \
    X(cudaError_t, cudaStreamQuery, (cudaStream_t stream))                                         \
    X(cudaError_t, cudaStreamGetDevice, (cudaStream_t stream, int *device))                        \
    X(cudaError_t, cudaStreamWaitEvent,                                                            \
      (cudaStream_t stream, cudaEvent_t event, unsigned int flags))                                \
    X(cudaError_t, cudaEventCreate, (cudaEvent_t * event))                                         \
    X(cudaError_t, cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned int flags))            \
    X(cudaError_t, cudaEventDestroy, (cudaEvent_t event))                                          \
    X(cudaError_t, cudaEventRecord, (cudaEvent_t event, cudaStream_t stream))                      \
    X(cudaError_t, cudaEventQuery, (cudaEvent_t event))                                            \
    X(cudaError_t, cudaEventSynchronize, (cudaEvent_t event))                                      \
    X(cudaError_t, cudaEventElapsedTime, (float *ms, cudaEvent_t begin, cudaEvent_t end))          \
    X(cudaError_t, cudaStreamIsCapturing,                                                          \
      (cudaStream_t stream, enum cudaStreamCaptureStatus * status))                                \
    X(cudaError_t, cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode * mode))       \
    X(cudaError_t, cudaStreamBeginCapture, (cudaStream_t stream, enum cudaStreamCaptureMode mode)) \
    X(cudaError_t, cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t * graph))               \
    X(cudaError_t, cudaGraphInstantiate,                                                           \
      (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags))                       \
    X(cudaError_t, cudaGraphLaunch, (cudaGraphExec_t exec, cudaStream_t stream))                   \
    X(cudaError_t, cudaGraphDestroy, (cudaGraph_t graph))                                          \
    X(cudaError_t, cudaGraphExecDestroy, (cudaGraphExec_t exec))                                   \
    X(cudaError_t, cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t fn, void *user))         \
    X(cudaError_t, cudaGetLastError, (void))                                                       \
    X(cudaError_t, cudaPeekAtLastError, (void))                                                    \
    X(const char *, cudaGetErrorName, (cudaError_t error))                                         \
    X(const char *, cudaGetErrorString, (cudaError_t error))

#endif
