/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks an index and finds entries in it.
 *
 * Invariant: a correct checksum shows only that the file was not altered by accident. So every
 * offset is compared with its section each time it is used.
 */
#include "dataset/pack_index.h"

#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "base/xxh3.h"
#include "dataset/kind.h"

static const struct {
    const char *name;
    uint64_t element; /* bytes */
    bool is_text;     /* ends with NUL, or is empty */
} sections[MR_PACK_N_SECTIONS] = {
    [MR_PACK_SAMPLES] = {"samples", sizeof(struct mr_pack_sample), false},
    [MR_PACK_ROWS] = {"rows", sizeof(uint32_t), false},
    [MR_PACK_TEMPLATES] = {"templates", sizeof(struct mr_packed_template), false},
    [MR_PACK_LABELS] = {"labels", 1, false},
    [MR_PACK_NAMES] = {"names", 1, true},
    [MR_PACK_CLASSES] = {"classes", sizeof(uint64_t), false},
    [MR_PACK_CLASS_NAMES] = {"class names", 1, true},
    [MR_PACK_SHARDS] = {"shards", sizeof(uint64_t), false},
    [MR_PACK_ORIGIN] = {"origin", 1, true},
    [MR_PACK_MARKS] = {"marks", sizeof(struct mr_pack_marks), false},
    [MR_PACK_ROW_SUMS] = {"checksums of rows", sizeof(uint32_t), false},
    [MR_PACK_MEMBER_KINDS] = {"kinds of members", sizeof(struct mr_pack_member_kind), false},
    [MR_PACK_MEMBERS] = {"members", sizeof(struct mr_pack_member), false},
};

uint64_t mr_pack_index_checksum(const void *bytes, size_t len)
{
    uint8_t head[offsetof(struct mr_pack_header, checksum) + sizeof(uint64_t)] = {0};
    memcpy(head, bytes, offsetof(struct mr_pack_header, checksum));
    return mr_xxh3_pair(head, sizeof head, (const uint8_t *)bytes + sizeof head, len - sizeof head);
}

uint64_t mr_pack_index_hash(const uint8_t *bytes, size_t len)
{
    return mr_xxh3(bytes, len);
}

static mr_status check_header(const struct mr_pack_header *header, size_t len, const char *path,
                              mr_error *error)
{
    if (len < offsetof(struct mr_pack_header, file_bytes) || header->magic != MR_PACK_MAGIC)
        return mr_error_set(error, MR_ERR_DAMAGED, "%s is not the index of a pack", path);
    if (header->version != MR_PACK_VERSION)
        return mr_error_set(error, MR_ERR_UNSUPPORTED,
                            "%s is of version %" PRIu32
                            ", this library reads version %u: make the pack again with "
                            "millrace pack",
                            path, header->version, MR_PACK_VERSION);
    if (header->n_sections > MR_PACK_N_SECTIONS)
        return mr_error_set(error, MR_ERR_UNSUPPORTED,
                            "%s has %" PRIu32 " sections, this library knows %d", path,
                            header->n_sections, MR_PACK_N_SECTIONS);
    if (header->n_sections < MR_PACK_N_SECTIONS)
        return mr_error_set(error, MR_ERR_DAMAGED, "%s has %" PRIu32 " sections instead of %d",
                            path, header->n_sections, MR_PACK_N_SECTIONS);
    if (len < sizeof *header)
        return mr_error_set(error, MR_ERR_DAMAGED, "%s ends within its header, at byte %zu", path,
                            len);
    if (header->file_bytes != len)
        return mr_error_set(error, MR_ERR_DAMAGED, "%s has %zu bytes, its header says %" PRIu64,
                            path, len, header->file_bytes);
    return MR_OK;
}

static mr_status check_section(struct mr_pack_index *index, int which, size_t len, const char *path,
                               mr_error *error)
{
    uint64_t off = index->header->sections[which].off, bytes = index->header->sections[which].len;
    if (off % 8 != 0 || off < sizeof *index->header || off > len || bytes > len - off)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "%s: %" PRIu64 " bytes of %s at %" PRIu64 " are outside its %zu bytes",
                            path, bytes, sections[which].name, off, len);
    if (bytes % sections[which].element != 0)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "%s: %" PRIu64 " bytes of %s are not a multiple of %" PRIu64, path,
                            bytes, sections[which].name, sections[which].element);
    if (sections[which].is_text && bytes > 0 && index->bytes[off + bytes - 1] != '\0')
        return mr_error_set(error, MR_ERR_DAMAGED, "%s: its %s do not end with a zero byte", path,
                            sections[which].name);
    index->starts[which] = index->bytes + off;
    index->lens[which] = bytes;
    return MR_OK;
}

/* Check the description of labels in the header, and copy it and the number of samples. */
static mr_status check_labels(struct mr_pack_index *index, const char *path, mr_error *error)
{
    const struct mr_pack_header *header = index->header;
    uint64_t bytes;
    if (header->label_ndim > MR_MAX_NDIM - 1 ||
        !mr_kind_shape_bytes((mr_dtype)header->label_dtype, header->label_ndim, header->label_shape,
                             &bytes) ||
        bytes != header->label_bytes || bytes > MR_PACK_MAX_LABEL_BYTES)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "%s: labels of dtype %" PRIu32 ", %" PRIu32 " dimensions and %" PRIu64
                            " bytes",
                            path, header->label_dtype, header->label_ndim, header->label_bytes);
    index->n_samples = header->n_samples;
    index->label_bytes = bytes;
    return MR_OK;
}

static mr_status check_counts(const struct mr_pack_index *index, const char *path, mr_error *error)
{
    uint64_t n = index->n_samples, n_labels = index->lens[MR_PACK_LABELS] / index->label_bytes;
    if (index->lens[MR_PACK_SAMPLES] / sizeof(struct mr_pack_sample) != n)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "%s: %" PRIu64 " bytes of samples, its header says %" PRIu64 " samples",
                            path, index->lens[MR_PACK_SAMPLES], n);
    if (n_labels != n || index->lens[MR_PACK_LABELS] % index->label_bytes != 0)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "%s: %" PRIu64 " bytes of labels for %" PRIu64 " samples", path,
                            index->lens[MR_PACK_LABELS], n);
    if (n > 0 && index->lens[MR_PACK_SHARDS] == 0)
        return mr_error_set(error, MR_ERR_DAMAGED, "%s: %" PRIu64 " samples and no shard", path, n);
    if (mr_pack_index_has_marks(index) &&
        index->lens[MR_PACK_MARKS] / sizeof(struct mr_pack_marks) != n)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "%s: %" PRIu64 " bytes of marks for %" PRIu64 " samples", path,
                            index->lens[MR_PACK_MARKS], n);
    return MR_OK;
}

static mr_status check_members(const struct mr_pack_index *index, const char *path, mr_error *error)
{
    uint64_t n_kinds = index->lens[MR_PACK_MEMBER_KINDS] / sizeof(struct mr_pack_member_kind),
             n = index->lens[MR_PACK_MEMBERS] / sizeof(struct mr_pack_member);
    if (n_kinds > MR_MAX_MEMBERS)
        return mr_error_set(error, MR_ERR_DAMAGED, "%s: %" PRIu64 " members, the limit is %d", path,
                            n_kinds, MR_MAX_MEMBERS);
    if (n_kinds == 0 ? n > 0 : n % n_kinds != 0 || n / n_kinds != index->n_samples)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "%s: %" PRIu64 " entries of %" PRIu64 " members for %" PRIu64
                            " samples",
                            path, n, n_kinds, index->n_samples);
    return MR_OK;
}

mr_status mr_pack_index_attach_again(const void *bytes, size_t len, const char *path,
                                     struct mr_pack_index *index_out, mr_error *error)
{
    struct mr_pack_index index = {.header = bytes, .bytes = bytes};
    mr_status status = check_header(index.header, len, path, error);
    for (int i = 0; status == MR_OK && i < MR_PACK_N_SECTIONS; i++)
        status = check_section(&index, i, len, path, error);
    if (status < 0)
        return status;
    index.marks_bytes = index.header->marks_bytes;
    status = check_labels(&index, path, error);
    if (status == MR_OK)
        status = check_counts(&index, path, error);
    if (status == MR_OK)
        status = check_members(&index, path, error);
    if (status == MR_OK)
        *index_out = index;
    return status;
}

mr_status mr_pack_index_attach(const void *bytes, size_t len, const char *path,
                               struct mr_pack_index *index_out, mr_error *error)
{
    const struct mr_pack_header *header = bytes;
    mr_status status = check_header(header, len, path, error);
    if (status < 0)
        return status;
    uint64_t sum = mr_pack_index_checksum(bytes, len);
    if (sum != header->checksum)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "%s was altered: its checksum is %016" PRIx64
                            ", its header says %016" PRIx64,
                            path, sum, header->checksum);
    return mr_pack_index_attach_again(bytes, len, path, index_out, error);
}

uint64_t mr_pack_index_n_classes(const struct mr_pack_index *index)
{
    return index->lens[MR_PACK_CLASSES] / sizeof(uint64_t);
}

uint64_t mr_pack_index_n_shards(const struct mr_pack_index *index)
{
    return index->lens[MR_PACK_SHARDS] / sizeof(uint64_t);
}

uint64_t mr_pack_index_shard_bytes(const struct mr_pack_index *index, uint64_t shard)
{
    const uint64_t *bytes = index->starts[MR_PACK_SHARDS];
    return shard < mr_pack_index_n_shards(index) ? bytes[shard] : 0;
}

static bool fits_its_shard(const struct mr_pack_index *index, const struct mr_pack_sample *sample)
{
    uint64_t end;
    return sample->shard < mr_pack_index_n_shards(index) &&
           mr_checked_add_u64(sample->offset, sample->len, &end) &&
           end <= mr_pack_index_shard_bytes(index, sample->shard);
}

bool mr_pack_index_has_marks(const struct mr_pack_index *index)
{
    return index->lens[MR_PACK_MARKS] > 0;
}

bool mr_pack_index_marks(const struct mr_pack_index *index, uint64_t i,
                         struct mr_pack_marks *marks_out)
{
    if (i >= index->lens[MR_PACK_MARKS] / sizeof(struct mr_pack_marks))
        return false;
    struct mr_pack_marks marks = ((const struct mr_pack_marks *)index->starts[MR_PACK_MARKS])[i];
    uint64_t end;
    if (marks.len == 0 || marks.len > MR_PACK_MAX_MARKS_BYTES ||
        !mr_checked_add_u64(marks.offset, marks.len, &end) || end > index->marks_bytes ||
        end > INT64_MAX)
        return false;
    *marks_out = marks;
    return true;
}

uint32_t mr_pack_index_n_members(const struct mr_pack_index *index)
{
    return (uint32_t)(index->lens[MR_PACK_MEMBER_KINDS] / sizeof(struct mr_pack_member_kind));
}

bool mr_pack_index_member(const struct mr_pack_index *index, uint64_t i, uint32_t k,
                          struct mr_pack_member *member_out, uint64_t *offset_out)
{
    uint32_t n = mr_pack_index_n_members(index);
    if (i >= index->n_samples || k >= n)
        return false;
    const struct mr_pack_member *members =
        (const struct mr_pack_member *)index->starts[MR_PACK_MEMBERS] + i * n;
    struct mr_pack_sample sample =
        ((const struct mr_pack_sample *)index->starts[MR_PACK_SAMPLES])[i];
    uint64_t end = sample.offset + sample.len;
    bool good = fits_its_shard(index, &sample);
    for (uint32_t j = 0; good && j <= k; j++) {
        *member_out = members[j];
        *offset_out = end;
        good = mr_checked_add_u64(end, member_out->len, &end) &&
               end <= mr_pack_index_shard_bytes(index, sample.shard) && end <= INT64_MAX;
    }
    return good;
}

/* Set the pointers of an image that has a row table. */
static bool find_tables(const struct mr_pack_index *index, const struct mr_pack_sample *sample,
                        struct mr_packed_image *image)
{
    uint64_t n = index->lens[MR_PACK_ROWS] / sizeof(uint32_t);
    if (!mr_packed_image_has_rows(sample->encoding))
        return true;
    if (sample->rows >= n || n - sample->rows < (uint64_t)sample->n_rows + 1 ||
        sample->template >= index->lens[MR_PACK_TEMPLATES] / sizeof *image->template)
        return false;
    uint64_t n_sums = index->lens[MR_PACK_ROW_SUMS] / sizeof(uint32_t);
    if (mr_packed_image_has_tiles(sample->encoding)) {
        if (sample->sums > n_sums || n_sums - sample->sums < sample->n_rows)
            return false;
        image->sums = (const uint32_t *)index->starts[MR_PACK_ROW_SUMS] + sample->sums;
    }
    image->n_rows = sample->n_rows;
    image->rows = (const uint32_t *)index->starts[MR_PACK_ROWS] + sample->rows;
    image->template =
        (const struct mr_packed_template *)index->starts[MR_PACK_TEMPLATES] + sample->template;
    return true;
}

bool mr_pack_index_sample(const struct mr_pack_index *index, uint64_t i,
                          const struct mr_pack_sample **sample_out,
                          struct mr_packed_image *image_out)
{
    if (i >= index->n_samples)
        return false;
    const struct mr_pack_sample *stored =
        (const struct mr_pack_sample *)index->starts[MR_PACK_SAMPLES] + i;
    struct mr_pack_sample sample = *stored;
    struct mr_packed_image image = {.encoding = sample.encoding,
                                    .flags = sample.flags,
                                    .width = sample.width,
                                    .height = sample.height,
                                    .orientation = sample.orientation,
                                    .len = sample.len};
    struct mr_pack_marks marks = {0};
    if (!fits_its_shard(index, &sample) || !find_tables(index, &sample, &image))
        return false;
    if (sample.encoding == MR_PACKED_MARKED && !mr_pack_index_marks(index, i, &marks))
        return false;
    image.marks_len = (size_t)marks.len;
    *sample_out = stored;
    *image_out = image;
    return true;
}

static const char *text_at(const struct mr_pack_index *index, enum mr_pack_section which,
                           uint64_t at)
{
    const char *texts = index->starts[which];
    uint64_t len = index->lens[which];
    return at < len && memchr(texts + at, '\0', len - at) ? texts + at : NULL;
}

const char *mr_pack_index_name(const struct mr_pack_index *index, uint64_t i)
{
    const struct mr_pack_sample *samples = index->starts[MR_PACK_SAMPLES];
    return i < index->n_samples ? text_at(index, MR_PACK_NAMES, samples[i].name) : NULL;
}

const char *mr_pack_index_class(const struct mr_pack_index *index, uint64_t i)
{
    const uint64_t *starts = index->starts[MR_PACK_CLASSES];
    return i < mr_pack_index_n_classes(index) ? text_at(index, MR_PACK_CLASS_NAMES, starts[i])
                                              : NULL;
}

const void *mr_pack_index_label(const struct mr_pack_index *index, uint64_t i)
{
    return i < index->n_samples
               ? (const uint8_t *)index->starts[MR_PACK_LABELS] + i * index->label_bytes
               : NULL;
}
