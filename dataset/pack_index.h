/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads an index in memory. Nothing in it is trusted: an entry that points outside is a damaged
 * sample, not a crash.
 */
#ifndef DATASET_PACK_INDEX_H
#define DATASET_PACK_INDEX_H

#include "base/error.h"
#include "base/sample_kind.h"
#include "dataset/pack_format.h"

#include <stdbool.h>
#include <stddef.h>

struct mr_pack_index {
    const struct mr_pack_header *header;
    const uint8_t *bytes;
    /*
     * Copied from the header when it was checked: if the file is overwritten while it is mapped,
     * these do not change.
     */
    uint64_t n_samples;
    uint64_t label_bytes;
    uint64_t marks_bytes; /* of the file of marks */
    const void *starts[MR_PACK_N_SECTIONS];
    uint64_t lens[MR_PACK_N_SECTIONS];
};

/*
 * Check header, sections, checksum and the description of labels. path is used in messages.
 * MR_ERR_DAMAGED says what is wrong. MR_ERR_UNSUPPORTED: another version, or more sections than
 * this library knows.
 * bytes: 8-aligned; they must stay in place while the index is used.
 */
mr_status mr_pack_index_attach(const void *bytes, size_t len, const char *path,
                               struct mr_pack_index *index_out, mr_error *error);
/*
 * The same without verifying the checksum, which reads the whole file. For a file that was attached
 * before.
 */
mr_status mr_pack_index_attach_again(const void *bytes, size_t len, const char *path,
                                     struct mr_pack_index *index_out, mr_error *error);

/*
 * The entry of a sample, and its description with pointers into the index. False if either points
 * outside.
 */
bool mr_pack_index_sample(const struct mr_pack_index *index, uint64_t i,
                          const struct mr_pack_sample **sample_out,
                          struct mr_packed_image *image_out);
/*
 * True if the pack has a file of marks. The second function gives the position of the marks of a
 * sample: false if it has none, or if the entry points outside.
 */
bool mr_pack_index_has_marks(const struct mr_pack_index *index);
bool mr_pack_index_marks(const struct mr_pack_index *index, uint64_t i,
                         struct mr_pack_marks *marks_out);

/*
 * The number of further members of each sample, at most MR_MAX_MEMBERS. The second function gives
 * the entry of member k of sample i and the offset of its bytes in the sample's shard: false if the
 * entry points outside.
 */
uint32_t mr_pack_index_n_members(const struct mr_pack_index *index);
bool mr_pack_index_member(const struct mr_pack_index *index, uint64_t i, uint32_t k,
                          struct mr_pack_member *member_out, uint64_t *offset_out);

/* The names of a sample and of a class. NULL if there is none. */
const char *mr_pack_index_name(const struct mr_pack_index *index, uint64_t i);
const char *mr_pack_index_class(const struct mr_pack_index *index, uint64_t i);
/* label_bytes bytes, not aligned. */
const void *mr_pack_index_label(const struct mr_pack_index *index, uint64_t i);
uint64_t mr_pack_index_n_classes(const struct mr_pack_index *index);
uint64_t mr_pack_index_n_shards(const struct mr_pack_index *index);
/* Bytes of a shard file; 0 if there is no such shard. */
uint64_t mr_pack_index_shard_bytes(const struct mr_pack_index *index, uint64_t shard);

/* XXH3 of the bytes of a sample. */
uint64_t mr_pack_index_hash(const uint8_t *bytes, size_t len);
/*
 * The checksum that these bytes must have in their header; the value that is there now does not
 * count. len: at least that of the header.
 */
uint64_t mr_pack_index_checksum(const void *bytes, size_t len);

#endif
