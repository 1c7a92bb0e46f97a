/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Appends samples to shards. The index entries of a shard's samples stay in memory until the shard
 * is full, and are then saved as its part (pack_part.h). At the end, the index is made from the
 * parts.
 */
#include "packs/pack_writer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/regular_file.h"
#include "base/xxh3.h"
#include "dataset/file.h"
#include "packs/pack_draft.h"
#include "packs/pack_index_save.h"
#include "packs/pack_part.h"
#include "packs/pack_resume.h"

enum { MARKS_ALIGN = 8 };

struct mr_pack_writer {
    struct mr_pack_draft draft;
    bool has_failed; /* files and sums may differ, so only close is allowed */
};

static mr_status begin_shard(struct mr_pack_draft *draft, mr_error *error)
{
    char name[MR_PACK_FILE_NAME];
    mr_status status = draft->shard_fd >= 0 ? mr_pack_part_save(draft, error) : MR_OK;
    if (status == MR_OK)
        status = mr_bytes_append_u64(&draft->shards, 0, error);
    if (status < 0)
        return status;
    mr_pack_draft_shard_name(mr_pack_draft_n_shards(draft) - 1, name);
    draft->shard_fd = mr_regular_file_open(draft->root, name, O_RDWR | O_CREAT | O_EXCL, NULL);
    return draft->shard_fd >= 0
               ? MR_OK
               : mr_pack_draft_fail(draft, -draft->shard_fd, "create", name, error);
}

/* Bytes of a sample in its shard, with its members. */
static uint64_t count_entry(const struct mr_pack_draft *draft, const struct mr_pack_entry *entry)
{
    uint64_t len = entry->image.len;
    for (uint64_t k = 0; k < mr_pack_draft_begin(draft)->n_members; k++)
        len += entry->member_lens[k];
    return len;
}

static mr_status fail_too_long(const struct mr_pack_entry *entry, mr_error *error)
{
    return mr_error_set(error, MR_ERR_INVALID, "%s: %" PRIu64 " bytes are too many for a shard",
                        entry->name, entry->image.len);
}

/* Find the offset of the next sample in the last shard. If the shard is full, begin a new one. */
static mr_status place_sample(struct mr_pack_draft *draft, const struct mr_pack_entry *entry,
                              uint64_t *offset_out, mr_error *error)
{
    const struct mr_pack_begin *begin = mr_pack_draft_begin(draft);
    uint64_t len = draft->shard_fd >= 0 ? *mr_pack_draft_shard_len(draft) : 0, end;
    uint64_t offset = mr_align_up(len, begin->align);
    if (!mr_checked_add_u64(offset, count_entry(draft, entry), &end) || end > INT64_MAX)
        return fail_too_long(entry, error);
    if (draft->shard_fd < 0 || (len > 0 && end > begin->shard_bytes)) {
        mr_status status = begin_shard(draft, error);
        if (status < 0)
            return status;
        offset = 0;
    }
    *offset_out = offset;
    return MR_OK;
}

/* After a failure, cut off the bytes that do not count. On a full disk this frees room. */
static void drop_bytes(const struct mr_pack_draft *draft)
{
    (void)!ftruncate(draft->shard_fd, (off_t)*mr_pack_draft_shard_len(draft));
    if (draft->marks_fd >= 0)
        (void)!ftruncate(draft->marks_fd, (off_t)draft->marks_len);
}

/* Write a sample's marks, if it has any, at a multiple of 8. The first ones create the file. */
static mr_status write_marks(struct mr_pack_draft *draft, const struct mr_packed_image *image,
                             struct mr_pack_marks *marks_out, mr_error *error)
{
    if (image->encoding != MR_PACKED_MARKED)
        return MR_OK;
    assert(draft->wants_marks && image->marks_len > 0);
    if (draft->marks_fd < 0)
        draft->marks_fd =
            mr_regular_file_open(draft->root, MR_PACK_MARKS_FILE, O_RDWR | O_CREAT | O_EXCL, NULL);
    if (draft->marks_fd < 0)
        return mr_pack_draft_fail(draft, -draft->marks_fd, "create", MR_PACK_MARKS_FILE, error);
    *marks_out =
        (struct mr_pack_marks){mr_align_up(draft->marks_len, MARKS_ALIGN), image->marks_len};
    int rc = mr_file_write_at(draft->marks_fd, image->marks, image->marks_len, marks_out->offset);
    return rc < 0 ? mr_pack_draft_fail(draft, -rc, "write", MR_PACK_MARKS_FILE, error) : MR_OK;
}

static mr_status write_bytes(struct mr_pack_draft *draft, const struct mr_pack_entry *entry,
                             uint64_t offset, struct mr_pack_marks *marks_out, mr_error *error)
{
    int rc = mr_file_write_at(draft->shard_fd, entry->bytes, count_entry(draft, entry), offset);
    char name[MR_PACK_FILE_NAME];
    mr_pack_draft_shard_name(mr_pack_draft_n_shards(draft) - 1, name);
    mr_status status = rc < 0 ? mr_pack_draft_fail(draft, -rc, "write", name, error)
                              : write_marks(draft, &entry->image, marks_out, error);
    if (status < 0)
        drop_bytes(draft);
    return status;
}

/* Find the number of a template; a new one is added. */
static mr_status number_template(struct mr_pack_draft *draft,
                                 const struct mr_packed_template *wanted, uint32_t *number_out,
                                 mr_error *error)
{
    if (mr_pack_templates_find(&draft->templates, wanted, number_out))
        return MR_OK;
    *number_out = draft->templates.n;
    mr_status status = mr_pack_templates_add(&draft->templates, wanted, error);
    return status < 0 ? status
                      : mr_bytes_append(&draft->sections[MR_PACK_TEMPLATES], wanted, sizeof *wanted,
                                        error);
}

static struct mr_pack_sample describe_sample(const struct mr_pack_draft *draft,
                                             const struct mr_pack_entry *entry, uint64_t offset)
{
    const struct mr_packed_image *image = &entry->image;
    bool has_rows = mr_packed_image_has_rows(image->encoding);
    return (struct mr_pack_sample){
        .offset = offset,
        .len = image->len,
        .checksum = mr_xxh3(entry->bytes, image->len),
        .rows = has_rows ? draft->n_rows : 0,
        .sums = image->sums ? draft->n_sums : 0,
        .name = draft->names_len,
        .shard = mr_pack_draft_n_shards(draft) - 1,
        .width = image->width,
        .height = image->height,
        .n_rows = has_rows ? image->n_rows : 0,
        .encoding = (uint16_t)image->encoding,
        .flags = (uint8_t)image->flags,
        .orientation = (uint8_t)image->orientation,
    };
}

static mr_status note_members(struct mr_pack_draft *draft, const struct mr_pack_entry *entry,
                              mr_error *error)
{
    const uint8_t *bytes = entry->bytes + entry->image.len;
    mr_status status = MR_OK;
    for (uint64_t k = 0; status == MR_OK && k < mr_pack_draft_begin(draft)->n_members; k++) {
        struct mr_pack_member member = {.len = entry->member_lens[k],
                                        .checksum = mr_xxh3(bytes, entry->member_lens[k])};
        status = mr_bytes_append(&draft->sections[MR_PACK_MEMBERS], &member, sizeof member, error);
        bytes += member.len;
    }
    return status;
}

/* Append the index entries of a sample whose bytes were written. */
static mr_status note_sample(struct mr_pack_draft *draft, const struct mr_pack_entry *entry,
                             uint64_t offset, const struct mr_pack_marks *marks, mr_error *error)
{
    struct mr_bytes *sections = draft->sections;
    struct mr_pack_sample sample = describe_sample(draft, entry, offset);
    bool has_rows = mr_packed_image_has_rows(entry->image.encoding);
    uint64_t n_rows = has_rows ? (uint64_t)entry->image.n_rows + 1 : 0;
    uint64_t n_sums = entry->image.sums ? entry->image.n_rows : 0;
    size_t name_len = strlen(entry->name) + 1;
    mr_status status =
        has_rows ? number_template(draft, entry->image.template, &sample.template, error) : MR_OK;
    if (status == MR_OK)
        status = mr_bytes_append(&sections[MR_PACK_SAMPLES], &sample, sizeof sample, error);
    if (status == MR_OK)
        status = mr_bytes_append(&sections[MR_PACK_ROWS], entry->image.rows,
                                 (size_t)n_rows * sizeof(uint32_t), error);
    if (status == MR_OK)
        status = mr_bytes_append(&sections[MR_PACK_ROW_SUMS], entry->image.sums,
                                 (size_t)n_sums * sizeof(uint32_t), error);
    if (status == MR_OK)
        status = mr_bytes_append(&sections[MR_PACK_LABELS], entry->label,
                                 (size_t)mr_pack_draft_begin(draft)->label_bytes, error);
    if (status == MR_OK)
        status = mr_bytes_append(&sections[MR_PACK_NAMES], entry->name, name_len, error);
    if (status == MR_OK && draft->wants_marks)
        status = mr_bytes_append(&sections[MR_PACK_MARKS], marks, sizeof *marks, error);
    if (status == MR_OK)
        status = note_members(draft, entry, error);
    draft->n_done++;
    draft->n_rows += n_rows;
    draft->n_sums += n_sums;
    draft->names_len += name_len;
    return status;
}

static void count_bytes(struct mr_pack_draft *draft, uint64_t end,
                        const struct mr_pack_marks *marks)
{
    uint64_t *shard_len = mr_pack_draft_shard_len(draft);
    draft->bytes += end - *shard_len;
    *shard_len = end;
    if (marks->len == 0)
        return;
    draft->bytes += marks->offset + marks->len - draft->marks_len;
    draft->marks_len = marks->offset + marks->len;
    draft->n_marked++;
}

static mr_status append_sample(struct mr_pack_draft *draft, const struct mr_pack_entry *entry,
                               mr_error *error)
{
    struct mr_pack_marks marks = {0};
    uint64_t offset = 0;
    mr_status status = place_sample(draft, entry, &offset, error);
    if (status == MR_OK)
        status = write_bytes(draft, entry, offset, &marks, error);
    if (status < 0)
        return status;
    count_bytes(draft, offset + count_entry(draft, entry), &marks);
    return note_sample(draft, entry, offset, &marks, error);
}

static mr_status refuse_after_failure(const struct mr_pack_writer *writer, mr_error *error)
{
    return mr_error_set(error, MR_ERR_STATE, "%s: after a failure the pack must be opened again",
                        writer->draft.dir);
}

mr_status mr_pack_writer_add(struct mr_pack_writer *writer, const struct mr_pack_entry *entry,
                             mr_error *error)
{
    uint64_t n_samples = mr_pack_draft_begin(&writer->draft)->n_samples;
    if (writer->has_failed)
        return refuse_after_failure(writer, error);
    if (writer->draft.n_done >= n_samples)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%s already holds all of its %" PRIu64 " samples", writer->draft.dir,
                            n_samples);
    mr_status status = append_sample(&writer->draft, entry, error);
    writer->has_failed = status < 0;
    return status;
}

mr_status mr_pack_writer_finish(struct mr_pack_writer *writer, mr_error *error)
{
    uint64_t n_samples = mr_pack_draft_begin(&writer->draft)->n_samples;
    if (writer->has_failed)
        return refuse_after_failure(writer, error);
    if (writer->draft.n_done != n_samples)
        return mr_error_set(error, MR_ERR_INVALID, "%s holds %" PRIu64 " of %" PRIu64 " samples",
                            writer->draft.dir, writer->draft.n_done, n_samples);
    mr_status status =
        writer->draft.shard_fd >= 0 ? mr_pack_part_save(&writer->draft, error) : MR_OK;
    if (status == MR_OK)
        status = mr_pack_index_save(&writer->draft, error);
    if (status == MR_OK)
        mr_pack_resume_clean(&writer->draft);
    return status;
}

uint64_t mr_pack_writer_bytes(const struct mr_pack_writer *writer)
{
    return writer->draft.bytes;
}

void mr_pack_writer_close(struct mr_pack_writer *writer)
{
    if (!writer)
        return;
    mr_pack_draft_fini(&writer->draft);
    free(writer);
}

static mr_status check_options(const struct mr_pack_writer_options *options, uint32_t align,
                               mr_error *error)
{
    if (align > MR_PACK_MAX_ALIGN || (align & (align - 1)) != 0)
        return mr_error_set(error, MR_ERR_INVALID,
                            "align %" PRIu32 " is not a power of two up to %u", align,
                            MR_PACK_MAX_ALIGN);
    if (options->shard_bytes == 0)
        return mr_error_set(error, MR_ERR_INVALID, "shards of 0 bytes");
    if (options->kind->label_bytes == 0 || options->kind->label_bytes > MR_PACK_MAX_LABEL_BYTES)
        return mr_error_set(error, MR_ERR_INVALID,
                            "labels of %" PRIu64 " bytes are above a pack's limit of %" PRIu64,
                            options->kind->label_bytes, MR_PACK_MAX_LABEL_BYTES);
    return MR_OK;
}

/* Make the content of the file `unfinished`, which a later run compares with its own. */
static mr_status make_begin(const struct mr_pack_writer_options *options, struct mr_bytes *bytes,
                            mr_error *error)
{
    const struct mr_sample_kind *kind = options->kind;
    uint32_t align = options->align ? options->align : 1;
    struct mr_pack_begin begin = {.magic = MR_PACK_BEGIN_MAGIC,
                                  .n_samples = options->n_samples,
                                  .shard_bytes = options->shard_bytes,
                                  .align = align,
                                  .label_dtype = (uint32_t)kind->label_dtype,
                                  .label_ndim = kind->label_ndim,
                                  .label_bytes = kind->label_bytes,
                                  .n_classes = options->n_classes,
                                  .n_members = kind->n_extra};
    if (kind->label_ndim > 0)
        memcpy(begin.label_shape, kind->label_shape, kind->label_ndim * sizeof *kind->label_shape);
    assert(kind->n_extra <= MR_MAX_MEMBERS);
    for (uint32_t k = 0; k < kind->n_extra; k++) {
        memcpy(begin.members[k].name, kind->extra[k].name, sizeof begin.members[k].name);
        begin.members[k].max_bytes = (uint32_t)kind->extra[k].max_bytes;
        if (k + 1 == (kind->boxes ? kind->boxes : 1))
            begin.members[k].annotations = kind->annotations;
    }
    mr_status status = check_options(options, align, error);
    if (status == MR_OK)
        status = mr_bytes_append(bytes, &begin, sizeof begin, error);
    for (uint32_t i = 0; status == MR_OK && i < options->n_classes; i++) {
        const char *name = options->class_name(options->user, i);
        name = name ? name : "";
        begin.class_names_len += strlen(name) + 1;
        status = mr_bytes_append(bytes, name, strlen(name) + 1, error);
    }
    const char *origin = options->origin ? options->origin : "";
    if (status == MR_OK)
        status = mr_bytes_append(bytes, origin, strlen(origin) + 1, error);
    if (status < 0)
        return status;
    memcpy(bytes->data, &begin, sizeof begin);
    begin.checksum =
        mr_xxh3(bytes->data + MR_PACK_BEGIN_CHECKED, bytes->len - MR_PACK_BEGIN_CHECKED);
    memcpy(bytes->data, &begin, sizeof begin);
    return MR_OK;
}

static mr_status open_folder(struct mr_pack_draft *draft, const char *dir, mr_error *error)
{
    size_t len = strlen(dir);
    while (len > 1 && dir[len - 1] == '/')
        len--;
    draft->dir = strndup(dir, len);
    if (!draft->dir)
        return mr_error_memory(error, len + 1);
    if (mkdir(draft->dir, 0777) != 0 && errno != EEXIST)
        return mr_error_os(error, MR_ERR_IO, errno, "cannot make the folder %s", draft->dir);
    draft->root = open(draft->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return draft->root >= 0
               ? MR_OK
               : mr_error_os(error, MR_ERR_IO, errno, "cannot open the folder %s", draft->dir);
}

mr_status mr_pack_writer_open(const char *dir, const struct mr_pack_writer_options *options,
                              struct mr_pack_writer **writer_out, uint64_t *n_done_out,
                              mr_error *error)
{
    *writer_out = NULL;
    struct mr_pack_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return mr_error_memory(error, sizeof *writer);
    mr_pack_draft_init(&writer->draft);
    writer->draft.wants_marks = options->marks;
    mr_status status = make_begin(options, &writer->draft.begin, error);
    if (status == MR_OK)
        status = open_folder(&writer->draft, dir, error);
    if (status == MR_OK)
        status = mr_pack_resume(&writer->draft, error);
    if (status != MR_OK) {
        mr_pack_writer_close(writer);
        return status;
    }
    *writer_out = writer;
    *n_done_out = writer->draft.n_done;
    return MR_OK;
}
