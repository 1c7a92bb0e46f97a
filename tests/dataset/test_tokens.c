/* SPDX-License-Identifier: Apache-2.0 */
/* Files of token ids: which are read, and what is said of those that are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "dataset/dataset.h"
#include "dataset/reader/reader_impl.h"
#include "tests/dataset/token_files.h"
#include "tests/support/assert_words.h"

static void expect_rows(const struct tree *tree, const char *name, const char *keys, int64_t n,
                        uint64_t first_offset, uint64_t second_offset, uint64_t len)
{
    mr_dataset *dataset = open_dataset(tokens_spec(tree, name, keys));
    struct mr_part_list list;
    assert_int_equal(mr_dataset_n_samples(dataset), n);
    mr_catalog_parts(mr_dataset_catalog(dataset), 0, UINT64_MAX, &list);
    assert_int_equal(list.n, 1);
    assert_int_equal(list.part[0].extent.offset, first_offset);
    assert_int_equal(list.part[0].extent.len, len);
    mr_catalog_parts(mr_dataset_catalog(dataset), 1, UINT64_MAX, &list);
    assert_int_equal(list.part[0].extent.offset, second_offset);
    mr_dataset_destroy(dataset);
}

static void each_format_has_its_rows(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    struct bytes gpt2 = bytes_llmc(20240520, 1, 2), llama3 = bytes_llmc(20240801, 7, 4), raw = {0};
    struct bytes index = bytes_index(8, 2);
    bytes_tokens(&raw, 2);
    bytes_write(&tree, "gpt2.bin", &gpt2);
    bytes_write(&tree, "llama3.bin", &llama3);
    bytes_write(&tree, "raw", &raw);
    bytes_write(&tree, "m.bin", &raw);
    bytes_write(&tree, "m.idx", &index);
    expect_rows(&tree, "gpt2.bin", "window=10", 99, LLMC_HEADER, LLMC_HEADER + 20, 22);
    expect_rows(&tree, "llama3.bin", "window=10", 99, LLMC_HEADER, LLMC_HEADER + 40, 44);
    expect_rows(&tree, "raw", "window=10&dtype=u16", 99, 0, 20, 22);
    expect_rows(&tree, "m.bin", "window=10", 99, 0, 20, 22);
    expect_rows(&tree, "m.bin", "window=499&stride=1", 501, 0, 2, 1000);
    expect_rows(&tree, "raw", "window=100&dtype=i32", 4, 0, 400, 404);
    tree_destroy(&tree);
}

/* The last document is longer than a row, which has a label more. */
static void documents_are_rows(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    struct bytes raw = {0}, index = bytes_index(8, 2);
    bytes_tokens(&raw, 2);
    bytes_write(&tree, "m.bin", &raw);
    bytes_write(&tree, "m.idx", &index);
    expect_rows(&tree, "m.bin", "window=10&pack=none", N_DOCUMENTS, 0, 2, 2);
    mr_dataset *dataset = open_dataset(tokens_spec(&tree, "m.bin", "window=10&pack=none"));
    const struct mr_catalog *catalog = mr_dataset_catalog(dataset);
    for (int64_t i = 0; i < N_DOCUMENTS; i++) {
        uint64_t n = i < N_DOCUMENTS - 1 ? (uint64_t)i + 1 : 10;
        mr_sample_info info = MR_SAMPLE_INFO_INIT;
        assert_int_equal(mr_catalog_length(catalog, i), n);
        assert_int_equal(mr_dataset_inspect(dataset, i, &info, NULL), MR_OK);
        assert_int_equal(info.len_bytes, 2 * (n < 10 ? n : 11));
    }
    mr_dataset_destroy(dataset);
    tree_destroy(&tree);
}

static void rows_do_not_cross_files(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    struct bytes a = bytes_llmc(20240520, 1, 2);
    bytes_write(&tree, "a", &a);
    bytes_write(&tree, "b", &a);
    char spec[2 * PATH_MAX], name[512];
    snprintf(spec, sizeof spec, "%s,%s?window=300", tree_spec(&tree, "tokens", "a"),
             tree_at(&tree, "b"));
    mr_dataset *dataset = open_dataset(spec);
    assert_int_equal(mr_dataset_n_samples(dataset), 6);
    mr_dataset_name(dataset, 3, name, sizeof name);
    assert_words(name, "b#0");
    mr_dataset_destroy(dataset);
    tree_destroy(&tree);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    struct bytes good = bytes_llmc(20240520, 1, 2), other = bytes_llmc(20240520, 2, 2),
                 questions = bytes_llmc(20240522, 1, 2), llama3 = bytes_llmc(20240801, 7, 4),
                 raw = {0};
    bytes_tokens(&raw, 2);
    bytes_write(&tree, "good", &good);
    bytes_write(&tree, "other", &other);
    bytes_write(&tree, "questions", &questions);
    bytes_write(&tree, "llama3", &llama3);
    bytes_write(&tree, "raw", &raw);
    tree_write(&tree, "empty", "", 0);
    tree_write(&tree, "odd", "abc", 3);
    tree_write(&tree, "x.npy", "\x93NUMPY\x01\0", 8);
    tree_write(&tree, "x.parquet", "PAR1....", 8);
    tree_write(&tree, "x.jsonl", "{\"text\": 1}", 11);
    tree_write(&tree, "x.zst", "\x28\xb5\x2f\xfd....", 8);
    good.len--;
    bytes_write(&tree, "cut", &good);
    tree_write(&tree, "none.bin", "", 0);
    tree_write(&tree, "none.idx",
               "MMIDIDX\0\0\1\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 42);
    good.len += 2;
    bytes_write(&tree, "long", &good);
    static const struct {
        const char *name, *keys;
        mr_status status;
        const char *words;
    } cases[] = {
        {"good", "vocab=9", MR_ERR_INVALID, "tokens need window="},
        {"good", "window=0", MR_ERR_INVALID, "window"},
        {"good", "window=8&strid=1", MR_ERR_INVALID, "strid"},
        {"good", "window=8&dtype=f32", MR_ERR_INVALID, "dtype 'f32' is none of u8"},
        {"good", "window=8&dtype=u32", MR_ERR_INVALID, "tokens of u16, but dtype is u32"},
        {"good", "window=8&pack=none", MR_ERR_INVALID, "pack=none needs a file PREFIX.bin"},
        {"good", "window=8&pack=1", MR_ERR_INVALID, "pack '1' is none of none"},
        {"none.bin", "window=8&pack=none", MR_ERR_DAMAGED, "none.bin has no documents"},
        {"none.bin", "window=8&pack=none&stride=2", MR_ERR_INVALID, "stride is not for pack=none"},
        {"none.bin", "window=8&pack=none&order=megatron", MR_ERR_INVALID, "exclude each other"},
        {"good", "window=1000", MR_ERR_DAMAGED, "no file has the 1001 tokens"},
        {"cut", "window=8", MR_ERR_DAMAGED, "cut has 3023 bytes; its header says 1000 tokens"},
        {"long", "window=8", MR_ERR_DAMAGED, "long has 3025 bytes"},
        {"other", "window=8", MR_ERR_UNSUPPORTED, "version 2 of llm.c's tokens of GPT-2"},
        {"questions", "window=8", MR_ERR_UNSUPPORTED, "HellaSwag"},
        {"raw", "window=8", MR_ERR_INVALID, "it needs dtype="},
        {"empty", "window=8&dtype=u16", MR_ERR_DAMAGED, "has no token"},
        {"odd", "window=8&dtype=u16", MR_ERR_DAMAGED, "has 3 bytes: not whole tokens of u16"},
        {"x.npy", "window=8", MR_ERR_UNSUPPORTED, "NumPy"},
        {"x.parquet", "window=8", MR_ERR_UNSUPPORTED, "Parquet"},
        {"x.jsonl", "window=8", MR_ERR_UNSUPPORTED, "JSON"},
        {"x.zst", "window=8", MR_ERR_UNSUPPORTED, "compressed"},
        {"missing", "window=8", MR_ERR_IO, "missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_open_error(tokens_spec(&tree, cases[i].name, cases[i].keys), cases[i].status,
                          cases[i].words);
    tree_destroy(&tree);
}

/* The format and the dtype of the first file say nothing about the others. */
static void each_file_is_known_by_itself(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    struct bytes gpt2 = bytes_llmc(20240520, 1, 2), llama3 = bytes_llmc(20240801, 7, 4), raw = {0};
    bytes_tokens(&raw, 2);
    bytes_write(&tree, "gpt2", &gpt2);
    bytes_write(&tree, "llama3", &llama3);
    bytes_write(&tree, "raw", &raw);
    tree_write(&tree, "x.parquet", "PAR1............", 16);
    static const struct {
        const char *name;
        mr_status status;
        const char *words;
    } cases[] = {
        {"x.parquet", MR_ERR_UNSUPPORTED, "Parquet"},
        {"raw", MR_ERR_INVALID, "raw has no header"},
        {"llama3", MR_ERR_INVALID, "llama3 has tokens of u32, but dtype is u16"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char spec[2 * PATH_MAX];
        int n = snprintf(spec, sizeof spec, "%s,", tree_spec(&tree, "tokens", "gpt2"));
        snprintf(spec + n, sizeof spec - (size_t)n, "%s?window=4", tree_at(&tree, cases[i].name));
        expect_open_error(spec, cases[i].status, cases[i].words);
    }
    tree_destroy(&tree);
}

/* Change len bytes of the index at `at`, and expect the words. */
static void expect_bad_index(const struct tree *tree, size_t at, uint64_t value, size_t len,
                             const char *words)
{
    struct bytes index = bytes_index(8, 2);
    memcpy(index.at + at, &value, len);
    bytes_write(tree, "m.idx", &index);
    mr_error error;
    mr_dataset *dataset;
    assert_true(mr_dataset_open(tokens_spec(tree, "m.bin", "window=8"), NULL, &dataset, &error) <
                0);
    assert_words(error.text, "m.idx");
    assert_words(error.text, words);
}

static void indexes_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    enum {
        LENGTHS = 34,
        POINTERS = LENGTHS + 4 * N_DOCUMENTS,
        DOCUMENTS = POINTERS + 8 * N_DOCUMENTS
    };
    struct tree tree;
    struct bytes raw = {0};
    tree_create(&tree);
    bytes_tokens(&raw, 2);
    bytes_write(&tree, "m.bin", &raw);
    expect_bad_index(&tree, 0, 'X', 1, "is not an index of Megatron-Core");
    expect_bad_index(&tree, 9, 2, 8, "version 2");
    expect_bad_index(&tree, 17, 0, 1, "unknown dtype 0");
    expect_bad_index(&tree, 17, 9, 1, "unknown dtype 9");
    expect_bad_index(&tree, 17, 7, 1, "tokens of f32");
    expect_bad_index(&tree, 18, UINT64_MAX, 8, "do not fit");
    expect_bad_index(&tree, 26, UINT64_MAX, 8, "do not fit");
    expect_bad_index(&tree, 26, 0, 8, "do not fit");
    expect_bad_index(&tree, LENGTHS, UINT32_MAX, 4, "sequence 0 has a negative length");
    expect_bad_index(&tree, LENGTHS + 4, 3, 4, "sequence 2 does not begin where");
    expect_bad_index(&tree, LENGTHS + 4 * (N_DOCUMENTS - 1), N_TOKENS, 4, "sequence 6 ends after");
    expect_bad_index(&tree, POINTERS + 8, 0, 8, "sequence 1 does not begin where");
    expect_bad_index(&tree, DOCUMENTS, 1, 8, "documents do not begin with");
    expect_bad_index(&tree, DOCUMENTS + 8 * N_DOCUMENTS, 6, 8, "documents do not begin with");
    tree_destroy(&tree);
}

/* A file of which pieces are read may be one too many: the cache is full of files in use. */
static void pieces_are_read_while_all_open_files_are_in_use(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    struct bytes raw = {0}, index = bytes_index(8, 2);
    bytes_tokens(&raw, 2);
    for (const char *const *name = (const char *const[]){"a.", "b.", NULL}; *name; name++) {
        char bin[8], idx[8];
        snprintf(bin, sizeof bin, "%sbin", *name);
        snprintf(idx, sizeof idx, "%sidx", *name);
        bytes_write(&tree, bin, &raw);
        bytes_write(&tree, idx, &index);
    }
    char spec[4 * PATH_MAX];
    int n = snprintf(spec, sizeof spec, "mix:1*(%s)|",
                     tokens_spec(&tree, "a.bin", "window=9&order=megatron"));
    snprintf(spec + n, sizeof spec - (size_t)n, "1*(%s)",
             tokens_spec(&tree, "b.bin", "window=9&order=megatron"));
    mr_dataset *dataset = open_dataset(spec);
    const struct mr_catalog *catalog = mr_dataset_catalog(dataset);
    const struct mr_reader_options options = {.kind = MR_READER_PREAD, .depth = 1, .max_files = 1};
    struct mr_reader *reader;
    struct mr_part_list list;
    struct mr_read read;
    mr_error error;
    assert_ok(mr_reader_create(catalog, &options, &reader, &error), &error);
    assert_true(mr_file_cache_acquire(reader->cache, 0) >= 0);
    const int64_t index_of_b = mr_dataset_n_samples(dataset) - 1;
    mr_catalog_parts(catalog, index_of_b, UINT64_MAX, &list);
    mr_reader_submit(reader, 0, index_of_b, &list);
    assert_true(mr_reader_reap(reader, true, &read));
    assert_ok(read.status, read.error);
    assert_int_equal(read.part[0].len, 20);
    mr_reader_recycle(reader, &read);
    mr_file_cache_release(reader->cache, 0);
    mr_reader_destroy(reader);
    mr_dataset_destroy(dataset);
    tree_destroy(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_format_has_its_rows),
        cmocka_unit_test(documents_are_rows),
        cmocka_unit_test(rows_do_not_cross_files),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(each_file_is_known_by_itself),
        cmocka_unit_test(indexes_that_do_not_fit_are_refused),
        cmocka_unit_test(pieces_are_read_while_all_open_files_are_in_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
