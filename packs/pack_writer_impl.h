/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the writer share: pack_writer.c appends, pack_resume.c finds out what is there already,
 * pack_index_save.c makes the index. */
#ifndef PACKS_PACK_WRITER_IMPL_H
#define PACKS_PACK_WRITER_IMPL_H

#include "packs/pack_journal.h"
#include "packs/pack_templates.h"
#include "packs/pack_writer.h"

#define MR_PACK_SHARD_NAME 24

struct mr_pack_writer {
    char *dir; /* for messages, without a slash at its end */
    int root;
    int shard_fd; /* of the last shard; -1: none is open */
    struct mr_pack_journal journal;
    struct mr_bytes begin; /* the journal's first record: struct mr_pack_begin, class names, origin */
    struct mr_pack_templates templates;
    struct mr_bytes shards; /* u64: bytes of each that count; the last one grows */
    uint64_t n_done;        /* samples */
    uint64_t n_rows;        /* entries of their row tables */
    uint64_t names_len;
    uint64_t bytes;    /* in shards */
    uint64_t unmarked; /* of them, those behind the last mark */
    bool has_failed;   /* journal and sums may differ: only close is left */
};

const struct mr_pack_begin *mr_pack_writer_begin(const struct mr_pack_writer *writer);
uint32_t mr_pack_writer_n_shards(const struct mr_pack_writer *writer);
/* Of the last shard; 0 where there is none. */
uint64_t mr_pack_writer_shard_len(const struct mr_pack_writer *writer);
/* Take a sample that is in its shard, and in the journal, into the sums. A shard may begin with it. */
mr_status mr_pack_writer_count(struct mr_pack_writer *writer, const struct mr_pack_sample *sample, uint64_t n_rows,
                               size_t name_len, mr_error *error);
/* MR_ERR_IO: "cannot <what> DIR/<name>". */
mr_status mr_pack_writer_fail(const struct mr_pack_writer *writer, int os_error, const char *what, const char *name,
                              mr_error *error);
void mr_pack_writer_shard_name(uint32_t shard, char name_out[MR_PACK_SHARD_NAME]);

/* Begin a pack, or find out how far it is: count what is there, cut what is not whole, and leave the last shard open.
 */
mr_status mr_pack_resume(struct mr_pack_writer *writer, mr_error *error);

/* Write DIR/index from the journal: temporary name, sync, rename. All samples are in it. */
mr_status mr_pack_index_save(struct mr_pack_writer *writer, mr_error *error);

#endif
