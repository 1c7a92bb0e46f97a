/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks CUDA's driver whose memory a pointer is, if this process has a driver: a program that never
 * uses CUDA does not load it for this.
 *
 * The driver may be loaded after the first question, since the CUDA runtime opens it at its first
 * call. So "no driver" is cached only until the next dlopen, which is cheap to see.
 */
#include "dist/group/device_pointer.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Of cuda.h, whose numbers never change. */
enum { ATTRIBUTE_MEMORY_TYPE = 2, ATTRIBUTE_IS_MANAGED = 8, ATTRIBUTE_DEVICE_ORDINAL = 9 };
enum { MEMORY_HOST = 1, MEMORY_DEVICE = 2, MEMORY_ARRAY = 3 };

/* For a pointer that it does not know it succeeds and leaves zeros. */
typedef int (*get_attributes)(unsigned n, int *attributes, void **data, unsigned long long pointer);

/* How many libraries this process has ever loaded. */
static int read_loads(struct dl_phdr_info *info, size_t size, void *loads_out)
{
    (void)size;
    *(unsigned long long *)loads_out = info->dlpi_adds;
    return 1; /* the same in each of them */
}

static get_attributes open_driver(void)
{
    get_attributes function = NULL;
    /* held from now on, so that it stays */
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void *symbol = driver ? dlsym(driver, "cuPointerGetAttributes") : NULL;
    *(void **)&function = symbol; /* as POSIX has it */
    return function;
}

/* NULL: there is no driver. Of the process: each of its threads and groups sees the same one. */
static get_attributes find_driver(void)
{
    static _Atomic(get_attributes) found;
    static _Atomic unsigned long long loads_without;
    get_attributes function = atomic_load_explicit(&found, memory_order_acquire);
    unsigned long long loads = 0;
    if (function)
        return function;
    dl_iterate_phdr(read_loads, &loads);
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
        return false; /* also a driver that nobody has started */
    out->is_managed = is_managed != 0;
    out->is_device = !is_managed && (type == MEMORY_DEVICE || type == MEMORY_ARRAY);
    out->is_pinned = !is_managed && type == MEMORY_HOST;
    out->ordinal = ordinal;
    return true;
}
