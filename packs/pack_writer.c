/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Appends samples: first the bytes to a shard, then a record to the journal. The sample counts from then on. Memory
 * holds only sums and templates; the index is made from the journal at the end.
 *
 * Invariant: bytes are on the disk before a record that is trusted without its checksum. A killed process leaves all
 * its writes behind, in order; a machine that loses power does not. So a sync record in the journal says how far the
 * shards have been synced, and samples behind the last sync count only if their checksums are right.
 */
#include "packs/pack_writer.h"

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
#include "packs/pack_marks.h"
#include "packs/pack_resume.h"

/* Bytes between syncs: what is read once more when an interrupted pack is resumed. */
#define SYNC_BYTES (UINT64_C(256) << 20)

struct mr_pack_writer {
    struct mr_pack_draft draft;
    bool has_failed; /* journal and sums may differ: only close is left */
};

static mr_status fail_shard(const struct mr_pack_draft *draft, int os_error, const char *what, mr_error *error)
{
    char name[MR_PACK_SHARD_NAME];
    mr_pack_draft_shard_name(mr_pack_draft_n_shards(draft) - 1, name);
    return mr_pack_draft_fail(draft, os_error, what, name, error);
}

/* Everything up to here will still be there when the machine has lost its power. */
static mr_status write_sync(struct mr_pack_draft *draft, mr_error *error)
{
    if (draft->shard_fd >= 0 && fdatasync(draft->shard_fd) != 0)
        return fail_shard(draft, errno, "sync", error);
    mr_status status = mr_pack_marks_sync(draft, error);
    if (status == MR_OK)
        status = mr_pack_journal_put(&draft->journal, MR_PACK_RECORD_SYNC, NULL, 0, error);
    if (status == MR_OK)
        status = mr_pack_journal_flush(&draft->journal, error);
    if (status == MR_OK)
        draft->unsynced = 0;
    return status;
}

static mr_status begin_shard(struct mr_pack_draft *draft, mr_error *error)
{
    char name[MR_PACK_SHARD_NAME];
    uint32_t number = mr_pack_draft_n_shards(draft);
    mr_status status = number > 0 ? write_sync(draft, error) : MR_OK;
    if (status < 0)
        return status;
    mr_pack_draft_shard_name(number, name);
    int fd = openat(draft->root, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return mr_pack_draft_fail(draft, errno, "create", name, error);
    status = mr_bytes_append_u64(&draft->shards, 0, error);
    if (status < 0) {
        close(fd);
        unlinkat(draft->root, name, 0);
        return status;
    }
    if (draft->shard_fd >= 0)
        close(draft->shard_fd);
    draft->shard_fd = fd;
    return MR_OK;
}

static mr_status too_long(const struct mr_pack_entry *entry, mr_error *error)
{
    return mr_error_set(error, MR_ERR_INVALID, "%s: %" PRIu64 " and %" PRIu64 " bytes are too many for a shard",
                        entry->name, entry->image.len, entry->beside_len);
}

/* Where the next sample will begin, in the last shard, which may be a new one. */
static mr_status place_sample(struct mr_pack_draft *draft, const struct mr_pack_entry *entry, uint64_t *offset_out,
                              mr_error *error)
{
    const struct mr_pack_begin *begin = mr_pack_draft_begin(draft);
    uint64_t len = mr_pack_draft_shard_len(draft), total, end;
    uint64_t offset = mr_align_up(len, begin->align);
    if (!mr_checked_add_u64(entry->image.len, entry->beside_len, &total) || !mr_checked_add_u64(offset, total, &end) ||
        end > INT64_MAX)
        return too_long(entry, error);
    if (mr_pack_draft_n_shards(draft) == 0 || (len > 0 && end > begin->shard_bytes)) {
        mr_status status = begin_shard(draft, error);
        if (status < 0)
            return status;
        offset = 0;
    }
    *offset_out = offset;
    return MR_OK;
}

/* The sample's bytes, and its marks, which may be none. */
static mr_status write_bytes(struct mr_pack_draft *draft, const struct mr_pack_entry *entry, uint64_t offset,
                             struct mr_pack_record_marks *marks_out, mr_error *error)
{
    mr_status status = MR_OK;
    int rc = mr_file_write_at(draft->shard_fd, entry->bytes, entry->image.len, offset);
    if (rc == 0)
        rc = mr_file_write_at(draft->shard_fd, entry->beside, entry->beside_len, offset + entry->image.len);
    if (rc < 0)
        status = fail_shard(draft, -rc, "write", error);
    else if (entry->image.encoding == MR_PACKED_MARKED)
        status = mr_pack_marks_append(draft, entry->image.marks, entry->image.marks_len, marks_out, error);
    if (status < 0)
        (void)!ftruncate(draft->shard_fd, (off_t)mr_pack_draft_shard_len(draft)); /* a full disk gets it back */
    return status;
}

static mr_status number_template(struct mr_pack_draft *draft, const struct mr_packed_template *wanted,
                                 uint32_t *number_out, mr_error *error)
{
    if (mr_pack_templates_find(&draft->templates, wanted, number_out))
        return MR_OK;
    *number_out = draft->templates.n;
    struct mr_pack_part part = {wanted, sizeof *wanted};
    return mr_pack_journal_put(&draft->journal, MR_PACK_RECORD_TEMPLATE, &part, 1, error);
}

static struct mr_pack_sample describe_sample(const struct mr_pack_draft *draft, const struct mr_pack_entry *entry,
                                             uint64_t offset)
{
    const struct mr_packed_image *image = &entry->image;
    bool has_rows = mr_packed_image_has_rows(image->encoding);
    return (struct mr_pack_sample){
        .offset = offset,
        .len = image->len,
        .beside_len = entry->beside_len,
        .checksum = mr_xxh3_pair(entry->bytes, image->len, entry->beside, entry->beside_len),
        .rows = has_rows ? draft->n_rows : 0,
        .name = draft->names_len,
        .head_hash = entry->head_hash,
        .shard = mr_pack_draft_n_shards(draft) - 1,
        .width = image->width,
        .height = image->height,
        .n_rows = has_rows ? image->n_rows : 0,
        .encoding = (uint16_t)image->encoding,
        .flags = (uint8_t)image->flags,
        .orientation = (uint8_t)image->orientation,
    };
}

/* The records of a sample, in one write. */
static mr_status note_sample(struct mr_pack_draft *draft, const struct mr_pack_entry *entry,
                             struct mr_pack_noted *noted, mr_error *error)
{
    const struct mr_packed_image *image = &entry->image;
    struct mr_pack_sample *sample = &noted->sample;
    mr_status status = MR_OK;
    if (noted->n_rows > 0)
        status = number_template(draft, image->template, &sample->template, error);
    const struct mr_pack_part parts[] = {{sample, sizeof *sample},
                                         {image->rows, (size_t)noted->n_rows * sizeof *image->rows},
                                         {&noted->marks, image->encoding == MR_PACKED_MARKED ? sizeof noted->marks : 0},
                                         {entry->label, (size_t)mr_pack_draft_begin(draft)->label_bytes},
                                         {entry->name, noted->name_len}};
    if (status == MR_OK)
        status =
            mr_pack_journal_put(&draft->journal, MR_PACK_RECORD_SAMPLE, parts, sizeof parts / sizeof *parts, error);
    if (status == MR_OK && noted->n_rows > 0 && sample->template == draft->templates.n)
        status = mr_pack_templates_add(&draft->templates, image->template, error);
    return status < 0 ? status : mr_pack_journal_flush(&draft->journal, error);
}

static mr_status append_sample(struct mr_pack_draft *draft, const struct mr_pack_entry *entry, mr_error *error)
{
    struct mr_pack_noted noted = {.name_len = strlen(entry->name) + 1};
    uint64_t offset = 0;
    mr_status status = place_sample(draft, entry, &offset, error);
    if (status == MR_OK)
        status = write_bytes(draft, entry, offset, &noted.marks, error);
    if (status < 0)
        return status;
    noted.sample = describe_sample(draft, entry, offset);
    noted.n_rows = mr_packed_image_has_rows(entry->image.encoding) ? (uint64_t)entry->image.n_rows + 1 : 0;
    status = note_sample(draft, entry, &noted, error);
    if (status == MR_OK)
        status = mr_pack_draft_count(draft, &noted, error);
    if (status == MR_OK && draft->unsynced >= SYNC_BYTES)
        status = write_sync(draft, error);
    return status;
}

static mr_status refuse_after_failure(const struct mr_pack_writer *writer, mr_error *error)
{
    return mr_error_set(error, MR_ERR_STATE, "%s: after a failure the pack must be opened again", writer->draft.dir);
}

mr_status mr_pack_writer_add(struct mr_pack_writer *writer, const struct mr_pack_entry *entry, mr_error *error)
{
    uint64_t n_samples = mr_pack_draft_begin(&writer->draft)->n_samples;
    if (writer->has_failed)
        return refuse_after_failure(writer, error);
    if (writer->draft.n_done >= n_samples)
        return mr_error_set(error, MR_ERR_INVALID, "%s: all of the %" PRIu64 " samples are there already",
                            writer->draft.dir, n_samples);
    mr_status status = append_sample(&writer->draft, entry, error);
    writer->has_failed = status < 0;
    return status;
}

static mr_status sync_file(const struct mr_pack_draft *draft, const char *name, mr_error *error)
{
    int fd = mr_regular_file_open(draft->root, name, O_RDONLY, NULL);
    int rc = fd < 0 ? -fd : fsync(fd) != 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    return rc == 0 ? MR_OK : mr_pack_draft_fail(draft, rc, "sync", name, error);
}

/* Every file of samples once more: it costs nothing where it has been done. */
static mr_status sync_files(const struct mr_pack_draft *draft, mr_error *error)
{
    mr_status status = draft->n_marked > 0 ? sync_file(draft, MR_PACK_MARKS_FILE, error) : MR_OK;
    for (uint32_t i = 0; status == MR_OK && i < mr_pack_draft_n_shards(draft); i++) {
        char name[MR_PACK_SHARD_NAME];
        mr_pack_draft_shard_name(i, name);
        status = sync_file(draft, name, error);
    }
    return status;
}

mr_status mr_pack_writer_finish(struct mr_pack_writer *writer, mr_error *error)
{
    uint64_t n_samples = mr_pack_draft_begin(&writer->draft)->n_samples;
    if (writer->has_failed)
        return refuse_after_failure(writer, error);
    if (writer->draft.n_done != n_samples)
        return mr_error_set(error, MR_ERR_INVALID, "%s holds %" PRIu64 " of %" PRIu64 " samples", writer->draft.dir,
                            writer->draft.n_done, n_samples);
    mr_status status = sync_files(&writer->draft, error);
    if (status == MR_OK)
        status = mr_pack_index_save(&writer->draft, error);
    if (status < 0)
        return status;
    /* The pack is complete, also when its journal stays. */
    (void)unlinkat(writer->draft.root, MR_PACK_JOURNAL, 0);
    (void)fsync(writer->draft.root);
    return MR_OK;
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

static mr_status check_options(const struct mr_pack_writer_options *options, uint32_t align, mr_error *error)
{
    if (align > MR_PACK_MAX_ALIGN || (align & (align - 1)) != 0)
        return mr_error_set(error, MR_ERR_INVALID, "align %" PRIu32 " is not a power of two up to %u", align,
                            MR_PACK_MAX_ALIGN);
    if (options->shard_bytes == 0)
        return mr_error_set(error, MR_ERR_INVALID, "shards of 0 bytes");
    if (options->kind->label_bytes == 0 || options->kind->label_bytes > MR_PACK_MAX_LABEL_BYTES)
        return mr_error_set(error, MR_ERR_INVALID, "labels of %" PRIu64 " bytes are above a pack's limit of %" PRIu64,
                            options->kind->label_bytes, MR_PACK_MAX_LABEL_BYTES);
    return MR_OK;
}

/* The options as the journal's first record has them, so that another run can compare. */
static mr_status make_begin(const struct mr_pack_writer_options *options, struct mr_bytes *bytes, mr_error *error)
{
    const struct mr_sample_kind *kind = options->kind;
    uint32_t align = options->align ? options->align : 1;
    struct mr_pack_begin begin = {.n_samples = options->n_samples,
                                  .shard_bytes = options->shard_bytes,
                                  .align = align,
                                  .label_dtype = (uint32_t)kind->label_dtype,
                                  .label_ndim = kind->label_ndim,
                                  .label_bytes = kind->label_bytes,
                                  .n_classes = options->n_classes};
    if (kind->label_ndim > 0)
        memcpy(begin.label_shape, kind->label_shape, kind->label_ndim * sizeof *kind->label_shape);
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
    if (status == MR_OK)
        memcpy(bytes->data, &begin, sizeof begin);
    return status;
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
    return draft->root >= 0 ? MR_OK : mr_error_os(error, MR_ERR_IO, errno, "cannot open the folder %s", draft->dir);
}

/* Does this section of a complete pack's index hold these bytes? */
static bool has_section(int fd, const struct mr_pack_header *header, enum mr_pack_section which, const void *bytes,
                        size_t len)
{
    size_t n = 0;
    char *found = header->sections[which].len == len ? malloc(len + 1) : NULL;
    bool same = found && mr_file_read_at(fd, header->sections[which].off, found, len, &n) == 0 && n == len &&
                memcmp(found, bytes, len) == 0;
    free(found);
    return same;
}

/* Is it what this draft would become? The origin says what is packed and how. */
static bool is_of_draft(int fd, const struct mr_pack_header *header, const struct mr_pack_draft *draft)
{
    const struct mr_pack_begin *begin = mr_pack_draft_begin(draft);
    const char *names = (const char *)(begin + 1), *origin = names + begin->class_names_len;
    return has_section(fd, header, MR_PACK_ORIGIN, origin, strlen(origin) + 1) &&
           has_section(fd, header, MR_PACK_CLASS_NAMES, names, begin->class_names_len);
}

/* A pack that is complete is never touched. MR_END if it is the one that was asked for. */
static mr_status check_incomplete(const struct mr_pack_draft *draft, mr_error *error)
{
    struct mr_pack_header header = {0};
    struct stat st;
    size_t n = 0;
    if (fstatat(draft->root, MR_PACK_INDEX, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? MR_OK : mr_pack_draft_fail(draft, errno, "look at", MR_PACK_INDEX, error);
    int fd = mr_regular_file_open(draft->root, MR_PACK_INDEX, O_RDONLY, NULL);
    bool is_pack = fd >= 0 && mr_file_read_at(fd, 0, &header, MR_PACK_HEADER_BYTES, &n) == 0 &&
                   n == MR_PACK_HEADER_BYTES && header.magic == MR_PACK_MAGIC;
    bool is_same = is_pack && is_of_draft(fd, &header, draft);
    if (fd >= 0)
        close(fd);
    if (is_pack) /* a process that was killed right after completing it has left it */
        (void)unlinkat(draft->root, MR_PACK_JOURNAL, 0);
    if (is_same)
        return MR_END;
    return mr_error_set(error, MR_ERR_INVALID,
                        is_pack ? "%s holds a complete pack of another dataset, or made with other options"
                                : "%s holds a file called index",
                        draft->dir);
}

static mr_status begin_or_go_on(struct mr_pack_draft *draft, mr_error *error)
{
    bool is_new;
    mr_status status = check_incomplete(draft, error);
    if (status == MR_OK)
        status = mr_pack_journal_open(draft->root, draft->dir, &draft->journal, &is_new, error);
    if (status != MR_OK)
        return status;
    /* Only now nobody else can complete it. */
    status = check_incomplete(draft, error);
    if (status == MR_OK)
        status = mr_pack_resume(draft, error);
    if (status != MR_OK && is_new)
        (void)unlinkat(draft->root, MR_PACK_JOURNAL, 0);
    return status;
}

mr_status mr_pack_writer_open(const char *dir, const struct mr_pack_writer_options *options,
                              struct mr_pack_writer **writer_out, uint64_t *n_done_out, mr_error *error)
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
        status = begin_or_go_on(&writer->draft, error);
    if (status != MR_OK) {
        mr_pack_writer_close(writer);
        return status;
    }
    *writer_out = writer;
    *n_done_out = writer->draft.n_done;
    return MR_OK;
}
