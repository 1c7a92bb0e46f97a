/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs of invented bytes: tests the files of a pack without any image. A failure here ends the
 * test.
 */
#ifndef TESTS_DATASET_INVENTED_PACK_H
#define TESTS_DATASET_INVENTED_PACK_H

#include "packs/pack_writer.h"

#include <stdbool.h>
#include <stddef.h>

#define INVENTED_MAX_BYTES 1200
#define INVENTED_MAX_ROWS 8
#define INVENTED_MARKS                                                                             \
    2500 /* bytes of a sample's marks, and a few more: beyond what stands in other files by then   \
          */
#define INVENTED_CLASSES 3

/* Sample i: encodings in turns, bytes that tell their place, label 3 i. */
struct invented {
    struct mr_pack_entry entry; /* its pointers lead into this */
    struct mr_packed_template template;
    uint32_t rows[INVENTED_MAX_ROWS + 1];
    uint32_t sums[INVENTED_MAX_ROWS];
    uint8_t bytes[INVENTED_MAX_BYTES];
    uint8_t marks[INVENTED_MARKS + 8];
    char name[64];
    int64_t label;
};
void invent(uint64_t i, struct invented *out);
/* The same; a JPEG has marks. */
void invent_marked(uint64_t i, struct invented *out);
const char *invented_class(void *user, uint32_t i);

/* Labels are one int64; classes and origin are given. */
struct mr_pack_writer_options invented_options(uint64_t n_samples, uint64_t shard_bytes);

/*
 * Go on until all samples are there, and finish: with marks if the options have them. Returns the
 * first failure.
 */
mr_status invented_write_some(const char *dir, const struct mr_pack_writer_options *options,
                              uint64_t n_stop, mr_error *error);
/* A complete pack in dir, which is made. */
void invented_write(const char *dir, const struct mr_pack_writer_options *options);

/*
 * Trees of tests that write many packs lie in memory, where syncing costs nothing. Call before the
 * first one.
 */
void keep_trees_in_memory(void);

/* A whole file. Ownership: free(). */
uint8_t *read_whole(const char *path, size_t *len_out);
void write_whole(const char *path, const void *bytes, size_t len);
/* The bytes of an index that were changed get the checksum that they should have. */
void mend_index(uint8_t *bytes, size_t len);

#endif
