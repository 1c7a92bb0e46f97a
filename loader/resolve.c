/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills in and checks the options: each by itself through option_table.c, and here their
 * combinations.
 */
#include "loader/resolve.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu_share.h"
#include "base/options.h"
#include "dataset/dataset.h"
#include "loader/control.h"
#include "loader/length_buckets.h"
#include "loader/option_table.h"

enum { WORKERS_PER_DEVICE = 4, MIN_DEFAULT_SLOTS = 4, LOCAL_READ_AHEAD = 4 };

static mr_status check_sampling(const mr_loader_options *o, mr_error *error)
{
    if (o->rank >= o->world_size)
        return mr_error_set(error, MR_ERR_INVALID, "rank %u is not below world_size %u", o->rank,
                            o->world_size);
    if (o->tail == MR_TAIL_EXACT && o->drop_last)
        return mr_error_set(error, MR_ERR_INVALID,
                            "the exact tail and drop_last exclude each other");
    if (o->tail == MR_TAIL_EXACT && o->aspect_ratio_groups != 0)
        return mr_error_set(error, MR_ERR_INVALID,
                            "the exact tail and aspect_ratio_groups exclude each other");
    if (o->epoch > UINT64_MAX - o->n_epochs)
        return mr_error_set(error, MR_ERR_INVALID,
                            "epoch %llu plus n_epochs %llu is above 2^64 - 1",
                            (unsigned long long)o->epoch, (unsigned long long)o->n_epochs);
    return MR_OK;
}

/*
 * The default depth. A consumer at full speed holds one or two batches, and one more is ready.
 * Every worker has one sample in decoding and read_ahead more in flight, and must not wait for a
 * release to begin them. More slots use memory and are no faster.
 */
static uint32_t default_slots(const mr_loader_options *o)
{
    uint64_t in_flight = (uint64_t)(o->num_workers == MR_NO_WORKERS ? 0 : o->num_workers) *
                         (1 + mr_control_read_ahead(o));
    uint64_t n = 3 + (in_flight + o->batch_size - 1) / o->batch_size;
    if (n < MIN_DEFAULT_SLOTS)
        return MIN_DEFAULT_SLOTS;
    return n > MR_OPTION_MAX_SLOTS ? MR_OPTION_MAX_SLOTS : (uint32_t)n;
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

static mr_status resolve_start(mr_loader_options *o, bool has_callbacks, mr_error *error)
{
    if (has_callbacks && o->start == MR_START_EXEC)
        return mr_error_set(error, MR_ERR_INVALID,
                            "callbacks need start fork or thread: an exec'd worker lacks the "
                            "program's functions");
    if (o->start == MR_START_DEFAULT)
        o->start = has_callbacks ? MR_START_FORK : MR_START_EXEC;
    return MR_OK;
}

/* Ranks of a mixture take slices: with a periodic order of sources, turns would not mix. */
static mr_status resolve_mixture(mr_loader_options *o, bool is_mixture, mr_error *error)
{
    const char *option = o->mix_order != 0     ? "mix_order"
                         : o->mix_stop != 0    ? "mix_stop"
                         : o->mix_samples != 0 ? "mix_samples"
                                               : NULL;
    const char *excluded = o->repeat != 0                    ? "repeat"
                           : o->weights || o->weight_values  ? "weights of samples"
                           : o->aspect_ratio_groups != 0     ? "aspect_ratio_groups"
                           : o->cache && o->cache[0] != '\0' ? "a cache"
                                                             : NULL;
    if (!is_mixture && option)
        return mr_error_set(error, MR_ERR_INVALID, "%s needs a mixture, a dataset mix:...", option);
    if (is_mixture && excluded)
        return mr_error_set(error, MR_ERR_INVALID, "a mixture and %s exclude each other", excluded);
    if (o->mix_stop != 0 && o->mix_samples != 0)
        return mr_error_set(error, MR_ERR_INVALID, "mix_stop and mix_samples exclude each other");
    o->rank_slices |= is_mixture;
    return MR_OK;
}

static mr_status check_affinity(const mr_loader_options *o, mr_error *error)
{
    if (o->affinity != MR_AFFINITY_LIST)
        return MR_OK;
    if (!o->affinity_cpus || o->n_affinity_cpus == 0)
        return mr_error_set(error, MR_ERR_INVALID, "affinity list without affinity_cpus");
    cpu_set_t set;
    bool known =
        /* fails if the kernel's set is larger than cpu_set_t */
        sched_getaffinity(0, sizeof set, &set) == 0;
    for (uint32_t i = 0; i < o->n_affinity_cpus; i++) {
        int32_t cpu = o->affinity_cpus[i];
        if (cpu < 0 || cpu >= CPU_SETSIZE)
            return mr_error_set(error, MR_ERR_INVALID, "affinity_cpus[%u] %d is not from 0 to %d",
                                i, cpu, CPU_SETSIZE - 1);
        if (known && !CPU_ISSET((size_t)cpu, &set))
            return mr_error_set(error, MR_ERR_INVALID,
                                "affinity_cpus[%u] %d is not among this process's CPUs", i, cpu);
    }
    return MR_OK;
}

mr_status mr_resolve_options(const mr_loader_options *options, const mr_dataset *dataset,
                             mr_loader_options *resolved_out, mr_error *error)
{
    mr_loader_options *o = resolved_out;
    const struct mr_catalog *catalog = mr_dataset_catalog(dataset);
    bool has_callbacks = mr_dataset_callbacks(dataset) != NULL;
    mr_status status = mr_options_copy(o, sizeof *o, options, "mr_loader_options", error);
    if (status == MR_OK)
        status = mr_option_table_resolve(o, error);
    if (status == MR_OK)
        status = check_sampling(o, error);
    if (status == MR_OK)
        status = resolve_start(o, has_callbacks, error);
    if (status == MR_OK)
        status = resolve_mixture(o, catalog && mr_catalog_n_sources(catalog) > 0, error);
    if (status == MR_OK)
        status = check_affinity(o, error);
    if (status == MR_OK && o->pad_channels != 0 && o->finish_on_host)
        status = mr_error_set(error, MR_ERR_INVALID,
                              "pad_channels and finish_on_host exclude each other");
    if (o->read_ahead == 0 && !(catalog && mr_catalog_is_remote(catalog)))
        o->read_ahead = LOCAL_READ_AHEAD;
    if (status == MR_OK && o->cache && o->cache[0] == '\0')
        o->cache = NULL;
    if (status == MR_OK && o->weights && o->weights[0] == '\0')
        o->weights = NULL;
    if (status == MR_OK && o->lengths && o->lengths[0] == '\0')
        o->lengths = NULL;
    return status == MR_OK
               ? mr_length_buckets_check(o, catalog && mr_catalog_n_sources(catalog) > 0, error)
               : status;
}
