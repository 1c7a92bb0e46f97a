/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the readers share: a temporary folder, datasets over its files, and reading
 * through every reader.
 */
#ifndef TESTS_CONTRACT_READER_SUPPORT_H
#define TESTS_CONTRACT_READER_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dataset/dataset.h"
#include "dataset/reader.h"

#define NO_LIMIT ((uint64_t)1 << 30)
#define MIB ((size_t)1 << 20)

#define N_DEPTHS 3
extern const uint32_t depths[N_DEPTHS];

/* The readers under test; those that this machine or build refuses are left out. */
struct way {
    const char *name;
    mr_reader_kind kind;
    bool plain_descriptors;
};
#define N_WAYS 3
extern const struct way ways[N_WAYS];
bool way_works(const struct way *way);

/* How one read ended; bytes are a copy. */
struct outcome {
    int64_t index;
    mr_status status;
    int os_error;
    size_t len;
    uint8_t *bytes;
    char text[MR_ERROR_TEXT];
};

/* Folder of this test; made new by each enter_folder(), cmocka's setup. */
int enter_folder(void **state);
const char *folder(void);
/* folder() + "/" + name, in one of a few buffers in turn. */
const char *in_folder(const char *name);

/* len bytes that tell their place: byte i of file `seed`. */
uint8_t pattern(uint64_t seed, uint64_t i);
void write_pattern(const char *name, uint64_t seed, size_t len);

/* "list:" over names (relative to the folder), each with its number as label. */
mr_dataset *open_list(const char *const *names, size_t n);
/* "records:" over n files "shard-0" ... that exist already. */
mr_dataset *open_shards(uint32_t n, const char *keys);

struct mr_reader *make_reader(const mr_dataset *dataset, const struct way *way, uint32_t depth,
                              uint64_t max_bytes);
/*
 * Read all indices with up to depth in flight; outcomes by position in indices. Ownership:
 * free_outcomes().
 */
struct outcome *read_all(const mr_dataset *dataset, const struct way *way, uint32_t depth,
                         uint64_t max_bytes, const int64_t *indices, size_t n);
struct outcome *read_with(struct mr_reader *reader, uint32_t depth, const int64_t *indices,
                          size_t n);
/* The same for parts of samples. */
struct range {
    int64_t index;
    uint64_t offset;
    uint64_t len;
};
struct outcome *read_ranges(struct mr_reader *reader, uint32_t depth, const struct range *ranges,
                            size_t n);
void free_outcomes(struct outcome *outcomes, size_t n);

/* Same status, bytes, OS error and words. */
void assert_same(const struct outcome *a, const struct outcome *b, const char *way);
/* The bytes that plain pread() gives for a sample whose extents are complete. Ownership: free(). */
uint8_t *oracle(const mr_dataset *dataset, int64_t index, size_t *len_out);

/* The outcome is what plain pread() gives. */
void expect_oracle(const mr_dataset *dataset, const struct outcome *outcome, const char *way);

/* A seed from the clock, printed; the next number (xorshift). */
uint64_t fresh_seed(void);
uint64_t draw(uint64_t *state);

/* Descriptors that are open in this process. */
uint32_t count_fds(void);
/* Resident memory in bytes. */
size_t resident_bytes(void);

#endif
