/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts of threads, and the few functions of the driver that concern them. The runtime works in
 * the thread's current context. If there is none, it takes that of the device that the thread
 * chose, or of device 0.
 *
 * Invariant: the driver does not know what a thread chose with cudaSetDevice, so unbinding a
 * context does not change that choice.
 */
#include "tests/double/double_machine.h"

#include <string.h>

enum { DRIVER_SUCCESS = 0, DRIVER_INVALID_VALUE = 1, DRIVER_INVALID_CONTEXT = 201 };

void double_driver_need_context(struct double_thread_state *thread)
{
    if (thread->bound == 0)
        thread->bound = thread->device + 1;
    double_machine()->devices[thread->device].has_context = true;
}

bool double_has_context(int device)
{
    double_machine_lock();
    bool has = double_machine()->devices[device].has_context;
    double_machine_unlock();
    return has;
}

int double_thread_context(void)
{
    double_machine_lock();
    int device = double_machine_thread()->bound - 1;
    double_machine_unlock();
    return device;
}

/* A context's handle is the address of its device. */
static void *make_handle(int device)
{
    return &double_machine()->devices[device];
}

static int get_current(void **context_out)
{
    double_machine_lock();
    int bound = double_machine_thread()->bound;
    *context_out = bound > 0 ? make_handle(bound - 1) : NULL;
    double_machine_unlock();
    return DRIVER_SUCCESS;
}

static int find_context(const void *context)
{
    for (int device = 0; device < (int)double_machine()->options.n_devices; device++)
        if (context == make_handle(device) && double_machine()->devices[device].has_context)
            return device;
    return -1;
}

static int set_current(void *context)
{
    double_machine_lock();
    struct double_thread_state *thread = double_machine_thread();
    int device = context ? find_context(context) : thread->chosen;
    if (device >= 0) {
        thread->device = device;
        thread->bound = context ? device + 1 : 0;
    }
    double_machine_unlock();
    return device >= 0 ? DRIVER_SUCCESS : DRIVER_INVALID_CONTEXT;
}

static int get_device(int *device_out, int ordinal)
{
    double_machine_lock();
    bool is = ordinal >= 0 && (uint32_t)ordinal < double_machine()->options.n_devices;
    double_machine_unlock();
    if (!is)
        return DRIVER_INVALID_VALUE;
    *device_out = ordinal;
    return DRIVER_SUCCESS;
}

static int retain(void **context_out, int device)
{
    double_machine_lock();
    double_machine()->devices[device].has_context = true;
    double_machine()->devices[device].n_retained++;
    *context_out = make_handle(device);
    double_machine_unlock();
    return DRIVER_SUCCESS;
}

static int release(int device)
{
    double_machine_lock();
    struct double_device *of = &double_machine()->devices[device];
    bool held = of->n_retained > 0;
    of->n_retained -= held;
    if (!held)
        double_report_add(DOUBLE_MISUSE,
                          "misuse: the context of device %d is released more often than retained",
                          device);
    double_machine_unlock();
    return held ? DRIVER_SUCCESS : DRIVER_INVALID_CONTEXT;
}

void double_driver_left_over(void)
{
    for (uint32_t device = 0; device < double_machine()->options.n_devices; device++)
        if (double_machine()->devices[device].n_retained > 0)
            double_report_add(DOUBLE_LEFT_OVER, "left over: the context of device %u, retained",
                              device);
}

static void *find_function(const char *symbol)
{
    static const struct {
        const char *name;
        void *function;
    } functions[] = {{"cuCtxGetCurrent", (void *)get_current},
                     {"cuCtxSetCurrent", (void *)set_current},
                     {"cuDeviceGet", (void *)get_device},
                     {"cuDevicePrimaryCtxRetain", (void *)retain},
                     {"cuDevicePrimaryCtxRelease", (void *)release}};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(symbol, functions[i].name) == 0)
            return functions[i].function;
    return NULL;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function,
                                             unsigned int version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *result)
{
    struct double_call call;
    (void)version, (void)flags;
    if (!double_call_begin(&call, "cudaGetDriverEntryPoint", NULL, 0))
        return double_call_end(&call, call.error);
    if (!symbol || !function)
        return double_call_end(&call, cudaErrorInvalidValue);
    *function = find_function(symbol);
    if (result)
        *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return double_call_end(&call, cudaSuccess);
}

/* In toolkits before 12.5. */
cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *result)
{
    return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, result);
}
