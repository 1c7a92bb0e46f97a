/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lays out and maps the start of the slab, and wakes the processes that sleep on its words.
 *
 * Invariant: the sleeper raises its flag and then looks for work; the waker makes work and then
 * looks at the flag. Both use seq_cst order, so at least one of them sees the other.
 */
#include "loader/control.h"

#include "base/checked.h"
#include "base/futex.h"
#include "transforms/image_ops/image_call.h"

uint64_t mr_control_build(void)
{
    const uint64_t parts[] = {MR_VERSION_MAJOR,
                              MR_VERSION_MINOR,
                              MR_VERSION_PATCH,
                              sizeof(struct mr_control),
                              sizeof(struct mr_plan),
                              sizeof(struct mr_worker_record),
                              sizeof(struct mr_record),
                              sizeof(struct mr_slot_layout),
                              sizeof(struct mr_trace_ring),
                              sizeof(struct mr_cache_region),
                              MR_N_CALL_KINDS};
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a over the parts */
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        hash = (hash ^ parts[i]) * UINT64_C(1099511628211);
    return hash;
}

uint64_t mr_control_lay_out(struct mr_control *control, uint32_t n_workers, uint32_t n_slots)
{
    uint32_t entries = 2;
    while (entries < 2 * n_slots)
        entries *= 2;
    control->ring_mask = entries - 1;
    control->records_off = mr_align_up(sizeof *control, 64);
    control->ring_off =
        control->records_off + (uint64_t)n_workers * sizeof(struct mr_worker_record);
    uint64_t end = mr_align_up(control->ring_off + entries * sizeof(uint32_t), 64);
    if (control->with_trace) {
        control->trace_off = end;
        end += (uint64_t)n_workers * sizeof(struct mr_trace_ring);
    }
    control->views_off = end;
    end = mr_align_up(end + 2 * control->n_views * sizeof(struct mr_plan), 64);
    if (control->with_cache) {
        control->cache_off = end;
        end = mr_align_up(end + mr_cache_region_bytes(control->n_samples), 64);
    }
    if (control->substitutes) {
        control->damage_off = end;
        end += 2 * mr_damage_map_bytes(control->n_samples);
    }
    return end;
}

struct mr_shared mr_control_map(uint8_t *base)
{
    struct mr_control *control = (void *)base;
    return (struct mr_shared){.base = base,
                              .control = control,
                              .records = (void *)(base + control->records_off),
                              .ring = (void *)(base + control->ring_off)};
}

mr_status mr_control_attach(const struct mr_slab *slab, struct mr_shared *shared_out,
                            mr_error *error)
{
    const struct mr_control *control = (const void *)slab->base;
    if (slab->len_bytes < sizeof *control || control->magic != MR_CONTROL_MAGIC ||
        control->build != mr_control_build() || control->layout.slab_bytes > slab->len_bytes)
        return mr_error_set(error, MR_ERR_UNSUPPORTED,
                            "the slab is of another build than this worker (%s)", MR_VERSION);
    *shared_out = mr_control_map(slab->base);
    return MR_OK;
}

uint32_t mr_control_connections(const mr_loader_options *options)
{
    uint32_t n_workers = options->num_workers == MR_NO_WORKERS ? 1 : options->num_workers;
    return options->connections > n_workers ? options->connections / n_workers : 1;
}

uint32_t mr_control_read_ahead(const mr_loader_options *options)
{
    uint32_t share = mr_control_connections(options);
    if (options->read_ahead > 0)
        return options->read_ahead;
    return 2 * share < MR_MAX_AHEAD ? 2 * share : MR_MAX_AHEAD;
}

struct mr_slot_view mr_control_slot(const struct mr_shared *shared, uint64_t sequence)
{
    const struct mr_control *control = shared->control;
    uint32_t slot =
        atomic_load_explicit(&shared->ring[sequence & control->ring_mask], memory_order_acquire);
    return mr_slot_at(&control->layout, shared->base, slot);
}

struct mr_plan *mr_control_views(const struct mr_shared *shared)
{
    return shared->control->n_views ? (void *)(shared->base + shared->control->views_off) : NULL;
}

const struct mr_plan *mr_control_plan(const struct mr_shared *shared, uint32_t view)
{
    return view ? &mr_control_views(shared)[view - 1] : &shared->control->plan;
}

const struct mr_plan *mr_control_mixed(const struct mr_shared *shared, uint32_t view)
{
    return view ? &mr_control_views(shared)[shared->control->n_views + view - 1]
                : &shared->control->mixed;
}

struct mr_cache_region *mr_control_cache(const struct mr_shared *shared)
{
    return shared->control->with_cache ? (void *)(shared->base + shared->control->cache_off) : NULL;
}

struct mr_damage_map mr_control_damage(const struct mr_shared *shared, uint64_t epoch)
{
    const struct mr_control *control = shared->control;
    struct mr_damage_map map = {.n_samples = control->n_samples, .tag = (uint32_t)epoch};
    if (control->damage_off)
        map.words = (void *)(shared->base + control->damage_off +
                             epoch % 2 * mr_damage_map_bytes(map.n_samples));
    return map;
}

struct mr_trace_ring *mr_control_trace_ring(const struct mr_shared *shared, uint32_t worker)
{
    if (!shared->control->with_trace)
        return NULL;
    struct mr_trace_ring *rings = (void *)(shared->base + shared->control->trace_off);
    return &rings[worker];
}

static bool any_worker_sleeps(const struct mr_shared *shared)
{
    for (uint32_t i = 0; i < shared->control->n_workers; i++)
        if (atomic_load(&shared->records[i].asleep))
            return true;
    return false;
}

void mr_control_wake_workers(const struct mr_shared *shared)
{
    atomic_fetch_add(&shared->control->work_word, 1);
    if (any_worker_sleeps(shared))
        mr_futex_wake(&shared->control->work_word, UINT32_MAX);
}

void mr_control_wake_host(const struct mr_shared *shared)
{
    atomic_fetch_add(&shared->control->filled_word, 1);
    if (atomic_load(&shared->control->host_waits))
        mr_futex_wake(&shared->control->filled_word, UINT32_MAX);
}
