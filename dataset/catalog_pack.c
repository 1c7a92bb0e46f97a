/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheme of packs: many samples per file, described before they are read. The index, which is
 * mapped beside the region, describes the samples. The region holds the names of the shards, the
 * classes and the kind.
 *
 * Invariant: the index may be overwritten while it is mapped. So an entry is copied before it is
 * checked, and only the copy is used.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "dataset/catalog.h"
#include "dataset/catalog_region.h"
#include "dataset/pack_index.h"

/* Limits on the parts of a message: a long hostile name must not displace the rest. */
enum { PATH_TEXT = 300, NAME_TEXT = 280 };
static_assert(PATH_TEXT + NAME_TEXT + 40 <= MR_CATALOG_DESCRIPTION, "the longest message fits");

/* state is a struct mr_pack_index. The index must still be the one that was opened. */
static mr_status attach_index(struct mr_catalog *catalog, mr_error *error)
{
    const struct mr_catalog_header *header = catalog->header;
    struct mr_pack_index *index = catalog->state = calloc(1, sizeof *index);
    if (!index)
        return mr_error_memory(error, sizeof *index);
    mr_status status = mr_pack_index_attach_again(catalog->beside, catalog->beside_len,
                                                  "the pack's index", index, error);
    if (status < 0)
        return status;
    if (index->n_samples != header->n_samples || index->label_bytes != header->kind.label_bytes ||
        mr_pack_index_n_members(index) != header->kind.n_extra ||
        mr_pack_index_n_shards(index) + mr_pack_index_has_marks(index) != header->n_files)
        return mr_error_set(error, MR_ERR_IO,
                            "the pack's index was overwritten after it was opened");
    return MR_OK;
}

static void detach_index(struct mr_catalog *catalog)
{
    free(catalog->state);
}

/* False: the entry points outside the index or the shards. */
static bool find_entry(const struct mr_catalog *catalog, int64_t index,
                       struct mr_pack_sample *sample_out, struct mr_packed_image *image_out)
{
    const struct mr_pack_sample *sample;
    uint64_t end;
    assert(index >= 0 && (uint64_t)index < catalog->header->n_samples);
    if (!mr_pack_index_sample(catalog->state, (uint64_t)index, &sample, image_out))
        return false;
    *sample_out = *sample;
    return sample_out->shard < mr_pack_index_n_shards(catalog->state) &&
           mr_checked_add_u64(sample_out->offset, sample_out->len, &end) && end <= INT64_MAX;
}

static mr_status report_outside(const struct mr_catalog *catalog, int64_t index, mr_error *error)
{
    char which[MR_CATALOG_DESCRIPTION];
    mr_catalog_describe(catalog, index, which);
    mr_status status = mr_error_set(error, MR_ERR_DAMAGED,
                                    "%s: its entry in the index points outside the pack", which);
    if (error)
        error->index = index;
    return status;
}

/* An extent that no file contains, so reading it fails. */
static struct mr_extent make_invalid_extent(void)
{
    return (struct mr_extent){.file = 0, .offset = INT64_MAX, .len = 1};
}

static struct mr_extent packed_extent(const struct mr_catalog *catalog, int64_t index)
{
    struct mr_pack_sample sample;
    struct mr_packed_image image;
    if (!find_entry(catalog, index, &sample, &image))
        return make_invalid_extent();
    return (struct mr_extent){.file = sample.shard, .offset = sample.offset, .len = sample.len};
}

static void find_members(const struct mr_catalog *catalog, int64_t index,
                         struct mr_extent members_out[MR_MAX_MEMBERS])
{
    struct mr_pack_sample sample;
    struct mr_packed_image image;
    struct mr_pack_member member;
    uint64_t offset;
    bool found = find_entry(catalog, index, &sample, &image);
    for (uint32_t k = 0; k < catalog->header->kind.n_extra; k++) {
        members_out[k] = make_invalid_extent();
        if (found && mr_pack_index_member(catalog->state, (uint64_t)index, k, &member, &offset))
            members_out[k] =
                (struct mr_extent){.file = sample.shard, .offset = offset, .len = member.len};
    }
}

/* The file of marks has the number after the last shard. */
static bool find_marks(const struct mr_catalog *catalog, int64_t index,
                       struct mr_extent *extent_out)
{
    const struct mr_pack_index *pack = catalog->state;
    struct mr_pack_sample sample;
    struct mr_packed_image image;
    struct mr_pack_marks marks;
    if (!mr_pack_index_has_marks(pack) || !find_entry(catalog, index, &sample, &image) ||
        image.encoding != MR_PACKED_MARKED || !mr_pack_index_marks(pack, (uint64_t)index, &marks))
        return false;
    *extent_out = (struct mr_extent){
        .file = mr_pack_index_n_shards(pack), .offset = marks.offset, .len = marks.len};
    return true;
}

static mr_status describe_image(const struct mr_catalog *catalog, int64_t index,
                                struct mr_packed_image *image_out, mr_error *error)
{
    struct mr_pack_sample sample;
    struct mr_packed_image image;
    if (!find_entry(catalog, index, &sample, &image))
        return report_outside(catalog, index, error);
    *image_out = image;
    return MR_OK;
}

static mr_status verify_bytes(const struct mr_catalog *catalog, int64_t index, const uint8_t *bytes,
                              size_t len, mr_error *error)
{
    struct mr_pack_sample sample;
    struct mr_packed_image image;
    char which[MR_CATALOG_DESCRIPTION];
    if (!find_entry(catalog, index, &sample, &image))
        return report_outside(catalog, index, error);
    mr_status status = MR_OK;
    uint64_t sum = mr_pack_index_hash(bytes, len);
    mr_catalog_describe(catalog, index, which);
    if (len != sample.len)
        status = mr_error_set(error, MR_ERR_DAMAGED, "%s: %zu bytes instead of %" PRIu64, which,
                              len, sample.len);
    else if (sum != sample.checksum)
        status = mr_error_set(error, MR_ERR_DAMAGED,
                              "%s: its bytes were altered: their checksum is %016" PRIx64
                              ", the index says %016" PRIx64,
                              which, sum, sample.checksum);
    if (status < 0 && error)
        error->index = index;
    return status;
}

static mr_status verify_member(const struct mr_catalog *catalog, int64_t index, uint32_t k,
                               const uint8_t *bytes, size_t len, mr_error *error)
{
    struct mr_pack_member member;
    uint64_t offset;
    char which[MR_CATALOG_DESCRIPTION];
    if (!mr_pack_index_member(catalog->state, (uint64_t)index, k, &member, &offset))
        return report_outside(catalog, index, error);
    if (len == member.len && mr_pack_index_hash(bytes, len) == member.checksum)
        return MR_OK;
    mr_catalog_describe(catalog, index, which);
    mr_status status =
        mr_error_set(error, MR_ERR_DAMAGED, "%s: the bytes of its member '%s' were altered", which,
                     catalog->header->kind.extra[k].name);
    if (error)
        error->index = index;
    return status;
}

static void packed_name(const struct mr_catalog *catalog, int64_t index, char *name_out,
                        size_t size)
{
    const char *name = mr_pack_index_name(catalog->state, (uint64_t)index);
    if (name)
        snprintf(name_out, size, "%s", name);
    else
        snprintf(name_out, size, "sample %" PRId64, index);
}

/*
 * "DIR/shard-00003 (n01440764/x.JPEG, index 7)". Names the index instead of the shard if the entry
 * is invalid.
 */
static void packed_which(const struct mr_catalog *catalog, int64_t index, const uint64_t *file,
                         char which_out[MR_CATALOG_DESCRIPTION])
{
    struct mr_pack_sample sample;
    struct mr_packed_image image;
    char path[PATH_TEXT], name[NAME_TEXT], base[MR_CATALOG_PATH] = MR_PACK_INDEX;
    if (find_entry(catalog, index, &sample, &image) &&
        mr_catalog_path(catalog, file ? *file : sample.shard, base) != 0)
        memcpy(base, MR_PACK_INDEX, sizeof MR_PACK_INDEX);
    const char *prefix = mr_catalog_region_section(catalog, MR_SECTION_PREFIX);
    size_t prefix_len = strlen(prefix), room = sizeof path - strnlen(base, 32) - 1;
    /* cut a long path at its start: its end is more useful */
    prefix += prefix_len > room ? prefix_len - room : 0;
    snprintf(path, sizeof path, "%s%.32s", prefix, base);
    packed_name(catalog, index, name, sizeof name);
    snprintf(which_out, MR_CATALOG_DESCRIPTION, "%s (%s, index %" PRId64 ")", path, name, index);
}

static int shard_path(const struct mr_catalog *catalog, uint64_t file,
                      char path_out[MR_CATALOG_PATH])
{
    return mr_catalog_region_path(catalog, file, "", path_out);
}

static mr_status packed_label(const struct mr_catalog *catalog, int64_t index, void *label_out,
                              struct mr_extent *extent_out, mr_error *error)
{
    (void)extent_out;
    const void *label = mr_pack_index_label(catalog->state, (uint64_t)index);
    if (!label)
        return report_outside(catalog, index, error);
    memcpy(label_out, label, catalog->header->kind.label_bytes);
    return MR_OK;
}

const struct mr_catalog_ops mr_catalog_pack_ops = {
    .beside = "the pack's index",
    .attach = attach_index,
    .detach = detach_index,
    .image = packed_extent,
    .members = find_members,
    .path = shard_path,
    .name = packed_name,
    .which = packed_which,
    .label = packed_label,
    .packed = describe_image,
    .verify = verify_bytes,
    .verify_member = verify_member,
    .marks = find_marks,
};
