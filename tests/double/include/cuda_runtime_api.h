/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Not CUDA's: only the names that are used here, for builds of the tests on machines without a
 * toolkit. What is built with it can only be linked with the double of the CUDA runtime.
 */
#ifndef TESTS_DOUBLE_INCLUDE_CUDA_RUNTIME_API_H
#define TESTS_DOUBLE_INCLUDE_CUDA_RUNTIME_API_H

#include <stddef.h>

#include "tests/double/double_names.h"

#define CUDART_VERSION 13000
#define CUDART_CB

#define DOUBLE_ENUMERATOR(name, value, ...) name = value,

enum cudaError { DOUBLE_ERRORS(DOUBLE_ENUMERATOR) };
enum cudaMemcpyKind { DOUBLE_COPY_KINDS(DOUBLE_ENUMERATOR) };
enum cudaStreamCaptureStatus { DOUBLE_CAPTURE_STATUSES(DOUBLE_ENUMERATOR) };
enum cudaStreamCaptureMode { DOUBLE_CAPTURE_MODES(DOUBLE_ENUMERATOR) };
enum cudaDriverEntryPointQueryResult { DOUBLE_ENTRY_POINTS(DOUBLE_ENUMERATOR) };
enum cudaDeviceAttr { DOUBLE_ATTRIBUTES(DOUBLE_ENUMERATOR) };

#define cudaHostAllocDefault 0x00
#define cudaHostAllocPortable 0x01
#define cudaHostAllocMapped 0x02
#define cudaHostAllocWriteCombined 0x04
#define cudaHostRegisterDefault 0x00
#define cudaHostRegisterPortable 0x01
#define cudaHostRegisterMapped 0x02
#define cudaHostRegisterIoMemory 0x04
#define cudaHostRegisterReadOnly 0x08
#define cudaStreamDefault 0x00
#define cudaStreamNonBlocking 0x01
#define cudaEventDefault 0x00
#define cudaEventBlockingSync 0x01
#define cudaEventDisableTiming 0x02
#define cudaEventInterprocess 0x04
#define cudaEventRecordDefault 0x00
#define cudaEventRecordExternal 0x01
#define cudaEventWaitDefault 0x00
#define cudaEventWaitExternal 0x01
#define cudaEnableDefault 0x00

typedef struct CUuuid_st {
    char bytes[16];
} cudaUUID_t;

/*
 * Two of its fields; a program built with this header is linked with the double, which fills them.
 */
struct cudaDeviceProp {
    char name[256];
    cudaUUID_t uuid;
};

typedef enum cudaError cudaError_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
typedef void(CUDART_CB *cudaHostFn_t)(void *user);

#define cudaStreamLegacy ((cudaStream_t)0x1)
#define cudaStreamPerThread ((cudaStream_t)0x2)

#ifdef __cplusplus
extern "C" {
#endif

#define DOUBLE_PROTOTYPE(type, name, parameters) type name parameters;
DOUBLE_FUNCTIONS(DOUBLE_PROTOTYPE)

#ifdef __cplusplus
}
#endif

#endif
