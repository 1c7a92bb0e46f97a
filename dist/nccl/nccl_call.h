/* SPDX-License-Identifier: Apache-2.0 */
/* The result of an NCCL or CUDA call as a status, with a message in the error. */
#ifndef DIST_NCCL_NCCL_CALL_H
#define DIST_NCCL_NCCL_CALL_H

#include "dist/nccl/nccl_state.h"

int32_t mr_nccl_call_cuda(const struct mr_nccl_engine *engine, cudaError_t code, const char *name,
                          mr_error *error);
/* As above, but a stream of another device is the caller's mistake: MR_ERR_INVALID. */
int32_t mr_nccl_call_stream(const struct mr_nccl_engine *engine, cudaError_t code, const char *name,
                            mr_error *error);
/* comm may be NULL; otherwise its last error is added. Under comm_lock. */
int32_t mr_nccl_call_nccl(ncclComm_t comm, ncclResult_t result, const char *name, mr_error *error);
/* MR_ERR_STATE: the stream is being captured into a graph, so no collective may be put into it. */
int32_t mr_nccl_call_capture(const struct mr_nccl_engine *engine, void *stream, mr_error *error);
int32_t mr_nccl_call_aborted(mr_error *error);
/* "2.28.9", from the number of ncclGetVersion(). */
#define MR_NCCL_VERSION_TEXT 24
void mr_nccl_call_version(int version, char text_out[MR_NCCL_VERSION_TEXT]);

#endif
