/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where an index of a large file is kept, so the file is read only once. The file of the index is a
 * cache: it has native byte order, and is ignored if anything in it is wrong.
 */
#ifndef DATASET_INDEX_PLACE_H
#define DATASET_INDEX_PLACE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/bytes.h"

/* Of an index; a longer one is neither saved nor read. */
#define MR_INDEX_MAX_BYTES (UINT64_C(1) << 32)

struct mr_spec;

enum mr_index_place {
    MR_INDEX_AUTO, /* beside the file; if that folder cannot be written, in the cache folder of the
                      user */
    MR_INDEX_BESIDE, /* ".FILE.HASH.millrace" */
    MR_INDEX_CACHE,  /* "$XDG_CACHE_HOME/millrace/HASH.millrace", or below ~/.cache; removed after
                        60 days without a use */
    MR_INDEX_NONE,   /* nowhere; an index of wds2idx is not read either */
};

struct mr_index_place_key {
    enum mr_index_place place;
    int root;
    const char *path;   /* of the file, below root, or its URL; then nothing is beside it */
    const char *recipe; /* what the index depends on; its hash is in the name */
};

/* The size and modification time of a file; zeros: there is no file. */
struct mr_index_place_stamp {
    uint64_t len;
    int64_t mtime_s;
    int64_t mtime_ns;
};

struct mr_index_place_stamp mr_index_place_describe(const struct stat *st);
bool mr_index_place_same(const struct mr_index_place_stamp *a,
                         const struct mr_index_place_stamp *b);
/*
 * True if the file changed less than two seconds ago. Its index is not saved: the file could change
 * again without a new modification time.
 */
bool mr_index_place_is_fresh(const struct mr_index_place_stamp *stamp);

/* Take the key `index`. MR_ERR_INVALID: its value is not a place. */
mr_status mr_index_place_take(struct mr_spec *spec, enum mr_index_place *place_out,
                              mr_error *error);

/*
 * Read the file of the index in the places where it may be, until take accepts the bytes. False:
 * there is no such file.
 */
bool mr_index_place_load(const struct mr_index_place_key *key,
                         bool (*take)(void *user, const uint8_t *bytes, size_t len), void *user);
/* Save the file of the index. A failure is ignored: the index is made again next time. */
void mr_index_place_save(const struct mr_index_place_key *key, const struct mr_bytes *file);

#endif
