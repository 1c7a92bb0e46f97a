/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points of the driver and its devices. */
#include "tests/double/double_machine.h"
#include "tests/double/double_names.h"

#include <stdio.h>
#include <string.h>

static int n_devices(void)
{
    return (int)double_machine()->options.n_devices;
}

static bool is_device(int device)
{
    return device >= 0 && device < n_devices();
}

/* Zero without a driver, which is not a failure. */
cudaError_t cudaDriverGetVersion(int *version)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaDriverGetVersion", NULL, DOUBLE_NO_DRIVER))
        return double_call_end(&call, call.error);
    if (!version)
        return double_call_end(&call, cudaErrorInvalidValue);
    int of = double_machine()->options.driver_version;
    *version = of < 0 ? 0 : of;
    return double_call_end(&call, cudaSuccess);
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaRuntimeGetVersion", NULL, DOUBLE_NO_DRIVER))
        return double_call_end(&call, call.error);
    if (!version)
        return double_call_end(&call, cudaErrorInvalidValue);
    *version = CUDART_VERSION;
    return double_call_end(&call, cudaSuccess);
}

cudaError_t cudaGetDeviceCount(int *count)
{
    struct double_call call;
    bool begun = double_call_begin(&call, "cudaGetDeviceCount", NULL, 0);
    if (count)
        *count = begun ? n_devices() : 0;
    return double_call_end(&call, begun && !count ? cudaErrorInvalidValue : call.error);
}

cudaError_t cudaGetDevice(int *device)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaGetDevice", NULL, 0))
        return double_call_end(&call, call.error);
    if (!device)
        return double_call_end(&call, cudaErrorInvalidValue);
    *device = call.thread->device;
    return double_call_end(&call, cudaSuccess);
}

/*
 * The device becomes current even if it is broken, because this call is the way to leave a broken
 * device.
 */
cudaError_t cudaSetDevice(int device)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaSetDevice", NULL, 0))
        return double_call_end(&call, call.error);
    if (!is_device(device))
        return double_call_end(&call, cudaErrorInvalidDevice);
    call.thread->device = call.thread->chosen = device;
    call.thread->bound = device + 1;
    double_machine()->devices[device].has_context = true;
    return double_call_end(&call, double_machine()->devices[device].broken);
}

/* A domain that no real machine has, so that no entry in /sys matches it. */
cudaError_t cudaDeviceGetPCIBusId(char *id, int len, int device)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaDeviceGetPCIBusId", NULL, 0))
        return double_call_end(&call, call.error);
    if (!is_device(device))
        return double_call_end(&call, cudaErrorInvalidDevice);
    if (!id || len < 13)
        return double_call_end(&call, cudaErrorInvalidValue);
    (void)snprintf(id, (size_t)len, "d0b1:%02x:00.0", (unsigned)device + 1);
    return double_call_end(&call, cudaSuccess);
}

#define DOUBLE_ATTRIBUTE_CASE(name, value, answer)                                                 \
    case value: return answer;

static int find_attribute(enum cudaDeviceAttr attribute)
{
    switch ((int)attribute) {
        DOUBLE_ATTRIBUTES(DOUBLE_ATTRIBUTE_CASE)
    default: return 0;
    }
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaDeviceGetAttribute", NULL, 0))
        return double_call_end(&call, call.error);
    if (!is_device(device))
        return double_call_end(&call, cudaErrorInvalidDevice);
    if (!value)
        return double_call_end(&call, cudaErrorInvalidValue);
    *value = attribute == cudaDevAttrPciBusId ? device + 1 : find_attribute(attribute);
    if (attribute == cudaDevAttrHostRegisterSupported && double_machine()->options.no_registration)
        *value = 0;
    return double_call_end(&call, cudaSuccess);
}

/*
 * The same for a device in all processes, and different for each device. Properties that the double
 * does not have are zero.
 */
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaGetDeviceProperties", NULL, 0))
        return double_call_end(&call, call.error);
    if (!is_device(device))
        return double_call_end(&call, cudaErrorInvalidDevice);
    if (!properties)
        return double_call_end(&call, cudaErrorInvalidValue);
    memset(properties, 0, sizeof *properties);
    (void)snprintf(properties->name, sizeof properties->name, "double of a GPU");
    memcpy(properties->uuid.bytes, "double of a GPU", sizeof properties->uuid.bytes);
    properties->uuid.bytes[15] = (char)(device + 1);
    return double_call_end(&call, cudaSuccess);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaDeviceGetStreamPriorityRange", NULL, DOUBLE_CONTEXT))
        return double_call_end(&call, call.error);
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return double_call_end(&call, cudaSuccess);
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaDeviceCanAccessPeer", NULL, 0))
        return double_call_end(&call, call.error);
    if (!is_device(device) || !is_device(peer))
        return double_call_end(&call, cudaErrorInvalidDevice);
    if (!can)
        return double_call_end(&call, cudaErrorInvalidValue);
    *can = 0;
    return double_call_end(&call, cudaSuccess);
}
