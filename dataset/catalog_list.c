/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheme of lists: one file per sample. Paths and labels are in the list file, which is mapped
 * beside the region.
 *
 * Invariant: a large list is not copied and may be overwritten while it is mapped, so every line is
 * checked each time it is parsed.
 */
#include "dataset/catalog_list.h"

#include <errno.h>
#include <locale.h>

#include "dataset/catalog.h"
#include "dataset/catalog_region.h"
#include "dataset/list_line.h"

/* state is a locale_t: numbers in lists are in the C locale. */
static mr_status attach_list(struct mr_catalog *catalog, mr_error *error)
{
    catalog->state = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!catalog->state)
        return mr_error_os(error, MR_ERR_NO_MEMORY, errno, "cannot make the C locale");
    catalog->names = catalog->beside;
    catalog->names_len = catalog->beside_len;
    return MR_OK;
}

static void detach_list(struct mr_catalog *catalog)
{
    if (catalog->state)
        freelocale(catalog->state);
}

static bool find_line(const struct mr_catalog *catalog, uint64_t i, struct mr_list_line *line_out)
{
    const char *line;
    size_t len;
    return mr_catalog_region_find(catalog, i, '\n', &line, &len) &&
           mr_list_line_split(line, len, line_out);
}

bool mr_catalog_list_line(const struct mr_catalog *catalog, int64_t index,
                          struct mr_list_line *line_out)
{
    return catalog->ops == &mr_catalog_list_ops && find_line(catalog, (uint64_t)index, line_out);
}

static int find_path(const struct mr_catalog *catalog, uint64_t file,
                     char path_out[MR_CATALOG_PATH])
{
    uint64_t n = catalog->header->n_files;
    struct mr_list_line line, further;
    if (!find_line(catalog, file % n, &line))
        return -EINVAL;
    if (file < n)
        return mr_list_line_path(&line, path_out);
    return mr_list_line_further(&line, file / n - 1, &further)
               ? mr_list_line_path(&further, path_out)
               : -EINVAL;
}

static const uint64_t *find_starts(const struct mr_catalog *catalog)
{
    return mr_catalog_region_len(catalog, MR_SECTION_STARTS) > 0
               ? mr_catalog_region_section(catalog, MR_SECTION_STARTS)
               : NULL;
}

static bool has_boxes(const struct mr_catalog *catalog)
{
    const struct mr_catalog_header *header = catalog->header;
    const uint64_t *starts = find_starts(catalog);
    return !starts ||
           (header->kind.boxes > 0 && header->kind.boxes <= header->kind.n_extra &&
            mr_catalog_region_len(catalog, MR_SECTION_STARTS) / sizeof *starts ==
                header->n_samples + 1 &&
            starts[header->n_samples] == mr_catalog_region_len(catalog, MR_SECTION_EXTRA));
}

/* An empty field, or one that was overwritten, is no member. */
static void find_members(const struct mr_catalog *catalog, int64_t index,
                         struct mr_extent members_out[MR_MAX_MEMBERS])
{
    struct mr_list_line line, further;
    bool found = find_line(catalog, (uint64_t)index, &line);
    mr_catalog_region_member_files(catalog, index, members_out);
    for (uint32_t k = 0; k < catalog->header->kind.n_extra; k++)
        if (!found || !mr_list_line_further(&line, k, &further) || further.path_len == 0)
            members_out[k].len = 0;
    const uint64_t *starts = find_starts(catalog);
    if (starts)
        members_out[catalog->header->kind.boxes - 1] =
            (struct mr_extent){MR_FILE_CATALOG, starts[index], starts[index + 1] - starts[index]};
}

static bool find_version(const struct mr_catalog *catalog, uint64_t file,
                         struct mr_object_version *version_out)
{
    struct mr_list_line line, field;
    return file < catalog->header->n_files && find_line(catalog, file, &line) &&
           mr_list_line_further(&line, catalog->header->kind.n_extra, &field) &&
           mr_list_line_version(&field, version_out);
}

static bool may_lack(const struct mr_catalog *catalog, uint64_t file)
{
    return catalog->header->may_lack && file >= catalog->header->n_files && file != MR_FILE_CATALOG;
}

static mr_status parse_label(const struct mr_catalog *catalog, int64_t index, void *label_out,
                             struct mr_extent *extent_out, mr_error *error)
{
    (void)extent_out;
    const struct mr_sample_kind *kind = &catalog->header->kind;
    struct mr_list_line line;
    uint32_t n = (uint32_t)(kind->label_bytes / mr_dtype_size(kind->label_dtype));
    if (find_line(catalog, (uint64_t)index, &line) &&
        mr_list_line_label(&line, kind->label_dtype, n, catalog->state, label_out))
        return MR_OK;
    char which[MR_CATALOG_DESCRIPTION];
    mr_catalog_describe(catalog, index, which);
    return mr_error_set(error, MR_ERR_DAMAGED,
                        "%s: its line in the list changed after the list was opened", which);
}

const struct mr_catalog_ops mr_catalog_list_ops = {
    .beside = "the list file",
    .loose_files = true,
    .is_sound = has_boxes,
    .attach = attach_list,
    .detach = detach_list,
    .image = mr_catalog_region_whole_file,
    .members = find_members,
    .path = find_path,
    .may_lack = may_lack,
    .version = find_version,
    .name = mr_catalog_region_file_name,
    .label = parse_label,
};
