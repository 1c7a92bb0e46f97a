/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of a cache in the host. The same function reads the logs of earlier runs and follows
 * those that other processes write, because reading a log continues where the last read ended.
 *
 * Invariant: the form of a cache does not change while it is open. It is chosen before any worker
 * sees the region.
 */
#include "cache/cache_host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os_words.h"
#include "cache/cache_folder.h"
#include "cache/cache_form.h"
#include "cache/cache_key.h"
#include "cache/cache_log.h"

/* How far a log has been read. */
struct followed {
    uint64_t at;        /* end of its last record that was read; 0: not read yet */
    uint64_t log_bytes; /* size of the log at that time */
};

struct mr_cache_host {
    struct mr_cache_region *region;
    int folder;
    struct mr_cache_map map;
    uint64_t *made_ns; /* for each spot of the map: made_ns of the entry that the word points to */
    struct followed followed[MR_CACHE_MAX_SEGMENTS];
    bool chooses;   /* the form is not chosen yet; the next two count until then */
    uint64_t n_dct; /* entries for samples of the dataset in this form */
    uint64_t n_marked;
    bool end_reported;
};

/* The state of a walk through one log. */
struct walk {
    struct mr_cache_host *cache;
    uint32_t segment;
    uint64_t data_bytes;
};

static mr_status fill_region(const struct mr_cache_host_options *options,
                             const struct mr_catalog *catalog, struct mr_cache_region *region,
                             mr_error *error)
{
    region->n_samples = mr_catalog_count(catalog);
    region->budget_bytes = options->budget_bytes ? options->budget_bytes : UINT64_MAX;
    region->max_file_bytes = options->max_file_bytes;
    region->encoding = mr_catalog_is_pack(catalog) ? MR_PACKED_JPEG
                       : options->encoding         ? options->encoding
                                                   : MR_PACKED_DCT;
    region->slowdown_percent = options->slowdown_percent;
    region->limits = options->limits;
    region->stock_jpeg = options->stock_jpeg;
    if (!realpath(options->dir, region->path))
        return mr_error_os(error, MR_ERR_IO, errno, "cannot find the directory %s", options->dir);
    return MR_OK;
}

static mr_status create_map(struct mr_cache_host *cache, const struct mr_catalog *catalog,
                            mr_error *error)
{
    mr_status status = mr_cache_key_map(catalog, &cache->map, error);
    if (status != MR_OK)
        return status;
    cache->made_ns = calloc(cache->map.n + 1, sizeof *cache->made_ns);
    return cache->made_ns ? MR_OK
                          : mr_error_memory(error, (cache->map.n + 1) * sizeof *cache->made_ns);
}

/* Without write permission, the existing entries are still used. */
static void check_writable(struct mr_cache_host *cache)
{
    if (faccessat(cache->folder, ".", W_OK | X_OK, 0) != 0)
        mr_cache_region_stop(cache->region, MR_CACHE_REFUSED, errno);
}

void mr_cache_host_destroy(struct mr_cache_host *cache)
{
    if (!cache)
        return;
    if (cache->folder >= 0)
        close(cache->folder);
    mr_cache_key_free_map(&cache->map);
    free(cache->made_ns);
    free(cache);
}

/* A later entry replaces an earlier one until a worker has used it. */
static void place_entry(struct walk *walk, size_t spot, uint64_t at, uint64_t made_ns)
{
    struct mr_cache_host *cache = walk->cache;
    int64_t index = cache->map.spots[spot].index;
    uint64_t seen = atomic_load(&cache->region->words[index]);
    enum mr_cache_state state = mr_cache_region_state(seen);
    bool better =
        state == MR_CACHE_ABSENT || (state == MR_CACHE_FOUND && made_ns > cache->made_ns[spot]);
    if (better && mr_cache_region_move(cache->region, index, seen,
                                       mr_cache_region_word(MR_CACHE_FOUND, walk->segment, at / 8)))
        cache->made_ns[spot] = made_ns;
}

static void count_entry(struct mr_cache_host *cache, const struct mr_cache_sample *sample)
{
    cache->n_dct += sample->len > 0 && sample->recipe == MR_CACHE_RECIPE(MR_PACKED_DCT);
    cache->n_marked += sample->len > 0 && sample->recipe == MR_CACHE_RECIPE(MR_PACKED_MARKED);
}

static void note_record(void *user, uint64_t at, const struct mr_cache_head *head)
{
    struct walk *walk = user;
    struct mr_cache_host *cache = walk->cache;
    const struct mr_cache_map *map = &cache->map;
    const struct mr_cache_sample *sample = (const void *)head;
    bool is_ours =
        head->kind == MR_CACHE_SAMPLE && sample->recipe == MR_CACHE_RECIPE(cache->region->encoding);
    if (head->kind != MR_CACHE_SAMPLE || (!is_ours && !cache->chooses))
        return;
    uint64_t len = mr_cache_log_data_bytes(sample);
    if (len > walk->data_bytes || sample->offset > walk->data_bytes - len || at >= MR_CACHE_MAX_LOG)
        return;
    for (size_t i = mr_cache_key_find(map, sample->path_hash);
         i < map->n && map->spots[i].hash == sample->path_hash; i++) {
        if (cache->chooses)
            count_entry(cache, sample);
        if (is_ours)
            place_entry(walk, i, at, sample->made_ns);
    }
}

/* Continue reading a log. A log that became shorter is read from its beginning. */
static void follow_log(struct mr_cache_host *cache, uint64_t id, uint64_t log_bytes)
{
    struct mr_cache_files files;
    struct stat st;
    int number = log_bytes > 0 ? mr_cache_region_number(cache->region, id) : -1;
    if (number < 0)
        return;
    struct followed *followed = &cache->followed[number];
    if (followed->log_bytes == log_bytes ||
        mr_cache_folder_open_segment(cache->folder, id, false, &files) != 0)
        return;
    if (followed->at == 0 || log_bytes < followed->at)
        followed->at = sizeof(struct mr_cache_log_head);
    if (fstat(files.data, &st) == 0) {
        struct walk walk = {cache, (uint32_t)number, (uint64_t)st.st_size};
        mr_cache_log_walk(files.log, &followed->at, note_record, &walk);
        followed->log_bytes = log_bytes;
    }
    mr_cache_folder_close_segment(&files);
}

/* Log once why writing has stopped. */
static void log_stop(struct mr_cache_host *cache, uint32_t stopped)
{
    const struct mr_cache_region *region = cache->region;
    int stop_errno = atomic_load_explicit(&region->stop_errno, memory_order_relaxed);
    if (stopped == MR_CACHE_WRITING || cache->end_reported)
        return;
    cache->end_reported = true;
    if (stopped == MR_CACHE_AT_BUDGET)
        mr_log_line(
            MR_LOG_INFO,
            "the cache %s has reached its limit of %llu bytes: nothing more is written to it",
            region->path, (unsigned long long)region->budget_bytes);
    else
        mr_log_line(MR_LOG_WARNING,
                    "the cache %s cannot be written (%s): continuing without writing", region->path,
                    mr_os_words_error(stop_errno) ? mr_os_words_error(stop_errno)
                                                  : "unknown error");
}

/*
 * Removing segments makes room, so writing starts again. It starts only below 7/8 of the budget, so
 * that it does not toggle.
 */
static void update_budget(struct mr_cache_host *cache, uint64_t bytes)
{
    struct mr_cache_region *region = cache->region;
    uint32_t at_budget = MR_CACHE_AT_BUDGET;
    atomic_store_explicit(&region->bytes, bytes, memory_order_relaxed);
    if (bytes < region->budget_bytes - region->budget_bytes / 8 &&
        atomic_compare_exchange_strong(&region->stopped, &at_budget, MR_CACHE_WRITING))
        log_stop(cache, MR_CACHE_AT_BUDGET);
}

void mr_cache_host_refresh(struct mr_cache_host *cache)
{
    uint64_t bytes = 0, log_bytes;
    struct mr_cache_ids ids;
    int rc = mr_cache_folder_list(cache->folder, &ids);
    for (size_t i = 0; rc == 0 && i < ids.n; i++) {
        bytes += mr_cache_folder_segment_bytes(cache->folder, ids.ids[i], &log_bytes);
        follow_log(cache, ids.ids[i], log_bytes);
    }
    free(ids.ids);
    if (rc == 0)
        update_budget(cache, bytes);
    else if (!mr_cache_folder_is_passing(
                 rc)) /* passing: for example, the program has too few descriptors */
        mr_cache_region_stop(cache->region, MR_CACHE_REFUSED, -rc);
    log_stop(cache, atomic_load(&cache->region->stopped));
}

/*
 * The space for coefficients: the budget, or the free space of the disk plus the size of the cache.
 */
static uint64_t find_room(const struct mr_cache_host *cache, uint64_t budget_bytes)
{
    struct statvfs disk;
    uint64_t room;
    if (budget_bytes > 0)
        return budget_bytes;
    /* File systems without a size limit report no blocks. */
    if (fstatvfs(cache->folder, &disk) != 0 || disk.f_blocks == 0 ||
        __builtin_mul_overflow(disk.f_bavail, disk.f_frsize, &room) ||
        __builtin_add_overflow(room, atomic_load(&cache->region->bytes), &room))
        return UINT64_MAX;
    return room;
}

/* Switch to marks: discard what was found for the other form. No worker has started yet. */
static void switch_to_marks(struct mr_cache_host *cache)
{
    struct mr_cache_region *region = cache->region;
    region->encoding = MR_PACKED_MARKED;
    for (int64_t i = 0; i < region->n_samples; i++)
        atomic_store_explicit(&region->words[i], 0, memory_order_relaxed);
    memset(cache->made_ns, 0, (cache->map.n + 1) * sizeof *cache->made_ns);
    memset(cache->followed, 0, sizeof cache->followed);
    mr_cache_host_refresh(cache);
}

/*
 * Choose the form. Coefficients are faster, so they are chosen if there is space. But existing
 * entries decide first, so all ranks and later runs choose the same form, whatever space the disk
 * has then.
 */
static void choose_form(struct mr_cache_host *cache, const struct mr_cache_host_options *options,
                        const struct mr_catalog *catalog)
{
    const char *path = cache->region->path;
    bool marks = false;
    mr_error why;
    cache->chooses = false;
    if (mr_cache_form_check(MR_PACKED_MARKED, options->stock_jpeg, &why) != MR_OK) {
        mr_log_line(MR_LOG_INFO, "the cache %s is of form dct: %s", path, why.text);
    } else if (cache->n_dct + cache->n_marked > 0) {
        marks = cache->n_marked > cache->n_dct;
        mr_log_line(
            MR_LOG_INFO,
            "the cache %s is of form %s: it holds %llu samples of this dataset in that form", path,
            marks ? "index" : "dct", (unsigned long long)(marks ? cache->n_marked : cache->n_dct));
    } else {
        uint64_t need = mr_cache_form_estimate(catalog),
                 room = find_room(cache, options->budget_bytes);
        marks = need > room;
        mr_log_line(MR_LOG_INFO,
                    "the cache %s is of form %s: coefficients of this dataset need about %llu "
                    "bytes, and %s %llu",
                    path, marks ? "index" : "dct", (unsigned long long)need,
                    options->budget_bytes > 0 ? "cache_bytes is" : "the disk has room for",
                    (unsigned long long)room);
    }
    if (marks)
        switch_to_marks(cache);
}

mr_status mr_cache_host_create(const struct mr_cache_host_options *options,
                               const struct mr_catalog *catalog, struct mr_cache_region *region,
                               struct mr_cache_host **cache_out, mr_error *error)
{
    *cache_out = NULL;
    if (!mr_cache_key_suits(catalog))
        return mr_error_set(error, MR_ERR_UNSUPPORTED,
                            "a cache holds image files; this dataset's samples are neither image "
                            "files nor members of tar files nor in a pack at a URL");
    bool is_pack = mr_catalog_is_pack(catalog);
    mr_status status = mr_cache_form_check(is_pack ? MR_PACKED_JPEG : options->encoding,
                                           options->stock_jpeg, error);
    if (status != MR_OK)
        return status;
    struct mr_cache_host *cache = calloc(1, sizeof *cache);
    if (!cache)
        return mr_error_memory(error, sizeof *cache);
    cache->region = region;
    status = mr_cache_folder_open(options->dir, true, &cache->folder, error);
    if (status == MR_OK)
        status = fill_region(options, catalog, region, error);
    if (status == MR_OK)
        status = create_map(cache, catalog, error);
    if (status != MR_OK) {
        mr_cache_host_destroy(cache);
        return status;
    }
    check_writable(cache);
    cache->chooses = options->encoding == 0 && !is_pack;
    mr_cache_host_refresh(cache);
    if (cache->chooses)
        choose_form(cache, options, catalog);
    *cache_out = cache;
    return MR_OK;
}
