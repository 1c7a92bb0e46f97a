/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out how far an interrupted pack is. The valid beginning of the journal counts, as far as the shards hold the
 * bytes of its samples. The rest is cut off, and the pack goes on as if it had never been interrupted.
 *
 * A shard or the marks may be longer than the journal says (the process died between the writes) or shorter (the
 * machine died). Behind the last sync its bytes may also be wrong, so they are compared with their checksums.
 */
#include "packs/pack_resume.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/regular_file.h"
#include "dataset/file.h"
#include "dataset/pack_index.h"
#include "packs/pack_marks.h"

struct load {
    struct mr_pack_draft *draft;
    uint64_t n_synced; /* samples before the last sync */
    uint64_t n_records, len;
    int fd; /* the shard that is looked at; -1: none, or it is not there */
    uint32_t shard;
    uint64_t shard_size;
    int marks_fd; /* negative: there is no such file */
    uint64_t marks_size;
    struct mr_bytes bytes; /* of one sample */
};

/* Samples before the last sync among the journal's valid records. */
static mr_status find_sync(struct load *load, uint64_t end, mr_error *error)
{
    struct mr_pack_cursor cursor;
    struct mr_pack_record head;
    const uint8_t *bytes;
    uint64_t n = 0;
    mr_status status;
    mr_pack_journal_cursor_init(&cursor, load->draft->journal.fd, end);
    while ((status = mr_pack_journal_cursor_next(&cursor, &head, &bytes, error)) == MR_OK) {
        n += head.kind == MR_PACK_RECORD_SAMPLE;
        if (head.kind == MR_PACK_RECORD_SYNC)
            load->n_synced = n;
    }
    mr_pack_journal_cursor_fini(&cursor);
    return status < 0 ? status : MR_OK;
}

/* The text behind the class names; NULL where it is none. */
static const char *origin_of(const uint8_t *bytes, uint64_t len)
{
    struct mr_pack_begin begin;
    if (len < sizeof begin)
        return NULL;
    memcpy(&begin, bytes, sizeof begin);
    uint64_t rest = len - sizeof begin;
    if (begin.class_names_len >= rest || bytes[len - 1] != '\0')
        return NULL;
    return (const char *)bytes + sizeof begin + begin.class_names_len;
}

/* The journal's first record against this call's. */
static mr_status compare_begin(const struct mr_pack_draft *draft, const uint8_t *bytes, uint64_t len, mr_error *error)
{
    if (len == draft->begin.len && memcmp(bytes, draft->begin.data, len) == 0)
        return MR_OK;
    const struct mr_pack_begin *now = mr_pack_draft_begin(draft);
    const char *origin = origin_of(bytes, len), *new_origin = origin_of(draft->begin.data, draft->begin.len);
    struct mr_pack_begin then;
    if (!origin)
        return mr_error_set(error, MR_ERR_INVALID, "%s/" MR_PACK_JOURNAL " is not a journal of a pack", draft->dir);
    memcpy(&then, bytes, sizeof then);
    if (strcmp(origin, new_origin) != 0)
        return mr_error_set(error, MR_ERR_INVALID, "%s holds a part of another pack: \"%.350s\", now \"%.350s\"",
                            draft->dir, origin, new_origin);
    if (then.n_samples != now->n_samples)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%s holds a part of a pack of %" PRIu64 " samples, now there are %" PRIu64, draft->dir,
                            then.n_samples, now->n_samples);
    if (then.shard_bytes != now->shard_bytes || then.align != now->align)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%s holds a part of a pack with shards of %" PRIu64 " bytes, aligned to %" PRIu32
                            "; now %" PRIu64 " and %" PRIu32,
                            draft->dir, then.shard_bytes, then.align, now->shard_bytes, now->align);
    return mr_error_set(error, MR_ERR_INVALID, "%s holds a part of a pack with other labels or classes", draft->dir);
}

/* A file that is not there, or no file, has no bytes. Returns a descriptor or a negative errno. */
static int open_file(const struct load *load, const char *name, uint64_t *size_out)
{
    struct stat st;
    int fd = mr_regular_file_open(load->draft->root, name, O_RDONLY | O_NOFOLLOW, &st);
    *size_out = fd >= 0 ? (uint64_t)st.st_size : 0;
    return fd;
}

static void open_shard(struct load *load, uint32_t shard)
{
    char name[MR_PACK_SHARD_NAME];
    if (load->fd >= 0 && load->shard == shard)
        return;
    if (load->fd >= 0)
        close(load->fd);
    mr_pack_draft_shard_name(shard, name);
    load->fd = open_file(load, name, &load->shard_size);
    load->shard = shard;
}

/* Does a record follow from those before it? */
static bool sample_fits(const struct mr_pack_draft *draft, const struct mr_pack_noted *noted, uint64_t *end_out)
{
    const struct mr_pack_sample *sample = &noted->sample;
    uint32_t n_shards = mr_pack_draft_n_shards(draft);
    bool same = n_shards > 0 && sample->shard == n_shards - 1;
    if (draft->n_done >= mr_pack_draft_begin(draft)->n_samples || (!same && sample->shard != n_shards) ||
        n_shards == UINT32_MAX || sample->offset < (same ? mr_pack_draft_shard_len(draft) : 0))
        return false;
    if (sample->name != draft->names_len || sample->rows != (noted->n_rows > 0 ? draft->n_rows : 0) ||
        (noted->n_rows > 0 && sample->template >= draft->templates.n))
        return false;
    if (sample->encoding == MR_PACKED_MARKED && !mr_pack_marks_follow(draft, &noted->marks.place))
        return false;
    return mr_checked_add_u64(sample->offset, sample->len, end_out) &&
           mr_checked_add_u64(*end_out, sample->beside_len, end_out) && *end_out <= INT64_MAX;
}

static mr_status reserve_bytes(struct load *load, size_t len, mr_error *error)
{
    if (load->bytes.size >= len)
        return MR_OK;
    mr_bytes_fini(&load->bytes);
    load->bytes.data = malloc(len);
    if (!load->bytes.data)
        return mr_error_memory(error, len);
    load->bytes.size = len;
    return MR_OK;
}

/* Bytes that lie within their file. *good_out: they have this checksum. */
static mr_status verify_bytes(struct load *load, int fd, uint64_t offset, size_t len, uint64_t checksum, bool *good_out,
                              mr_error *error)
{
    size_t n = 0;
    mr_status status = reserve_bytes(load, len, error);
    if (status == MR_OK)
        *good_out = mr_file_read_at(fd, offset, load->bytes.data, len, &n) == 0 && n == len &&
                    mr_pack_index_hash(load->bytes.data, len) == checksum;
    return status;
}

static mr_status verify_sample(struct load *load, const struct mr_pack_noted *noted, bool *good_out, mr_error *error)
{
    const struct mr_pack_sample *sample = &noted->sample;
    const struct mr_pack_record_marks *marks = &noted->marks;
    mr_status status = verify_bytes(load, load->fd, sample->offset, (size_t)(sample->len + sample->beside_len),
                                    sample->checksum, good_out, error);
    if (status == MR_OK && *good_out && marks->place.len > 0)
        status = verify_bytes(load, load->marks_fd, marks->place.offset, (size_t)marks->place.len, marks->checksum,
                              good_out, error);
    return status;
}

/* MR_END: this sample does not count. */
static mr_status take_sample(struct load *load, const uint8_t *bytes, uint64_t len, mr_error *error)
{
    struct mr_pack_draft *draft = load->draft;
    struct mr_pack_noted noted;
    uint64_t end;
    if (!mr_pack_journal_split(bytes, len, mr_pack_draft_begin(draft)->label_bytes, &noted) ||
        !sample_fits(draft, &noted, &end))
        return MR_END;
    open_shard(load, noted.sample.shard);
    if (load->fd < 0 || end > load->shard_size || noted.marks.place.offset + noted.marks.place.len > load->marks_size)
        return MR_END;
    bool good = true;
    if (draft->n_done >= load->n_synced) {
        mr_status status = verify_sample(load, &noted, &good, error);
        if (status < 0)
            return status;
    }
    if (!good)
        return MR_END;
    mr_status status = mr_pack_draft_count(draft, &noted, error);
    if (draft->n_done <= load->n_synced)
        draft->unsynced = 0;
    return status;
}

static mr_status take_record(struct load *load, const struct mr_pack_record *head, const uint8_t *bytes,
                             mr_error *error)
{
    struct mr_packed_template template;
    if ((head->number == 0) != (head->kind == MR_PACK_RECORD_BEGIN))
        return MR_END;
    switch (head->kind) {
    case MR_PACK_RECORD_BEGIN: return compare_begin(load->draft, bytes, head->len, error);
    case MR_PACK_RECORD_TEMPLATE:
        if (head->len != sizeof template)
            return MR_END;
        memcpy(&template, bytes, sizeof template);
        return mr_pack_templates_add(&load->draft->templates, &template, error);
    case MR_PACK_RECORD_SAMPLE: return take_sample(load, bytes, head->len, error);
    case MR_PACK_RECORD_SYNC: return MR_OK;
    default: return MR_END;
    }
}

/* Everything up to the first record that does not count. */
static mr_status take_all(struct load *load, uint64_t end, mr_error *error)
{
    struct mr_pack_cursor cursor;
    struct mr_pack_record head;
    const uint8_t *bytes;
    mr_status status;
    mr_pack_journal_cursor_init(&cursor, load->draft->journal.fd, end);
    while ((status = mr_pack_journal_cursor_next(&cursor, &head, &bytes, error)) == MR_OK &&
           (status = take_record(load, &head, bytes, error)) == MR_OK) {
        load->n_records = cursor.number;
        load->len = cursor.at;
    }
    mr_pack_journal_cursor_fini(&cursor);
    return status < 0 ? status : MR_OK;
}

/*
 * Remove the shards behind the last one that counts. The journal's beginning was on the disk before the first shard was
 * made: where there is none, they are somebody's, and stay.
 */
static mr_status remove_shards(const struct mr_pack_draft *draft, bool has_begun, mr_error *error)
{
    char name[MR_PACK_SHARD_NAME];
    for (uint32_t i = mr_pack_draft_n_shards(draft);; i++) {
        mr_pack_draft_shard_name(i, name);
        if (!has_begun && faccessat(draft->root, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            return mr_error_set(error, MR_ERR_INVALID, "%s holds %s, but no index and no journal", draft->dir, name);
        if (unlinkat(draft->root, name, 0) != 0)
            return errno == ENOENT ? MR_OK : mr_pack_draft_fail(draft, errno, "remove", name, error);
    }
}

/* A shard cut to what counts. Ownership: *fd_out is the caller's. */
static mr_status cut_shard(const struct mr_pack_draft *draft, uint32_t shard, uint64_t bytes, int *fd_out,
                           mr_error *error)
{
    char name[MR_PACK_SHARD_NAME];
    struct stat st;
    mr_pack_draft_shard_name(shard, name);
    *fd_out = mr_regular_file_open(draft->root, name, O_RDWR | O_NOFOLLOW, &st);
    if (*fd_out < 0)
        return mr_pack_draft_fail(draft, -*fd_out, "open", name, error);
    if ((uint64_t)st.st_size != bytes && ftruncate(*fd_out, (off_t)bytes) != 0)
        return mr_pack_draft_fail(draft, errno, "cut", name, error);
    return MR_OK;
}

/* All shards; the last one stays open, to be written on. */
static mr_status cut_shards(struct mr_pack_draft *draft, mr_error *error)
{
    const uint64_t *bytes = (const void *)draft->shards.data;
    mr_status status = MR_OK;
    for (uint32_t i = 0; status == MR_OK && i < mr_pack_draft_n_shards(draft); i++) {
        if (draft->shard_fd >= 0)
            close(draft->shard_fd);
        status = cut_shard(draft, i, bytes[i], &draft->shard_fd, error);
    }
    return status;
}

/* The journal's beginning must outlive the machine: without it no pack can be resumed. */
static mr_status write_begin(struct mr_pack_draft *draft, mr_error *error)
{
    struct mr_pack_part part = {draft->begin.data, draft->begin.len};
    mr_status status = mr_pack_journal_put(&draft->journal, MR_PACK_RECORD_BEGIN, &part, 1, error);
    if (status == MR_OK)
        status = mr_pack_journal_flush(&draft->journal, error);
    if (status == MR_OK)
        status = mr_pack_journal_sync(&draft->journal, error);
    if (status == MR_OK)
        (void)fsync(draft->root);
    return status;
}

static mr_status take_journal(struct load *load, mr_error *error)
{
    struct stat st;
    if (fstat(load->draft->journal.fd, &st) != 0)
        return mr_pack_draft_fail(load->draft, errno, "look at", MR_PACK_JOURNAL, error);
    load->marks_fd = open_file(load, MR_PACK_MARKS_FILE, &load->marks_size);
    mr_status status = find_sync(load, (uint64_t)st.st_size, error);
    if (status == MR_OK)
        status = take_all(load, (uint64_t)st.st_size, error);
    if (load->fd >= 0)
        close(load->fd);
    if (load->marks_fd >= 0)
        close(load->marks_fd);
    mr_bytes_fini(&load->bytes);
    return status;
}

mr_status mr_pack_resume(struct mr_pack_draft *draft, mr_error *error)
{
    struct load load = {.draft = draft, .fd = -1};
    mr_status status = take_journal(&load, error);
    bool has_begun = load.n_records > 0;
    if (status == MR_OK)
        status = remove_shards(draft, has_begun, error);
    if (status == MR_OK)
        status = mr_pack_marks_cut(draft, has_begun, error);
    if (status == MR_OK)
        status = mr_pack_journal_keep(&draft->journal, load.n_records, load.len, error);
    if (status == MR_OK)
        status = cut_shards(draft, error);
    if (status == MR_OK && !has_begun)
        status = write_begin(draft, error);
    return status;
}
