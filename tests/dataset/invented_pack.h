/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs of invented bytes, which test the files of a pack without an image. A failure here ends the
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
#define INVENTED_MEMBERS 2
#define INVENTED_MEMBER_BYTES 64 /* maximum of each */

/* Sample i: encodings take turns, bytes depend on their position, the label is 3 i. */
struct invented {
    struct mr_pack_entry entry; /* its pointers point into this struct */
    struct mr_packed_template template;
    uint32_t rows[INVENTED_MAX_ROWS + 1];
    uint32_t sums[INVENTED_MAX_ROWS];
    uint8_t bytes[INVENTED_MAX_BYTES + INVENTED_MEMBERS * INVENTED_MEMBER_BYTES];
    uint8_t marks[INVENTED_MARKS + 8];
    char name[64];
    int64_t label;
};
void invent(uint64_t i, struct invented *out);
/* The same, but a JPEG has marks. */
void invent_marked(uint64_t i, struct invented *out);
/* Give a sample its further members: some are empty, all follow its bytes. */
void invent_members(uint64_t i, struct mr_pack_entry *entry);
const char *invented_class(void *user, uint32_t i);

/* Options with one int64 as label, with classes and an origin. */
struct mr_pack_writer_options invented_options(uint64_t n_samples, uint64_t shard_bytes);
/* The same; the samples have further members. */
struct mr_pack_writer_options invented_member_options(uint64_t n_samples, uint64_t shard_bytes);

/*
 * Add samples until all are there, and finish, with marks if the options request them. Returns the
 * first failure.
 */
mr_status invented_write_some(const char *dir, const struct mr_pack_writer_options *options,
                              uint64_t n_stop, mr_error *error);
/* Create dir with a complete pack. */
void invented_write(const char *dir, const struct mr_pack_writer_options *options);

/*
 * For tests that write many packs: put their trees into memory, where syncing costs nothing. Call
 * it before the first tree.
 */
void keep_trees_in_memory(void);

/* Read a whole file. Ownership: free(). */
uint8_t *read_whole(const char *path, size_t *len_out);
void write_whole(const char *path, const void *bytes, size_t len);
/* Write the right checksum into a changed index. */
void mend_index(uint8_t *bytes, size_t len);

#endif
