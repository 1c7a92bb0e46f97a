/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads an index that is in memory. None of it is trusted: an entry that points outside is a
 * damaged sample, not a crash.
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
     * As the header said when it was checked: a file that is overwritten while it is mapped must
     * not move them.
     */
    uint64_t n_samples;
    uint64_t label_bytes;
    uint64_t marks_bytes; /* of the file of marks */
    const void *starts[MR_PACK_N_SECTIONS];
    uint64_t lens[MR_PACK_N_SECTIONS];
};

/*
 * Check header, sections and checksum; label descriptions too. path is for messages. MR_ERR_DAMAGED
 * says what is wrong;
 * MR_ERR_UNSUPPORTED: another version, or more sections than this library knows.
 * bytes: 8-aligned; they must stay where they are while the index is used.
 */
mr_status mr_pack_index_attach(const void *bytes, size_t len, const char *path,
                               struct mr_pack_index *index_out, mr_error *error);
/*
 * The same without the checksum, which takes as long as reading all of it: for a file that has been
 * attached before.
 */
mr_status mr_pack_index_attach_again(const void *bytes, size_t len, const char *path,
                                     struct mr_pack_index *index_out, mr_error *error);

/*
 * Where a sample lies, and its description with pointers into the index. False where either points
 * outside.
 */
bool mr_pack_index_sample(const struct mr_pack_index *index, uint64_t i,
                          const struct mr_pack_sample **sample_out,
                          struct mr_packed_image *image_out);
/*
 * Is there a file of marks? Where a sample's lie in it: false where it has none, or where that
 * points outside.
 */
bool mr_pack_index_has_marks(const struct mr_pack_index *index);
bool mr_pack_index_marks(const struct mr_pack_index *index, uint64_t i,
                         struct mr_pack_marks *marks_out);

/* NULL where there is none. */
const char *mr_pack_index_name(const struct mr_pack_index *index, uint64_t i);
const char *mr_pack_index_class(const struct mr_pack_index *index, uint64_t i);
/* label_bytes of them, aligned for nothing. */
const void *mr_pack_index_label(const struct mr_pack_index *index, uint64_t i);
uint64_t mr_pack_index_n_classes(const struct mr_pack_index *index);
uint64_t mr_pack_index_n_shards(const struct mr_pack_index *index);
/* Bytes of a shard file; 0 where there is none. */
uint64_t mr_pack_index_shard_bytes(const struct mr_pack_index *index, uint64_t shard);
/* What was packed and how; "" where it is not known. */
const char *mr_pack_index_origin(const struct mr_pack_index *index);

/* XXH3 of a sample's bytes. */
uint64_t mr_pack_index_hash(const uint8_t *bytes, size_t len);
/*
 * The checksum that an index of these bytes must have in its header; its present value does not
 * count. len: at least that of the header.
 */
uint64_t mr_pack_index_checksum(const void *bytes, size_t len);

#endif
