/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared words of a cache.
 *
 * Invariant: two workers may create a segment at the same time. So a number is assigned by
 * compare-and-swap, and the worker that loses checks the same element again.
 */
#include "cache/cache_region.h"

#include "base/checked.h"

uint64_t mr_cache_region_bytes(int64_t n_samples)
{
    return mr_align_up(sizeof(struct mr_cache_region) + (uint64_t)n_samples * sizeof(uint64_t), 64);
}

int mr_cache_region_number(struct mr_cache_region *region, uint64_t id)
{
    for (uint32_t i = 0; i < MR_CACHE_MAX_SEGMENTS; i++) {
        uint64_t seen = atomic_load_explicit(&region->ids[i], memory_order_relaxed);
        if (seen == 0 && atomic_compare_exchange_strong(&region->ids[i], &seen, id))
            return (int)i;
        if (seen == id)
            return (int)i;
    }
    return -1;
}

void mr_cache_region_stop(struct mr_cache_region *region, enum mr_cache_stop why, int os_error)
{
    uint32_t writing = MR_CACHE_WRITING;
    if (atomic_load(&region->stopped) != MR_CACHE_WRITING)
        return;
    atomic_store_explicit(&region->stop_errno, os_error, memory_order_relaxed);
    atomic_compare_exchange_strong(&region->stopped, &writing, why);
}
