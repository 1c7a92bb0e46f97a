/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks CUDA's driver which memory a pointer belongs to, if this process has loaded the driver. A
 * program that never uses CUDA does not load the driver for this.
 *
 * The driver may be loaded after the first query, because the CUDA runtime opens it at its first
 * call. So "no driver" is cached only until the next dlopen, which is cheap to detect.
 */
#include "dist/group/device_pointer.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* From cuda.h; these numbers never change. */
enum { ATTRIBUTE_MEMORY_TYPE = 2, ATTRIBUTE_IS_MANAGED = 8, ATTRIBUTE_DEVICE_ORDINAL = 9 };
enum { MEMORY_HOST = 1, MEMORY_DEVICE = 2, MEMORY_ARRAY = 3 };

/* For an unknown pointer it succeeds and writes zeros. */
typedef int (*get_attributes)(unsigned n, int *attributes, void **data, unsigned long long pointer);

/* The number of libraries that this process has loaded so far. */
static int count_loads(struct dl_phdr_info *info, size_t size, void *loads_out)
{
    (void)size;
    *(unsigned long long *)loads_out = info->dlpi_adds;
    return 1; /* the number is the same in every entry */
}

static get_attributes open_driver(void)
{
    get_attributes function = NULL;
    /* never closed, so that the driver stays loaded */
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void *symbol = driver ? dlsym(driver, "cuPointerGetAttributes") : NULL;
    *(void **)&function = symbol; /* the cast that POSIX gives for dlsym */
    return function;
}

/*
 * NULL: there is no driver. One cache for the process: all threads and groups use the same driver.
 */
static get_attributes find_driver(void)
{
    static _Atomic(get_attributes) found;
    static _Atomic unsigned long long loads_without;
    get_attributes function = atomic_load_explicit(&found, memory_order_acquire);
    unsigned long long loads = 0;
    if (function)
        return function;
    dl_iterate_phdr(count_loads, &loads);
    if (loads == atomic_load_explicit(&loads_without, memory_order_relaxed))
        return NULL;
    function = open_driver();
    if (function)
        atomic_store_explicit(&found, function, memory_order_release);
    else
        atomic_store_explicit(&loads_without, loads, memory_order_relaxed);
    return function;
}

bool mr_device_pointer_look(const void *pointer, struct mr_device_pointer *out)
{
    int attributes[] = {ATTRIBUTE_MEMORY_TYPE, ATTRIBUTE_IS_MANAGED, ATTRIBUTE_DEVICE_ORDINAL};
    uint32_t type = 0;
    uint32_t is_managed = 0;
    int32_t ordinal = 0;
    void *data[] = {&type, &is_managed, &ordinal};
    get_attributes ask = find_driver();
    *out = (struct mr_device_pointer){0};
    if (!ask || ask(sizeof data / sizeof *data, attributes, data, (uintptr_t)pointer) != 0)
        return false; /* also if the driver is loaded but not initialised */
    out->is_managed = is_managed != 0;
    out->is_device = !is_managed && (type == MEMORY_DEVICE || type == MEMORY_ARRAY);
    out->is_pinned = !is_managed && type == MEMORY_HOST;
    out->ordinal = ordinal;
    return true;
}
