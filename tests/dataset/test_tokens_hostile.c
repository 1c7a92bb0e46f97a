/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutated headers and indexes of files of tokens: an error names the file, or every row is within
 * its file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "dataset/dataset.h"
#include "tests/dataset/token_files.h"
#include "tests/support/assert_words.h"

enum { N_MUTATIONS = 2000 };

static void check_rows(mr_dataset *dataset, uint64_t file_bytes)
{
    const struct mr_catalog *catalog = mr_dataset_catalog(dataset);
    struct mr_part_list list;
    for (int64_t i = 0; i < mr_dataset_n_samples(dataset); i++) {
        mr_catalog_parts(catalog, i, UINT64_MAX, &list);
        struct mr_extent extent = list.part[0].extent;
        if (extent.file != MR_FILE_PIECES) {
            assert_true(extent.offset + extent.len <= file_bytes);
            continue;
        }
        uint64_t len = 0;
        struct mr_piece_walk walk;
        struct mr_extent piece;
        mr_catalog_begin_pieces(catalog, i, &walk);
        while (mr_catalog_next_piece(catalog, &walk, &piece)) {
            assert_true(piece.offset + piece.len <= file_bytes);
            len += piece.len;
        }
        assert_int_equal(len, extent.len);
    }
}

/* Change up to three bytes of the first n_head, and sometimes shorten the file. */
static void mutate(struct bytes *bytes, size_t n_head)
{
    for (int k = rand() % 3; k >= 0; k--) {
        size_t at = (size_t)rand() % (n_head < bytes->len ? n_head : bytes->len);
        bytes->at[at] = rand() % 2 ? (uint8_t)rand() : (uint8_t)(bytes->at[at] ^ 1u << rand() % 8);
    }
    if (rand() % 4 == 0)
        bytes->len = (size_t)rand() % (bytes->len + 1);
}

/* Open x.NAME, whose rows are in a file of so many bytes. Returns 1 if it was opened. */
static int open_mutated(const struct tree *tree, const char *name, const char *keys,
                        uint64_t file_bytes)
{
    mr_dataset *dataset;
    mr_error error;
    if (mr_dataset_open(tokens_spec(tree, name, keys), NULL, &dataset, &error) == MR_OK) {
        check_rows(dataset, file_bytes);
        mr_dataset_destroy(dataset);
        return 1;
    }
    assert_words(error.text, tree_at(tree, "x."));
    return 0;
}

static void mutated_headers_of_llmc(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    srand(1);
    int n_opened = 0;
    for (int i = 0; i < N_MUTATIONS; i++) {
        struct bytes file = i % 2 ? bytes_llmc(20240520, 1, 2) : bytes_llmc(20240801, 7, 4);
        mutate(&file, i % 3 ? 12 : LLMC_HEADER);
        bytes_write(&tree, "x.bin", &file);
        n_opened += open_mutated(&tree, "x.bin", "window=5", file.len);
    }
    assert_in_range(n_opened, 100, N_MUTATIONS / 2);
    tree_destroy(&tree);
}

static void raw_files_of_any_length(void **state)
{
    (void)state;
    static const char *const keys[] = {"window=5&dtype=u8", "window=5&dtype=u16&stride=1",
                                       "window=5&dtype=i32", "window=5&dtype=i64&stride=9"};
    struct tree tree;
    tree_create(&tree);
    srand(2);
    int n_opened = 0;
    for (int i = 0; i < N_MUTATIONS; i++) {
        struct bytes file = {0};
        bytes_tokens(&file, 8);
        mutate(&file, file.len);
        file.len = (size_t)rand() % 200;
        bytes_write(&tree, "x.bin", &file);
        n_opened += open_mutated(&tree, "x.bin", keys[rand() % 4], file.len);
    }
    assert_in_range(n_opened, 100, N_MUTATIONS);
    tree_destroy(&tree);
}

static void mutated_indexes_of_megatron(void **state)
{
    (void)state;
    static const char *const keys[] = {"window=5", "window=5&order=megatron&samples=500",
                                       "window=5&order=megatron&split=3,2&part=valid",
                                       "window=5&pack=none"};
    struct tree tree;
    tree_create(&tree);
    srand(3);
    int n_opened = 0;
    for (int i = 0; i < N_MUTATIONS; i++) {
        struct bytes file = {0}, index = bytes_index((uint8_t)(i % 10), 2);
        bytes_tokens(&file, 2);
        if (i % 5 == 0)
            mutate(&file, file.len);
        mutate(&index, index.len);
        bytes_write(&tree, "x.bin", &file);
        bytes_write(&tree, "x.idx", &index);
        n_opened += open_mutated(&tree, "x.bin", keys[rand() % 4], file.len);
    }
    assert_in_range(n_opened, 20, N_MUTATIONS / 2);
    tree_destroy(&tree);
}

#ifdef MR_HAVE_YAJL
static void mutated_shards_and_indexes_of_mds(void **state)
{
    (void)state;
    static const char *const encodings[] = {"ndarray", "ndarray:int32", "ndarray:int32:40",
                                            "bytes"};
    static const uint32_t equal[] = {40, 40, 40, 40, 40, 0}, different[] = {3, 200, 300, 1, 7, 0};
    struct tree tree;
    tree_create(&tree);
    srand(4);
    int n_shards = 0, n_indexes = 0;
    for (int i = 0; i < N_MUTATIONS; i++) {
        const char *encoding = encodings[i % 4];
        const char *keys = i % 4 == 3 ? "window=5&dtype=i32" : "window=5";
        struct bytes shard = bytes_mds(encoding, i % 4 == 2 || i % 3 ? equal : different);
        struct bytes index = bytes_mds_index("x.mds", shard.len, "null");
        mutate(&index, index.len);
        bytes_write(&tree, "x.mds", &shard);
        bytes_write(&tree, "x.d/index.json", &index);
        bytes_write(&tree, "x.d/x.mds", &shard);
        n_indexes += open_mutated(&tree, "x.d/index.json", keys, shard.len);
        mutate(&shard, i % 2 ? 28 : 300);
        bytes_write(&tree, "x.mds", &shard);
        n_shards += open_mutated(&tree, "x.mds", keys, shard.len);
    }
    assert_in_range(n_shards, 100, N_MUTATIONS);
    assert_in_range(n_indexes, 100, N_MUTATIONS);
    tree_destroy(&tree);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mutated_headers_of_llmc),
        cmocka_unit_test(raw_files_of_any_length),
        cmocka_unit_test(mutated_indexes_of_megatron),
#ifdef MR_HAVE_YAJL
        cmocka_unit_test(mutated_shards_and_indexes_of_mds),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
