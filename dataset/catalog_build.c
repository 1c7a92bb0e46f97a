/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds a catalog in a memfd. Names are by far the largest part, so they are written directly into
 * the region while a folder is listed, and exist only once. The small sections are collected on the
 * heap and appended at the end.
 *
 * Invariant: the mapping moves when the region grows, so pointers into it become invalid at every
 * append.
 */
#include "dataset/catalog_build.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/shared_memory.h"
#include "dataset/file.h"
#include "dataset/remote/object.h"
#include "dataset/remote/url.h"

#define CATALOG_NAME "the dataset's catalog"

enum { FIRST_BYTES = 1 << 16 };

mr_status mr_catalog_builder_init(struct mr_catalog_builder *builder, enum mr_catalog_scheme scheme,
                                  mr_error *error)
{
    return mr_catalog_builder_init_as(builder, scheme, "millrace-catalog", error);
}

mr_status mr_catalog_builder_init_as(struct mr_catalog_builder *builder,
                                     enum mr_catalog_scheme scheme, const char *name,
                                     mr_error *error)
{
    *builder = (struct mr_catalog_builder){.fd = -1, .map = MAP_FAILED};
    builder->header.scheme = scheme;
    mr_status status = mr_shared_memory_create(name, FIRST_BYTES, &builder->fd, error);
    if (status < 0)
        return status;
    builder->map = mmap(NULL, FIRST_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, builder->fd, 0);
    if (builder->map == MAP_FAILED)
        return mr_error_os(error, MR_ERR_NO_MEMORY, errno, "cannot map " CATALOG_NAME);
    builder->map_len = FIRST_BYTES;
    return MR_OK;
}

void mr_catalog_builder_fini(struct mr_catalog_builder *builder)
{
    for (int i = 0; i < MR_CATALOG_N_SECTIONS; i++)
        mr_bytes_fini(&builder->sections[i]);
    if (builder->map != MAP_FAILED)
        munmap(builder->map, builder->map_len);
    if (builder->fd >= 0)
        close(builder->fd);
    *builder = (struct mr_catalog_builder){.fd = -1, .map = MAP_FAILED};
}

static mr_status set_size(struct mr_catalog_builder *builder, size_t size, mr_error *error)
{
    mr_status status = mr_shared_memory_resize(builder->fd, CATALOG_NAME, size, error);
    if (status < 0)
        return status;
    unsigned char *map = mremap(builder->map, builder->map_len, size, MREMAP_MAYMOVE);
    if (map == MAP_FAILED)
        return mr_error_os(error, MR_ERR_NO_MEMORY, errno, "cannot map %zu bytes of " CATALOG_NAME,
                           size);
    builder->map = map;
    builder->map_len = size;
    return MR_OK;
}

/*
 * Make room for need bytes, and for half as many again if RLIMIT_FSIZE allows it. Pages that are
 * not touched cost nothing.
 */
static mr_status reserve_bytes(struct mr_catalog_builder *builder, size_t need, mr_error *error)
{
    if (need <= builder->map_len)
        return MR_OK;
    uint64_t limit = mr_shared_memory_limit(), size = need;
    mr_checked_add_u64(need, need / 2, &size);
    if (size > limit)
        size = limit > need ? limit : need;
    return set_size(builder, size, error);
}

mr_status mr_catalog_builder_name(struct mr_catalog_builder *builder, const char *name,
                                  mr_error *error)
{
    size_t len = strlen(name) + 1;
    size_t start = sizeof builder->header + builder->names_len;
    mr_status status = reserve_bytes(builder, start + len, error);
    if (status == MR_OK && builder->n_names % MR_CATALOG_STEP == 0)
        status =
            mr_bytes_append_u64(&builder->sections[MR_SECTION_INDEX], builder->names_len, error);
    if (status < 0)
        return status;
    memcpy(builder->map + start, name, len);
    builder->names_len += len;
    builder->n_names++;
    return MR_OK;
}

mr_status mr_catalog_builder_folder(struct mr_catalog_builder *builder, const char *path,
                                    uint64_t class_, mr_error *error)
{
    struct mr_bytes *paths = &builder->sections[MR_SECTION_FOLDER_PATHS];
    struct mr_catalog_folder folder = {
        .first_file = builder->n_names, .path = paths->len, .class_ = class_};
    mr_status status = mr_bytes_append(paths, path, strlen(path) + 1, error);
    if (status < 0)
        return status;
    return mr_bytes_append(&builder->sections[MR_SECTION_FOLDERS], &folder, sizeof folder, error);
}

mr_status mr_catalog_builder_class(struct mr_catalog_builder *builder, const char *name,
                                   mr_error *error)
{
    struct mr_bytes *names = &builder->sections[MR_SECTION_CLASS_NAMES];
    mr_status status =
        mr_bytes_append_u64(&builder->sections[MR_SECTION_CLASSES], names->len, error);
    return status < 0 ? status : mr_bytes_append(names, name, strlen(name) + 1, error);
}

mr_status mr_catalog_builder_root(struct mr_catalog_builder *builder, const char *written,
                                  const char *absolute, mr_error *error)
{
    size_t len = strlen(written);
    struct mr_bytes *prefix = &builder->sections[MR_SECTION_PREFIX];
    mr_status status = mr_bytes_append(prefix, written, len, error);
    if (status == MR_OK && len > 0 && written[len - 1] != '/')
        status = mr_bytes_append(prefix, "/", 1, error);
    if (status == MR_OK)
        status = mr_bytes_append(prefix, "", 1, error);
    if (status == MR_OK)
        status = mr_bytes_append(&builder->sections[MR_SECTION_ABSOLUTE], absolute,
                                 strlen(absolute) + 1, error);
    return status;
}

mr_status mr_catalog_builder_versions(struct mr_catalog_builder *builder, const char *paths,
                                      size_t n, mr_error *error)
{
    struct mr_bytes *versions = &builder->sections[MR_SECTION_VERSIONS];
    size_t len = n * sizeof(struct mr_object_version);
    mr_status status = mr_bytes_reserve(versions, len, error);
    builder->header.is_remote = 1;
    if (status == MR_OK)
        status = mr_object_versions(paths, n, (void *)(versions->data + versions->len), error);
    versions->len += status == MR_OK ? len : 0;
    return status;
}

mr_status mr_catalog_builder_find_versions(struct mr_catalog_builder *builder, char *const *paths,
                                           size_t n, mr_error *error)
{
    struct mr_bytes all = {0};
    mr_status status = MR_OK;
    bool has_url = false;
    for (size_t i = 0; status == MR_OK && i < n; i++) {
        has_url |= mr_url_is(paths[i]);
        status = mr_bytes_append(&all, paths[i], strlen(paths[i]) + 1, error);
    }
    if (status == MR_OK && has_url)
        status = mr_catalog_builder_versions(builder, (const char *)all.data, n, error);
    mr_bytes_fini(&all);
    return status;
}

/*
 * Set the offsets of all sections and return the size of the region. NAMES begins right after the
 * header.
 */
static size_t lay_out(struct mr_catalog_builder *builder)
{
    struct mr_catalog_header *header = &builder->header;
    size_t off = sizeof *header;
    for (int i = 0; i < MR_CATALOG_N_SECTIONS; i++) {
        header->sections[i].off = off;
        header->sections[i].len =
            i == MR_SECTION_NAMES ? builder->names_len : builder->sections[i].len;
        off = mr_align_up(off + header->sections[i].len, 8);
    }
    header->magic = MR_CATALOG_MAGIC;
    header->version = MR_CATALOG_VERSION;
    header->header_bytes = sizeof *header;
    header->kind_bytes = sizeof header->kind;
    header->total_bytes = off;
    return off;
}

/*
 * Writes with system calls, not through the mapping, and frees each section before it writes the
 * next. So at most one section is in memory twice, on the heap and in the memfd, and the process
 * has only one of the two copies mapped. Returns 0 or a negative errno.
 */
static int write_sections(struct mr_catalog_builder *builder)
{
    int rc = 0;
    for (int i = 0; i < MR_CATALOG_N_SECTIONS && rc == 0; i++) {
        if (i == MR_SECTION_NAMES)
            continue;
        struct mr_bytes *section = &builder->sections[i];
        rc = mr_file_write_at(builder->fd, section->data, section->len,
                              builder->header.sections[i].off);
        mr_bytes_fini(section);
    }
    return rc;
}

mr_status mr_catalog_builder_finish(struct mr_catalog_builder *builder, int *fd_out,
                                    mr_error *error)
{
    static_assert(sizeof(struct mr_catalog_header) % 8 == 0, "sections are 8-aligned");
    size_t total = lay_out(builder);
    mr_status status = set_size(builder, total, error);
    if (status < 0)
        return status;
    memcpy(builder->map, &builder->header, sizeof builder->header);
    munmap(builder->map, builder->map_len);
    builder->map = MAP_FAILED;
    int rc = write_sections(builder);
    if (rc < 0)
        return mr_error_os(error, rc == -ENOSPC ? MR_ERR_NO_MEMORY : MR_ERR_IO, -rc,
                           "cannot write " CATALOG_NAME);
    rc = mr_shared_memory_seal_content(builder->fd);
    if (rc < 0)
        return mr_error_os(error, MR_ERR_IO, -rc, "cannot seal " CATALOG_NAME);
    *fd_out = builder->fd;
    builder->fd = -1;
    return MR_OK;
}
