/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps regions of buckets in a table without a lock, so a worker may be forked at any time.
 *
 * Invariant: an entry that can be seen never changes.
 */
#include "dataset/remote/stores/bucket_region.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { N_ENTRIES = 256, BUCKET_BYTES = 64 };

static struct {
    _Atomic bool is_set;
    char bucket[BUCKET_BYTES];
    char region[MR_STORE_REGION];
} entries[N_ENTRIES];
static _Atomic uint32_t n_taken;

bool mr_bucket_region_find(const char *bucket, char region_out[MR_STORE_REGION])
{
    uint32_t n = atomic_load(&n_taken);
    for (uint32_t i = n < N_ENTRIES ? n : N_ENTRIES; i-- > 0;)
        if (atomic_load_explicit(&entries[i].is_set, memory_order_acquire) &&
            strcmp(entries[i].bucket, bucket) == 0) {
            memcpy(region_out, entries[i].region, MR_STORE_REGION);
            return true;
        }
    return false;
}

void mr_bucket_region_keep(const char *bucket, const char *region)
{
    char known[MR_STORE_REGION];
    if (strlen(bucket) >= BUCKET_BYTES || strlen(region) >= MR_STORE_REGION ||
        atomic_load(&n_taken) >= N_ENTRIES ||
        (mr_bucket_region_find(bucket, known) && strcmp(known, region) == 0))
        return;
    uint32_t i = atomic_fetch_add(&n_taken, 1);
    if (i >= N_ENTRIES)
        return;
    snprintf(entries[i].bucket, BUCKET_BYTES, "%s", bucket);
    snprintf(entries[i].region, MR_STORE_REGION, "%s", region);
    atomic_store_explicit(&entries[i].is_set, true, memory_order_release);
}
