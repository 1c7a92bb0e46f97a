/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices' memory and page-locked host memory. A device pointer is an address in a reserved range
 * of the process that cannot be accessed; the bytes are elsewhere.
 *
 * Invariant: addresses are not reused, so a pointer to freed memory is never mistaken for one to
 * later memory.
 */
#include "tests/double/double_machine.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, ALIGNMENT = 256, KEPT_GONE = 1000 };

/* With ThreadSanitizer, 1 << 40 contiguous bytes are available in only about half of the runs. */
static const size_t reserved_bytes = (size_t)1 << 38;

static struct {
    uintptr_t reserved; /* stays until the process ends */
    size_t used;
    struct double_region *regions; /* newest first */
} memory;

/* Made by the system call itself, because sanitizers would intercept so large a mapping. */
static bool reserve(void)
{
    if (memory.reserved)
        return true;
    long at = syscall(SYS_mmap, NULL, reserved_bytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == -1)
        return false;
    memory.reserved = (uintptr_t)at;
    return true;
}

static struct double_region *add_region(int device, uintptr_t base, size_t len, uint8_t *view)
{
    struct double_region *region = double_machine_alloc(sizeof *region);
    region->refs = 1;
    region->device = device;
    region->base = base;
    region->len = len;
    region->view = view;
    double_shadow_init(&region->shadow, len);
    region->next = memory.regions;
    memory.regions = region;
    return region;
}

void double_memory_unref(struct double_region *region)
{
    if (!region || --region->refs > 0)
        return;
    if (region->device != DOUBLE_HOST || region->allocated)
        free(region->view);
    double_shadow_fini(&region->shadow);
    free(region);
}

static void unlink_region(struct double_region *region)
{
    struct double_region **at = &memory.regions;
    while (*at != region)
        at = &(*at)->next;
    *at = region->next;
}

/* Remember for a while that there was a region. */
static void remember(const struct double_region *region)
{
    struct double_region *left = add_region(region->device, region->base, region->len, NULL);
    left->gone = true;
    uint32_t n_gone = 0;
    for (struct double_region **at = &memory.regions; *at;) {
        struct double_region *old = *at;
        if (!old->gone || ++n_gone < KEPT_GONE) {
            at = &old->next;
            continue;
        }
        *at = old->next;
        double_memory_unref(old);
    }
}

/* The region was given back: free its bytes when no operation needs them. */
static void retire(struct double_region *region)
{
    unlink_region(region);
    if (region->device != DOUBLE_HOST)
        remember(region);
    double_memory_unref(region);
}

struct double_region *double_memory_find(const void *address)
{
    uintptr_t at = (uintptr_t)address;
    for (struct double_region *region = memory.regions; region; region = region->next)
        if (at >= region->base && at - region->base < region->len)
            return region;
    return NULL;
}

bool double_memory_is_device(const void *address)
{
    return memory.reserved != 0 && (uintptr_t)address - memory.reserved < reserved_bytes;
}

static struct double_region *find_overlap(uintptr_t base, size_t len)
{
    for (struct double_region *region = memory.regions; region; region = region->next)
        if (region->device == DOUBLE_HOST && base < region->base + region->len &&
            region->base < base + len)
            return region;
    return NULL;
}

cudaError_t double_memory_alloc(int device, size_t len, void **memory_out)
{
    struct double_device *of = &double_machine()->devices[device];
    size_t rounded = (len + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (rounded < len || rounded > double_machine()->options.device_bytes - of->used ||
        !reserve() || rounded + ALIGNMENT > reserved_bytes - memory.used)
        return cudaErrorMemoryAllocation;
    uint8_t *view = aligned_alloc(ALIGNMENT, rounded);
    if (!view)
        return cudaErrorMemoryAllocation;
    memset(view, 0xdb, len); /* memory that was never written is not zero */
    uintptr_t base = memory.reserved + memory.used;
    memory.used += rounded + ALIGNMENT; /* a gap after each */
    add_region(device, base, len, view);
    of->used += rounded;
    *memory_out = (void *)base; /* not memory of this process */
    return cudaSuccess;
}

cudaError_t double_memory_locked(int device, const void *address, size_t len,
                                 struct double_region **region_out)
{
    struct double_region *region = find_overlap((uintptr_t)address, len > 0 ? len : 1);
    *region_out = NULL;
    if (!region)
        return cudaSuccess;
    uintptr_t at = (uintptr_t)address;
    if (at < region->base || len > region->len - (at - region->base)) {
        double_report_add(DOUBLE_MISUSE,
                          "misuse: a copy of %zu bytes at %p is not within one registration", len,
                          address);
        return cudaErrorInvalidValue;
    }
    if (region->portable || region->home == device)
        *region_out = region;
    return cudaSuccess;
}

static cudaError_t refuse(int device, const void *address, size_t len, const char *what,
                          const struct double_region *region)
{
    if (!region)
        double_report_add(DOUBLE_MISUSE, "misuse: %s on device %d of %p, which is no device memory",
                          what, device, address);
    else if (region->gone)
        double_report_add(DOUBLE_MISUSE, "misuse: %s on device %d of %p, which was freed", what,
                          device, address);
    else if (region->device != device && region->device != DOUBLE_HOST)
        double_report_add(DOUBLE_MISUSE, "misuse: %s on device %d of %p, which is device %d's",
                          what, device, address, region->device);
    else
        double_report_add(DOUBLE_MISUSE,
                          "misuse: %s of %zu bytes at %p, past the end of %zu bytes at %p", what,
                          len, address, region->len, (void *)region->base);
    return cudaErrorInvalidValue;
}

cudaError_t double_memory_touch(int device, const void *address, size_t len, bool write,
                                const char *what, struct double_touch *touch_out)
{
    struct double_region *region = double_memory_find(address);
    bool mine = region && !region->gone &&
                (region->device == device ||
                 (region->device == DOUBLE_HOST && (region->portable || region->home == device)));
    size_t offset = region ? (uintptr_t)address - region->base : 0;
    if (!mine || len > region->len - offset)
        return refuse(device, address, len, what, region);
    region->refs++;
    *touch_out = (struct double_touch){.region = region,
                                       .view = region->view + offset,
                                       .offset = offset,
                                       .len = len,
                                       .write = write};
    return cudaSuccess;
}

/*
 * The calling thread ends a region: all accesses must have come before. Not judged on a broken
 * device, where waiting was impossible.
 */
static void judge_end(struct double_region *region, bool for_hosts, const char *name)
{
    if (!double_machine_is_broken())
        double_shadow_end(region, for_hosts, double_machine_epoch(name),
                          double_machine_clock(NULL));
}

/*
 * CUDA's cudaFree may wait for the device, but need not. This one never waits and orders nothing,
 * so an operation that still uses the memory is reported. The bytes stay until the issued
 * operations have run.
 */
static cudaError_t free_device(void *address)
{
    struct double_region *region = double_memory_find(address);
    if (!region || region->gone || region->device == DOUBLE_HOST ||
        region->base != (uintptr_t)address) {
        double_report_add(DOUBLE_MISUSE, "misuse: cudaFree of %p, which %s", address,
                          region && region->gone ? "was freed before" : "is no device memory");
        return cudaErrorInvalidValue;
    }
    judge_end(region, false, "cudaFree");
    size_t rounded = (region->len + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    double_machine()->devices[region->device].used -= rounded;
    retire(region);
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **address, size_t len)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaMalloc", NULL,
                           DOUBLE_CONTEXT | DOUBLE_ALLOCATES | DOUBLE_UNSAFE))
        return double_call_end(&call, call.error);
    cudaError_t error = cudaErrorInvalidValue;
    if (address) {
        *address = NULL;
        error = len > 0 ? double_memory_alloc(call.thread->device, len, address) : cudaSuccess;
    }
    return double_call_end(&call, error);
}

cudaError_t cudaFree(void *address)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaFree", address,
                           DOUBLE_CONTEXT | DOUBLE_RELEASES | DOUBLE_BLOCKS | DOUBLE_UNSAFE))
        return double_call_end(&call, call.error);
    return double_call_end(&call, address ? free_device(address) : cudaSuccess);
}

/*
 * Whole pages are locked. All threads lose that time, because the driver holds its locks meanwhile.
 */
static void take_registration_time(const void *address, size_t len)
{
    const struct double_options *options = &double_machine()->options;
    struct double_thread_state *thread = double_machine_thread();
    uint64_t n_absent = double_pages_absent(address, len);
    uint64_t ns = n_absent * options->absent_page_ns;
    if (options->register_mb_per_s > 0)
        ns += len * 1000 / options->register_mb_per_s;
    thread->counts.absent_pages += n_absent;
    thread->now_ns += ns;
    for (uint32_t i = 0; i < DOUBLE_MAX_THREADS; i++)
        if (double_machine()->threads[i].known &&
            double_machine()->threads[i].now_ns < thread->now_ns)
            double_machine()->threads[i].now_ns = thread->now_ns;
}

static cudaError_t register_host(int home, void *address, size_t len, unsigned flags)
{
    const struct double_options *options = &double_machine()->options;
    uintptr_t base = (uintptr_t)address;
    uintptr_t first_page = base & ~(uintptr_t)(options->page_bytes - 1);
    if (!address || len == 0 || base + len < base || flags > 15)
        return cudaErrorInvalidValue;
    if (options->no_registration)
        return cudaErrorNotSupported;
    size_t n_pages = (base + len - first_page + options->page_bytes - 1) / options->page_bytes;
    if (find_overlap(first_page, n_pages * options->page_bytes))
        return cudaErrorHostMemoryAlreadyRegistered;
    if (options->registration_bytes > 0 && len > options->registration_bytes)
        return cudaErrorMemoryAllocation;
    if (base != first_page)
        double_report_add(DOUBLE_MISUSE,
                          "misuse: cudaHostRegister of %p, which is no page's beginning", address);
    take_registration_time(address, len);
    struct double_region *region = add_region(DOUBLE_HOST, base, len, address);
    region->portable = flags & cudaHostRegisterPortable;
    region->home = home;
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *address, size_t len, unsigned int flags)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaHostRegister", NULL,
                           DOUBLE_CONTEXT | DOUBLE_ALLOCATES | DOUBLE_UNSAFE))
        return double_call_end(&call, call.error);
    return double_call_end(&call, register_host(call.thread->device, address, len, flags));
}

static cudaError_t give_host_back(void *address, bool allocated, const char *name)
{
    struct double_region *region = double_memory_find(address);
    if (!region || region->device != DOUBLE_HOST || region->base != (uintptr_t)address ||
        region->allocated != allocated) {
        double_report_add(DOUBLE_MISUSE,
                          "misuse: %s of %p, which is not the beginning of such memory", name,
                          address);
        return allocated ? cudaErrorInvalidValue : cudaErrorHostMemoryNotRegistered;
    }
    judge_end(region, allocated, name);
    double_schedule_finish_region(region);
    retire(region);
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *address)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaHostUnregister", NULL,
                           DOUBLE_CONTEXT | DOUBLE_RELEASES | DOUBLE_BLOCKS | DOUBLE_UNSAFE))
        return double_call_end(&call, call.error);
    return double_call_end(&call, give_host_back(address, false, "cudaHostUnregister"));
}

static cudaError_t alloc_host(int home, void **address_out, size_t len)
{
    if (!address_out)
        return cudaErrorInvalidValue;
    *address_out = NULL;
    if (len == 0)
        return cudaSuccess;
    if (len > SIZE_MAX - PAGE)
        return cudaErrorMemoryAllocation;
    uint8_t *view = aligned_alloc(PAGE, (len + PAGE - 1) / PAGE * PAGE);
    if (!view)
        return cudaErrorMemoryAllocation;
    struct double_region *region = add_region(DOUBLE_HOST, (uintptr_t)view, len, view);
    region->allocated = true;
    region->portable = true; /* with unified addresses all of it is portable */
    region->home = home;
    *address_out = view;
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **address, size_t len, unsigned int flags)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaHostAlloc", NULL,
                           DOUBLE_CONTEXT | DOUBLE_ALLOCATES | DOUBLE_UNSAFE))
        return double_call_end(&call, call.error);
    return double_call_end(&call, flags > 7 ? cudaErrorInvalidValue
                                            : alloc_host(call.thread->device, address, len));
}

cudaError_t cudaMallocHost(void **address, size_t len)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaMallocHost", NULL,
                           DOUBLE_CONTEXT | DOUBLE_ALLOCATES | DOUBLE_UNSAFE))
        return double_call_end(&call, call.error);
    return double_call_end(&call, alloc_host(call.thread->device, address, len));
}

cudaError_t cudaFreeHost(void *address)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaFreeHost", NULL,
                           DOUBLE_CONTEXT | DOUBLE_RELEASES | DOUBLE_BLOCKS | DOUBLE_UNSAFE))
        return double_call_end(&call, call.error);
    return double_call_end(&call,
                           address ? give_host_back(address, true, "cudaFreeHost") : cudaSuccess);
}

cudaError_t cudaMemGetInfo(size_t *free_out, size_t *total_out)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaMemGetInfo", NULL, DOUBLE_CONTEXT))
        return double_call_end(&call, call.error);
    if (!free_out || !total_out)
        return double_call_end(&call, cudaErrorInvalidValue);
    *total_out = double_machine()->options.device_bytes;
    *free_out = *total_out - double_machine()->devices[call.thread->device].used;
    return double_call_end(&call, cudaSuccess);
}

void double_memory_left_over(void)
{
    for (struct double_region *region = memory.regions; region; region = region->next) {
        if (region->gone)
            continue;
        if (region->device != DOUBLE_HOST)
            double_report_add(DOUBLE_LEFT_OVER, "left over: %zu bytes on device %d", region->len,
                              region->device);
        else
            double_report_add(DOUBLE_LEFT_OVER, "left over: %zu bytes of host memory, %s",
                              region->len, region->allocated ? "allocated" : "registered");
    }
}

void double_memory_reset(void)
{
    while (memory.regions) {
        struct double_region *region = memory.regions;
        memory.regions = region->next;
        double_memory_unref(region);
    }
    memory.used = 0;
}

void *double_host_view(const void *device)
{
    double_machine_lock();
    struct double_region *region = double_memory_find(device);
    void *view = region && region->device != DOUBLE_HOST && !region->gone
                     ? region->view + ((uintptr_t)device - region->base)
                     : NULL;
    double_machine_unlock();
    return view;
}

int double_device_of(const void *device)
{
    double_machine_lock();
    struct double_region *region = double_memory_find(device);
    int of = region && !region->gone ? region->device : DOUBLE_HOST;
    double_machine_unlock();
    return of;
}

uint64_t double_device_used(int device)
{
    double_machine_lock();
    uint64_t used = double_machine()->devices[device].used;
    double_machine_unlock();
    return used;
}

static bool host_access(const void *address, size_t len, bool write)
{
    double_machine_lock();
    struct double_region *region = double_memory_find(address);
    bool judged = region && region->device == DOUBLE_HOST;
    if (judged) {
        size_t begin = (uintptr_t)address - region->base;
        size_t room = region->len - begin;
        double_shadow_touch(region, begin, begin + (len < room ? len : room), write,
                            double_machine_epoch("the test"), double_machine_clock(NULL));
    }
    double_machine_unlock();
    return judged;
}

bool double_host_read(const void *address, size_t len)
{
    return host_access(address, len, false);
}

bool double_host_write(void *address, size_t len)
{
    return host_access(address, len, true);
}
