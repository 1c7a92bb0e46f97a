/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaches a catalog and passes each call to the table of its scheme (catalog_ops.h). What is the
 * same for all schemes is answered here: counts, classes, the root.
 */
#include "dataset/catalog.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "dataset/catalog_ops.h"
#include "dataset/catalog_region.h"
#include "dataset/remote/url.h"

static const struct mr_catalog_ops *const schemes[] = {
    [MR_SCHEME_FOLDER] = &mr_catalog_folder_ops,
    [MR_SCHEME_LIST] = &mr_catalog_list_ops,
    [MR_SCHEME_RECORDS] = &mr_catalog_records_ops,
    [MR_SCHEME_PACK] = &mr_catalog_pack_ops,
    [MR_SCHEME_TAR] = &mr_catalog_tar_ops,
    [MR_SCHEME_TOKENS] = &mr_catalog_tokens_ops,
    [MR_SCHEME_DOCUMENTS] = &mr_catalog_documents_ops,
    [MR_SCHEME_MIX] = &mr_catalog_mix_ops,
    [MR_SCHEME_SEQUENCES] = &mr_catalog_sequences_ops,
};

static const struct mr_catalog_ops *find_scheme(uint32_t scheme)
{
    return scheme < sizeof schemes / sizeof *schemes ? schemes[scheme] : NULL;
}

static mr_status attach_scheme(struct mr_catalog *catalog, int names_fd, mr_error *error)
{
    const struct mr_catalog_ops *ops = find_scheme(catalog->header->scheme);
    catalog->ops = ops;
    catalog->beside_fd = names_fd;
    if (!ops || !mr_catalog_region_is_sound(catalog) || (ops->is_sound && !ops->is_sound(catalog)))
        return mr_error_set(error, MR_ERR_INVALID, "the dataset's catalog is inconsistent");
    catalog->index = mr_catalog_region_section(catalog, MR_SECTION_INDEX);
    catalog->names = mr_catalog_region_section(catalog, MR_SECTION_NAMES);
    catalog->names_len = mr_catalog_region_len(catalog, MR_SECTION_NAMES);
    mr_status status = MR_OK;
    if (ops->beside && !catalog->beside)
        status = mr_catalog_region_map_beside(catalog, names_fd, ops->beside, error);
    if (status == MR_OK && ops->attach)
        status = ops->attach(catalog, error);
    return status;
}

mr_status mr_catalog_attach(const int fds[MR_CATALOG_N_FDS], struct mr_catalog **catalog_out,
                            mr_error *error)
{
    *catalog_out = NULL;
    struct mr_catalog *catalog = calloc(1, sizeof *catalog);
    if (!catalog)
        return mr_error_memory(error, sizeof *catalog);
    catalog->root = fds[MR_CATALOG_FD_ROOT];
    mr_status status = mr_catalog_region_map(catalog, fds[MR_CATALOG_FD_REGION], error);
    if (status == MR_OK)
        status = attach_scheme(catalog, fds[MR_CATALOG_FD_NAMES], error);
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
    if (catalog->ops && catalog->ops->detach)
        catalog->ops->detach(catalog);
    mr_catalog_region_unmap(catalog);
    free(catalog);
}

mr_status mr_catalog_attach_inside(const struct mr_catalog *inside, uint64_t region_len,
                                   struct mr_catalog **catalog_out, mr_error *error)
{
    struct mr_catalog *catalog = malloc(sizeof *catalog);
    if (!catalog)
        return mr_error_memory(error, sizeof *catalog);
    *catalog = *inside;
    *catalog_out = catalog;
    return mr_catalog_region_check(catalog->header, region_len, error) == MR_OK
               ? attach_scheme(catalog, -1, error)
               : MR_ERR_INVALID;
}

void mr_catalog_detach_inside(struct mr_catalog *catalog)
{
    if (catalog && catalog->ops && catalog->ops->detach)
        catalog->ops->detach(catalog);
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
    return catalog->ops->loose_files;
}

bool mr_catalog_is_described(const struct mr_catalog *catalog)
{
    return catalog->ops->packed != NULL;
}

bool mr_catalog_is_pack(const struct mr_catalog *catalog)
{
    return catalog->ops == &mr_catalog_pack_ops;
}

const struct mr_pack_index *mr_catalog_pack(const struct mr_catalog *catalog)
{
    return mr_catalog_is_pack(catalog) ? catalog->state : NULL;
}

uint64_t mr_catalog_n_files(const struct mr_catalog *catalog)
{
    const struct mr_catalog_header *header = catalog->header;
    return header->n_files * (catalog->ops->loose_files ? 1 + header->kind.n_extra : 1);
}

uint64_t mr_catalog_n_loose_files(const struct mr_catalog *catalog)
{
    return catalog->ops->loose_files ? mr_catalog_n_files(catalog) : catalog->header->n_loose;
}

const char *mr_catalog_absolute_root(const struct mr_catalog *catalog)
{
    return mr_catalog_region_section(catalog, MR_SECTION_ABSOLUTE);
}

uint32_t mr_catalog_n_classes(const struct mr_catalog *catalog)
{
    return (uint32_t)(mr_catalog_region_len(catalog, MR_SECTION_CLASSES) / sizeof(uint64_t));
}

const char *mr_catalog_class_name(const struct mr_catalog *catalog, uint32_t i)
{
    if (i >= mr_catalog_n_classes(catalog))
        return NULL;
    const uint64_t *starts = mr_catalog_region_section(catalog, MR_SECTION_CLASSES);
    return (const char *)mr_catalog_region_section(catalog, MR_SECTION_CLASS_NAMES) + starts[i];
}

bool mr_catalog_has_members(const struct mr_catalog *catalog)
{
    return catalog->ops->in_shards;
}

struct mr_extent mr_catalog_image(const struct mr_catalog *catalog, int64_t index)
{
    assert(index >= 0 && (uint64_t)index < catalog->header->n_samples);
    return catalog->ops->image(catalog, index);
}

void mr_catalog_begin_pieces(const struct mr_catalog *catalog, int64_t index,
                             struct mr_piece_walk *walk_out)
{
    catalog->ops->begin_pieces(catalog, index, walk_out);
}

bool mr_catalog_next_piece(const struct mr_catalog *catalog, struct mr_piece_walk *walk,
                           struct mr_extent *piece_out)
{
    return catalog->ops->next_piece(catalog, walk, piece_out);
}

uint64_t mr_catalog_length(const struct mr_catalog *catalog, int64_t index)
{
    return catalog->ops->length ? catalog->ops->length(catalog, index)
                                : catalog->header->kind.tokens;
}

void mr_catalog_members(const struct mr_catalog *catalog, int64_t index,
                        struct mr_extent members_out[MR_MAX_MEMBERS])
{
    if (catalog->ops->members)
        catalog->ops->members(catalog, index, members_out);
}

const uint8_t *mr_catalog_memory(const struct mr_catalog *catalog, const struct mr_extent *extent)
{
    const uint8_t *bytes = mr_catalog_region_section(catalog, MR_SECTION_EXTRA);
    return extent->file == MR_FILE_CATALOG ? bytes + extent->offset : NULL;
}

void mr_part_list_add(struct mr_part_list *list, struct mr_extent extent, uint64_t max_bytes,
                      enum mr_purpose purpose)
{
    assert(list->n < MR_MAX_PARTS);
    list->part[list->n++] = (struct mr_part){extent, max_bytes, purpose};
}

mr_status mr_catalog_check(const struct mr_catalog *catalog, int64_t index, mr_error *error)
{
    char which[MR_CATALOG_DESCRIPTION];
    struct stat st;
    if (!catalog->ops->is_watched || catalog->beside_fd < 0 ||
        fstat(catalog->beside_fd, &st) != 0 ||
        (uint64_t)st.st_size >= catalog->header->names_file_bytes)
        return MR_OK;
    mr_catalog_describe(catalog, index, which);
    return mr_error_set(
        error, MR_ERR_DAMAGED, "%s: %s shrank from %" PRIu64 " to %jd bytes since it was opened",
        which, catalog->ops->beside, catalog->header->names_file_bytes, (intmax_t)st.st_size);
}

void mr_catalog_parts(const struct mr_catalog *catalog, int64_t index, uint64_t max_bytes,
                      struct mr_part_list *list_out)
{
    const struct mr_sample_kind *kind = mr_catalog_kind(catalog);
    struct mr_extent label, members[MR_MAX_MEMBERS] = {{0}};
    list_out->n = list_out->n_pieces = 0;
    list_out->pieces = NULL;
    mr_part_list_add(list_out, mr_catalog_image(catalog, index), max_bytes, MR_FOR_IMAGE);
    if (catalog->ops->label_extent && catalog->ops->label_extent(catalog, index, &label))
        mr_part_list_add(list_out, label, label.len, MR_FOR_LABEL);
    mr_catalog_members(catalog, index, members);
    for (uint32_t i = 0; i < kind->n_extra; i++)
        mr_part_list_add(list_out, members[i], kind->extra[i].max_bytes, MR_FOR_MEMBER);
}

mr_status mr_catalog_restrict(const struct mr_catalog *catalog, int64_t index, uint64_t offset,
                              uint64_t len, struct mr_part_list *list, mr_error *error)
{
    struct mr_extent *image = &list->part[0].extent;
    bool known = image->len != MR_LEN_UNKNOWN;
    if (known && (offset > image->len || len > image->len - offset)) {
        char which[MR_CATALOG_DESCRIPTION];
        mr_catalog_describe(catalog, index, which);
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "%s: %" PRIu64 " bytes at %" PRIu64 " are outside its %" PRIu64
                            " bytes",
                            which, len, offset, image->len);
    }
    image->offset += offset;
    image->len = len < MR_LEN_UNKNOWN ? len : MR_LEN_UNKNOWN - 1; /* no file is that long */
    return MR_OK;
}

int mr_catalog_path(const struct mr_catalog *catalog, uint64_t file, char path_out[MR_CATALOG_PATH])
{
    assert(file < mr_catalog_n_files(catalog));
    return catalog->ops->path(catalog, file, path_out);
}

bool mr_catalog_is_remote(const struct mr_catalog *catalog)
{
    return catalog->header->is_remote;
}

bool mr_catalog_keeps_index(const struct mr_catalog *catalog)
{
    return !catalog->header->no_index;
}

int mr_catalog_url(const struct mr_catalog *catalog, uint64_t file, char url_out[MR_CATALOG_PATH])
{
    char path[MR_CATALOG_PATH];
    const char *root = mr_catalog_absolute_root(catalog);
    int rc = mr_catalog_path(catalog, file, path);
    if (rc == 0 && !mr_url_is(root) && !mr_url_is(path))
        rc = -ENOENT;
    return rc == 0 ? mr_url_join(root, path, url_out, MR_CATALOG_PATH) : rc;
}

bool mr_catalog_version(const struct mr_catalog *catalog, uint64_t file,
                        struct mr_object_version *version_out)
{
    const struct mr_object_version *versions =
        mr_catalog_region_section(catalog, MR_SECTION_VERSIONS);
    uint64_t n = mr_catalog_region_len(catalog, MR_SECTION_VERSIONS) / sizeof *versions;
    if (catalog->ops->version)
        return catalog->ops->version(catalog, file, version_out);
    if (file >= n || versions[file].size == 0) /* among remote files, a local one has size 0 */
        return false;
    *version_out = versions[file];
    return true;
}

bool mr_catalog_may_lack(const struct mr_catalog *catalog, uint64_t file)
{
    return catalog->ops->may_lack && catalog->ops->may_lack(catalog, file);
}

bool mr_catalog_is_file(const struct mr_catalog *catalog, uint64_t file, const struct stat *st)
{
    return !catalog->ops->is_file || catalog->ops->is_file(catalog, file, st);
}

void mr_catalog_name(const struct mr_catalog *catalog, int64_t index, char *name_out, size_t size)
{
    catalog->ops->name(catalog, index, name_out, size);
}

void mr_catalog_relative_name(const struct mr_catalog *catalog, int64_t index, char *name_out,
                              size_t size)
{
    char name[2 * MR_CATALOG_PATH];
    mr_catalog_name(catalog, index, name, sizeof name);
    const char *prefix = mr_catalog_region_section(catalog, MR_SECTION_PREFIX);
    /* the names of packed samples do not contain the prefix */
    size_t len = catalog->ops->packed ? 0 : strlen(prefix);
    snprintf(name_out, size, "%s", strncmp(name, prefix, len) == 0 ? name + len : name);
}

void mr_catalog_describe(const struct mr_catalog *catalog, int64_t index,
                         char which_out[MR_CATALOG_DESCRIPTION])
{
    char name[MR_CATALOG_DESCRIPTION - 32] = "callback sample";
    if (catalog && catalog->ops->which) {
        catalog->ops->which(catalog, index, NULL, which_out);
        return;
    }
    if (catalog)
        mr_catalog_name(catalog, index, name, sizeof name);
    snprintf(which_out, MR_CATALOG_DESCRIPTION, "%s (index %" PRId64 ")", name, index);
}

void mr_catalog_describe_file(const struct mr_catalog *catalog, int64_t index, uint64_t file,
                              char which_out[MR_CATALOG_DESCRIPTION])
{
    char name[MR_CATALOG_DESCRIPTION - 32];
    if (catalog->ops->which) {
        catalog->ops->which(catalog, index, &file, which_out);
    } else if (file < mr_catalog_n_loose_files(catalog)) {
        mr_catalog_region_name(catalog, index, file, "", name, sizeof name);
        snprintf(which_out, MR_CATALOG_DESCRIPTION, "%s (index %" PRId64 ")", name, index);
    } else {
        mr_catalog_describe(catalog, index, which_out);
    }
}

void mr_catalog_file_name(const struct mr_catalog *catalog, int64_t index,
                          char name_out[MR_CATALOG_DESCRIPTION])
{
    if (catalog->ops->which)
        catalog->ops->which(catalog, index, NULL, name_out);
    else
        mr_catalog_name(catalog, index, name_out, MR_CATALOG_DESCRIPTION);
}

const struct mr_catalog_size *mr_catalog_stated_size(const struct mr_catalog *catalog,
                                                     int64_t index)
{
    const struct mr_catalog_size *sizes = mr_catalog_region_section(catalog, MR_SECTION_SIZES);
    uint64_t n = mr_catalog_region_len(catalog, MR_SECTION_SIZES) / sizeof *sizes;
    bool is_stated = (uint64_t)index < n && sizes[index].width > 0 && sizes[index].height > 0;
    return is_stated ? &sizes[index] : NULL;
}

mr_status mr_catalog_label(const struct mr_catalog *catalog, int64_t index, void *label_out,
                           struct mr_extent *extent_out, mr_error *error)
{
    return catalog->ops->label(catalog, index, label_out, extent_out, error);
}

void mr_catalog_widen(const struct mr_catalog *catalog, int64_t index, const uint8_t *bytes,
                      void *label_out)
{
    assert(catalog->ops->widen);
    catalog->ops->widen(catalog, index, bytes, label_out);
}

mr_status mr_catalog_split(const struct mr_catalog *catalog, int64_t index, const uint8_t *bytes,
                           size_t len, const uint8_t *label, const uint8_t **data_out,
                           size_t *data_len_out, void *label_out, mr_error *error)
{
    if (catalog->ops->split)
        return catalog->ops->split(catalog, index, bytes, len, label, data_out, data_len_out,
                                   label_out, error);
    struct mr_extent unused;
    *data_out = bytes;
    *data_len_out = len;
    return catalog->ops->label(catalog, index, label_out, &unused, error);
}

mr_status mr_catalog_packed(const struct mr_catalog *catalog, int64_t index,
                            struct mr_packed_image *image_out, mr_error *error)
{
    assert(catalog->ops->packed);
    return catalog->ops->packed(catalog, index, image_out, error);
}

mr_status mr_catalog_verify(const struct mr_catalog *catalog, int64_t index, const uint8_t *bytes,
                            size_t len, mr_error *error)
{
    assert(catalog->ops->verify);
    return catalog->ops->verify(catalog, index, bytes, len, error);
}

mr_status mr_catalog_verify_member(const struct mr_catalog *catalog, int64_t index, uint32_t k,
                                   const uint8_t *bytes, size_t len, mr_error *error)
{
    assert(catalog->ops->verify_member && k < catalog->header->kind.n_extra);
    return catalog->ops->verify_member(catalog, index, k, bytes, len, error);
}

bool mr_catalog_marks(const struct mr_catalog *catalog, int64_t index, struct mr_extent *extent_out)
{
    assert(catalog->ops->marks);
    return catalog->ops->marks(catalog, index, extent_out);
}
