/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a pack: reads and checks the whole index once, and checks the size of each shard. Workers
 * map the same index file by its descriptor and do not verify its checksum again.
 */
#include "dataset/pack_open.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/regular_file.h"
#include "dataset/extra.h"
#include "dataset/remote/object.h"
#include "dataset/remote/object_keep.h"
#include "dataset/remote/url.h"
#include "dataset/spec.h"
#include "dataset/pack_index.h"
#include "dataset/catalog_build.h"

struct opening {
    const char *dir;
    const char *slash; /* between dir and a name: "/" or "" */
    int root;
    enum mr_index_place place; /* of an index at a URL */
    char path[PATH_MAX + 64];  /* path of the index, for messages */
    const void *map;
    size_t len;
    struct mr_pack_index index;
};

/* The error for a folder without an index: an unfinished pack, or not a pack. */
static mr_status fail_index(const struct opening *opening, int os_error, mr_error *error)
{
    if (os_error == ENOENT && faccessat(opening->root, MR_PACK_UNFINISHED, F_OK, 0) == 0)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "%s is not finished: it holds a part of a pack and no index",
                            opening->dir);
    return mr_regular_file_fail(error, os_error, "cannot open the pack's index %s", opening->path);
}

/* Read the index at a URL, or what is kept of it, into memory that workers share. */
static mr_status load_index(const struct opening *opening, int *fd_out, mr_error *error)
{
    struct mr_object *object;
    mr_status status = mr_object_open(opening->path, NULL, &object, error);
    if (status == MR_OK)
        status = mr_object_keep_load(object, opening->place, "millrace-index", fd_out, error);
    mr_object_close(object);
    return status;
}

static mr_status open_index(const struct opening *opening, int *fd_out, mr_error *error)
{
    if (mr_url_is(opening->dir))
        return load_index(opening, fd_out, error);
    int fd = mr_regular_file_open(opening->root, MR_PACK_INDEX, O_RDONLY, NULL);
    if (fd < 0)
        return fail_index(opening, -fd, error);
    *fd_out = fd;
    return MR_OK;
}

static mr_status map_index(struct opening *opening, int *fd_out, mr_error *error)
{
    struct stat st;
    mr_status status = open_index(opening, fd_out, error);
    if (status != MR_OK)
        return status;
    int fd = *fd_out;
    if (fstat(fd, &st) != 0)
        return mr_error_os(error, MR_ERR_IO, errno, "cannot stat %s", opening->path);
    if (st.st_size == 0)
        return mr_error_set(error, MR_ERR_DAMAGED, "%s is empty", opening->path);
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return mr_error_os(error, MR_ERR_IO, errno, "cannot map %jd bytes of %s",
                           (intmax_t)st.st_size, opening->path);
    opening->map = map;
    opening->len = (size_t)st.st_size;
    return MR_OK;
}

/* The name of a shard, or after the last of them that of the file of marks. */
static const char *write_name(const struct opening *opening, uint64_t i, char name_out[32])
{
    if (i < mr_pack_index_n_shards(&opening->index))
        snprintf(name_out, 32, MR_PACK_SHARD, (unsigned)i);
    else
        snprintf(name_out, 32, MR_PACK_MARKS_FILE);
    return name_out;
}

/* Append the versions of the first n files, which are at URLs. */
static mr_status find_versions(const struct opening *opening, uint64_t n,
                               struct mr_catalog_builder *builder, mr_error *error)
{
    struct mr_bytes urls = {0};
    char url[PATH_MAX + 64], name[32];
    mr_status status = MR_OK;
    for (uint64_t i = 0; status == MR_OK && i < n; i++) {
        int len = snprintf(url, sizeof url, "%s%s%s", opening->dir, opening->slash,
                           write_name(opening, i, name));
        status = mr_bytes_append(&urls, url, (size_t)len + 1, error);
    }
    if (status == MR_OK)
        status = mr_catalog_builder_versions(builder, (const char *)urls.data, n, error);
    mr_bytes_fini(&urls);
    return status;
}

static mr_status find_size(const struct opening *opening, const char *name, uint64_t *size_out,
                           mr_error *error)
{
    struct stat st;
    if (fstatat(opening->root, name, &st, 0) != 0)
        return mr_error_os(error, MR_ERR_IO, errno, "%s%s%s", opening->dir, opening->slash, name);
    if (!S_ISREG(st.st_mode))
        return mr_error_set(error, MR_ERR_IO, "%s%s%s is not a regular file", opening->dir,
                            opening->slash, name);
    *size_out = (uint64_t)st.st_size;
    return MR_OK;
}

/* Check that file i exists and is as long as the index says, and append its name. */
static mr_status add_file(const struct opening *opening, uint64_t i,
                          struct mr_catalog_builder *builder, mr_error *error)
{
    const struct mr_pack_index *index = &opening->index;
    const struct mr_object_version *versions =
        (const void *)builder->sections[MR_SECTION_VERSIONS].data;
    char name[32];
    uint64_t size = 0, bytes = i < mr_pack_index_n_shards(index)
                                   ? mr_pack_index_shard_bytes(index, i)
                                   : index->marks_bytes;
    mr_status status = MR_OK;
    write_name(opening, i, name);
    if (builder->header.is_remote)
        size = versions[i].size;
    else
        status = find_size(opening, name, &size, error);
    if (status == MR_OK && size != bytes)
        status = mr_error_set(error, MR_ERR_DAMAGED,
                              "%s%s%s has %" PRIu64 " bytes, the index says %" PRIu64, opening->dir,
                              opening->slash, name, size, bytes);
    builder->header.n_files++;
    return status < 0 ? status : mr_catalog_builder_name(builder, name, error);
}

/* Add the shards in order, then the file of marks. */
static mr_status add_files(const struct opening *opening, struct mr_catalog_builder *builder,
                           mr_error *error)
{
    const struct mr_pack_index *index = &opening->index;
    uint64_t n = mr_pack_index_n_shards(index) + mr_pack_index_has_marks(index);
    mr_status status =
        builder->header.is_remote ? find_versions(opening, n, builder, error) : MR_OK;
    for (uint64_t i = 0; status == MR_OK && i < n; i++)
        status = add_file(opening, i, builder, error);
    return status;
}

static mr_status add_classes(const struct opening *opening, struct mr_catalog_builder *builder,
                             mr_error *error)
{
    uint64_t n = mr_pack_index_n_classes(&opening->index);
    mr_status status = MR_OK;
    for (uint64_t i = 0; status == MR_OK && i < n; i++) {
        const char *name = mr_pack_index_class(&opening->index, i);
        if (!name || i >= UINT32_MAX)
            return mr_error_set(error, MR_ERR_DAMAGED,
                                "%s: the name of class %" PRIu64 " is outside the file",
                                opening->path, i);
        status = mr_catalog_builder_class(builder, name, error);
    }
    return status;
}

/* The index does not say where names end, so each is copied first. */
static mr_status add_members(const struct opening *opening, struct mr_sample_kind *kind,
                             mr_error *error)
{
    const struct mr_pack_member_kind *members = opening->index.starts[MR_PACK_MEMBER_KINDS];
    struct mr_extra_list list = {0};
    for (uint32_t i = 0; i < mr_pack_index_n_members(&opening->index); i++) {
        char name[sizeof members[i].name + 1] = "";
        memcpy(name, members[i].name, sizeof members[i].name);
        uint32_t annotations = members[i].annotations;
        if (!mr_extra_add(&list, name, members[i].max_bytes) ||
            annotations > (i == 0 ? MR_ANNOTATIONS_MASKS : MR_ANNOTATIONS_DARKNET))
            return mr_error_set(error, MR_ERR_DAMAGED,
                                "%s: member %" PRIu32 " is called '%s' and has up to %" PRIu32
                                " bytes of annotations %" PRIu32,
                                opening->path, i, name, members[i].max_bytes, annotations);
        if (annotations == MR_ANNOTATIONS_NONE)
            continue;
        if (list.annotations != MR_ANNOTATIONS_NONE)
            return mr_error_set(error, MR_ERR_DAMAGED,
                                "%s: '%s' is its second member of annotations", opening->path,
                                name);
        list.annotations = (mr_annotations)annotations;
        list.boxes = annotations == MR_ANNOTATIONS_MASKS ? 0 : i + 1;
    }
    mr_extra_declare(&list, kind);
    return MR_OK;
}

static mr_status build_catalog(struct opening *opening, struct mr_catalog_builder *builder,
                               int *fd_out, mr_error *error)
{
    mr_status status =
        mr_pack_index_attach(opening->map, opening->len, opening->path, &opening->index, error);
    if (status < 0)
        return status;
    const struct mr_pack_header *header = opening->index.header;
    struct mr_sample_kind *kind = &builder->header.kind;
    kind->encoded = 1;
    kind->picture = 1;
    kind->label_dtype = (mr_dtype)header->label_dtype;
    kind->label_ndim = header->label_ndim;
    memcpy(kind->label_shape, header->label_shape, sizeof kind->label_shape);
    kind->label_bytes = opening->index.label_bytes;
    builder->header.n_samples = opening->index.n_samples;
    builder->header.names_file_bytes = opening->len;
    builder->header.is_remote = mr_url_is(opening->dir);
    status = add_members(opening, kind, error);
    if (status == MR_OK)
        status = add_files(opening, builder, error);
    if (status == MR_OK)
        status = add_classes(opening, builder, error);
    return status < 0 ? status : mr_catalog_builder_finish(builder, fd_out, error);
}

static mr_status open_pack(struct opening *opening, struct mr_catalog_builder *builder,
                           int fds[MR_CATALOG_N_FDS], mr_error *error)
{
    char absolute[PATH_MAX];
    mr_status status = mr_kind_open_root(opening->dir, &fds[MR_CATALOG_FD_ROOT], absolute, error);
    opening->root = fds[MR_CATALOG_FD_ROOT];
    if (status == MR_OK)
        status = mr_catalog_builder_root(builder, opening->dir, absolute, error);
    if (status == MR_OK)
        status = map_index(opening, &fds[MR_CATALOG_FD_NAMES], error);
    if (status == MR_OK)
        status = build_catalog(opening, builder, &fds[MR_CATALOG_FD_REGION], error);
    if (opening->map)
        munmap((void *)opening->map, opening->len);
    return status;
}

mr_status mr_pack_open(struct mr_spec *spec, const mr_dataset_options *options,
                       int fds_out[MR_CATALOG_N_FDS], mr_error *error)
{
    (void)options;
    const char *dir = spec->paths[0];
    struct opening opening = {
        .dir = dir, .slash = dir[strlen(dir) - 1] == '/' ? "" : "/", .root = -1};
    if (mr_url_is(dir) && mr_index_place_take(spec, &opening.place, error) < 0)
        return MR_ERR_INVALID;
    if (mr_spec_finish(spec, mr_url_is(dir) ? "index" : "none", error) < 0)
        return MR_ERR_INVALID;
    snprintf(opening.path, sizeof opening.path, "%.*s%s" MR_PACK_INDEX, PATH_MAX, dir,
             opening.slash);
    struct mr_catalog_builder builder;
    mr_status status = mr_catalog_builder_init(&builder, MR_SCHEME_PACK, error);
    if (status == MR_OK)
        status = open_pack(&opening, &builder, fds_out, error);
    mr_catalog_builder_fini(&builder);
    return status;
}
