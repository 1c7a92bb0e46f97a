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
#include <sys/stat.h>
#include <unistd.h>

#include "base/regular_file.h"
#include "dataset/file_cache.h"
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

static mr_status read_shard(const struct mr_tar_source *source, const char *path, const char *shown,
                            int fd, const struct stat *st, struct mr_tar_samples *samples,
                            mr_error *error)
{
    struct mr_tar_file *file = calloc(1, sizeof *file);
    if (!file)
        return mr_error_memory(error, sizeof *file);
    file->fd = fd;
    file->shown = shown;
    file->size = (uint64_t)st->st_size;
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM); /* headers are far apart */
    mr_status status = scan_shard(source, path, st, file, samples, error);
    free(file);
    return status;
}

/* True if the shard did not change while it was read. Only then is its index saved. */
static bool is_unchanged(int fd, const struct stat *before)
{
    struct stat st;
    return fstat(fd, &st) == 0 && mr_file_cache_stamp(&st) == mr_file_cache_stamp(before);
}

mr_status mr_tar_index_shard(const struct mr_tar_source *source, uint64_t i,
                             struct mr_tar_samples *samples_out, mr_error *error)
{
    char shown[2 * MR_CATALOG_PATH];
    const char *path = source->paths + source->offs[i];
    struct stat st;
    *samples_out = (struct mr_tar_samples){0};
    snprintf(shown, sizeof shown, "%s%s", source->written, path);
    int fd = mr_regular_file_open(source->root, path, O_RDONLY, &st);
    if (fd < 0)
        return mr_regular_file_fail(error, -fd, "cannot open the shard %s", shown);
    mr_status status = MR_OK;
    if (!mr_tar_index_file_load(source->index_place, source->root, path, &st, source->recipe,
                                samples_out)) {
        status = read_shard(source, path, shown, fd, &st, samples_out, error);
        /* not of a broken shard: its notes must be logged at every opening */
        if (status == MR_OK && !samples_out->is_broken && is_unchanged(fd, &st))
            mr_tar_index_file_save(source->index_place, source->root, path, &st, source->recipe,
                                   samples_out);
    }
    if (status == MR_OK)
        samples_out->stamp = mr_file_cache_stamp(&st);
    close(fd);
    return status;
}
