/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The corpus of a fuzzed function (tests/fuzz/fuzz.h): seeds, and inputs made from them, which are
 * the same in each run. A failure here ends the program.
 */
#ifndef TESTS_SUPPORT_CORPUS_H
#define TESTS_SUPPORT_CORPUS_H

#include "tests/fuzz/fuzz.h"
#include "tests/support/images.h"

struct mr_corpus {
    uint32_t n_seeds;
    struct mr_test_image (*make_seed)(uint32_t i); /* freed by mr_test_image_free() */
    void (*run_seed)(struct mr_test_image *seed, uint32_t i, uint32_t *random);
};

/*
 * The main program of a corpus: runs all seeds and returns the exit status. With a folder as
 * argument it writes the seeds into the folder for libFuzzer, and their paths, separated by commas,
 * into the file "list" there. Arguments after the folder are a command, which is then executed.
 */
int mr_corpus_main(const struct mr_corpus *corpus, int argc, char **argv);

uint32_t mr_corpus_draw(uint32_t *random, size_t below);

/* Memory for len bytes. Ownership: the caller's, for free(). */
uint8_t *mr_corpus_room(size_t len);

/*
 * Call the function with a copy of the bytes, in a block of exactly len bytes, so that
 * AddressSanitizer sees a read past the end.
 */
void mr_corpus_feed(const uint8_t *bytes, size_t len);

/* The seed cut off at n_cuts + 1 places, from nothing to all of it. */
void mr_corpus_feed_cuts(const struct mr_test_image *seed, size_t n_cuts);

/*
 * A JPEG seed with a change at or after the byte `from`: one to four bits flipped, a byte or a
 * marker written, bytes removed, or the end cut off.
 */
void mr_corpus_feed_mutation(const struct mr_test_image *seed, size_t from, uint32_t round,
                             uint32_t *random);

/*
 * Each text cut at each length, and with each byte replaced by each of changes. Prints the number
 * of inputs.
 */
void mr_corpus_feed_texts(const char *const *texts, size_t n_texts, const uint8_t *changes,
                          size_t n_changes);

#endif
