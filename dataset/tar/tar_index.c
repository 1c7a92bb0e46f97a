/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens one shard and finds its samples: in its index file, in an index of wds2idx, or in one pass
 * over its headers.
 */
#include "dataset/tar/tar_index.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/regular_file.h"
#include "dataset/reader/file_cache.h"
#include "dataset/remote/object.h"
#include "dataset/remote/url.h"
#include "dataset/tar/tar_wds.h"

/* Refuse a shard without a single header. */
static mr_status refuse_garbage(const struct mr_tar_file *file,
                                const struct mr_tar_samples *samples, mr_error *error)
{
    const struct mr_catalog_member *first = (const void *)samples->members.data;
    if (file->size == 0)
        return mr_error_set(error, MR_ERR_DAMAGED, "the shard %s is empty", file->shown);
    if (samples->n == 1 && first->problem == MR_PROBLEM_LOST && first->offset == 0 &&
        first->len == file->size)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "%s is not a tar file: its %" PRIu64 " bytes have no header",
                            file->shown, file->size);
    return MR_OK;
}

/* Find the members in an index of wds2idx, or in the headers. */
static mr_status find_members(const struct mr_tar_source *source, const char *path,
                              const struct stat *st, struct mr_tar_file *file,
                              const struct mr_tar_events *events, mr_error *error)
{
    bool used = false;
    mr_status status = MR_OK;
    if (source->index_place != MR_INDEX_NONE)
        status = mr_tar_wds_read(source->root, path, st, file, events, &used, error);
    return status < 0 || used ? status : mr_tar_scan(file, events, error);
}

static mr_status scan_shard(const struct mr_tar_source *source, const char *path,
                            const struct stat *st, struct mr_tar_file *file,
                            struct mr_tar_samples *samples, mr_error *error)
{
    struct mr_tar_group *group = NULL;
    mr_status status = mr_tar_group_create(file, source->recipe, samples, &group, error);
    if (status < 0)
        return status;
    struct mr_tar_events events = {
        .member = mr_tar_group_member, .gap = mr_tar_group_gap, .user = group};
    status = find_members(source, path, st, file, &events, error);
    if (status == MR_OK)
        status = mr_tar_group_finish(group, error);
    mr_tar_group_destroy(group);
    return status < 0 ? status : refuse_garbage(file, samples, error);
}

static mr_status read_shard(const struct mr_tar_source *source, const char *path,
                            struct mr_tar_file *file, const struct stat *st,
                            struct mr_tar_samples *samples, mr_error *error)
{
    file->window_size = file->object ? MR_TAR_REMOTE_WINDOW : MR_TAR_WINDOW;
    file->window = malloc(file->window_size);
    if (!file->window)
        return mr_error_memory(error, file->window_size);
    file->size = (uint64_t)st->st_size;
    (void)posix_fadvise(file->fd, 0, 0, POSIX_FADV_RANDOM); /* headers are far apart */
    mr_status status = scan_shard(source, path, st, file, samples, error);
    free(file->window);
    return status;
}

/* True if the shard did not change while it was read. Only then is its index saved. */
static bool is_unchanged(const struct mr_tar_file *file, const struct stat *before)
{
    struct stat st;
    if (file->object) /* every range is of one version */
        return true;
    return fstat(file->fd, &st) == 0 && mr_file_cache_stamp(&st) == mr_file_cache_stamp(before);
}

/* Find the shard. It has a URL of its own, or the root is one. */
static mr_status open_shard(const struct mr_tar_source *source, const char *path,
                            struct mr_tar_file *file, struct stat *st_out, mr_error *error)
{
    if (mr_url_is(file->shown)) {
        mr_status status = mr_object_open(file->shown, NULL, &file->object, error);
        if (status == MR_OK)
            mr_object_stat(file->object, st_out);
        return status;
    }
    file->fd = mr_regular_file_open(source->root, path, O_RDONLY, st_out);
    return file->fd < 0
               ? mr_regular_file_fail(error, -file->fd, "cannot open the shard %s", file->shown)
               : MR_OK;
}

static mr_status find_samples(const struct mr_tar_source *source, const char *path,
                              struct mr_tar_file *file, const struct stat *st,
                              struct mr_tar_samples *samples, mr_error *error)
{
    enum mr_index_place place = source->index_place;
    struct stat unused;
    if (file->object && !mr_object_stat(file->object, &unused))
        place = MR_INDEX_NONE; /* another version might look the same */
    if (mr_tar_index_file_load(place, source->root, path, st, source->recipe, samples))
        return MR_OK;
    mr_status status = read_shard(source, path, file, st, samples, error);
    /* not of a broken shard: its notes must be logged at every opening */
    if (status == MR_OK && !samples->is_broken && is_unchanged(file, st))
        mr_tar_index_file_save(place, source->root, path, st, source->recipe, samples);
    return status;
}

mr_status mr_tar_index_shard(const struct mr_tar_source *source, uint64_t i,
                             struct mr_tar_samples *samples_out, mr_error *error)
{
    char shown[2 * MR_CATALOG_PATH];
    const char *path = source->paths + source->offs[i];
    struct stat st;
    struct mr_tar_file file = {.fd = -1, .shown = shown};
    *samples_out = (struct mr_tar_samples){0};
    snprintf(shown, sizeof shown, "%s%s", source->written, path);
    if (mr_url_is(source->written))
        path = shown; /* an index has the whole URL */
    mr_status status = open_shard(source, path, &file, &st, error);
    if (status != MR_OK)
        return status;
    if (file.object)
        samples_out->version = *mr_object_version(file.object);
    shown[mr_url_is(shown) ? mr_url_shown_len(shown) : strlen(shown)] = '\0';
    status = find_samples(source, path, &file, &st, samples_out, error);
    if (status == MR_OK)
        samples_out->stamp = mr_file_cache_stamp(&st);
    mr_object_close(file.object);
    if (file.fd >= 0)
        close(file.fd);
    return status;
}
