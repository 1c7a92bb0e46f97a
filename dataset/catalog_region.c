/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps and checks the region of a catalog, and finds names in it. Any number of processes map the
 * same region.
 */
#include "dataset/catalog_region.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "dataset/remote/url.h"

const void *mr_catalog_region_section(const struct mr_catalog *catalog,
                                      enum mr_catalog_section which)
{
    return (const char *)catalog->header + catalog->header->sections[which].off;
}

uint64_t mr_catalog_region_len(const struct mr_catalog *catalog, enum mr_catalog_section which)
{
    return catalog->header->sections[which].len;
}

static bool ends_with_nul(const struct mr_catalog *catalog, enum mr_catalog_section which)
{
    uint64_t len = mr_catalog_region_len(catalog, which);
    return len == 0 || ((const char *)mr_catalog_region_section(catalog, which))[len - 1] == '\0';
}

/*
 * The region is sealed and we made it. This check detects a wrong descriptor, and a region of
 * another build.
 */
static bool header_is_sound(const struct mr_catalog_header *header, uint64_t region_bytes)
{
    if (region_bytes < sizeof *header || header->magic != MR_CATALOG_MAGIC ||
        header->version != MR_CATALOG_VERSION || header->header_bytes != sizeof *header ||
        header->kind_bytes != sizeof header->kind || header->total_bytes != region_bytes ||
        header->n_samples > INT64_MAX)
        return false;
    for (int i = 0; i < MR_CATALOG_N_SECTIONS; i++) {
        uint64_t off = header->sections[i].off, len = header->sections[i].len;
        if (off < sizeof *header || off % 8 != 0 || off > region_bytes || len > region_bytes - off)
            return false;
    }
    return true;
}

bool mr_catalog_region_is_sound(const struct mr_catalog *catalog)
{
    const struct mr_catalog_header *header = catalog->header;
    static const enum mr_catalog_section texts[] = {MR_SECTION_FOLDER_PATHS, MR_SECTION_CLASS_NAMES,
                                                    MR_SECTION_PREFIX, MR_SECTION_ABSOLUTE};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!ends_with_nul(catalog, texts[i]))
            return false;
    if (mr_catalog_region_len(catalog, MR_SECTION_PREFIX) == 0 ||
        mr_catalog_region_len(catalog, MR_SECTION_ABSOLUTE) == 0)
        return false;
    uint64_t n_steps = header->n_files / MR_CATALOG_STEP + (header->n_files % MR_CATALOG_STEP != 0);
    if (header->scheme != MR_SCHEME_MIX && /* whose files have their names in its sources */
        mr_catalog_region_len(catalog, MR_SECTION_INDEX) / sizeof(uint64_t) < n_steps)
        return false;
    return ends_with_nul(catalog, MR_SECTION_NAMES);
}

/*
 * MAP_PRIVATE: before Linux 6.7 a region with sealed content cannot be mapped MAP_SHARED, not even
 * for reading. Pages that are never written are shared in either mode.
 */
static mr_status map_file(int fd, const char *what, const void **map_out, uint64_t *len_out,
                          mr_error *error)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return mr_error_os(error, MR_ERR_IO, errno, "cannot stat %s", what);
    if (st.st_size <= 0 || (uint64_t)st.st_size > SIZE_MAX)
        return mr_error_set(error, MR_ERR_IO, "%s has %jd bytes", what, (intmax_t)st.st_size);
    const void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return mr_error_os(error, errno == ENOMEM ? MR_ERR_NO_MEMORY : MR_ERR_IO, errno,
                           "cannot map %jd bytes of %s", (intmax_t)st.st_size, what);
    *map_out = map;
    *len_out = (uint64_t)st.st_size;
    return MR_OK;
}

mr_status mr_catalog_region_check(const struct mr_catalog_header *header, uint64_t len,
                                  mr_error *error)
{
    if (header_is_sound(header, len))
        return MR_OK;
    return mr_error_set(error, MR_ERR_INVALID,
                        "the dataset's catalog of %" PRIu64 " bytes was not made by this build",
                        len);
}

mr_status mr_catalog_region_map(struct mr_catalog *catalog, int fd, mr_error *error)
{
    const void *map = NULL;
    uint64_t len = 0;
    mr_status status = map_file(fd, "the dataset's catalog", &map, &len, error);
    if (status < 0)
        return status;
    status = mr_catalog_region_check(map, len, error);
    if (status == MR_OK)
        catalog->header = map;
    else
        munmap((void *)map, len);
    return status;
}

mr_status mr_catalog_region_map_beside(struct mr_catalog *catalog, int fd, const char *what,
                                       mr_error *error)
{
    uint64_t len = 0;
    mr_status status = map_file(fd, what, &catalog->beside, &len, error);
    if (status < 0)
        return status;
    catalog->beside_len = len;
    if (len < catalog->header->names_file_bytes)
        return mr_error_set(error, MR_ERR_IO,
                            "%s shrank from %" PRIu64 " to %" PRIu64 " bytes since it was opened",
                            what, catalog->header->names_file_bytes, len);
    return MR_OK;
}

void mr_catalog_region_unmap(struct mr_catalog *catalog)
{
    if (catalog->beside)
        munmap((void *)catalog->beside, catalog->beside_len);
    if (catalog->header)
        munmap((void *)catalog->header, catalog->header->total_bytes);
}

bool mr_catalog_region_find(const struct mr_catalog *catalog, uint64_t i, char separator,
                            const char **name_out, size_t *len_out)
{
    const char *end = catalog->names + catalog->names_len;
    const char *name = catalog->names + catalog->index[i / MR_CATALOG_STEP];
    for (uint64_t walk = i % MR_CATALOG_STEP; walk > 0; walk--) {
        const char *stop = memchr(name, separator, (size_t)(end - name));
        if (!stop)
            return false;
        name = stop + 1;
    }
    const char *stop = memchr(name, separator, (size_t)(end - name));
    *name_out = name;
    *len_out = (size_t)((stop ? stop : end) - name);
    return true;
}

uint64_t mr_catalog_region_last(const uint64_t *firsts, uint64_t n, uint64_t stride, uint64_t value)
{
    uint64_t lo = 0, hi = n;
    while (hi - lo > 1) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (firsts[mid * stride] <= value)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static int join_path(const char *folder, const char *name, size_t name_len,
                     char path_out[MR_CATALOG_PATH])
{
    size_t folder_len = strlen(folder), slash = folder_len > 0;
    if (name_len >= MR_CATALOG_PATH || folder_len + slash + name_len >= MR_CATALOG_PATH)
        return -ENAMETOOLONG;
    memcpy(path_out, folder, folder_len);
    if (slash)
        path_out[folder_len] = '/';
    memcpy(path_out + folder_len + slash, name, name_len);
    path_out[folder_len + slash + name_len] = '\0';
    return 0;
}

int mr_catalog_region_path(const struct mr_catalog *catalog, uint64_t i, const char *folder,
                           char path_out[MR_CATALOG_PATH])
{
    const char *name;
    size_t len;
    if (!mr_catalog_region_find(catalog, i, '\0', &name, &len))
        return -EINVAL;
    return join_path(folder, name, len, path_out);
}

int mr_catalog_region_plain_path(const struct mr_catalog *catalog, uint64_t file,
                                 char path_out[MR_CATALOG_PATH])
{
    return mr_catalog_region_path(catalog, file, "", path_out);
}

mr_status mr_catalog_region_no_label(const struct mr_catalog *catalog, int64_t index,
                                     void *label_out, struct mr_extent *extent_out, mr_error *error)
{
    (void)catalog, (void)index, (void)label_out, (void)extent_out, (void)error;
    return MR_OK;
}

void mr_catalog_region_name(const struct mr_catalog *catalog, int64_t index, uint64_t file,
                            const char *suffix, char *name_out, size_t size)
{
    char path[MR_CATALOG_PATH];
    if (catalog->ops->path(catalog, file, path) != 0) {
        snprintf(name_out, size, "sample %" PRId64, index);
        return;
    }
    const char *prefix = path[0] == '/' || mr_url_is(path)
                             ? ""
                             : mr_catalog_region_section(catalog, MR_SECTION_PREFIX);
    const char *root = mr_catalog_region_section(catalog, MR_SECTION_ABSOLUTE);
    if (mr_url_has_query(mr_url_is(path) ? path : root)) /* it may contain a signature */
        path[strcspn(path, "?")] = '\0';
    snprintf(name_out, size, "%s%s%s", prefix, path, suffix);
}

struct mr_extent mr_catalog_region_whole_file(const struct mr_catalog *catalog, int64_t index)
{
    (void)catalog;
    return (struct mr_extent){.file = (uint64_t)index, .offset = 0, .len = MR_LEN_UNKNOWN};
}

void mr_catalog_region_member_files(const struct mr_catalog *catalog, int64_t index,
                                    struct mr_extent members_out[MR_MAX_MEMBERS])
{
    const struct mr_catalog_header *header = catalog->header;
    for (uint32_t k = 0; k < header->kind.n_extra; k++)
        members_out[k] = (struct mr_extent){.file = header->n_files * (k + 1) + (uint64_t)index,
                                            .len = MR_LEN_UNKNOWN};
}

void mr_catalog_region_file_name(const struct mr_catalog *catalog, int64_t index, char *name_out,
                                 size_t size)
{
    mr_catalog_region_name(catalog, index, (uint64_t)index, "", name_out, size);
}
