/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of NCCL's interface that the double has, as lists. Without NCCL include/nccl.h is made
 * from them; with it, test_double_nccl_agrees.c compares them with NCCL's header.
 */
#ifndef TESTS_DOUBLE_DOUBLE_NCCL_NAMES_H
#define TESTS_DOUBLE_DOUBLE_NCCL_NAMES_H

/* X(name, value, text of ncclGetErrorString) */
#define DOUBLE_NCCL_RESULTS(X)                                                                     \
    X(ncclSuccess, 0, "no error")                                                                  \
    X(ncclUnhandledCudaError, 1, "unhandled cuda error (run with NCCL_DEBUG=INFO for details)")    \
    X(ncclSystemError, 2, "unhandled system error (run with NCCL_DEBUG=INFO for details)")         \
    X(ncclInternalError, 3, "internal error - please report this issue to the NCCL developers")    \
    X(ncclInvalidArgument, 4, "invalid argument (run with NCCL_DEBUG=WARN for details)")           \
    X(ncclInvalidUsage, 5, "invalid usage (run with NCCL_DEBUG=WARN for details)")                 \
    X(ncclRemoteError, 6, "remote process exited or there was a network error")                    \
    X(ncclInProgress, 7, "NCCL operation in progress")

/* X(name, value) */
#define DOUBLE_NCCL_OPS(X)                                                                         \
    X(ncclSum, 0)                                                                                  \
    X(ncclProd, 1)                                                                                 \
    X(ncclMax, 2)                                                                                  \
    X(ncclMin, 3)                                                                                  \
    X(ncclAvg, 4)

/* X(name, value, bytes) */
#define DOUBLE_NCCL_TYPES(X)                                                                       \
    X(ncclInt8, 0, 1)                                                                              \
    X(ncclUint8, 1, 1)                                                                             \
    X(ncclInt32, 2, 4)                                                                             \
    X(ncclUint32, 3, 4)                                                                            \
    X(ncclInt64, 4, 8)                                                                             \
    X(ncclUint64, 5, 8)                                                                            \
    X(ncclFloat16, 6, 2)                                                                           \
    X(ncclFloat32, 7, 4)                                                                           \
    X(ncclFloat64, 8, 8)                                                                           \
    X(ncclBfloat16, 9, 2)

/* X(return type, name, parameters) */
#define DOUBLE_NCCL_FUNCTIONS(X)                                                                   \
    X(ncclResult_t, ncclGetVersion, (int *version))                                                \
    X(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * id))                                          \
    X(ncclResult_t, ncclCommInitRankConfig,                                                        \
      (ncclComm_t * comm, int n_ranks, ncclUniqueId id, int rank, ncclConfig_t *config))           \
    X(ncclResult_t, ncclCommInitRank, (ncclComm_t * comm, int n_ranks, ncclUniqueId id, int rank)) \
    X(ncclResult_t, ncclCommFinalize, (ncclComm_t comm))                                           \
    X(ncclResult_t, ncclCommDestroy, (ncclComm_t comm))                                            \
    X(ncclResult_t, ncclCommAbort, (ncclComm_t comm))                                              \
    X(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t * error))                \
    X(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int *count))                            \
    X(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int *device))                        \
    X(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int *rank))                          \
    X(const char *, ncclGetErrorString, (ncclResult_t result))                                     \
    X(const char *, ncclGetLastError, (ncclComm_t comm))                                           \
    X(ncclResult_t, ncclAllReduce,                                                                 \
      (const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op,               \
       ncclComm_t comm, cudaStream_t stream))                                                      \
    X(ncclResult_t, ncclReduce,                                                                    \
      (const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,     \
       ncclComm_t comm, cudaStream_t stream))                                                      \
    X(ncclResult_t, ncclBroadcast,                                                                 \
      (const void *in, void *out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,    \
       cudaStream_t stream))                                                                       \
    X(ncclResult_t, ncclAllGather,                                                                 \
      (const void *in, void *out, size_t count, ncclDataType_t type, ncclComm_t comm,              \
       cudaStream_t stream))                                                                       \
    X(ncclResult_t, ncclReduceScatter,                                                             \
      (const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op,               \
       ncclComm_t comm, cudaStream_t stream))                                                      \
    X(ncclResult_t, ncclSend,                                                                      \
      (const void *in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,               \
       cudaStream_t stream))                                                                       \
    X(ncclResult_t, ncclRecv,                                                                      \
      (void *out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,                    \
       cudaStream_t stream))                                                                       \
    X(ncclResult_t, ncclGroupStart, (void))                                                        \
    X(ncclResult_t, ncclGroupEnd, (void))

#endif
