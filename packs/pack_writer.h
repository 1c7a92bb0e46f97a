/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a pack: appends samples to shards in the order of their index. At any time the folder
 * holds either a complete pack or one that the same call continues after its last finished shard.
 * Only one process at a time writes (flock on the file `unfinished`).
 */
#ifndef PACKS_PACK_WRITER_H
#define PACKS_PACK_WRITER_H

#include "base/error.h"
#include "base/sample_kind.h"
#include "dataset/pack_format.h"

struct mr_pack_writer;

struct mr_pack_writer_options {
    const struct mr_sample_kind *kind; /* of the source, for its labels and members */
    uint64_t n_samples;
    uint64_t shard_bytes; /* a sample that would exceed it begins a new shard; a single longer
                             sample is allowed */
    uint32_t align;       /* of each sample, a power of two up to 4096; 1: none */
    bool marks;           /* samples may have marks */
    const char
        *origin; /* what is packed and how; an unfinished pack with another origin is refused */
    uint32_t n_classes;
    const char *(*class_name)(void *user, uint32_t i);
    void *user;
};

struct mr_pack_entry {
    struct mr_packed_image image;
    const uint8_t *bytes;                 /* image.len bytes, then those of the further members */
    uint64_t member_lens[MR_MAX_MEMBERS]; /* kind->n_extra of them */
    const char *name;
    const void *label; /* kind->label_bytes bytes */
};

/*
 * Begin a pack, or continue one that already has *n_done_out samples: this is the index of the next
 * sample to add. The folder is created, its parents are not. Returns MR_END without a writer if the
 * folder holds the complete pack of the same origin and classes; MR_ERR_INVALID if it holds another
 * pack or a part of one, or another process packs into it; MR_ERR_IO.
 */
mr_status mr_pack_writer_open(const char *dir, const struct mr_pack_writer_options *options,
                              struct mr_pack_writer **writer_out, uint64_t *n_done_out,
                              mr_error *error);
/*
 * Add a sample. It survives an interruption once its shard is finished. After a failure, only close
 * may be called. MR_ERR_IO, also for a full disk, names the file.
 */
mr_status mr_pack_writer_add(struct mr_pack_writer *writer, const struct mr_pack_entry *entry,
                             mr_error *error);
/*
 * After the last sample: finish the last shard, write the index, rename it, and remove the files
 * that only resuming needs.
 */
mr_status mr_pack_writer_finish(struct mr_pack_writer *writer, mr_error *error);
/* Bytes in the shards and marks of this pack, including those of earlier runs. */
uint64_t mr_pack_writer_bytes(const struct mr_pack_writer *writer);
/* NULL does nothing. An unfinished pack can be continued. */
void mr_pack_writer_close(struct mr_pack_writer *writer);

#endif
