/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates and destroys a loader.
 *
 * Invariant: the control block is complete and the first batches are published before the first worker starts, so
 * workers find work at once. The slab's pages are reserved while they start, by the thread that page-locks them or by
 * one that does nothing else.
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
#include "dataset/file_cache.h"
#include "cache/cache_thread.h"
#include "loader/batch.h"
#include "loader/copying.h"
#include "loader/epoch.h"
#include "loader/finishing.h"
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

/* The caller's list is valid during the creation only. */
static mr_status keep_cpus(struct mr_core *core, const mr_loader_options *options, mr_error *error)
{
    bool used = options->affinity == MR_AFFINITY_LIST;
    size_t len = used ? options->n_affinity_cpus * sizeof *options->affinity_cpus : 0;
    core->options.n_affinity_cpus = used ? options->n_affinity_cpus : 0;
    core->cpus = used ? malloc(len) : NULL;
    core->options.affinity_cpus = core->cpus;
    if (used && !core->cpus)
        return mr_error_memory(error, len);
    if (used)
        memcpy(core->cpus, options->affinity_cpus, len);
    return MR_OK;
}

/* So is the path of the weights. */
static mr_status keep_weights(struct mr_core *core, mr_error *error)
{
    const char *path = core->options.weights;
    core->weights = path ? strdup(path) : NULL;
    core->options.weights = core->weights;
    return path && !core->weights ? mr_error_memory(error, strlen(path) + 1) : MR_OK;
}

static mr_status make_core(const mr_loader_options *options, struct mr_core **core_out, mr_error *error)
{
    struct mr_core *core = calloc(1, sizeof *core);
    if (!core)
        return mr_error_memory(error, sizeof *core);
    core->n_refs = 1;
    core->pid = getpid();
    core->options = *options;
    core->epoch = options->epoch;
    core->slab.fd = -1;
    pthread_mutex_init(&core->lock, NULL);
    pthread_cond_init(&core->next_epoch_changed, NULL);
    pthread_cond_init(&core->opened_changed, NULL);
    pthread_cond_init(&core->freeing_wanted, NULL);
    *core_out = core;
    mr_status status = mr_device_choice_resolve(core, error);
    if (status == MR_OK)
        mr_resolve_workers(&core->options, core->placement.lends_slots ? 0 : core->placement.n_parts);
    core->options.pin_memory &= core->placement.lends_slots; /* other batches do not lie in the slots */
    if (status == MR_OK)
        status = keep_cpus(core, options, error);
    return status == MR_OK ? keep_weights(core, error) : status;
}

static mr_status make_sampler(struct mr_core *core, int64_t n_samples, mr_error *error)
{
    const mr_loader_options *o = &core->options;
    core->has_next_epoch = o->num_workers != MR_NO_WORKERS;
    core->sampler_options = (mr_sampler_options){.struct_size = sizeof(mr_sampler_options),
                                                 .n_samples = n_samples,
                                                 .world_size = o->world_size,
                                                 .rank = o->rank,
                                                 .seed = o->seed,
                                                 .epoch = o->epoch,
                                                 .no_shuffle = o->no_shuffle,
                                                 .tail = o->tail,
                                                 .order = o->order,
                                                 .repeat = o->repeat,
                                                 .repeat_form = o->repeat_form,
                                                 .no_replacement = o->no_replacement,
                                                 .n_draws = o->n_draws,
                                                 .weights = o->weights,
                                                 .weight_values = o->weight_values,
                                                 .n_weight_values = o->n_weight_values};
    mr_status status = mr_sampler_create(&core->sampler_options, &core->sampler, error);
    core->options.weight_values = NULL; /* the sampler has made its own of them */
    core->options.n_weight_values = 0;
    return status;
}

/* The CPU of the set that follows this one, the first one after the last; -1 in an empty set. */
static int32_t next_cpu(const cpu_set_t *set, int32_t cpu)
{
    for (int32_t i = 1; i <= CPU_SETSIZE; i++)
        if (CPU_ISSET((size_t)(cpu + i) % CPU_SETSIZE, set))
            return (cpu + i) % CPU_SETSIZE;
    return -1;
}

/* Refused here, as a program that sets the next epoch at each MR_END would spin without a word. */
static mr_status check_batches(const struct mr_core *core, mr_error *error)
{
    const mr_loader_options *o = &core->options;
    long long n_samples = mr_sampler_length(core->sampler);
    if (o->allow_empty_epoch || mr_sampler_steps(core->sampler, o->batch_size, o->drop_last) > 0)
        return MR_OK;
    if (n_samples == 0 && o->repeat > 0)
        return mr_error_set(error, MR_ERR_INVALID,
                            "an epoch has 0 batches: of %lld samples repeat takes multiples of 256, which are too few "
                            "for world_size %u%s",
                            (long long)core->sampler_options.n_samples, o->world_size,
                            core->sampler_options.n_samples < 256 ? "; repeat_form timm takes fewer, too" : "");
    if (n_samples == 0)
        return mr_error_set(error, MR_ERR_INVALID,
                            "an epoch has 0 batches: %lld samples are fewer than world_size %u, and tail drop leaves "
                            "them out",
                            (long long)core->sampler_options.n_samples, o->world_size);
    return mr_error_set(error, MR_ERR_INVALID,
                        "an epoch has 0 batches: %lld samples of this rank are fewer than batch_size %u, and "
                        "drop_last leaves them out",
                        n_samples, o->batch_size);
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

/* Workers that are threads share the program's descriptors. */
static uint32_t share_of_files(const mr_loader_options *o)
{
    if (o->start != MR_START_THREAD || o->num_workers == MR_NO_WORKERS)
        return 0;
    uint32_t share = mr_file_cache_limit() / o->num_workers;
    return share > 0 ? share : 1;
}

static void fill_control(struct mr_control *c, const struct mr_core *core, int64_t n_samples)
{
    const mr_loader_options *o = &core->options;
    c->magic = MR_CONTROL_MAGIC;
    c->build = mr_control_build();
    c->host_pid = core->pid;
    c->options = *o;
    c->n_samples = n_samples;
    c->holes = o->on_error == MR_ON_ERROR_SKIP && o->tail == MR_TAIL_EXACT;
    c->substitutes = o->on_error == MR_ON_ERROR_SKIP && !c->holes;
    c->with_trace = core->trace != NULL;
    c->max_files = share_of_files(o);
    c->with_cache = o->cache != NULL;
}

/* Pages of the pool are there at once; on several nodes it is not known yet which one the device is near. */
static enum mr_slab_pages choose_pages(const mr_loader_options *o)
{
    if (o->no_huge_pages)
        return MR_SLAB_PAGES_SMALL;
    return mr_numa_n_nodes(NULL) > 1 ? MR_SLAB_PAGES_ASKED : MR_SLAB_PAGES_POOL;
}

/* The plan is compiled into a draft of the control block, because its sizes decide the slab's. */
static mr_status make_slab(struct mr_core *core, const struct mr_plan *plan, const struct mr_plan *mixed,
                           int64_t n_samples, mr_error *error)
{
    const mr_loader_options *o = &core->options;
    struct mr_control *draft = aligned_alloc(64, sizeof *draft);
    if (!draft)
        return mr_error_memory(error, sizeof *draft);
    memset(draft, 0, sizeof *draft);
    fill_control(draft, core, n_samples);
    draft->plan = *plan;
    draft->mixed = *mixed;
    draft->n_workers = o->num_workers == MR_NO_WORKERS ? 1 : o->num_workers;
    struct mr_slot_shape shape = {.head_bytes = mr_control_lay_out(draft, draft->n_workers, o->n_slots),
                                  .n_slots = o->n_slots,
                                  .n_workers = draft->n_workers,
                                  .batch_size = o->batch_size,
                                  .erases = mr_erase_is_deferred(plan),
                                  .sample_bytes = mixed->out_bytes,
                                  .label_bytes = plan->kind.label_bytes,
                                  .n_kept = plan->kind.n_kept,
                                  .mixes = mixed->mix.kind != 0,
                                  .mix_rule = mr_mix_draw_rule(mixed->mix.kind),
                                  .n_classes = (uint32_t)o->soft_labels,
                                  .source_bytes = mixed->mix.kind && !core->finish.mixes ? plan->out_bytes : 0};
    for (uint32_t k = 0; k < shape.n_kept; k++)
        shape.kept_bytes[k] = plan->kind.kept[k].max_bytes;
    mr_status status = mr_slot_layout_init(&draft->layout, &shape, error);
    if (status == MR_OK)
        status = mr_slab_create(draft->layout.slab_bytes, choose_pages(o), &core->slab, error);
    if (status == MR_OK) {
        draft->slab_pages = core->slab.pages;
        memcpy(core->slab.base, draft, sizeof *draft);
        core->shared = mr_control_map(core->slab.base);
        choose_cpus(&core->shared, o);
    }
    free(draft);
    return status;
}

/* Batches that are staged and not yet returned: one in each buffer, and those that failed in their slots. */
static mr_status make_staging(struct mr_core *core, mr_error *error)
{
    uint64_t n = 1;
    while (n < (uint64_t)core->options.n_slots + core->options.n_buffers)
        n *= 2;
    core->staging_mask = n - 1;
    core->staging = calloc(n, sizeof *core->staging);
    return core->staging ? MR_OK : mr_error_memory(error, n * sizeof *core->staging);
}

static mr_status make_batches(struct mr_core *core, mr_error *error)
{
    mr_status status = mr_batch_make_all(core, error);
    if (status == MR_OK && !core->placement.lends_slots)
        status = make_staging(core, error);
    return status;
}

static void *next_epoch_main(void *core)
{
    mr_epoch_make_next(core);
    return NULL;
}

static mr_status start_next_epoch(mr_loader *loader, mr_error *error)
{
    if (!loader->core->has_next_epoch)
        return MR_OK;
    return mr_thread_run(&loader->next_epoch, "the thread that makes the next epoch's order", next_epoch_main,
                         loader->core, error);
}

/*
 * Once per process: who makes many loaders has read it. Of the default number it speaks only where the process is bound
 * to fewer CPUs than the machine has, for nobody has asked for so many.
 */
static void warn_of_many_workers(const mr_loader_options *o, bool is_default)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    cpu_set_t mask, online, both;
    char text[MR_NUMA_TEXT];
    if (o->num_workers <= mr_cpu_count() || o->num_workers == MR_NO_WORKERS || o->affinity == MR_AFFINITY_LIST ||
        !mr_numa_get_masks(&mask, &online))
        return;
    CPU_AND(&both, &mask, &online);
    if ((is_default && CPU_EQUAL(&both, &online)) || atomic_flag_test_and_set(&warned))
        return;
    mr_numa_describe_mask(o->num_workers, &mask, &online, text);
    mr_log_line(MR_LOG_WARNING, "%s", text);
}

static mr_status start_workers(mr_loader *loader, mr_error *error)
{
    struct mr_core *core = loader->core;
    if (core->options.num_workers != MR_NO_WORKERS)
        return mr_supervisor_create(core, loader->dataset, &loader->supervisor, error);
    struct mr_worker_job job = {.shared = core->shared,
                                .catalog = mr_dataset_catalog(loader->dataset),
                                .callbacks = mr_dataset_callbacks(loader->dataset)};
    return mr_worker_create(&job, &loader->worker, error);
}

/* The rows are known as soon as the slab is there, and before anybody has something to put into them. */
static mr_status start_trace(struct mr_core *core, mr_error *error)
{
    const struct mr_placement *placement = &core->placement;
    const char *names[MR_PLACEMENT_DEVICES];
    char texts[MR_PLACEMENT_DEVICES][MR_DEVICE_CHOICE_NAME];
    for (uint32_t i = 0; i < placement->n_devices; i++) {
        mr_device_choice_name(&placement->devices[i], texts[i]);
        names[i] = texts[i];
    }
    struct mr_trace_rows rows = {.workers = mr_control_trace_ring(&core->shared, 0),
                                 .n_workers = core->shared.control->n_workers,
                                 .devices = names,
                                 .n_devices = placement->lends_slots ? 0 : placement->n_devices};
    return mr_trace_start(core->trace, &rows, error);
}

/* Batches that are not page-locked are as good, but for the program's copies from them. */
static void start_freeing(mr_loader *loader)
{
    mr_error why;
    bool *pin = &loader->core->options.pin_memory;
    if (!*pin)
        return;
    *pin = mr_freeing_start(loader->core, &loader->freeing, &why) == MR_OK;
    if (!*pin)
        mr_log_line(MR_LOG_WARNING, "pin_memory: the batches are not page-locked: %s", why.text);
}

/* The devices are opened by a thread of ours, while workers begin; a template was forked before. */
static mr_status start_copying(mr_loader *loader, mr_error *error)
{
    struct mr_core *core = loader->core;
    if (core->placement.lends_slots) {
        start_freeing(loader);
        return MR_OK;
    }
    mr_status status = mr_copying_start(core, &loader->copying, error);
    if (status == MR_OK)
        status = mr_core_await_open(core, error);
    return status == MR_OK ? mr_device_choice_confirm(core, error) : status;
}

/* Whoever page-locks the slots has their pages first. */
static bool needs_reserver(const mr_loader *loader)
{
    return !loader->freeing.runs && !mr_placement_has_kind(&loader->core->placement, MR_DEVICE_CUDA);
}

/*
 * Worker processes start while the slab's pages are reserved. A thread of the program must not touch a page that the
 * machine cannot give, so before threads the pages are reserved first. On a machine of several nodes the device comes
 * before both, since pages stay where they were touched first; but a template is forked before any device is opened.
 */
static mr_status begin_work(mr_loader *loader, mr_error *error)
{
    struct mr_core *core = loader->core;
    bool forks = core->options.num_workers != MR_NO_WORKERS && core->options.start == MR_START_FORK;
    bool processes = core->options.num_workers != MR_NO_WORKERS && core->options.start != MR_START_THREAD;
    bool device_first = !forks && mr_numa_n_nodes(NULL) > 1;
    mr_status status = device_first ? start_copying(loader, error) : MR_OK;
    if (status == MR_OK && !processes)
        status = mr_slab_reserve_now(core, error);
    if (status != MR_OK)
        return status;
    pthread_mutex_lock(&core->lock);
    mr_epoch_open(core); /* workers find their work */
    pthread_mutex_unlock(&core->lock);
    status = start_workers(loader, error);
    if (status == MR_OK)
        status = start_next_epoch(loader, error);
    if (status == MR_OK && !device_first)
        status = start_copying(loader, error);
    if (status == MR_OK && processes && needs_reserver(loader))
        status = mr_slab_reserve_start(core, &loader->reserver, error);
    return status;
}

/* The region lies in the slab; without a use for a cache the workers do not see it. */
static mr_status start_caching(mr_loader *loader, mr_error *error)
{
    static const uint32_t encodings[] = {[MR_CACHE_FORM_INDEX] = MR_PACKED_MARKED, [MR_CACHE_FORM_DCT] = MR_PACKED_DCT};
    struct mr_control *control = loader->core->shared.control;
    mr_loader_options *o = &loader->core->options;
    if (!control->with_cache)
        return MR_OK;
    struct mr_cache_region *region = mr_control_cache(&loader->core->shared);
    struct mr_cache_host_options options = {.dir = o->cache,
                                            .budget_bytes = o->cache_bytes,
                                            .encoding = encodings[o->cache_form],
                                            .slowdown_percent =
                                                o->cache_slowdown == MR_CACHE_WHEN_IDLE ? 0 : o->cache_slowdown,
                                            .max_file_bytes = o->max_file_bytes,
                                            .limits = {.max_pixels = o->max_pixels},
                                            .stock_jpeg = o->jpeg_decoder == MR_JPEG_STOCK};
    mr_status status =
        mr_cache_thread_start(&options, mr_dataset_catalog(loader->dataset), region, &loader->cache_thread, error);
    control->with_cache = loader->cache_thread != NULL;
    o->cache = loader->cache_thread ? region->path : NULL; /* the caller's text is valid during the creation only */
    if (loader->cache_thread)
        o->cache_form = region->encoding == MR_PACKED_MARKED ? MR_CACHE_FORM_INDEX : MR_CACHE_FORM_DCT;
    return status;
}

/* All that the plan is needed for. It is too large for a stack below which workers are started. */
static mr_status lay_out(mr_loader *loader, const mr_transform *transform, mr_error *error)
{
    struct mr_core *core = loader->core;
    int64_t n_samples = mr_dataset_count(loader->dataset);
    struct mr_plan *plan = malloc(2 * sizeof *plan); /* of what workers write, of what is mixed from it */
    if (!plan)
        return mr_error_memory(error, 2 * sizeof *plan);
    mr_status status = mr_finishing_compile(core, loader->dataset, transform, plan, plan + 1, error);
    if (status == MR_OK)
        status = make_sampler(core, n_samples, error);
    if (status == MR_OK)
        status = check_batches(core, error);
    if (status == MR_OK)
        status = mr_trace_create(core->options.trace, &core->trace, error);
    core->options.trace = mr_trace_path(core->trace);
    if (status == MR_OK)
        status = make_slab(core, plan, plan + 1, n_samples, error);
    free(plan);
    return status;
}

static mr_status build_loader(mr_loader *loader, const mr_transform *transform, mr_error *error)
{
    struct mr_core *core = loader->core;
    mr_status status = lay_out(loader, transform, error);
    if (status == MR_OK)
        status = start_caching(loader, error);
    if (status == MR_OK)
        status = make_batches(core, error);
    if (status == MR_OK)
        status = start_trace(core, error);
    if (status != MR_OK)
        return status;
    core->options.dtype = core->image.dtype;
    return begin_work(loader, error);
}

mr_status mr_loader_create(mr_dataset *dataset, const mr_transform *transform, const mr_loader_options *options,
                           mr_loader **loader_out, mr_error *error)
{
    mr_loader_options resolved;
    if (loader_out)
        *loader_out = NULL;
    if (!dataset || !loader_out)
        return mr_error_set(error, MR_ERR_INVALID, "%s is NULL", dataset ? "loader_out" : "dataset");
    mr_status status = mr_resolve_options(options, mr_dataset_callbacks(dataset) != NULL, &resolved, error);
    if (status == MR_OK && mr_dataset_count(dataset) < 1)
        status = mr_error_set(error, MR_ERR_INVALID, "the dataset has no samples");
    if (status != MR_OK)
        return status;
    mr_loader *loader = calloc(1, sizeof *loader);
    if (!loader)
        return mr_error_memory(error, sizeof *loader);
    status = make_core(&resolved, &loader->core, error);
    if (!loader->core) {
        free(loader);
        return status;
    }
    mr_dataset_retain(dataset);
    loader->dataset = dataset;
    if (status == MR_OK)
        warn_of_many_workers(&loader->core->options, resolved.num_workers == 0);
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
    if (!loader || loader->core->pid != getpid())
        return;
    struct mr_core *core = loader->core;
    mr_batch_settle_owed(core);
    pthread_mutex_lock(&core->lock);
    core->closed = true;
    pthread_cond_broadcast(&core->next_epoch_changed);
    pthread_cond_signal(&core->freeing_wanted);
    pthread_mutex_unlock(&core->lock);
    mr_ready_fd_close(core);
    mr_thread_join(&loader->next_epoch);
    mr_supervisor_destroy(loader->supervisor);
    if (loader->copying.runs)
        mr_control_wake_host(&core->shared);
    mr_thread_join(&loader->copying);
    mr_thread_join(&loader->freeing);
    mr_thread_join(&loader->reserver); /* after the workers, who would keep a thread of low priority waiting */
    mr_worker_destroy(loader->worker);
    mr_cache_thread_stop(loader->cache_thread);
    mr_trace_destroy(core->trace);
    mr_dataset_destroy(loader->dataset);
    mr_damage_fini(&loader->damage);
    mr_core_release(core);
    free(loader);
}
