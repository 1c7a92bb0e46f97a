/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a catalog. Any number of processes map the same region; all they share is read-only. Easy to get wrong: the
 * list file (a pack's index) beside the catalog is not sealed and may be overwritten under us, so its lines are parsed
 * with care every time.
 */
#include "dataset/catalog.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "dataset/list_line.h"
#include "dataset/catalog_impl.h"

const void *mr_catalog_section_at(const struct mr_catalog *catalog, enum mr_catalog_section which)
{
    return (const char *)catalog->header + catalog->header->sections[which].off;
}

static uint64_t section_len(const struct mr_catalog *catalog, enum mr_catalog_section which)
{
    return catalog->header->sections[which].len;
}

static bool ends_with_nul(const struct mr_catalog *catalog, enum mr_catalog_section which)
{
    uint64_t len = section_len(catalog, which);
    return len == 0 || ((const char *)mr_catalog_section_at(catalog, which))[len - 1] == '\0';
}

/* The region is ours and sealed; this holds against a descriptor of something else and against another build. */
static bool header_is_sound(const struct mr_catalog_header *header, uint64_t region_bytes)
{
    if (region_bytes < sizeof *header || header->magic != MR_CATALOG_MAGIC || header->version != MR_CATALOG_VERSION ||
        header->header_bytes != sizeof *header || header->kind_bytes != sizeof header->kind ||
        header->total_bytes != region_bytes || header->n_samples > INT64_MAX)
        return false;
    for (int i = 0; i < MR_CATALOG_N_SECTIONS; i++) {
        uint64_t off = header->sections[i].off, len = header->sections[i].len;
        if (off < sizeof *header || off % 8 != 0 || off > region_bytes || len > region_bytes - off)
            return false;
    }
    return true;
}

static bool sections_are_sound(const struct mr_catalog *catalog)
{
    const struct mr_catalog_header *header = catalog->header;
    static const enum mr_catalog_section texts[] = {MR_SECTION_FOLDER_PATHS, MR_SECTION_CLASS_NAMES, MR_SECTION_PREFIX,
                                                    MR_SECTION_ABSOLUTE};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!ends_with_nul(catalog, texts[i]))
            return false;
    if (section_len(catalog, MR_SECTION_PREFIX) == 0 || section_len(catalog, MR_SECTION_ABSOLUTE) == 0)
        return false;
    uint64_t n_steps = header->n_files / MR_CATALOG_STEP + (header->n_files % MR_CATALOG_STEP != 0);
    if (section_len(catalog, MR_SECTION_INDEX) / sizeof(uint64_t) < n_steps)
        return false;
    if (header->scheme != MR_SCHEME_LIST && !ends_with_nul(catalog, MR_SECTION_NAMES))
        return false;
    switch (header->scheme) {
    case MR_SCHEME_PACK: return true;
    case MR_SCHEME_FOLDER: return header->n_files == 0 || section_len(catalog, MR_SECTION_FOLDERS) > 0;
    case MR_SCHEME_LIST: return true;
    case MR_SCHEME_RECORDS: return section_len(catalog, MR_SECTION_STARTS) / sizeof(uint64_t) > header->n_files;
    default: return false;
    }
}

/*
 * MAP_PRIVATE: before Linux 6.7 a region whose content is sealed cannot be mapped MAP_SHARED, not even for reading.
 * What is never written is shared all the same.
 */
static mr_status map_file(int fd, const char *what, const void **map_out, uint64_t *len_out, mr_error *error)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return mr_error_os(error, MR_ERR_IO, errno, "cannot stat %s", what);
    if (st.st_size <= 0 || (uint64_t)st.st_size > SIZE_MAX)
        return mr_error_set(error, MR_ERR_IO, "%s has %jd bytes", what, (intmax_t)st.st_size);
    const void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return mr_error_os(error, errno == ENOMEM ? MR_ERR_NO_MEMORY : MR_ERR_IO, errno, "cannot map %jd bytes of %s",
                           (intmax_t)st.st_size, what);
    *map_out = map;
    *len_out = (uint64_t)st.st_size;
    return MR_OK;
}

static mr_status attach_region(struct mr_catalog *catalog, int fd, mr_error *error)
{
    const void *map = NULL;
    uint64_t len = 0;
    mr_status status = map_file(fd, "the dataset's catalog", &map, &len, error);
    if (status < 0)
        return status;
    if (!header_is_sound(map, len)) {
        munmap((void *)map, len);
        return mr_error_set(error, MR_ERR_INVALID, "the dataset's catalog of %" PRIu64 " bytes is not of this build",
                            len);
    }
    catalog->header = map;
    return MR_OK;
}

/* The file beside the region, which must still be as long as it was. */
static mr_status attach_beside(struct mr_catalog *catalog, int fd, const char *what, mr_error *error)
{
    uint64_t len = 0;
    mr_status status = map_file(fd, what, &catalog->beside, &len, error);
    if (status < 0)
        return status;
    catalog->beside_len = len;
    if (len < catalog->header->names_file_bytes)
        return mr_error_set(error, MR_ERR_IO, "%s shrank from %" PRIu64 " to %" PRIu64 " bytes since it was opened",
                            what, catalog->header->names_file_bytes, len);
    return MR_OK;
}

static mr_status attach_list(struct mr_catalog *catalog, int fd, mr_error *error)
{
    catalog->c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (catalog->c_locale == (locale_t)0)
        return mr_error_os(error, MR_ERR_NO_MEMORY, errno, "newlocale");
    mr_status status = attach_beside(catalog, fd, "the list file", error);
    catalog->names = catalog->beside;
    catalog->names_len = catalog->beside_len;
    return status;
}

static mr_status attach_names(struct mr_catalog *catalog, int fd, mr_error *error)
{
    if (!sections_are_sound(catalog))
        return mr_error_set(error, MR_ERR_INVALID, "the dataset's catalog is inconsistent");
    catalog->index = mr_catalog_section_at(catalog, MR_SECTION_INDEX);
    if (catalog->header->scheme == MR_SCHEME_LIST)
        return attach_list(catalog, fd, error);
    catalog->names = mr_catalog_section_at(catalog, MR_SECTION_NAMES);
    catalog->names_len = section_len(catalog, MR_SECTION_NAMES);
    if (!mr_catalog_is_pack(catalog))
        return MR_OK;
    mr_status status = attach_beside(catalog, fd, "the pack's index", error);
    return status < 0 ? status : mr_catalog_pack_attach(catalog, error);
}

mr_status mr_catalog_attach(const int fds[MR_CATALOG_N_FDS], struct mr_catalog **catalog_out, mr_error *error)
{
    *catalog_out = NULL;
    struct mr_catalog *catalog = calloc(1, sizeof *catalog);
    if (!catalog)
        return mr_error_memory(error, sizeof *catalog);
    catalog->root = fds[MR_CATALOG_FD_ROOT];
    mr_status status = attach_region(catalog, fds[MR_CATALOG_FD_TABLE], error);
    if (status == MR_OK)
        status = attach_names(catalog, fds[MR_CATALOG_FD_NAMES], error);
    if (status < 0) {
        mr_catalog_detach(catalog);
        return status;
    }
    *catalog_out = catalog;
    return MR_OK;
}

void mr_catalog_detach(struct mr_catalog *catalog)
{
    if (!catalog)
        return;
    if (catalog->beside)
        munmap((void *)catalog->beside, catalog->beside_len);
    if (catalog->header)
        munmap((void *)catalog->header, catalog->header->total_bytes);
    if (catalog->c_locale != (locale_t)0)
        freelocale(catalog->c_locale);
    free(catalog);
}

const struct mr_sample_kind *mr_catalog_kind(const struct mr_catalog *catalog)
{
    return &catalog->header->kind;
}

int64_t mr_catalog_count(const struct mr_catalog *catalog)
{
    return (int64_t)catalog->header->n_samples;
}

int mr_catalog_root(const struct mr_catalog *catalog)
{
    return catalog->root;
}

bool mr_catalog_loose_files(const struct mr_catalog *catalog)
{
    return catalog->header->scheme == MR_SCHEME_FOLDER || catalog->header->scheme == MR_SCHEME_LIST;
}

bool mr_catalog_shared_files(const struct mr_catalog *catalog)
{
    return !mr_catalog_loose_files(catalog);
}

uint64_t mr_catalog_n_files(const struct mr_catalog *catalog)
{
    return catalog->header->n_files;
}

const char *mr_catalog_absolute_root(const struct mr_catalog *catalog)
{
    return mr_catalog_section_at(catalog, MR_SECTION_ABSOLUTE);
}

uint32_t mr_catalog_n_classes(const struct mr_catalog *catalog)
{
    return (uint32_t)(section_len(catalog, MR_SECTION_CLASSES) / sizeof(uint64_t));
}

const char *mr_catalog_class_name(const struct mr_catalog *catalog, uint32_t i)
{
    if (i >= mr_catalog_n_classes(catalog))
        return NULL;
    const uint64_t *starts = mr_catalog_section_at(catalog, MR_SECTION_CLASSES);
    return (const char *)mr_catalog_section_at(catalog, MR_SECTION_CLASS_NAMES) + starts[i];
}

/* The i-th text between separators; its length without the separator. False only in a list that was overwritten. */
static bool find_name(const struct mr_catalog *catalog, uint64_t i, char separator, const char **name_out,
                      size_t *len_out)
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

bool mr_catalog_line(const struct mr_catalog *catalog, int64_t index, struct mr_list_line *line_out)
{
    const char *line;
    size_t len;
    return catalog->header->scheme == MR_SCHEME_LIST && find_name(catalog, (uint64_t)index, '\n', &line, &len) &&
           mr_list_line_split(line, len, line_out);
}

/* The last entry whose first u64 is at most value; entries are stride u64s apart, the first is 0. */
static uint64_t last_at_most(const uint64_t *firsts, uint64_t n, uint64_t stride, uint64_t value)
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

static const struct mr_catalog_folder *find_folder(const struct mr_catalog *catalog, uint64_t file)
{
    const struct mr_catalog_folder *folders = mr_catalog_section_at(catalog, MR_SECTION_FOLDERS);
    uint64_t n = section_len(catalog, MR_SECTION_FOLDERS) / sizeof *folders;
    return &folders[last_at_most(&folders->first_file, n, sizeof *folders / sizeof(uint64_t), file)];
}

static uint64_t find_file(const struct mr_catalog *catalog, int64_t index, uint64_t *record_out)
{
    const uint64_t *starts = mr_catalog_section_at(catalog, MR_SECTION_STARTS);
    uint64_t file = last_at_most(starts, catalog->header->n_files, 1, (uint64_t)index);
    *record_out = (uint64_t)index - starts[file];
    return file;
}

/* Start of a part of a record in its file; cannot overflow: the file's size at opening was larger. */
static uint64_t part_start(const struct mr_catalog_record *record, uint64_t number, int64_t part_off)
{
    return record->header + number * record->stride + (uint64_t)part_off;
}

uint32_t mr_catalog_extents(const struct mr_catalog *catalog, int64_t index, struct mr_extent *extents_out)
{
    assert(index >= 0 && (uint64_t)index < catalog->header->n_samples);
    if (mr_catalog_loose_files(catalog)) {
        extents_out[0] = (struct mr_extent){.file = (uint64_t)index, .offset = 0, .len = MR_LEN_UNKNOWN};
        return 1;
    }
    if (mr_catalog_is_pack(catalog))
        return mr_catalog_pack_extents(catalog, index, extents_out);
    const struct mr_catalog_record *record = &catalog->header->record;
    uint64_t number, file = find_file(catalog, index, &number);
    for (uint64_t i = 0; i < record->n_parts; i++)
        extents_out[i] = (struct mr_extent){
            .file = file, .offset = part_start(record, number, record->part_off[i]), .len = record->part_len[i]};
    return (uint32_t)record->n_parts;
}

static int join(const char *folder, const char *name, size_t name_len, char path_out[MR_CATALOG_PATH])
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

int mr_catalog_path(const struct mr_catalog *catalog, uint64_t file, char path_out[MR_CATALOG_PATH])
{
    assert(file < catalog->header->n_files);
    if (catalog->header->scheme == MR_SCHEME_LIST) {
        struct mr_list_line line;
        return mr_catalog_line(catalog, (int64_t)file, &line) ? mr_list_line_path(&line, path_out) : -EINVAL;
    }
    const char *name, *folder = "";
    size_t len;
    if (!find_name(catalog, file, '\0', &name, &len))
        return -EINVAL;
    if (catalog->header->scheme == MR_SCHEME_FOLDER)
        folder =
            (const char *)mr_catalog_section_at(catalog, MR_SECTION_FOLDER_PATHS) + find_folder(catalog, file)->path;
    return join(folder, name, len, path_out);
}

void mr_catalog_name(const struct mr_catalog *catalog, int64_t index, char *name_out, size_t size)
{
    char path[MR_CATALOG_PATH];
    uint64_t number = 0;
    if (mr_catalog_is_pack(catalog)) {
        mr_catalog_pack_name(catalog, index, name_out, size);
        return;
    }
    uint64_t file = mr_catalog_shared_files(catalog) ? find_file(catalog, index, &number) : (uint64_t)index;
    if (mr_catalog_path(catalog, file, path) != 0) {
        snprintf(name_out, size, "sample %" PRId64, index);
        return;
    }
    const char *prefix = path[0] == '/' ? "" : mr_catalog_section_at(catalog, MR_SECTION_PREFIX);
    if (mr_catalog_shared_files(catalog))
        snprintf(name_out, size, "%s%s#%" PRIu64, prefix, path, number);
    else
        snprintf(name_out, size, "%s%s", prefix, path);
}

void mr_catalog_which(const struct mr_catalog *catalog, int64_t index, char which_out[MR_CATALOG_WHICH])
{
    char name[MR_CATALOG_WHICH - 32] = "callback sample";
    if (catalog && mr_catalog_is_pack(catalog)) {
        mr_catalog_pack_which(catalog, index, which_out);
        return;
    }
    if (catalog)
        mr_catalog_name(catalog, index, name, sizeof name);
    snprintf(which_out, MR_CATALOG_WHICH, "%s (index %" PRId64 ")", name, index);
}

void mr_catalog_widen(const struct mr_catalog *catalog, const uint8_t *bytes, void *label_out)
{
    const struct mr_catalog_record *record = &catalog->header->record;
    if (!record->widen) {
        memcpy(label_out, bytes, record->label_len);
        return;
    }
    uint64_t value = 0;
    for (uint64_t i = record->label_len; i-- > 0;)
        value = value << 8 | bytes[i];
    int64_t label = record->label_len == 4 ? (int32_t)(uint32_t)value : (int64_t)value;
    memcpy(label_out, &label, sizeof label);
}

/* Labels of loose files and of packs. */
static mr_status known_label(const struct mr_catalog *catalog, int64_t index, void *label_out, mr_error *error)
{
    const struct mr_sample_kind *kind = &catalog->header->kind;
    if (mr_catalog_is_pack(catalog))
        return mr_catalog_pack_label(catalog, index, label_out, error);
    if (catalog->header->scheme == MR_SCHEME_FOLDER) {
        int64_t label = (int64_t)find_folder(catalog, (uint64_t)index)->class_;
        memcpy(label_out, &label, sizeof label);
        return MR_OK;
    }
    struct mr_list_line line;
    uint32_t n = (uint32_t)(kind->label_bytes / mr_dtype_size(kind->label_dtype));
    if (mr_catalog_line(catalog, index, &line) &&
        mr_list_line_label(&line, kind->label_dtype, n, catalog->c_locale, label_out))
        return MR_OK;
    char which[MR_CATALOG_WHICH];
    mr_catalog_which(catalog, index, which);
    return mr_error_set(error, MR_ERR_DAMAGED, "%s: its line in the list changed after it was opened", which);
}

mr_status mr_catalog_label(const struct mr_catalog *catalog, int64_t index, void *label_out,
                           struct mr_extent *extent_out, mr_error *error)
{
    if (catalog->header->scheme != MR_SCHEME_RECORDS)
        return known_label(catalog, index, label_out, error);
    const struct mr_catalog_record *record = &catalog->header->record;
    if (record->label_len == 0) {
        memset(label_out, 0, catalog->header->kind.label_bytes);
        return MR_OK;
    }
    uint64_t part = record->n_parts - 1, number; /* the label lies in the last part */
    uint64_t file = find_file(catalog, index, &number);
    uint64_t in_part = record->label_at - (part ? record->part_len[0] : 0);
    *extent_out = (struct mr_extent){
        .file = file, .offset = part_start(record, number, record->part_off[part]) + in_part, .len = record->label_len};
    return MR_PENDING;
}

mr_status mr_catalog_split(const struct mr_catalog *catalog, int64_t index, const uint8_t *bytes, size_t len,
                           const uint8_t **data_out, size_t *data_len_out, void *label_out, mr_error *error)
{
    if (catalog->header->scheme != MR_SCHEME_RECORDS) {
        *data_out = bytes;
        *data_len_out = len;
        return known_label(catalog, index, label_out, error);
    }
    const struct mr_catalog_record *record = &catalog->header->record;
    uint64_t need = record->part_len[0] + (record->n_parts > 1 ? record->part_len[1] : 0);
    if (len < need) {
        char which[MR_CATALOG_WHICH];
        mr_catalog_which(catalog, index, which);
        return mr_error_set(error, MR_ERR_DAMAGED, "%s: %zu bytes were read where a record has %" PRIu64, which, len,
                            need);
    }
    *data_out = bytes + record->data_at;
    *data_len_out = catalog->header->kind.data_bytes;
    if (record->label_len == 0)
        memset(label_out, 0, catalog->header->kind.label_bytes);
    else
        mr_catalog_widen(catalog, bytes + record->label_at, label_out);
    return MR_OK;
}
