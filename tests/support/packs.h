/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs for tests: pictures of every kind as a folder, that folder as a pack, and packs whose bytes
 * were altered. A failure here ends the test program.
 */
#ifndef TESTS_SUPPORT_PACKS_H
#define TESTS_SUPPORT_PACKS_H

#include <millrace/pack.h>

#include <stdint.h>

/*
 * Fill the folder with pictures in two classes: all ways of sampling, odd sizes, 1 to 4 components,
 * restart markers, progressive, EXIF, PNG; and three files that cannot be decoded. Returns the
 * number of files.
 */
int64_t mr_test_packs_fill(const char *folder);
enum { MR_TEST_PACKS_N_BAD = 3 };

/*
 * The same with pictures of one size, 60x40. The first file is not a picture, and one picture is
 * turned by its EXIF block.
 */
int64_t mr_test_packs_fill_equal(const char *folder);

/* Pack a dataset into the folder dir, which must not exist. */
void mr_test_packs_make(const char *spec, const char *dir, mr_pack_encoding encoding);

/* Where the bytes of a sample are; shard_out: path of its file below dir. */
struct mr_test_packs_place {
    char shard[64];
    uint64_t offset;
    uint64_t len; /* without the bytes that only unpacking needs */
};
struct mr_test_packs_place mr_test_packs_find(const char *dir, int64_t index);

/* Flip all bits of one byte of a sample. */
void mr_test_packs_flip(const char *dir, int64_t index, uint64_t byte);

/* Let edit() change the index of a pack in memory, then store it with a correct checksum. */
void mr_test_packs_edit(const char *dir, void (*edit)(uint8_t *index, int64_t sample),
                        int64_t sample);

#endif
