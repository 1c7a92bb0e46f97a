/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the entries of a cache, and empties a cache. Jobs may write and remove segments meanwhile,
 * so a segment that disappears after the listing is not an error.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <millrace/cache.h>

#include "base/public_struct.h"
#include "base/xxh3.h"
#include "dataset/dataset.h"
#include "dataset/file.h"
#include "cache/cache_folder.h"
#include "cache/cache_key.h"
#include "cache/cache_log.h"
#include "transforms/scratch.h"

enum { PACKED, INDEX, N_FORMS };

/* The latest entry of a path in one form of cache. */
struct latest {
    uint64_t made_ns; /* 0: none */
    uint64_t file_bytes;
    int64_t mtime_ns;
    uint64_t members; /* fold_stamps() of its members; 0: it has none */
    bool as_file;
    bool damaged;
};

struct census {
    mr_cache_report *report;
    const struct mr_catalog *catalog; /* NULL: no dataset */
    struct mr_cache_map map;
    struct latest (*latest)[N_FORMS]; /* for each spot of the map */
    bool verify;
    struct mr_scratch bytes; /* bytes of the sample that is verified */
    bool no_memory;
    int data; /* data file of the segment that is walked */
    uint64_t data_bytes;
};

/*
 * Read bytes of an entry and verify their checksum. Bytes too many for memory count as right, and
 * set no_memory.
 */
static bool has_right_bytes(struct census *census, uint64_t offset, uint64_t len, uint64_t checksum)
{
    size_t n;
    if (mr_scratch_reserve(&census->bytes, (size_t)len, 1, NULL) != MR_OK) {
        census->no_memory = true;
        return true;
    }
    return mr_file_read_at(census->data, offset, census->bytes.memory, (size_t)len, &n) == 0 &&
           n == len && mr_xxh3(census->bytes.memory, n) == checksum;
}

static bool has_right_parts(struct census *census, const struct mr_cache_sample *sample)
{
    uint32_t n;
    const struct mr_cache_member *members = mr_cache_log_members(sample, &n);
    uint64_t at = sample->offset + sample->len;
    bool good = has_right_bytes(census, sample->offset, sample->len, sample->data_checksum);
    for (uint32_t k = 0; good && k < n; at += members[k++].len)
        good =
            members[k].len == 0 || has_right_bytes(census, at, members[k].len, members[k].checksum);
    return good;
}

static bool is_damaged(struct census *census, const struct mr_cache_sample *sample)
{
    if (sample->len == 0)
        return false;
    uint64_t len = mr_cache_log_data_bytes(sample);
    if (len > census->data_bytes || sample->offset > census->data_bytes - len)
        return true;
    return census->verify && !has_right_parts(census, sample);
}

static void count_entry(mr_cache_report *report, const struct mr_cache_sample *sample, bool damaged)
{
    bool as_file = sample->len == 0, index = sample->encoding == MR_PACKED_MARKED;
    report->n_entries += !as_file;
    report->n_as_files += as_file;
    report->n_damaged += damaged;
    report->n_index += index;
    *(index ? &report->index_bytes : &report->packed_bytes) += mr_cache_log_data_bytes(sample);
}

/* One number for the versions of all members; 0: there are none. */
static uint64_t fold_stamps(const uint64_t stamps[MR_MAX_MEMBERS], uint32_t n)
{
    return n > 0 ? mr_xxh3(stamps, n * sizeof *stamps) : 0;
}

static uint64_t fold_members(const struct mr_cache_sample *sample)
{
    uint32_t n;
    uint64_t stamps[MR_MAX_MEMBERS];
    const struct mr_cache_member *members = mr_cache_log_members(sample, &n);
    for (uint32_t k = 0; k < n; k++)
        stamps[k] = members[k].stamp;
    return fold_stamps(stamps, n);
}

static void count_record(void *user, uint64_t at, const struct mr_cache_head *head)
{
    struct census *census = user;
    const struct mr_cache_map *map = &census->map;
    const struct mr_cache_sample *sample = (const void *)head;
    (void)at;
    if (head->kind != MR_CACHE_SAMPLE)
        return;
    bool damaged = is_damaged(census, sample);
    int form = sample->recipe == MR_CACHE_RECIPE(MR_PACKED_MARKED) ? INDEX : PACKED;
    count_entry(census->report, sample, damaged);
    for (size_t i = mr_cache_key_find(map, sample->path_hash);
         i < map->n && map->spots[i].hash == sample->path_hash; i++)
        if (sample->made_ns >= census->latest[i][form].made_ns)
            census->latest[i][form] =
                (struct latest){.made_ns = sample->made_ns | (sample->made_ns == 0),
                                .file_bytes = sample->file_bytes,
                                .mtime_ns = sample->mtime_ns,
                                .members = fold_members(sample),
                                .as_file = sample->len == 0,
                                .damaged = damaged};
}

static void count_segment(struct census *census, int folder, uint64_t id)
{
    struct mr_cache_files files;
    struct stat log, data;
    uint64_t at = sizeof(struct mr_cache_log_head);
    uint64_t bytes = mr_cache_folder_segment_bytes(folder, id, NULL);
    int rc = mr_cache_folder_open_segment(folder, id, false, &files);
    if (rc == -ENOENT && bytes == 0)
        return;
    census->report->n_segments++;
    census->report->bytes += bytes;
    if (rc != 0) {
        census->report->n_torn++;
        return;
    }
    if (fstat(files.log, &log) == 0 && fstat(files.data, &data) == 0) {
        census->data = files.data;
        census->data_bytes = (uint64_t)data.st_size;
        bool whole = mr_cache_log_walk(files.log, &at, count_record, census) == 0 &&
                     at >= (uint64_t)log.st_size;
        census->report->n_torn += !whole;
    }
    mr_cache_folder_close_segment(&files);
}

/*
 * The value of an entry for a file of this version; NULL: only a server knows the version. Of the
 * entries of the two forms, the one with the higher value counts.
 */
enum worth { NO_ENTRY, STALE, DAMAGED, AS_FILE, FILLED };

static enum worth judge_entry(const struct latest *latest, const struct mr_cache_version *version,
                              uint64_t members)
{
    if (latest->made_ns == 0)
        return NO_ENTRY;
    if (version &&
        (version->file_bytes != latest->file_bytes || version->mtime_ns != latest->mtime_ns ||
         (latest->members != 0 && latest->members != members)))
        return STALE;
    if (latest->damaged)
        return DAMAGED;
    return latest->as_file ? AS_FILE : FILLED;
}

static void count_sample(mr_cache_report *report, const struct latest latest[N_FORMS],
                         const struct mr_cache_version *version, uint64_t members)
{
    enum worth packed = judge_entry(&latest[PACKED], version, members),
               index = judge_entry(&latest[INDEX], version, members);
    report->n_filled_index += index == FILLED;
    switch (packed > index ? packed : index) {
    case NO_ENTRY: break;
    case STALE: report->n_filled_stale++; break;
    case DAMAGED: report->n_filled_damaged++; break;
    case AS_FILE: report->n_filled_as_files++; break;
    case FILLED: report->n_filled++; break;
    }
}

/* Compare each sample of the dataset with the latest entries of its path. */
static void compare_samples(struct census *census)
{
    struct mr_cache_version version;
    uint64_t stamps[MR_MAX_MEMBERS];
    for (size_t i = 0; i < census->map.n; i++) {
        const struct latest *latest = census->latest[i];
        int64_t index = census->map.spots[i].index;
        if ((latest[PACKED].made_ns | latest[INDEX].made_ns) == 0)
            continue;
        int rc = mr_cache_key_stat(census->catalog, index, &version);
        if ((rc == 0 || rc == -ENODATA) && mr_cache_key_stamps(census->catalog, index, stamps) == 0)
            count_sample(census->report, latest, rc == 0 ? &version : NULL,
                         fold_stamps(stamps, mr_catalog_kind(census->catalog)->n_extra));
    }
}

static mr_status set_dataset(struct census *census, const mr_dataset *dataset, mr_error *error)
{
    if (!dataset)
        return MR_OK;
    if (mr_dataset_callbacks(dataset) || !mr_cache_key_suits(mr_dataset_catalog(dataset)))
        return mr_error_set(
            error, MR_ERR_UNSUPPORTED,
            "the dataset's samples are neither image files nor members of tar files");
    census->catalog = mr_dataset_catalog(dataset);
    census->report->n_samples = (uint64_t)mr_dataset_n_samples(dataset);
    mr_status status = mr_cache_key_map(census->catalog, &census->map, error);
    if (status != MR_OK)
        return status;
    census->latest = calloc(census->map.n + 1, sizeof *census->latest);
    return census->latest ? MR_OK
                          : mr_error_memory(error, (census->map.n + 1) * sizeof *census->latest);
}

static mr_status count_segments(struct census *census, int folder, const char *dir, mr_error *error)
{
    struct mr_cache_ids ids;
    int rc = mr_cache_folder_list(folder, &ids);
    for (size_t i = 0; rc == 0 && i < ids.n; i++)
        count_segment(census, folder, ids.ids[i]);
    free(ids.ids);
    if (rc != 0)
        return mr_error_os(error, MR_ERR_IO, -rc, "cannot list %s", dir);
    if (census->no_memory)
        return mr_error_set(error, MR_ERR_NO_MEMORY, "no memory for verifying a sample of %s", dir);
    if (census->catalog)
        compare_samples(census);
    return MR_OK;
}

mr_status mr_cache_stat(const char *dir, const mr_dataset *dataset, bool verify,
                        mr_cache_report *report_out, mr_error *error)
{
    mr_cache_report report = {0};
    struct census census = {.report = &report, .verify = verify};
    int folder;
    if (!dir || !report_out)
        return mr_error_set(error, MR_ERR_INVALID, "%s is NULL", dir ? "report_out" : "dir");
    mr_status status = mr_out_struct_check(report_out, sizeof report, "mr_cache_report", error);
    if (status == MR_OK)
        status = mr_cache_folder_open(dir, false, &folder, error);
    if (status != MR_OK)
        return status;
    status = set_dataset(&census, dataset, error);
    if (status == MR_OK)
        status = count_segments(&census, folder, dir, error);
    if (status == MR_OK)
        mr_out_struct_write(report_out, &report, sizeof report);
    close(folder);
    mr_cache_key_free_map(&census.map);
    free(census.latest);
    mr_scratch_fini(&census.bytes);
    return status;
}

mr_status mr_cache_clear(const char *dir, mr_cache_report *report_out, mr_error *error)
{
    mr_cache_report report = {0};
    struct mr_cache_ids ids;
    int folder;
    if (!dir)
        return mr_error_set(error, MR_ERR_INVALID, "dir is NULL");
    mr_status status = mr_out_struct_check(report_out, sizeof report, "mr_cache_report", error);
    if (status == MR_OK)
        status = mr_cache_folder_open(dir, false, &folder, error);
    if (status != MR_OK)
        return status;
    int rc = mr_cache_folder_list(folder, &ids);
    for (size_t i = 0; rc == 0 && i < ids.n; i++) {
        uint64_t bytes = mr_cache_folder_segment_bytes(folder, ids.ids[i], NULL);
        rc = mr_cache_folder_remove_segment(folder, ids.ids[i]);
        report.n_segments += rc == 0;
        report.bytes += rc == 0 ? bytes : 0;
    }
    if (rc != 0)
        status = mr_error_os(error, MR_ERR_IO, -rc, "cannot empty the cache %s", dir);
    else
        mr_out_struct_write(report_out, &report, sizeof report);
    free(ids.ids);
    close(folder);
    return status;
}
