/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates and destroys a loader.
 *
 * Invariant: the control block is complete and the first batches are published before the first
 * worker starts, so workers find work at once. The slab's pages are reserved while workers start,
 * by the thread that page-locks them or by a thread for that alone.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/log.h"
#include "base/packed_image.h"
#include "base/thread.h"
#include "dataset/dataset.h"
#include "dataset/reader/file_cache.h"
#include "dataset/remote/stores/credentials.h"
#include "cache/cache_thread.h"
#include "loader/batch.h"
#include "loader/copying.h"
#include "loader/epoch.h"
#include "loader/first_order.h"
#include "loader/plan_split.h"
#include "loader/freeing.h"
#include "loader/loader.h"
#include "loader/numa.h"
#include "loader/device_choice.h"
#include "loader/slab_reserve.h"
#include "loader/ready_fd.h"
#include "loader/resolve.h"
#include "transforms/erase.h"
#include "transforms/mixing/mix_draw.h"
#include "transforms/transform.h"

/* Copied, because the caller's list is valid only during the creation. */
static mr_status copy_cpus(struct mr_host *host, const mr_loader_options *options, mr_error *error)
{
    bool used = options->affinity == MR_AFFINITY_LIST;
    size_t len = used ? options->n_affinity_cpus * sizeof *options->affinity_cpus : 0;
    host->options.n_affinity_cpus = used ? options->n_affinity_cpus : 0;
    host->cpus = used ? malloc(len) : NULL;
    host->options.affinity_cpus = host->cpus;
    if (used && !host->cpus)
        return mr_error_memory(error, len);
    if (used)
        memcpy(host->cpus, options->affinity_cpus, len);
    return MR_OK;
}

/* Copied, for the same reason. *copy_out is the host's. */
static mr_status copy_path(const char **path, char **copy_out, mr_error *error)
{
    const char *text = *path;
    *path = *copy_out = text ? strdup(text) : NULL;
    return text && !*copy_out ? mr_error_memory(error, strlen(text) + 1) : MR_OK;
}

static mr_status make_host(const mr_loader_options *options, struct mr_host **host_out,
                           mr_error *error)
{
    struct mr_host *host = calloc(1, sizeof *host);
    if (!host)
        return mr_error_memory(error, sizeof *host);
    host->n_refs = 1;
    host->pid = getpid();
    host->options = *options;
    host->epoch = options->epoch;
    host->slab.fd = -1;
    pthread_mutex_init(&host->lock, NULL);
    pthread_cond_init(&host->next_epoch_changed, NULL);
    pthread_cond_init(&host->opened_changed, NULL);
    pthread_cond_init(&host->freeing_wanted, NULL);
    *host_out = host;
    mr_status status = mr_device_choice_resolve(host, error);
    if (status == MR_OK)
        mr_resolve_workers(&host->options,
                           host->placement.lends_slots ? 0 : host->placement.n_parts);
    /* other batches are not in the slots */
    host->options.pin_memory &= host->placement.lends_slots;
    if (status == MR_OK)
        status = copy_cpus(host, options, error);
    if (status == MR_OK)
        status = copy_path(&host->options.weights, &host->weights, error);
    return status == MR_OK ? copy_path(&host->options.lengths, &host->lengths, error) : status;
}

/* The CPU that follows this one in the set; after the last comes the first. -1 in an empty set. */
static int32_t next_cpu(const cpu_set_t *set, int32_t cpu)
{
    for (int32_t i = 1; i <= CPU_SETSIZE; i++)
        if (CPU_ISSET((size_t)(cpu + i) % CPU_SETSIZE, set))
            return (cpu + i) % CPU_SETSIZE;
    return -1;
}

static void choose_cpus(struct mr_shared *shared, const mr_loader_options *o)
{
    cpu_set_t set;
    bool spread = o->affinity == MR_AFFINITY_SPREAD && sched_getaffinity(0, sizeof set, &set) == 0;
    int32_t cpu = -1;
    for (uint32_t i = 0; i < shared->control->n_workers; i++) {
        if (o->affinity == MR_AFFINITY_LIST)
            cpu = o->affinity_cpus[i % o->n_affinity_cpus];
        else if (spread)
            cpu = next_cpu(&set, cpu);
        shared->records[i].cpu = cpu;
    }
}

/* Workers that are threads share the program's limit on descriptors. */
static uint32_t share_of_files(const mr_loader_options *o)
{
    if (o->start != MR_START_THREAD || o->num_workers == MR_NO_WORKERS)
        return 0;
    uint32_t share = mr_file_cache_limit() / o->num_workers;
    return share > 0 ? share : 1;
}

static void fill_control(struct mr_control *c, const struct mr_host *host, int64_t n_samples)
{
    const mr_loader_options *o = &host->options;
    c->magic = MR_CONTROL_MAGIC;
    c->build = mr_control_build();
    c->host_pid = host->pid;
    c->options = *o;
    c->n_samples = n_samples;
    /* no other row can take the place of a packed one, whose pieces are in its slot */
    c->holes =
        o->on_error == MR_ON_ERROR_SKIP && (o->tail == MR_TAIL_EXACT || host->pieces != NULL);
    c->substitutes = o->on_error == MR_ON_ERROR_SKIP && !c->holes;
    c->with_trace = host->trace != NULL;
    c->max_files = share_of_files(o);
    c->with_cache = o->cache != NULL;
}

/*
 * Pages of the huge page pool are allocated at once. On a machine of several nodes that is too
 * early: the device's node is not known yet.
 */
static enum mr_slab_pages choose_pages(const mr_loader_options *o)
{
    if (o->no_huge_pages)
        return MR_SLAB_PAGES_SMALL;
    return mr_numa_n_nodes(NULL) > 1 ? MR_SLAB_PAGES_ASKED : MR_SLAB_PAGES_POOL;
}

/* What the views need that are mixed. A device mixes and erases the rows that it finishes. */
static void shape_mixing(const struct mr_host *host, const struct mr_plan *plans,
                         const struct mr_plan *mixed, uint32_t n_views, struct mr_slot_shape *shape)
{
    for (uint32_t i = 0; i < n_views; i++) {
        uint32_t n_pictures = plans[i].view.n_pictures;
        if (mr_erase_is_deferred(&plans[i]))
            shape->erases += n_pictures;
        if (mixed[i].mix.kind == 0)
            continue;
        shape->mixes++;
        shape->mix_rule = mr_mix_draw_rule(mixed[i].mix.kind);
        if (!host->finish.mixes)
            shape->source_bytes += plans[i].out_bytes * n_pictures;
    }
}

/* The control block is drafted first, because the plans' sizes decide the size of the slab. */
static mr_status make_slab(struct mr_host *host, const struct mr_plan *plans,
                           const struct mr_plan *mixed, uint32_t n_views, int64_t n_samples,
                           mr_error *error)
{
    const mr_loader_options *o = &host->options;
    struct mr_control *draft = aligned_alloc(64, sizeof *draft);
    if (!draft)
        return mr_error_memory(error, sizeof *draft);
    memset(draft, 0, sizeof *draft);
    fill_control(draft, host, n_samples);
    draft->plan = *plans;
    draft->mixed = *mixed;
    draft->n_views = n_views - 1;
    draft->n_workers = o->num_workers == MR_NO_WORKERS ? 1 : o->num_workers;
    struct mr_slot_shape shape = {.head_bytes =
                                      mr_control_lay_out(draft, draft->n_workers, o->n_slots),
                                  .n_slots = o->n_slots,
                                  .n_workers = draft->n_workers,
                                  .batch_size = o->batch_size};
    if (host->pieces)
        shape.n_pieces = mr_packing_most_pieces(plans->kind.tokens, plans->kind.pack_window);
    shape_mixing(host, plans, mixed, n_views, &shape);
    mr_status status = mr_columns_declare(host, plans, mixed, n_views, &shape.columns, error);
    if (status == MR_OK)
        status = mr_slot_layout_init(&draft->layout, &shape, error);
    if (status == MR_OK)
        status = mr_slab_create(draft->layout.slab_bytes, choose_pages(o), &host->slab, error);
    if (status == MR_OK) {
        draft->slab_pages = host->slab.pages;
        memcpy(host->slab.base, draft, sizeof *draft);
        host->shared = mr_control_map(host->slab.base);
        if (n_views > 1) {
            struct mr_plan *more = mr_control_views(&host->shared);
            memcpy(more, plans + 1, (n_views - 1) * sizeof *more);
            memcpy(more + n_views - 1, mixed + 1, (n_views - 1) * sizeof *more);
        }
        choose_cpus(&host->shared, o);
    }
    free(draft);
    return status;
}

/*
 * Allocate the ring of staged batches. It holds those that are not returned yet: one for each
 * buffer, and those that failed in their slots.
 */
static mr_status make_staging(struct mr_host *host, mr_error *error)
{
    uint64_t n = 1;
    while (n < (uint64_t)host->options.n_slots + host->options.n_buffers)
        n *= 2;
    host->staging_mask = n - 1;
    host->staging = calloc(n, sizeof *host->staging);
    return host->staging ? MR_OK : mr_error_memory(error, n * sizeof *host->staging);
}

static mr_status make_batches(struct mr_host *host, mr_error *error)
{
    mr_status status = mr_batch_make_all(host, error);
    if (status == MR_OK && !host->placement.lends_slots)
        status = make_staging(host, error);
    return status;
}

static void *next_epoch_main(void *host)
{
    mr_epoch_make_next(host);
    return NULL;
}

static mr_status start_next_epoch(mr_loader *loader, mr_error *error)
{
    if (!loader->host->has_next_epoch)
        return MR_OK;
    return mr_thread_run(&loader->next_epoch, "the thread that makes the next epoch's order",
                         next_epoch_main, loader->host, error);
}

/*
 * Logged once per process. For the default number of workers, only if the process is bound to fewer
 * CPUs than the machine has: the user did not choose that number.
 */
static void warn_of_many_workers(const mr_loader_options *o, bool is_default)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    cpu_set_t mask, online, both;
    char text[MR_NUMA_TEXT];
    if (o->num_workers <= mr_cpu_count() || o->num_workers == MR_NO_WORKERS ||
        o->affinity == MR_AFFINITY_LIST || !mr_numa_get_masks(&mask, &online))
        return;
    CPU_AND(&both, &mask, &online);
    if ((is_default && CPU_EQUAL(&both, &online)) || atomic_flag_test_and_set(&warned))
        return;
    mr_numa_describe_mask(o->num_workers, &mask, &online, text);
    mr_log_line(MR_LOG_WARNING, "%s", text);
}

static mr_status start_workers(mr_loader *loader, mr_error *error)
{
    struct mr_host *host = loader->host;
    if (host->options.num_workers != MR_NO_WORKERS)
        return mr_supervisor_create(host, loader->dataset, &loader->supervisor, error);
    struct mr_worker_job job = {.shared = host->shared,
                                .catalog = mr_dataset_catalog(loader->dataset),
                                .callbacks = mr_dataset_callbacks(loader->dataset)};
    return mr_worker_create(&job, &loader->worker, error);
}

/* The rows are known once the slab exists. Called before anything writes spans. */
static mr_status start_trace(struct mr_host *host, mr_error *error)
{
    const struct mr_placement *placement = &host->placement;
    const char *names[MR_PLACEMENT_DEVICES];
    char texts[MR_PLACEMENT_DEVICES][MR_DEVICE_CHOICE_NAME];
    for (uint32_t i = 0; i < placement->n_devices; i++) {
        mr_device_choice_name(&placement->devices[i], texts[i]);
        names[i] = texts[i];
    }
    struct mr_trace_rows rows = {.workers = mr_control_trace_ring(&host->shared, 0),
                                 .n_workers = host->shared.control->n_workers,
                                 .devices = names,
                                 .n_devices = placement->lends_slots ? 0 : placement->n_devices};
    return mr_trace_start(host->trace, &rows, error);
}

/* Without page-locking, batches are correct; only the program's copies from them are slower. */
static void start_freeing(mr_loader *loader)
{
    mr_error why;
    bool *pin = &loader->host->options.pin_memory;
    if (!*pin)
        return;
    *pin = mr_freeing_start(loader->host, &loader->freeing, &why) == MR_OK;
    if (!*pin)
        mr_log_line(MR_LOG_WARNING, "pin_memory: the batches are not page-locked: %s", why.text);
}

/*
 * A thread opens the devices while the workers start. The template of forked workers was forked
 * before.
 */
static mr_status start_copying(mr_loader *loader, mr_error *error)
{
    struct mr_host *host = loader->host;
    if (host->placement.lends_slots) {
        start_freeing(loader);
        return MR_OK;
    }
    mr_status status = mr_copying_start(host, &loader->copying, error);
    if (status == MR_OK)
        status = mr_host_await_open(host, error);
    return status == MR_OK ? mr_device_choice_confirm(host, error) : status;
}

/* The thread that page-locks the slots populates their pages itself. */
static bool needs_reserver(const mr_loader *loader)
{
    return !loader->freeing.runs &&
           !mr_placement_has_kind(&loader->host->placement, MR_DEVICE_CUDA);
}

/*
 * Worker processes start while the slab's pages are reserved. With worker threads the pages are
 * reserved first: a thread of the program must not touch a page that the machine cannot provide. On
 * a machine of several nodes the device is opened before both, since pages stay where they were
 * touched first. The exception is start fork: the template is forked before any device is opened.
 */
static mr_status begin_work(mr_loader *loader, mr_error *error)
{
    struct mr_host *host = loader->host;
    bool forks = host->options.num_workers != MR_NO_WORKERS && host->options.start == MR_START_FORK;
    bool processes =
        host->options.num_workers != MR_NO_WORKERS && host->options.start != MR_START_THREAD;
    bool device_first = !forks && mr_numa_n_nodes(NULL) > 1;
    mr_status status = device_first ? start_copying(loader, error) : MR_OK;
    if (status == MR_OK && !processes)
        status = mr_slab_reserve_now(host, error);
    if (status != MR_OK)
        return status;
    pthread_mutex_lock(&host->lock);
    mr_epoch_open(host); /* workers find work when they start */
    pthread_mutex_unlock(&host->lock);
    status = start_workers(loader, error);
    if (status == MR_OK)
        status = start_next_epoch(loader, error);
    if (status == MR_OK && !device_first)
        status = start_copying(loader, error);
    if (status == MR_OK && processes && needs_reserver(loader))
        status = mr_slab_reserve_start(host, &loader->reserver, error);
    return status;
}

/* Start the cache's thread. If the cache is of no use, workers are not shown its region. */
static mr_status start_caching(mr_loader *loader, mr_error *error)
{
    static const uint32_t encodings[] = {
        [MR_CACHE_FORM_INDEX] = MR_PACKED_MARKED, [MR_CACHE_FORM_DCT] = MR_PACKED_DCT};
    struct mr_control *control = loader->host->shared.control;
    mr_loader_options *o = &loader->host->options;
    if (!control->with_cache)
        return MR_OK;
    struct mr_cache_region *region = mr_control_cache(&loader->host->shared);
    struct mr_cache_host_options options = {
        .dir = o->cache,
        .budget_bytes = o->cache_bytes,
        .encoding = encodings[o->cache_form],
        .slowdown_percent = o->cache_slowdown == MR_CACHE_WHEN_IDLE ? 0 : o->cache_slowdown,
        .max_file_bytes = o->max_file_bytes,
        .limits = {.max_pixels = o->max_pixels},
        .stock_jpeg = o->jpeg_decoder == MR_JPEG_STOCK};
    mr_status status = mr_cache_thread_start(&options, mr_dataset_catalog(loader->dataset), region,
                                             &loader->cache_thread, error);
    control->with_cache = loader->cache_thread != NULL;
    /* the caller's string is valid only during the creation */
    o->cache = loader->cache_thread ? region->path : NULL;
    if (loader->cache_thread)
        o->cache_form = region->encoding == MR_PACKED_MARKED ? MR_CACHE_FORM_INDEX
                        : region->encoding == MR_PACKED_DCT  ? MR_CACHE_FORM_DCT
                                                             : MR_CACHE_FORM_AUTO;
    return status;
}

/*
 * Everything that needs the plan. In a separate function, because the plan is too large for a
 * stack frame below which workers are started.
 */
static mr_status lay_out(mr_loader *loader, const mr_transform *transform, mr_error *error)
{
    struct mr_host *host = loader->host;
    int64_t n_samples = mr_dataset_n_samples(loader->dataset);
    /* the plans of what workers write, then those of the finished rows */
    uint32_t n_views = mr_transform_n_views(transform);
    size_t bytes = 2 * n_views * sizeof(struct mr_plan);
    struct mr_plan *plans = malloc(bytes);
    if (!plans)
        return mr_error_memory(error, bytes);
    struct mr_plan *mixed = plans + n_views;
    mr_status status = mr_plan_split_compile(host, loader->dataset, transform, plans, mixed, error);
    if (status == MR_OK)
        status = mr_first_order_make(host, loader->dataset, plans, error);
    if (status == MR_OK)
        status = mr_trace_create(host->options.trace, &host->trace, error);
    host->options.trace = mr_trace_path(host->trace);
    if (status == MR_OK && host->pieces) /* an index is the number of a row */
        n_samples = (int64_t)mr_packing_most_rows(mr_sampler_get_parts(host->sampler)->packing);
    if (status == MR_OK)
        status = make_slab(host, plans, mixed, n_views, n_samples, error);
    free(plans);
    return status;
}

/* Before workers start, and before a template of them is forked. */
static mr_status hold_keys(mr_loader *loader, mr_error *error)
{
    const struct mr_catalog *catalog = mr_dataset_catalog(loader->dataset);
    if (!catalog || !mr_catalog_is_remote(catalog))
        return MR_OK;
    mr_status status = mr_credentials_hold(error);
    loader->holds_keys = status == MR_OK;
    return status;
}

static mr_status build_loader(mr_loader *loader, const mr_transform *transform, mr_error *error)
{
    struct mr_host *host = loader->host;
    mr_status status = lay_out(loader, transform, error);
    if (status == MR_OK)
        status = start_caching(loader, error);
    if (status == MR_OK)
        status = hold_keys(loader, error);
    if (status == MR_OK)
        status = make_batches(host, error);
    if (status == MR_OK)
        status = start_trace(host, error);
    if (status != MR_OK)
        return status;
    host->options.dtype = host->image.dtype;
    return begin_work(loader, error);
}

mr_status mr_loader_create(mr_dataset *dataset, const mr_transform *transform,
                           const mr_loader_options *options, mr_loader **loader_out,
                           mr_error *error)
{
    mr_loader_options resolved;
    if (loader_out)
        *loader_out = NULL;
    if (!dataset || !loader_out)
        return mr_error_set(error, MR_ERR_INVALID, "%s is NULL",
                            dataset ? "loader_out" : "dataset");
    mr_status status = mr_resolve_options(options, dataset, &resolved, error);
    if (status == MR_OK && mr_dataset_n_samples(dataset) < 1)
        status = mr_error_set(error, MR_ERR_INVALID, "the dataset has no samples");
    if (status != MR_OK)
        return status;
    mr_loader *loader = calloc(1, sizeof *loader);
    if (!loader)
        return mr_error_memory(error, sizeof *loader);
    status = make_host(&resolved, &loader->host, error);
    if (!loader->host) {
        free(loader);
        return status;
    }
    mr_dataset_retain(dataset);
    loader->dataset = dataset;
    if (status == MR_OK)
        warn_of_many_workers(&loader->host->options, resolved.num_workers == 0);
    if (status == MR_OK)
        status = build_loader(loader, transform, error);
    if (status != MR_OK) {
        mr_loader_destroy(loader);
        return status;
    }
    *loader_out = loader;
    return MR_OK;
}

void mr_loader_destroy(mr_loader *loader)
{
    if (!loader || loader->host->pid != getpid())
        return;
    struct mr_host *host = loader->host;
    mr_batch_retry_deferred(host);
    pthread_mutex_lock(&host->lock);
    host->closed = true;
    if (host->sampler)
        mr_packing_stop(mr_sampler_get_parts(host->sampler)->packing);
    pthread_cond_broadcast(&host->next_epoch_changed);
    pthread_cond_signal(&host->freeing_wanted);
    pthread_mutex_unlock(&host->lock);
    mr_ready_fd_close(host);
    mr_thread_join(&loader->next_epoch);
    mr_supervisor_destroy(loader->supervisor);
    if (loader->copying.runs)
        mr_control_wake_host(&host->shared);
    mr_thread_join(&loader->copying);
    mr_thread_join(&loader->freeing);
    /* after the workers, which would delay a thread of low priority */
    mr_thread_join(&loader->reserver);
    mr_worker_destroy(loader->worker);
    mr_cache_thread_stop(loader->cache_thread);
    if (loader->holds_keys)
        mr_credentials_release();
    mr_trace_destroy(host->trace);
    mr_dataset_destroy(loader->dataset);
    mr_damage_fini(&loader->damage);
    mr_host_release(host);
    free(loader);
}
