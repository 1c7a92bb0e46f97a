/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Appends to a segment: first the bytes, then the record that makes them valid.
 *
 * Invariant: new bytes go after everything in the data file, whether a record points to it or not.
 * Another process may still use records of a log whose end this process has cut off.
 */
#include "cache/cache_append.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/shared_memory.h"
#include "base/xxh3.h"
#include "dataset/file.h"
#include "cache/cache_folder.h"

/* Templates recently written to this segment. A dataset has few different ones. */
enum { KNOWN_TEMPLATES = 16 };

struct known_template {
    struct mr_packed_template template;
    uint64_t at; /* 0: none */
    uint32_t check;
};

struct mr_cache_append {
    int folder;
    struct mr_cache_files files; /* -1: no segment */
    uint64_t id;
    uint64_t log_end;
    uint64_t data_end;
    uint64_t limit; /* RLIMIT_FSIZE: exceeding it raises a signal */
    struct known_template known[KNOWN_TEMPLATES];
    uint32_t n_templates; /* templates stored in known so far */
    _Alignas(8) uint8_t record[MR_CACHE_MAX_RECORD];
};

struct mr_cache_append *mr_cache_append_create(int folder)
{
    struct mr_cache_append *append = calloc(1, sizeof *append);
    if (!append)
        return NULL;
    append->folder = folder;
    append->files = (struct mr_cache_files){-1, -1};
    return append;
}

static void leave_segment(struct mr_cache_append *append)
{
    mr_cache_folder_close_segment(&append->files);
    memset(append->known, 0, sizeof append->known);
    append->n_templates = 0;
}

void mr_cache_append_destroy(struct mr_cache_append *append)
{
    if (!append)
        return;
    leave_segment(append);
    free(append);
}

/* True if a file of the segment was removed. What is written to it would be lost. */
static bool is_removed(const struct mr_cache_append *append)
{
    struct stat log, data;
    return fstat(append->files.log, &log) != 0 || fstat(append->files.data, &data) != 0 ||
           log.st_nlink == 0 || data.st_nlink == 0;
}

/*
 * True if a sample of len bytes, its template and its record fit into the segment, and no file
 * exceeds its limit.
 */
static bool has_room(const struct mr_cache_append *append, uint64_t len)
{
    uint64_t log_need = 2 * (uint64_t)MR_CACHE_MAX_RECORD;
    return append->data_end < MR_CACHE_SEGMENT_BYTES && append->limit >= log_need &&
           len <= append->limit && append->data_end <= append->limit - len &&
           append->log_end <= append->limit - log_need;
}

static void note_data_end(void *user, uint64_t at, const struct mr_cache_head *head)
{
    uint64_t *end = user;
    const struct mr_cache_sample *sample = (const void *)head;
    (void)at;
    uint64_t sample_end;
    if (head->kind != MR_CACHE_SAMPLE)
        return;
    if (__builtin_add_overflow(sample->offset, mr_cache_log_data_bytes(sample), &sample_end))
        sample_end = UINT64_MAX;
    if (sample_end > *end)
        *end = sample_end;
}

/*
 * Continue a locked segment after its last valid record. Refuse a data file that is shorter than
 * its records say: another process has cut it, and growing it again would put other bytes where the
 * records point.
 */
static bool resume_segment(struct mr_cache_append *append, uint64_t len)
{
    struct stat log, data;
    uint64_t at = sizeof(struct mr_cache_log_head), end = 0;
    if (is_removed(append) || fstat(append->files.data, &data) != 0)
        return false;
    append->log_end = at;
    append->data_end = (uint64_t)data.st_size;
    /* A large cache has hundreds of full segments: read the log only if the segment is not full. */
    if (!has_room(append, len) ||
        mr_cache_log_walk(append->files.log, &at, note_data_end, &end) != 0)
        return false;
    append->log_end = at;
    if (end > append->data_end || !has_room(append, len) || fstat(append->files.log, &log) != 0)
        return false;
    return (uint64_t)log.st_size == at || ftruncate(append->files.log, (off_t)at) == 0;
}

/* Continue an existing segment that no process has locked. False: there is none. */
static bool continue_segment(struct mr_cache_append *append, uint64_t len)
{
    struct mr_cache_ids ids;
    bool taken = false;
    if (mr_cache_folder_list(append->folder, &ids) != 0)
        ids.n = 0;
    for (size_t i = 0; i < ids.n && !taken; i++) {
        if (mr_cache_folder_open_segment(append->folder, ids.ids[i], true, &append->files) != 0)
            continue;
        append->id = ids.ids[i];
        taken = flock(append->files.log, LOCK_EX | LOCK_NB) == 0 && resume_segment(append, len);
        if (!taken)
            leave_segment(append);
    }
    free(ids.ids);
    return taken;
}

static int create_file(int folder, uint64_t id, const char *ending, int *fd_out)
{
    char name[MR_CACHE_NAME];
    mr_cache_folder_name(id, ending, name);
    *fd_out = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    return *fd_out < 0 ? -errno : 0;
}

/*
 * The log is locked before its head is written. Other processes never continue a log without a
 * head.
 */
static int create_segment(struct mr_cache_append *append)
{
    struct mr_cache_log_head head;
    uint64_t id = 0;
    if (getrandom(&id, sizeof id, 0) != (ssize_t)sizeof id)
        return -errno;
    id |= id == 0;
    int rc = create_file(append->folder, id, MR_CACHE_LOG, &append->files.log);
    if (rc == 0 && flock(append->files.log, LOCK_EX | LOCK_NB) != 0)
        rc = -errno;
    if (rc == 0)
        rc = create_file(append->folder, id, MR_CACHE_DATA, &append->files.data);
    mr_cache_log_make_head(id, &head);
    if (rc == 0)
        rc = mr_file_write_at(append->files.log, &head, sizeof head, 0);
    if (rc != 0) {
        bool made = append->files.log >= 0;
        leave_segment(append);
        if (made)
            mr_cache_folder_remove_segment(append->folder, id);
        return rc;
    }
    append->id = id;
    append->log_end = sizeof head;
    append->data_end = 0;
    return 0;
}

/* Make sure that an open segment has room for len bytes. */
static int ensure_segment(struct mr_cache_append *append, uint64_t len)
{
    append->limit = mr_shared_memory_limit();
    if (append->limit > INT64_MAX)
        append->limit = INT64_MAX;
    if (append->files.log >= 0 && !is_removed(append) && has_room(append, len))
        return 0;
    leave_segment(append);
    if (continue_segment(append, len))
        return 0;
    append->log_end = sizeof(struct mr_cache_log_head);
    append->data_end = 0;
    if (!has_room(append, len))
        return -EFBIG;
    return create_segment(append);
}

/* Append a record at *at, and move *at to its end. */
static int write_record(struct mr_cache_append *append, struct mr_cache_head *head, uint64_t *at)
{
    mr_cache_log_seal(head);
    int rc = mr_file_write_at(append->files.log, head, head->len_bytes, *at);
    if (rc == 0)
        *at += head->len_bytes;
    return rc;
}

static int append_template(struct mr_cache_append *append,
                           const struct mr_packed_template *template, uint64_t *at,
                           struct mr_cache_sample *sample)
{
    for (uint32_t i = 0; i < KNOWN_TEMPLATES; i++) {
        const struct known_template *known = &append->known[i];
        sample->template_at = known->at;
        sample->template_check = known->check;
        if (known->at > 0 && memcmp(&known->template, template, sizeof *template) == 0)
            return 0;
    }
    struct mr_cache_template record = {
        .head = {.kind = MR_CACHE_TEMPLATE, .len_bytes = sizeof record},
        .template = *template,
    };
    sample->template_at = *at;
    int rc = write_record(append, &record.head, at);
    sample->template_check = mr_cache_template_check(&record);
    if (rc == 0)
        append->known[append->n_templates++ % KNOWN_TEMPLATES] =
            (struct known_template){*template, sample->template_at, sample->template_check};
    return rc;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Append the record of a sample. append->record already has the place of its template. */
static int append_sample(struct mr_cache_append *append, const struct mr_cache_entry *entry,
                         uint64_t *at)
{
    struct mr_cache_sample *sample = (void *)append->record;
    sample->head.kind = MR_CACHE_SAMPLE;
    sample->head.len_bytes = mr_cache_log_sample_bytes(entry->sample.n_rows, entry->n_members);
    sample->made_ns = now_ns();
    sample->offset = append->data_end;
    sample->data_checksum = mr_xxh3_pair(entry->bytes, entry->sample.len - entry->tail_len,
                                         entry->tail, entry->tail_len);
    memset(sample + 1, 0, sample->head.len_bytes - sizeof *sample);
    if (entry->sample.n_rows > 0)
        memcpy(sample + 1, entry->rows, ((size_t)entry->sample.n_rows + 1) * sizeof *entry->rows);
    memcpy(append->record + mr_cache_log_sample_bytes(entry->sample.n_rows, 0), entry->members,
           entry->n_members * sizeof *entry->members);
    return write_record(append, &sample->head, at);
}

static int write_bytes(struct mr_cache_append *append, const struct mr_cache_entry *entry)
{
    uint64_t at = append->data_end + entry->sample.len, tail_at = at - entry->tail_len;
    int rc = mr_file_write_at(append->files.data, entry->bytes, entry->sample.len - entry->tail_len,
                              append->data_end);
    if (rc == 0 && entry->tail_len > 0)
        rc = mr_file_write_at(append->files.data, entry->tail, entry->tail_len, tail_at);
    for (uint32_t k = 0; rc == 0 && k < entry->n_members; at += entry->members[k++].len)
        rc =
            mr_file_write_at(append->files.data, entry->member_bytes[k], entry->members[k].len, at);
    return rc;
}

/*
 * Append bytes, template and record after everything valid. Nothing is valid before the last write
 * has ended.
 */
static int append_entry(struct mr_cache_append *append, const struct mr_cache_entry *entry,
                        uint64_t *at, uint64_t *record_at)
{
    struct mr_cache_sample *sample = (void *)append->record;
    *sample = entry->sample;
    sample->template_at = sample->template_check = 0;
    int rc = write_bytes(append, entry);
    if (rc == 0 && entry->sample.n_rows > 0)
        rc = append_template(append, entry->template, at, sample);
    *record_at = *at;
    return rc == 0 ? append_sample(append, entry, at) : rc;
}

/*
 * Undo a failed append: cut both files back to their former ends, and forget templates written
 * after that.
 */
static void undo_append(struct mr_cache_append *append)
{
    bool cut = ftruncate(append->files.data, (off_t)append->data_end) == 0;
    if (ftruncate(append->files.log, (off_t)append->log_end) != 0 || !cut)
        leave_segment(append);
    for (uint32_t i = 0; i < KNOWN_TEMPLATES; i++)
        if (append->known[i].at >= append->log_end)
            append->known[i].at = 0;
}

uint64_t mr_cache_append_bytes(const struct mr_cache_entry *entry)
{
    uint64_t len = entry->sample.len;
    for (uint32_t k = 0; k < entry->n_members; k++)
        len += entry->members[k].len;
    return len;
}

int mr_cache_append_add(struct mr_cache_append *append, const struct mr_cache_entry *entry,
                        struct mr_cache_place *place_out)
{
    if (entry->sample.n_rows > MR_CACHE_MAX_ROWS)
        return -EFBIG;
    uint64_t len = mr_cache_append_bytes(entry);
    int rc = ensure_segment(append, len);
    if (rc != 0)
        return rc;
    uint64_t at = append->log_end, record_at;
    rc = append_entry(append, entry, &at, &record_at);
    if (rc != 0) {
        undo_append(append);
        return rc;
    }
    *place_out = (struct mr_cache_place){
        .id = append->id, .at = record_at, .grown = at - append->log_end + len};
    append->log_end = at;
    append->data_end += len;
    return 0;
}
