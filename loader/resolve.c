/* SPDX-License-Identifier: Apache-2.0 */
/* Fills in and checks the options. One function per group: defaults, ranges, and combinations that are refused. */
#include "loader/resolve.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu_share.h"
#include "base/options.h"
#include "dataset/reader.h"

enum { DEFAULT_BATCH = 64, WORKERS_PER_DEVICE = 4, DEFAULT_AHEAD = 4, DEFAULT_LIMIT_MS = 60000, DEFAULT_SLOWDOWN = 25 };
enum {
    MAX_BATCH = 65535,
    MIN_DEFAULT_SLOTS = 4,
    MAX_SLOTS = 1024,
    MAX_AHEAD = 64,
    MAX_BUFFERS = 64,
    DEFAULT_BUFFERS = 3
};
#define DEFAULT_FILE_BYTES (UINT64_C(1) << 30)
#define DEFAULT_PIXELS UINT64_C(178956970)

static mr_status too_big(mr_error *error, const char *name, uint64_t value, uint64_t limit)
{
    return mr_error_set(error, MR_ERR_INVALID, "%s %llu is above the limit of %llu", name, (unsigned long long)value,
                        (unsigned long long)limit);
}

/* A value of zero becomes the default; above the limit is an error. */
static mr_status take_u32(uint32_t *value, uint32_t standard, uint32_t limit, const char *name, mr_error *error)
{
    if (*value == 0)
        *value = standard;
    return *value > limit ? too_big(error, name, *value, limit) : MR_OK;
}

static mr_status take_enum(unsigned value, unsigned last, const char *name, mr_error *error)
{
    if (value > last)
        return mr_error_set(error, MR_ERR_INVALID, "%s %u is not one of 0 to %u", name, value, last);
    return MR_OK;
}

static mr_status check_enums(const mr_loader_options *o, mr_error *error)
{
    mr_status status = take_enum(o->tail, MR_TAIL_EXACT, "tail", error);
    if (status == MR_OK)
        status = take_enum(o->order, MR_ORDER_KEYED, "order", error);
    if (status == MR_OK)
        status = take_enum(o->on_error, MR_ON_ERROR_ZERO, "on_error", error);
    if (status == MR_OK)
        status = take_enum(o->layout, MR_NHWC, "layout", error);
    if (status == MR_OK)
        status = take_enum(o->start, MR_START_THREAD, "start", error);
    if (status == MR_OK)
        status = take_enum(o->reader, mr_reader_last_kind(), "reader", error);
    if (status == MR_OK)
        status = take_enum(o->affinity, MR_AFFINITY_LIST, "affinity", error);
    return status;
}

static mr_status resolve_sampling(mr_loader_options *o, mr_error *error)
{
    mr_status status = take_u32(&o->batch_size, DEFAULT_BATCH, MAX_BATCH, "batch_size", error);
    if (status != MR_OK)
        return status;
    if (o->world_size == 0)
        o->world_size = 1;
    if (o->rank >= o->world_size)
        return mr_error_set(error, MR_ERR_INVALID, "rank %u is not below world_size %u", o->rank, o->world_size);
    if (o->tail == MR_TAIL_EXACT && o->drop_last)
        return mr_error_set(error, MR_ERR_INVALID, "the exact tail and drop_last exclude each other");
    if (o->epoch > UINT64_MAX - o->n_epochs)
        return mr_error_set(error, MR_ERR_INVALID, "epoch %llu and n_epochs %llu are together above 2^64 - 1",
                            (unsigned long long)o->epoch, (unsigned long long)o->n_epochs);
    return MR_OK;
}

/*
 * Default depth: a consumer that takes a batch at full speed holds one or two, one more lies ready, and every worker
 * may have a sample in decoding and read_ahead more in sight without waiting for a release. A slot more than that is
 * memory that is no faster.
 */
static uint32_t default_slots(const mr_loader_options *o)
{
    uint64_t in_sight = (uint64_t)(o->num_workers == MR_NO_WORKERS ? 0 : o->num_workers) * (1 + o->read_ahead);
    uint64_t n = 3 + (in_sight + o->batch_size - 1) / o->batch_size;
    if (n < MIN_DEFAULT_SLOTS)
        return MIN_DEFAULT_SLOTS;
    return n > MAX_SLOTS ? MAX_SLOTS : (uint32_t)n;
}

static uint32_t default_workers(uint32_t n_devices)
{
    struct mr_cpu_share share;
    uint32_t n = WORKERS_PER_DEVICE * n_devices;
    if (n_devices == 0) {
        mr_cpu_share_read(&share);
        n = mr_cpu_share_count(&share);
    }
    return n < MR_MAX_WORKERS ? n : MR_MAX_WORKERS;
}

void mr_resolve_workers(mr_loader_options *o, uint32_t n_devices)
{
    if (o->num_workers == 0)
        o->num_workers = default_workers(n_devices);
    if (o->n_slots == 0)
        o->n_slots = default_slots(o);
}

/* Zeros of num_workers and n_slots stay until the devices are known. */
static mr_status check_workers(mr_loader_options *o, bool has_callbacks, mr_error *error)
{
    if (o->num_workers != MR_NO_WORKERS && o->num_workers > MR_MAX_WORKERS)
        return too_big(error, "num_workers", o->num_workers, MR_MAX_WORKERS);
    mr_status status = take_u32(&o->read_ahead, DEFAULT_AHEAD, MAX_AHEAD, "read_ahead", error);
    if (status == MR_OK && o->n_slots > MAX_SLOTS)
        return too_big(error, "n_slots", o->n_slots, MAX_SLOTS);
    if (status == MR_OK)
        status = take_u32(&o->time_limit_ms, DEFAULT_LIMIT_MS, INT32_MAX, "time_limit_ms", error);
    if (status != MR_OK)
        return status;
    if (o->n_slots == 1)
        return mr_error_set(error, MR_ERR_INVALID, "n_slots %u is below 2", o->n_slots);
    if (o->nice < 0 || o->nice > 19)
        return mr_error_set(error, MR_ERR_INVALID, "nice %d is not from 0 to 19", o->nice);
    if (has_callbacks && o->start == MR_START_EXEC)
        return mr_error_set(error, MR_ERR_INVALID,
                            "callbacks need start fork or thread: an exec'd worker lacks the "
                            "program's functions");
    if (o->start == MR_START_DEFAULT)
        o->start = has_callbacks ? MR_START_FORK : MR_START_EXEC;
    return MR_OK;
}

static mr_status resolve_affinity(const mr_loader_options *o, mr_error *error)
{
    if (o->affinity != MR_AFFINITY_LIST)
        return MR_OK;
    if (!o->affinity_cpus || o->n_affinity_cpus == 0)
        return mr_error_set(error, MR_ERR_INVALID, "affinity list without affinity_cpus");
    cpu_set_t set;
    bool known =
        sched_getaffinity(0, sizeof set, &set) == 0; /* false where the kernel's set is larger than cpu_set_t */
    for (uint32_t i = 0; i < o->n_affinity_cpus; i++) {
        int32_t cpu = o->affinity_cpus[i];
        if (cpu < 0 || cpu >= CPU_SETSIZE)
            return mr_error_set(error, MR_ERR_INVALID, "affinity_cpus[%u] %d is not from 0 to %d", i, cpu,
                                CPU_SETSIZE - 1);
        if (known && !CPU_ISSET((size_t)cpu, &set))
            return mr_error_set(error, MR_ERR_INVALID, "affinity_cpus[%u] %d is not among this process's CPUs", i, cpu);
    }
    return MR_OK;
}

static mr_status resolve_device(mr_loader_options *o, mr_error *error)
{
    mr_status status = take_u32(&o->n_buffers, DEFAULT_BUFFERS, MAX_BUFFERS, "n_buffers", error);
    if (status != MR_OK)
        return status;
    if (o->n_buffers < 2)
        return mr_error_set(error, MR_ERR_INVALID, "n_buffers %u is below 2", o->n_buffers);
    if (o->pad_channels != 0 && o->pad_channels != 4 && o->pad_channels != 8)
        return mr_error_set(error, MR_ERR_INVALID, "pad_channels %u is neither 4 nor 8", o->pad_channels);
    if (o->pad_channels != 0 && o->finish_on_host)
        return mr_error_set(error, MR_ERR_INVALID, "pad_channels and finish_on_host exclude each other");
    return MR_OK;
}

static mr_status resolve_cache(mr_loader_options *o, mr_error *error)
{
    if (o->cache && o->cache[0] == '\0')
        o->cache = NULL;
    if (o->cache_slowdown == MR_CACHE_WHEN_IDLE)
        return MR_OK;
    return take_u32(&o->cache_slowdown, DEFAULT_SLOWDOWN, 100, "cache_slowdown", error);
}

mr_status mr_resolve_options(const mr_loader_options *options, bool has_callbacks, mr_loader_options *resolved_out,
                             mr_error *error)
{
    mr_loader_options *o = resolved_out;
    mr_status status = mr_options_copy(o, sizeof *o, options, error);
    if (status == MR_OK)
        status = check_enums(o, error);
    if (status == MR_OK)
        status = resolve_sampling(o, error);
    if (status == MR_OK)
        status = check_workers(o, has_callbacks, error);
    if (status == MR_OK)
        status = resolve_affinity(o, error);
    if (status == MR_OK)
        status = resolve_device(o, error);
    if (status == MR_OK)
        status = resolve_cache(o, error);
    if (status != MR_OK)
        return status;
    if (o->max_file_bytes == 0)
        o->max_file_bytes = DEFAULT_FILE_BYTES;
    if (o->max_pixels == 0)
        o->max_pixels = DEFAULT_PIXELS;
    return MR_OK;
}
