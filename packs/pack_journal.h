/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal of a pack that is being written: records with checksums, appended. The records before the first wrong one
 * count, so a write that was cut short counts as none.
 */
#ifndef PACKS_PACK_JOURNAL_H
#define PACKS_PACK_JOURNAL_H

#include "base/error.h"
#include "dataset/pack_format.h"
#include "dataset/catalog_build.h"

#include <stdbool.h>

struct mr_pack_journal {
    int fd; /* locked */
    const char *dir;
    uint64_t len;       /* bytes that count */
    uint64_t n_records; /* in them */
    uint64_t n_pending; /* records in pending */
    struct mr_bytes pending;
};

/*
 * Open or create DIR/journal and lock it. *is_new_out: it was not there. dir is for messages and must stay valid. Its
 * records count only after mr_pack_journal_keep() has said how many are valid. MR_ERR_INVALID: another process has it
 * locked, or it is some other file.
 */
mr_status mr_pack_journal_open(int root, const char *dir, struct mr_pack_journal *journal, bool *is_new_out,
                               mr_error *error);
void mr_pack_journal_close(struct mr_pack_journal *journal);

/* The first n_records, len bytes with the head, are right: cut what follows. */
mr_status mr_pack_journal_keep(struct mr_pack_journal *journal, uint64_t n_records, uint64_t len, mr_error *error);

/* Prepare a record of parts, one after the other; those of no bytes may be NULL. */
struct mr_pack_part {
    const void *bytes;
    size_t len;
};
mr_status mr_pack_journal_put(struct mr_pack_journal *journal, enum mr_pack_record_kind kind,
                              const struct mr_pack_part *parts, size_t n_parts, mr_error *error);
/* Append the prepared records, in one write. After a failure the journal is as before and nothing is prepared. */
mr_status mr_pack_journal_flush(struct mr_pack_journal *journal, mr_error *error);
mr_status mr_pack_journal_sync(struct mr_pack_journal *journal, mr_error *error);

/* Walks over records. */
struct mr_pack_cursor {
    int fd;
    uint64_t at;  /* of the next record, up to which everything was right */
    uint64_t end; /* of the file, or of what counts */
    uint64_t number;
    struct mr_bytes window; /* a part of the file, from window_at on */
    uint64_t window_at;
};

/* fd: of a journal; bytes from end on are not looked at. */
void mr_pack_journal_cursor_init(struct mr_pack_cursor *cursor, int fd, uint64_t end);
void mr_pack_journal_cursor_fini(struct mr_pack_cursor *cursor);
/*
 * The next record. MR_OK with *head_out and *bytes_out (head_out->len of them, valid until the next call); MR_END if no
 * valid record follows; MR_ERR_NO_MEMORY.
 */
mr_status mr_pack_journal_cursor_next(struct mr_pack_cursor *cursor, struct mr_pack_record *head_out,
                                      const uint8_t **bytes_out, mr_error *error);

/* The parts of a record of a sample, inside its bytes. */
struct mr_pack_noted {
    struct mr_pack_sample sample;
    const uint8_t *rows;               /* n_rows u32, aligned for nothing */
    uint64_t n_rows;                   /* entries: sample.n_rows + 1, or 0 */
    struct mr_pack_record_marks marks; /* of 0 bytes: it has none */
    const uint8_t *label;
    const char *name;
    size_t name_len; /* with its NUL */
};
/* False if the bytes are not such a record. */
bool mr_pack_journal_split(const uint8_t *bytes, uint64_t len, uint64_t label_bytes, struct mr_pack_noted *noted_out);

#endif
