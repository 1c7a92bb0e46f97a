/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the GPUs. Without a driver nearly every function of the runtime fails. So until a driver is
 * found, only the two functions that work without one are called.
 */
#include "pinned/cuda_find.h"

#include "pinned/cuda_call.h"
#include "pinned/device.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The runtime gives the same error for no driver and for one that is too old. A driver serves every
 * runtime of its major version.
 */
static mr_status driver_error(mr_error *error)
{
    int version = 0;
    if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0)
        return mr_error_set(error, MR_ERR_NO_DEVICE, "no NVIDIA driver");
    return mr_error_set(error, MR_ERR_NO_DEVICE,
                        "the NVIDIA driver supports CUDA %d.%d, this program needs %d.0",
                        version / 1000, version % 1000 / 10, CUDART_VERSION / 1000);
}

static mr_status none_error(mr_error *error)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (!visible)
        return mr_error_set(error, MR_ERR_NO_DEVICE,
                            "no CUDA device (CUDA_VISIBLE_DEVICES is not set)");
    return mr_error_set(error, MR_ERR_NO_DEVICE,
                        "no CUDA device is visible (CUDA_VISIBLE_DEVICES=%.200s)", visible);
}

mr_status mr_cuda_find_count(uint32_t *n_out, mr_error *error)
{
    cudaError_t pending = cudaPeekAtLastError();
    int n = 0;
    cudaError_t code = cudaGetDeviceCount(&n);
    mr_status status = MR_OK;
    if (code == cudaErrorInsufficientDriver)
        status = driver_error(error);
    else if (code == cudaErrorNoDevice || (code == cudaSuccess && n <= 0))
        status = none_error(error);
    else if (code != cudaSuccess)
        status = mr_error_set(error, MR_ERR_NO_DEVICE, "cudaGetDeviceCount: %s (%s)",
                              cudaGetErrorString(code), cudaGetErrorName(code));
    if (pending == cudaSuccess)
        (void)cudaGetLastError();
    if (status == MR_OK)
        *n_out = (uint32_t)n;
    return status;
}

/* Read LOCAL_RANK, with which launchers number the processes of a machine. */
static mr_status find_local(uint32_t n, int32_t *ordinal_out, mr_error *error)
{
    const char *text = getenv("LOCAL_RANK");
    if (!text)
        return mr_error_set(
            error, MR_ERR_NO_DEVICE,
            "cuda:local: %u GPUs are visible and LOCAL_RANK is not set: which one is meant?",
            (unsigned)n);
    char *end;
    unsigned long rank = strtoul(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end)
        return mr_error_set(error, MR_ERR_NO_DEVICE,
                            "cuda:local: LOCAL_RANK is '%.100s', which is not a number", text);
    if (rank >= n)
        return mr_error_set(error, MR_ERR_NO_DEVICE,
                            "cuda:local: LOCAL_RANK is %lu, but only %u GPUs are visible", rank,
                            (unsigned)n);
    *ordinal_out = (int32_t)rank;
    return MR_OK;
}

mr_status mr_cuda_find_ordinal(int32_t id, int32_t *ordinal_out, mr_error *error)
{
    uint32_t n = 0;
    mr_status status = mr_cuda_find_count(&n, error);
    if (status != MR_OK)
        return status;
    if (id == MR_DEVICE_LOCAL && n > 1)
        return find_local(n, ordinal_out, error);
    if (id == MR_DEVICE_LOCAL)
        id = 0;
    if (id < 0 || (uint32_t)id >= n)
        return mr_error_set(error, MR_ERR_NO_DEVICE, "device 'cuda:%d' does not exist; %u visible",
                            (int)id, (unsigned)n);
    *ordinal_out = id;
    return MR_OK;
}

int32_t mr_cuda_find_node(int32_t ordinal)
{
    char path[100] = "/sys/bus/pci/devices/";
    char *bus = path + strlen(path);
    struct mr_cuda_call call = mr_cuda_call_begin_any(ordinal);
    if (call.code == cudaSuccess)
        call.code = cudaDeviceGetPCIBusId(bus, 40, ordinal);
    if (mr_cuda_call_end(&call, ordinal, NULL, "cudaDeviceGetPCIBusId") != MR_OK)
        return -1;
    for (char *c = bus; *c; c++)
        if (*c >= 'A' && *c <= 'F')
            *c += 'a' - 'A';
    strcat(bus, "/numa_node");
    FILE *file = fopen(path, "re");
    int node = -1;
    if (file && fscanf(file, "%d", &node) != 1)
        node = -1;
    if (file)
        (void)fclose(file);
    return node < 0 ? -1 : node;
}
