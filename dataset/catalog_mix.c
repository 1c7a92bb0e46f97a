/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheme of mixtures: the samples of several catalogs, one catalog after the other. Each call
 * goes to the catalog of the sample or file. Its file numbers are moved, and its paths become
 * absolute, since the mixture has no folder.
 */
#include "dataset/catalog_mix.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/catalog_region.h"

static const struct mr_catalog_source *sources_of(const struct mr_catalog *catalog)
{
    return mr_catalog_region_section(catalog, MR_SECTION_SOURCES);
}

uint32_t mr_catalog_n_sources(const struct mr_catalog *catalog)
{
    return (uint32_t)(mr_catalog_region_len(catalog, MR_SECTION_SOURCES) /
                      sizeof(struct mr_catalog_source));
}

const struct mr_catalog_source *mr_catalog_mix_source(const struct mr_catalog *catalog, uint32_t k)
{
    return &sources_of(catalog)[k];
}

static const struct mr_catalog *inner(const struct mr_catalog *catalog, uint32_t k)
{
    return ((struct mr_catalog *const *)catalog->state)[k];
}

const struct mr_catalog *mr_catalog_mix_catalog(const struct mr_catalog *catalog, uint32_t k)
{
    return inner(catalog, k);
}

uint32_t mr_catalog_source_of(const struct mr_catalog *catalog, int64_t index)
{
    const struct mr_catalog_source *sources = sources_of(catalog);
    return (uint32_t)mr_catalog_region_last(&sources->first_sample, mr_catalog_n_sources(catalog),
                                            sizeof *sources / sizeof(uint64_t), (uint64_t)index);
}

/* The catalog of a sample, and the sample's index in it. */
static const struct mr_catalog *find_sample(const struct mr_catalog *catalog, int64_t *index)
{
    uint32_t k = mr_catalog_source_of(catalog, *index);
    *index -= (int64_t)sources_of(catalog)[k].first_sample;
    return inner(catalog, k);
}

/* The catalog of a file, and the file's number in it. */
static const struct mr_catalog *find_file(const struct mr_catalog *catalog, uint64_t *file)
{
    const struct mr_catalog_source *source = sources_of(catalog);
    uint32_t k = 0;
    while (*file < source[k].first_file || *file - source[k].first_file >= source[k].n_files)
        k++;
    *file -= source[k].first_file;
    return inner(catalog, k);
}

static bool is_sound(const struct mr_catalog *catalog)
{
    const struct mr_catalog_source *sources = sources_of(catalog);
    uint64_t n = mr_catalog_n_sources(catalog), n_files = 0, next = 0;
    uint64_t len = mr_catalog_region_len(catalog, MR_SECTION_EXTRA);
    for (uint64_t k = 0; k < n; k++) {
        const struct mr_catalog_source *s = &sources[k];
        if (s->first_sample < next || s->region_off % 8 != 0 || s->beside_off % 8 != 0 ||
            s->region_off > len || s->region_len > len - s->region_off || s->beside_off > len ||
            s->beside_len > len - s->beside_off)
            return false;
        next = s->first_sample;
        n_files += s->n_files;
    }
    return n > 0 && n <= MR_CATALOG_MAX_SOURCES && sources->first_sample == 0 &&
           n_files == catalog->header->n_files;
}

static void detach_sources(struct mr_catalog *catalog)
{
    struct mr_catalog **state = catalog->state;
    for (uint32_t k = 0; state && k < mr_catalog_n_sources(catalog); k++)
        mr_catalog_detach_inside(state[k]);
    free(state);
}

static mr_status attach_sources(struct mr_catalog *catalog, mr_error *error)
{
    uint32_t n = mr_catalog_n_sources(catalog);
    const uint8_t *bytes = mr_catalog_region_section(catalog, MR_SECTION_EXTRA);
    struct mr_catalog **state = calloc(n, sizeof *state);
    mr_status status = state ? MR_OK : mr_error_memory(error, n * sizeof *state);
    catalog->state = state;
    for (uint32_t k = 0; status == MR_OK && k < n; k++) {
        const struct mr_catalog_source *s = &sources_of(catalog)[k];
        const struct mr_catalog inside = {.header = (const void *)(bytes + s->region_off),
                                          .root = catalog->root,
                                          .beside =
                                              s->beside_len > 0 ? bytes + s->beside_off : NULL,
                                          .beside_len = s->beside_len};
        status = mr_catalog_attach_inside(&inside, s->region_len, &state[k], error);
    }
    return status;
}

/* Turn an extent of source k into one of the mixture. EXTRA has the bytes of all sources. */
static void move_extent(const struct mr_catalog *catalog, uint32_t k, struct mr_extent *extent)
{
    const struct mr_catalog_source *source = &sources_of(catalog)[k];
    if (extent->file == MR_FILE_CATALOG)
        extent->offset +=
            source->region_off + inner(catalog, k)->header->sections[MR_SECTION_EXTRA].off;
    else if (extent->file != MR_FILE_PIECES)
        extent->file += source->first_file;
}

static struct mr_extent find_image(const struct mr_catalog *catalog, int64_t index)
{
    uint32_t k = mr_catalog_source_of(catalog, index);
    const struct mr_catalog *source = find_sample(catalog, &index);
    struct mr_extent extent = mr_catalog_image(source, index);
    move_extent(catalog, k, &extent);
    return extent;
}

/* The walk has the index in the mixture, which no source looks at. */
static void begin_pieces(const struct mr_catalog *catalog, int64_t index,
                         struct mr_piece_walk *walk_out)
{
    int64_t i = index;
    const struct mr_catalog *source = find_sample(catalog, &i);
    mr_catalog_begin_pieces(source, i, walk_out);
    walk_out->index = index;
}

static bool next_piece(const struct mr_catalog *catalog, struct mr_piece_walk *walk,
                       struct mr_extent *piece_out)
{
    uint32_t k = mr_catalog_source_of(catalog, walk->index);
    if (!mr_catalog_next_piece(inner(catalog, k), walk, piece_out))
        return false;
    move_extent(catalog, k, piece_out);
    return true;
}

static bool find_label_extent(const struct mr_catalog *catalog, int64_t index,
                              struct mr_extent *extent_out)
{
    uint32_t k = mr_catalog_source_of(catalog, index);
    const struct mr_catalog *source = find_sample(catalog, &index);
    if (!source->ops->label_extent || !source->ops->label_extent(source, index, extent_out))
        return false;
    move_extent(catalog, k, extent_out);
    return true;
}

static void find_members(const struct mr_catalog *catalog, int64_t index,
                         struct mr_extent members_out[MR_MAX_MEMBERS])
{
    uint32_t k = mr_catalog_source_of(catalog, index);
    const struct mr_catalog *source = find_sample(catalog, &index);
    mr_catalog_members(source, index, members_out);
    for (uint32_t i = 0; i < catalog->header->kind.n_extra; i++)
        move_extent(catalog, k, &members_out[i]);
}

/* In place, because callers may have little stack. */
static int find_path(const struct mr_catalog *catalog, uint64_t file,
                     char path_out[MR_CATALOG_PATH])
{
    const struct mr_catalog *source = find_file(catalog, &file);
    int rc = mr_catalog_is_remote(source) ? mr_catalog_url(source, file, path_out) : -ENOENT;
    if (rc == -ENOENT)
        rc = mr_catalog_path(source, file, path_out);
    else
        return rc;
    if (rc < 0 || path_out[0] == '/')
        return rc;
    const char *root = mr_catalog_absolute_root(source);
    size_t len = strlen(root), rest = strlen(path_out) + 1;
    if (len + 1 + rest > MR_CATALOG_PATH)
        return -ENAMETOOLONG;
    memmove(path_out + len + 1, path_out, rest);
    memcpy(path_out, root, len);
    path_out[len] = '/';
    return 0;
}

static bool may_lack(const struct mr_catalog *catalog, uint64_t file)
{
    if (file >= catalog->header->n_files) /* MR_FILE_CATALOG */
        return false;
    const struct mr_catalog *source = find_file(catalog, &file);
    return mr_catalog_may_lack(source, file);
}

static bool find_version(const struct mr_catalog *catalog, uint64_t file,
                         struct mr_object_version *version_out)
{
    if (file >= catalog->header->n_files)
        return false;
    const struct mr_catalog *source = find_file(catalog, &file);
    return mr_catalog_version(source, file, version_out);
}

static bool is_file(const struct mr_catalog *catalog, uint64_t file, const struct stat *st)
{
    const struct mr_catalog *source = find_file(catalog, &file);
    return mr_catalog_is_file(source, file, st);
}

static void find_name(const struct mr_catalog *catalog, int64_t index, char *name_out, size_t size)
{
    const struct mr_catalog *source = find_sample(catalog, &index);
    mr_catalog_name(source, index, name_out, size);
}

static mr_status find_label(const struct mr_catalog *catalog, int64_t index, void *label_out,
                            struct mr_extent *extent_out, mr_error *error)
{
    uint32_t k = mr_catalog_source_of(catalog, index);
    const struct mr_catalog *source = find_sample(catalog, &index);
    mr_status status = mr_catalog_label(source, index, label_out, extent_out, error);
    if (status == MR_PENDING)
        move_extent(catalog, k, extent_out);
    return status;
}

static void widen_label(const struct mr_catalog *catalog, int64_t index, const uint8_t *bytes,
                        void *label_out)
{
    const struct mr_catalog *source = find_sample(catalog, &index);
    mr_catalog_widen(source, index, bytes, label_out);
}

static mr_status split_sample(const struct mr_catalog *catalog, int64_t index, const uint8_t *bytes,
                              size_t len, const uint8_t *label, const uint8_t **data_out,
                              size_t *data_len_out, void *label_out, mr_error *error)
{
    const struct mr_catalog *source = find_sample(catalog, &index);
    return mr_catalog_split(source, index, bytes, len, label, data_out, data_len_out, label_out,
                            error);
}

const struct mr_catalog_ops mr_catalog_mix_ops = {
    .is_sound = is_sound,
    .attach = attach_sources,
    .detach = detach_sources,
    .image = find_image,
    .begin_pieces = begin_pieces,
    .next_piece = next_piece,
    .label_extent = find_label_extent,
    .members = find_members,
    .path = find_path,
    .may_lack = may_lack,
    .version = find_version,
    .is_file = is_file,
    .name = find_name,
    .label = find_label,
    .widen = widen_label,
    .split = split_sample,
};
