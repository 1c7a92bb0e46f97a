/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and appends the records of a journal.
 *
 * Invariant: a record's number is under its checksum. A record of an earlier attempt, left behind where the file was
 * cut, is therefore never taken for the next one.
 */
#include "packs/pack_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/regular_file.h"
#include "base/xxh3.h"
#include "dataset/file.h"

enum { WINDOW_BYTES = 1 << 20 };

static mr_status fail_journal(const struct mr_pack_journal *journal, mr_error *error, int os_error, const char *what)
{
    return mr_regular_file_fail(error, os_error, "cannot %s %s/" MR_PACK_JOURNAL, what, journal->dir);
}

/* A crash may leave it empty or full of zeros; anything else that is no journal is somebody's file. */
static mr_status check_head(struct mr_pack_journal *journal, mr_error *error)
{
    struct mr_pack_journal_head head = {0};
    struct stat st;
    ssize_t n = pread(journal->fd, &head, sizeof head, 0);
    if (n < 0 || fstat(journal->fd, &st) != 0)
        return fail_journal(journal, error, errno, "read");
    if (st.st_nlink == 0) /* removed between opening and locking it, by who had it */
        return mr_error_set(error, MR_ERR_INVALID, "another process is packing into %s", journal->dir);
    if (head.magic != 0 && head.magic != MR_PACK_JOURNAL_MAGIC)
        return mr_error_set(error, MR_ERR_INVALID, "%s/" MR_PACK_JOURNAL " is not a journal of a pack", journal->dir);
    if (head.version != 0 && head.version != MR_PACK_VERSION)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%s/" MR_PACK_JOURNAL " is of version %u, this library writes version %u", journal->dir,
                            head.version, MR_PACK_VERSION);
    return MR_OK;
}

mr_status mr_pack_journal_open(int root, const char *dir, struct mr_pack_journal *journal, bool *is_new_out,
                               mr_error *error)
{
    *journal = (struct mr_pack_journal){.fd = -1, .dir = dir};
    int flags = O_RDWR | O_NOFOLLOW;
    *is_new_out = false;
    int fd = mr_regular_file_open(root, MR_PACK_JOURNAL, flags, NULL);
    if (fd == -ENOENT) {
        fd = mr_regular_file_open(root, MR_PACK_JOURNAL, flags | O_CREAT | O_EXCL, NULL);
        *is_new_out = fd >= 0;
        if (fd == -EEXIST) /* of another process that began just now */
            fd = mr_regular_file_open(root, MR_PACK_JOURNAL, flags, NULL);
    }
    if (fd < 0)
        return fail_journal(journal, error, -fd, "open");
    journal->fd = fd;
    if (flock(journal->fd, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK ? mr_error_set(error, MR_ERR_INVALID, "another process is packing into %s", dir)
                                    : fail_journal(journal, error, errno, "lock");
    return check_head(journal, error);
}

void mr_pack_journal_close(struct mr_pack_journal *journal)
{
    if (journal->fd >= 0)
        close(journal->fd);
    journal->fd = -1;
    mr_bytes_fini(&journal->pending);
}

mr_status mr_pack_journal_keep(struct mr_pack_journal *journal, uint64_t n_records, uint64_t len, mr_error *error)
{
    const struct mr_pack_journal_head head = {.magic = MR_PACK_JOURNAL_MAGIC, .version = MR_PACK_VERSION};
    if (len < sizeof head)
        len = sizeof head;
    if (ftruncate(journal->fd, (off_t)len) != 0)
        return fail_journal(journal, error, errno, "cut");
    int rc = mr_file_write_at(journal->fd, &head, sizeof head, 0);
    if (rc < 0)
        return fail_journal(journal, error, -rc, "write");
    journal->n_records = n_records;
    journal->len = len;
    return MR_OK;
}

/* padded: bytes behind the head, with the zeros. */
static uint64_t record_checksum(const uint8_t *record, uint64_t padded)
{
    size_t skip = sizeof(uint64_t);
    return mr_xxh3(record + skip, sizeof(struct mr_pack_record) - skip + padded);
}

mr_status mr_pack_journal_put(struct mr_pack_journal *journal, enum mr_pack_record_kind kind,
                              const struct mr_pack_part *parts, size_t n_parts, mr_error *error)
{
    static const uint8_t zeros[8];
    struct mr_bytes *pending = &journal->pending;
    struct mr_pack_record head = {.number = journal->n_records + journal->n_pending, .kind = kind};
    size_t start = pending->len;
    for (size_t i = 0; i < n_parts; i++)
        head.len += parts[i].len;
    mr_status status = mr_bytes_append(pending, &head, sizeof head, error);
    for (size_t i = 0; status == MR_OK && i < n_parts; i++)
        status = mr_bytes_append(pending, parts[i].bytes, parts[i].len, error);
    if (status == MR_OK)
        status = mr_bytes_append(pending, zeros, (size_t)(-head.len % 8), error);
    if (status < 0) {
        pending->len = start;
        return status;
    }
    head.checksum = record_checksum(pending->data + start, pending->len - start - sizeof head);
    memcpy(pending->data + start, &head.checksum, sizeof head.checksum);
    journal->n_pending++;
    return MR_OK;
}

mr_status mr_pack_journal_flush(struct mr_pack_journal *journal, mr_error *error)
{
    mr_status status = MR_OK;
    int rc = mr_file_write_at(journal->fd, journal->pending.data, journal->pending.len, journal->len);
    if (rc < 0) {
        status = fail_journal(journal, error, -rc, "write");
        (void)!ftruncate(journal->fd, (off_t)journal->len); /* half a record does not count in any case */
    } else {
        journal->len += journal->pending.len;
        journal->n_records += journal->n_pending;
    }
    journal->pending.len = 0;
    journal->n_pending = 0;
    return status;
}

mr_status mr_pack_journal_sync(struct mr_pack_journal *journal, mr_error *error)
{
    return fsync(journal->fd) == 0 ? MR_OK : fail_journal(journal, error, errno, "sync");
}

void mr_pack_journal_cursor_init(struct mr_pack_cursor *cursor, int fd, uint64_t end)
{
    *cursor = (struct mr_pack_cursor){.fd = fd, .at = sizeof(struct mr_pack_journal_head), .end = end};
}

void mr_pack_journal_cursor_fini(struct mr_pack_cursor *cursor)
{
    mr_bytes_fini(&cursor->window);
}

/* len bytes from at on, which lie before end. NULL in *bytes_out where they cannot be read. */
static mr_status read_window(struct mr_pack_cursor *cursor, uint64_t at, uint64_t len, const uint8_t **bytes_out,
                             mr_error *error)
{
    struct mr_bytes *window = &cursor->window;
    *bytes_out = NULL;
    if (at < cursor->window_at || at + len > cursor->window_at + window->len) {
        uint64_t rest = cursor->end - at, wanted = len > WINDOW_BYTES ? len : WINDOW_BYTES;
        wanted = wanted < rest ? wanted : rest;
        window->len = 0;
        cursor->window_at = at;
        if (wanted > window->size) {
            mr_bytes_fini(window);
            window->data = malloc((size_t)wanted);
            if (!window->data)
                return mr_error_memory(error, (size_t)wanted);
            window->size = (size_t)wanted;
        }
        while (window->len < wanted) {
            ssize_t n =
                pread(cursor->fd, window->data + window->len, (size_t)wanted - window->len, (off_t)(at + window->len));
            if (n < 0 && errno == EINTR)
                continue;
            if (n <= 0)
                break;
            window->len += (size_t)n;
        }
    }
    if (at - cursor->window_at + len <= window->len)
        *bytes_out = window->data + (at - cursor->window_at);
    return MR_OK;
}

mr_status mr_pack_journal_cursor_next(struct mr_pack_cursor *cursor, struct mr_pack_record *head_out,
                                      const uint8_t **bytes_out, mr_error *error)
{
    struct mr_pack_record head;
    const uint8_t *bytes;
    if (cursor->at > cursor->end || cursor->end - cursor->at < sizeof head)
        return MR_END;
    uint64_t room = cursor->end - cursor->at - sizeof head;
    mr_status status = read_window(cursor, cursor->at, sizeof head, &bytes, error);
    if (status < 0 || !bytes)
        return status < 0 ? status : MR_END;
    memcpy(&head, bytes, sizeof head);
    uint64_t padding = -head.len % 8;
    if (head.number != cursor->number || head.len > room || padding > room - head.len)
        return MR_END;
    status = read_window(cursor, cursor->at, sizeof head + head.len + padding, &bytes, error);
    if (status < 0 || !bytes)
        return status < 0 ? status : MR_END;
    if (record_checksum(bytes, head.len + padding) != head.checksum)
        return MR_END;
    cursor->at += sizeof head + head.len + padding;
    cursor->number++;
    *head_out = head;
    *bytes_out = bytes + sizeof head;
    return MR_OK;
}

bool mr_pack_journal_split(const uint8_t *bytes, uint64_t len, uint64_t label_bytes, struct mr_pack_noted *noted_out)
{
    struct mr_pack_noted noted = {0};
    if (len < sizeof noted.sample)
        return false;
    memcpy(&noted.sample, bytes, sizeof noted.sample);
    if (mr_packed_image_has_rows(noted.sample.encoding))
        noted.n_rows = (uint64_t)noted.sample.n_rows + 1;
    uint64_t rest = len - sizeof noted.sample, rows_len = noted.n_rows * sizeof(uint32_t);
    size_t marks_len = noted.sample.encoding == MR_PACKED_MARKED ? sizeof noted.marks : 0;
    if (rest < rows_len + marks_len || rest - rows_len - marks_len <= label_bytes)
        return false;
    rest -= rows_len + marks_len;
    noted.rows = bytes + sizeof noted.sample;
    memcpy(&noted.marks, noted.rows + rows_len, marks_len);
    noted.label = noted.rows + rows_len + marks_len;
    noted.name = (const char *)noted.label + label_bytes;
    noted.name_len = (size_t)(rest - label_bytes);
    *noted_out = noted;
    return memchr(noted.name, '\0', noted.name_len) == noted.name + noted.name_len - 1;
}
