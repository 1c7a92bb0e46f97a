/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the tests of the readers: a temporary folder, datasets of its files, and reading with
 * every reader.
 */
#ifndef TESTS_CONTRACT_READER_SUPPORT_H
#define TESTS_CONTRACT_READER_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dataset/dataset.h"
#include "dataset/reader/reader.h"

#define NO_LIMIT ((uint64_t)1 << 30)
#define MIB ((size_t)1 << 20)

#define N_DEPTHS 3
extern const uint32_t depths[N_DEPTHS];

/* The readers under test, without those that this machine or build refuses. */
struct way {
    const char *name;
    mr_reader_kind kind;
    bool plain_descriptors;
    bool is_remote;  /* the same files from an HTTP server */
    bool maps_files; /* from the second part of a file on */
};
#define N_WAYS 5
extern const struct way ways[N_WAYS];
bool way_works(const struct way *way);

/* The outcome of one read. bytes are a copy of all parts, one after the other. */
struct outcome {
    int64_t index;
    mr_status status;
    int os_error;
    size_t len;
    uint8_t *bytes;
    char text[MR_ERROR_TEXT];
};

/* The folder of this test. enter_folder() is the setup of cmocka and creates a new one. */
int enter_folder(void **state);
const char *folder(void);
/* folder() + "/" + name; a few buffers take turns. */
const char *in_folder(const char *name);

/* Bytes that depend on their position: byte i of file `seed`. */
uint8_t pattern(uint64_t seed, uint64_t i);
void write_pattern(const char *name, uint64_t seed, size_t len);

/* Open a "list:" of names (relative to the folder). The label of each name is its number. */
mr_dataset *open_list(const char *const *names, size_t n);
/* Open "records:" of the existing files "shard-0" to "shard-(n-1)". */
mr_dataset *open_shards(uint32_t n, const char *keys);

struct range {
    int64_t index;
    uint64_t offset;
    uint64_t len;
};

/*
 * Submit all parts of a sample, or a range of its image with or without its marks. They are of the
 * dataset, and have the limit, that make_reader() or submit_from() was called with last.
 */
void submit_from(const mr_dataset *dataset, uint64_t max_bytes);
void submit(struct mr_reader *reader, uint64_t tag, int64_t index);
void submit_range(struct mr_reader *reader, uint64_t tag, const struct range *range, bool marks);

struct mr_reader *make_reader(const mr_dataset *dataset, const struct way *way, uint32_t depth,
                              uint64_t max_bytes);
/*
 * Read all indices with up to depth reads in flight. Outcomes are in the order of indices.
 * Ownership: free_outcomes().
 */
struct outcome *read_all(const mr_dataset *dataset, const struct way *way, uint32_t depth,
                         uint64_t max_bytes, const int64_t *indices, size_t n);
struct outcome *read_with(struct mr_reader *reader, uint32_t depth, const int64_t *indices,
                          size_t n);
/* The same for ranges of samples. */
struct outcome *read_ranges(struct mr_reader *reader, uint32_t depth, const struct range *ranges,
                            size_t n);
void free_outcomes(struct outcome *outcomes, size_t n);

/* Options for a reader of this way, which the caller may change. */
struct mr_reader_options reader_options(const struct way *way, uint32_t depth);

/*
 * Assert the same status, bytes, OS error and message. If an HTTP server refuses a file, the
 * message has the same name, and its answer in place of the system's words.
 */
void assert_same(const struct outcome *a, const struct outcome *b, const char *way);
/*
 * The bytes of a sample as plain pread() gives them; its extents are complete. Ownership: free().
 */
uint8_t *oracle(const mr_dataset *dataset, int64_t index, size_t *len_out);

/* True if the text is this message, or that of an HTTP server that refuses the same file. */
bool is_message(const char *way, const char *text, const char *message);

/* Assert that the outcome is what plain pread() gives. */
void expect_oracle(const mr_dataset *dataset, const struct outcome *outcome, const char *way);

/*
 * fresh_seed() makes a seed from the clock and prints it. The second function gives the next random
 * number (xorshift).
 */
uint64_t fresh_seed(void);
uint64_t draw(uint64_t *state);

/* The number of open descriptors of this process. */
uint32_t count_fds(void);
/* Resident memory in bytes. */
size_t resident_bytes(void);

#endif
