/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Not NCCL's: only the names that are used here, for builds of the tests on machines without NCCL.
 * What is built with it can only be linked with the double of NCCL.
 */
#ifndef TESTS_DOUBLE_INCLUDE_NCCL_H
#define TESTS_DOUBLE_INCLUDE_NCCL_H

#include <cuda_runtime_api.h>
#include <limits.h>
#include <stddef.h>

#include "tests/double/double_nccl_names.h"

#define NCCL_MAJOR 2
#define NCCL_MINOR 18
#define NCCL_PATCH 0
#define NCCL_VERSION(X, Y, Z) ((X)*10000 + (Y)*100 + (Z))
#define NCCL_VERSION_CODE NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH)
#define NCCL_UNIQUE_ID_BYTES 128
#define NCCL_CONFIG_UNDEF_INT INT_MIN

#define DOUBLE_NCCL_ENUMERATOR(name, value, ...) name = value,

typedef enum { DOUBLE_NCCL_RESULTS(DOUBLE_NCCL_ENUMERATOR) } ncclResult_t;
typedef enum { DOUBLE_NCCL_OPS(DOUBLE_NCCL_ENUMERATOR) } ncclRedOp_t;
typedef enum { DOUBLE_NCCL_TYPES(DOUBLE_NCCL_ENUMERATOR) } ncclDataType_t;

typedef struct ncclComm *ncclComm_t;
typedef struct {
    char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

/* As in 2.18, whose fields later versions have in the same places. */
typedef struct {
    size_t size;
    unsigned int magic;
    unsigned int version;
    int blocking;
    int cgaClusterSize;
    int minCTAs;
    int maxCTAs;
    const char *netName;
    int splitShare;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                    \
    {                                                                                              \
        sizeof(ncclConfig_t), 0xcafebeef, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_INT,                \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NULL,             \
            NCCL_CONFIG_UNDEF_INT                                                                  \
    }

#ifdef __cplusplus
extern "C" {
#endif

#define DOUBLE_NCCL_PROTOTYPE(type, name, parameters) type name parameters;
DOUBLE_NCCL_FUNCTIONS(DOUBLE_NCCL_PROTOTYPE)

#ifdef __cplusplus
}
#endif

#endif
