/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors of NCCL and CUDA calls, with a message. NCCL's last error may have several lines, belong
 * to an earlier failure, or be missing. So the message begins with the result's own text, and
 * NCCL's last error only follows it.
 */
#include "dist/nccl/nccl_call.h"

#include "base/error.h"

#include <stdio.h>
#include <string.h>

int32_t mr_nccl_call_cuda(const struct mr_nccl_engine *engine, cudaError_t code, const char *name,
                          mr_error *error)
{
    if (code == cudaSuccess)
        return MR_OK;
    mr_status status = code == cudaErrorMemoryAllocation ? MR_ERR_NO_MEMORY : MR_ERR_DEVICE;
    return mr_error_set(error, status, "cuda:%d: %s: %s (%s)", (int)engine->device, name,
                        cudaGetErrorString(code), cudaGetErrorName(code));
}

int32_t mr_nccl_call_stream(const struct mr_nccl_engine *engine, cudaError_t code, const char *name,
                            mr_error *error)
{
    if (code != cudaErrorInvalidResourceHandle && code != cudaErrorInvalidValue)
        return mr_nccl_call_cuda(engine, code, name, error);
    return mr_error_set(error, MR_ERR_INVALID, "the stream is not one of cuda:%d: %s: %s (%s)",
                        (int)engine->device, name, cudaGetErrorString(code),
                        cudaGetErrorName(code));
}

/* Any of these ends the group, because another rank may have continued. */
static mr_status choose_status(ncclResult_t result)
{
    switch (result) {
    case ncclSuccess: return MR_OK;
    case ncclSystemError:
    case ncclRemoteError: return MR_ERR_PEER;
    default: return MR_ERR_DEVICE;
    }
}

int32_t mr_nccl_call_nccl(ncclComm_t comm, ncclResult_t result, const char *name, mr_error *error)
{
    if (result == ncclSuccess)
        return MR_OK;
    const char *more = comm ? ncclGetLastError(comm) : NULL;
    if (!more)
        more = "";
    more += strspn(more, " \n");
    size_t len = strcspn(more, "\n");
    return mr_error_set(error, choose_status(result), "%s: %s%s%.*s", name,
                        ncclGetErrorString(result), len > 0 ? ": " : "",
                        (int)(len < 400 ? len : 400), more);
}

/* Up to 2.8 a version is major * 1000 + ..., later major * 10000 + ... */
void mr_nccl_call_version(int version, char text_out[MR_NCCL_VERSION_TEXT])
{
    int unit = version < 10000 ? 1000 : 10000;
    snprintf(text_out, MR_NCCL_VERSION_TEXT, "%d.%d.%d", version / unit, version % unit / 100,
             version % 100);
}

int32_t mr_nccl_call_capture(const struct mr_nccl_engine *engine, void *stream, mr_error *error)
{
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    cudaError_t code = cudaStreamIsCapturing(stream, &capture);
    if (code == cudaErrorStreamCaptureImplicit ||
        (code == cudaSuccess && capture != cudaStreamCaptureStatusNone))
        return mr_error_set(
            error, MR_ERR_STATE,
            "the stream is being captured into a graph: collectives cannot be part of one");
    return mr_nccl_call_cuda(engine, code, "cudaStreamIsCapturing", error);
}

int32_t mr_nccl_call_aborted(mr_error *error)
{
    return mr_error_set(error, MR_ERR_CANCELED, "the communicator was aborted");
}
