/* SPDX-License-Identifier: Apache-2.0 */
/* A loader's statistics and small getters. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/public_struct.h"
#include "dataset/dataset.h"
#include "loader/epoch.h"
#include "loader/loader.h"

/*
 * Take the host's lock, but not in a forked child: another thread may have held it at the fork, and
 * the child's copy of the host does not change.
 */
static bool lock_host(const mr_loader *loader)
{
    return loader->host->pid == getpid() && pthread_mutex_lock(&loader->host->lock) == 0;
}

static void unlock_host(const mr_loader *loader, bool locked)
{
    if (locked)
        pthread_mutex_unlock(&loader->host->lock);
}

uint64_t mr_loader_n_batches(const mr_loader *loader)
{
    if (!loader)
        return 0;
    bool locked = lock_host(loader);
    if (locked)
        mr_epoch_await_rows(loader->host);
    uint64_t n = loader->host->n_batches;
    unlock_host(loader, locked);
    return n;
}

int64_t mr_loader_n_samples(const mr_loader *loader)
{
    if (!loader)
        return 0;
    const mr_loader_options *o = &loader->host->options;
    bool locked = lock_host(loader);
    if (locked)
        mr_epoch_await_rows(loader->host);
    int64_t n = mr_sampler_length(loader->host->sampler);
    unlock_host(loader, locked);
    return o->drop_last ? n - n % o->batch_size : n;
}

uint64_t mr_loader_epoch(const mr_loader *loader)
{
    if (!loader)
        return 0;
    bool locked = lock_host(loader);
    uint64_t epoch = loader->host->epoch;
    unlock_host(loader, locked);
    return epoch;
}

const mr_loader_options *mr_loader_resolved(const mr_loader *loader)
{
    return loader ? &loader->host->options : NULL;
}

static double busy_share(const struct mr_worker_record *record, uint64_t elapsed_ns)
{
    double share = elapsed_ns > 0 ? (double)atomic_load(&record->busy_ns) / (double)elapsed_ns : 0;
    return share > 1 ? 1 : share; /* workers begin a little before the first call of next() */
}

static void add_worker(const struct mr_worker_record *record, mr_loader_stats *s,
                       uint32_t n_workers)
{
    s->read_ns += atomic_load(&record->read_ns);
    s->decode_ns += atomic_load(&record->decode_ns);
    s->transform_ns += atomic_load(&record->transform_ns);
    s->wait_ns += atomic_load(&record->wait_ns);
    s->bytes_read += atomic_load(&record->bytes_read);
    s->n_cached += atomic_load(&record->n_cached);
    double share = busy_share(record, s->elapsed_ns);
    s->busy_share_mean += share / n_workers;
    s->busy_share_min = share < s->busy_share_min ? share : s->busy_share_min;
    s->busy_share_max = share > s->busy_share_max ? share : s->busy_share_max;
}

static uint32_t count_ready(const struct mr_host *host)
{
    uint64_t staged = host->placement.lends_slots ? host->head : host->staged;
    uint32_t n = (uint32_t)(staged - host->head);
    for (uint64_t sequence = staged; sequence < host->tail; sequence++) {
        struct mr_slot_view view = mr_control_slot(&host->shared, sequence);
        n += mr_slot_is_filled(&view);
    }
    return n;
}

static void fill_copies(const struct mr_host *host, mr_loader_stats *s)
{
    const struct mr_copy_totals *c = &host->copies;
    const struct mr_slot_layout *layout = &host->shared.control->layout;
    s->n_buffers = host->placement.lends_slots ? 0 : host->options.n_buffers;
    s->n_copying = host->n_copying;
    s->copying_mean = c->n_issued ? (double)c->sum_copying / (double)c->n_issued : 0;
    s->h2d_bytes = c->bytes;
    s->h2d_ns = c->ns;
    s->n_steps = c->n_steps;
    s->n_steps_ready = c->n_steps_ready;
    s->page_locked_bytes = host->is_page_locked ? layout->data_bytes * layout->n_slots : 0;
    s->ready_share = c->n_steps ? (double)c->n_steps_ready / (double)c->n_steps : 0;
}

static void fill_workers(const mr_loader *loader, mr_loader_stats *s)
{
    const struct mr_shared *shared = &loader->host->shared;
    uint32_t n = shared->control->n_workers;
    uint32_t used = 0;
    s->busy_share_min = 1;
    for (uint32_t i = 0; i < n; i++) {
        add_worker(&shared->records[i], s, n);
        uint32_t letter = atomic_load(&shared->records[i].reader);
        used = letter != 0 && used != 'i' ? letter : used; /* a worker may not have begun yet */
    }
    const struct mr_cache_region *cache = mr_control_cache(shared);
    s->n_packed = cache ? atomic_load(&cache->n_made) : 0;
    const char *reader = mr_dataset_callbacks(loader->dataset) ? "none"
                         : used == 'i'                         ? "io_uring"
                         : used == 'h'                         ? "http"
                                                               : "pread";
    snprintf(s->reader, sizeof s->reader, "%s", reader);
    if (loader->supervisor) {
        s->num_workers = mr_supervisor_n_alive(loader->supervisor);
        s->n_deaths = mr_supervisor_n_deaths(loader->supervisor);
    }
}

/* With the lock held. */
static void fill_waits(const mr_loader *loader, mr_loader_stats *s)
{
    s->n_batches = loader->n_batches;
    s->consumer_wait_ns = loader->consumer_wait_ns;
    s->elapsed_ns = loader->first_next_ns ? mr_clock_now_ns() - loader->first_next_ns : 0;
}

mr_status mr_loader_get_stats(const mr_loader *loader, mr_loader_stats *stats_out)
{
    if (!loader || !stats_out ||
        mr_out_struct_check(stats_out, sizeof *stats_out, "mr_loader_stats", NULL) != MR_OK)
        return MR_ERR_INVALID;
    struct mr_host *host = loader->host;
    if (host->pid != getpid())
        return MR_ERR_STATE;
    mr_loader_stats s = {0};
    pthread_mutex_lock(&host->lock);
    fill_waits(loader, &s);
    s.n_samples = loader->n_samples;
    s.n_damaged = loader->damage.n_seen;
    s.n_damaged_distinct = loader->damage.n_distinct;
    s.n_warnings = loader->n_warnings;
    s.n_ready = count_ready(host);
    s.n_slots = host->options.n_slots;
    fill_copies(host, &s);
    pthread_mutex_unlock(&host->lock);
    fill_workers(loader, &s);
    mr_out_struct_write(stats_out, &s, sizeof s);
    return MR_OK;
}

/* Have the workers waited longer for servers than they have worked? */
static bool is_network_bound(const mr_loader *loader)
{
    const struct mr_shared *shared = &loader->host->shared;
    uint64_t read_ns = 0, busy_ns = 0;
    for (uint32_t i = 0; i < shared->control->n_workers; i++) {
        if (atomic_load(&shared->records[i].reader) == 'h')
            read_ns += atomic_load(&shared->records[i].read_ns);
        busy_ns += atomic_load(&shared->records[i].busy_ns);
    }
    return read_ns > busy_ns;
}

size_t mr_loader_verdict(const mr_loader *loader, char *text_out, size_t size)
{
    mr_loader_stats s = {0};
    if (text_out && size > 0)
        text_out[0] = '\0';
    if (!loader || !lock_host(loader))
        return 0;
    fill_waits(loader, &s);
    unlock_host(loader, true);
    double waited = s.elapsed_ns ? 100.0 * (double)s.consumer_wait_ns / (double)s.elapsed_ns : 0;
    bool network = is_network_bound(loader);
    size = text_out ? size : 0;
    int len;
    if (s.n_batches == 0)
        len = snprintf(text_out, size, "no batch was taken yet");
    else if (waited >= 10)
        len = snprintf(text_out, size,
                       network ? "network-bound: consumer waited %.0f %% of the time, and workers "
                                 "waited for servers"
                               : "loader-bound: consumer waited %.0f %% of the time",
                       waited);
    else
        len = snprintf(text_out, size, "consumer-bound: consumer waited only %.0f %% of the time",
                       waited);
    return len > 0 ? (size_t)len : 0;
}

mr_status mr_loader_damaged(const mr_loader *loader, uint64_t i, mr_error *error_out)
{
    if (!loader || !error_out)
        return MR_ERR_INVALID;
    if (i >= loader->damage.n_named)
        return MR_END;
    *error_out = loader->damage.named[i];
    return MR_OK;
}

uint32_t mr_loader_worker_shares(const mr_loader *loader, double *busy_shares_out, uint32_t n)
{
    if (!loader || loader->host->pid != getpid())
        return 0;
    const struct mr_host *host = loader->host;
    uint32_t n_workers = host->shared.control->n_workers;
    pthread_mutex_lock(&loader->host->lock);
    uint64_t elapsed_ns = loader->first_next_ns ? mr_clock_now_ns() - loader->first_next_ns : 0;
    pthread_mutex_unlock(&loader->host->lock);
    for (uint32_t i = 0; i < n && i < n_workers; i++)
        busy_shares_out[i] = busy_share(&host->shared.records[i], elapsed_ns);
    return n_workers;
}

uint32_t mr_loader_worker_pids(const mr_loader *loader, int64_t *pids_out, uint32_t n)
{
    return loader && loader->supervisor && loader->host->pid == getpid()
               ? mr_supervisor_pids(loader->supervisor, pids_out, n)
               : 0;
}

uint32_t mr_loader_n_lent(const mr_loader *loader)
{
    uint32_t n = 0;
    if (!loader || loader->host->pid != getpid())
        return 0;
    struct mr_host *host = loader->host;
    pthread_mutex_lock(&host->lock);
    for (uint32_t i = 0; i < host->n_batch_objects; i++)
        n += host->batches[i].is_lent;
    pthread_mutex_unlock(&host->lock);
    return n;
}
