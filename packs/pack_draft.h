/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a pack that is being written: its folder, and the counts of the samples written so
 * far. pack_resume.c fills it in from the disk, pack_writer.c appends to it, pack_index_save.c
 * makes the index from it.
 */
#ifndef PACKS_PACK_DRAFT_H
#define PACKS_PACK_DRAFT_H

#include "dataset/catalog_build.h"
#include "dataset/pack_format.h"
#include "packs/pack_templates.h"

#define MR_PACK_FILE_NAME 32 /* bytes of the longest file name in a pack, with its NUL */

struct mr_pack_draft {
    char *dir; /* for messages, without a slash at the end */
    int root;
    int lock_fd;  /* of MR_PACK_UNFINISHED, locked; -1: not open */
    int shard_fd; /* of the shard that is being written; -1: the next sample begins a shard */
    int marks_fd; /* of the file of marks; -1: not open */
    bool wants_marks;
    struct mr_bytes begin; /* struct mr_pack_begin, class names, origin */
    struct mr_pack_templates templates;
    struct mr_bytes shards; /* u64: the length of each shard; the last one grows */
    struct mr_bytes sections[MR_PACK_N_SECTIONS]; /* index entries of the shard that is being
                                                     written, as its part will store them */
    uint64_t n_done;                              /* samples */
    uint64_t n_rows;                              /* entries of the samples' row tables */
    uint64_t n_sums;                              /* checksums of the samples' rows */
    uint64_t names_len;
    uint64_t n_marked;  /* samples with marks */
    uint64_t marks_len; /* length of the file of marks; 0: the file does not exist */
    uint64_t bytes;     /* in all shards and marks */
};

/* Set up a draft that owns nothing. */
void mr_pack_draft_init(struct mr_pack_draft *draft);
/* Close and free everything. */
void mr_pack_draft_fini(struct mr_pack_draft *draft);

const struct mr_pack_begin *mr_pack_draft_begin(const struct mr_pack_draft *draft);
uint32_t mr_pack_draft_n_shards(const struct mr_pack_draft *draft);
/* Length of the shard that is being written. Call it only if there is one. */
uint64_t *mr_pack_draft_shard_len(const struct mr_pack_draft *draft);
/* MR_ERR_IO: "cannot <what> DIR/<name>". */
mr_status mr_pack_draft_fail(const struct mr_pack_draft *draft, int os_error, const char *what,
                             const char *name, mr_error *error);
void mr_pack_draft_shard_name(uint32_t shard, char name_out[MR_PACK_FILE_NAME]);

#endif
