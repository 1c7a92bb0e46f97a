/* SPDX-License-Identifier: Apache-2.0 */
/* Shards of MosaicML's datasets: where their rows are, and what is said of those not read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "dataset/dataset.h"
#include "tests/dataset/token_files.h"
#include "tests/support/assert_words.h"

enum { N_SAMPLES = 5 };
static const uint32_t LENGTHS[N_SAMPLES + 1] = {40, 40, 40, 7, 300};

static const struct form {
    const char *encoding, *keys;
    size_t heads[N_SAMPLES]; /* bytes before the tokens of each sample */
} forms[] = {{"bytes", "dtype=i32&", {4, 4, 4, 4, 4}},
             {"ndarray", "", {7, 7, 7, 7, 8}},
             {"ndarray:int32", "", {6, 6, 6, 6, 7}}};

/* Rows are windows of samples: none has bytes of two samples, or of what is before a sample. */
static void expect_form(const struct tree *tree, const struct form *form)
{
    enum { WINDOW = 6, STRIDE = 4 };
    struct bytes shard = bytes_mds(form->encoding, LENGTHS);
    char keys[60], name[512], words[40];
    snprintf(keys, sizeof keys, "%swindow=%d&stride=%d", form->keys, WINDOW, STRIDE);
    bytes_write(tree, "x.mds", &shard);
    mr_dataset *dataset = open_dataset(tokens_spec(tree, "x.mds", keys));
    uint64_t begin = shard.len;
    for (int k = 0; k < N_SAMPLES; k++)
        begin -= form->heads[k] + 4 * LENGTHS[k];
    int64_t row = 0;
    for (int k = 0; k < N_SAMPLES; k++) {
        for (uint32_t at = 0; at + WINDOW + 1 <= LENGTHS[k]; at += STRIDE, row++) {
            struct mr_part_list list;
            mr_catalog_parts(mr_dataset_catalog(dataset), row, UINT64_MAX, &list);
            assert_int_equal(list.part[0].extent.file, 0);
            assert_int_equal(list.part[0].extent.offset, begin + form->heads[k] + 4 * at);
            assert_int_equal(list.part[0].extent.len, 4 * (WINDOW + 1));
            mr_dataset_name(dataset, row, name, sizeof name);
            snprintf(words, sizeof words, "x.mds#%d", (int)row);
            assert_words(name, words);
        }
        begin += form->heads[k] + 4 * LENGTHS[k];
    }
    assert_int_equal(mr_dataset_n_samples(dataset), row);
    mr_dataset_destroy(dataset);
}

static void rows_are_windows_of_samples(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        expect_form(&tree, &forms[i]);
    tree_destroy(&tree);
}

static void an_index_names_its_shards(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    static const uint32_t fixed[] = {40, 40, 0}, none[] = {0};
    struct bytes shard = bytes_mds("ndarray:int32:40", fixed), empty = bytes_mds("ndarray", none),
                 index = bytes_mds_index("a/x.mds", shard.len, "\"zstd\"");
    bytes_write(&tree, "d/a/x.mds", &shard);
    bytes_write(&tree, "d/index.json", &index);
    bytes_write(&tree, "empty.mds", &empty);
    char spec[2 * PATH_MAX], name[512];
    snprintf(spec, sizeof spec, "%s,%s,%s?window=39", tree_spec(&tree, "tokens", "d/index.json"),
             tree_at(&tree, "empty.mds"), tree_at(&tree, "d/a/x.mds"));
    mr_dataset *dataset = open_dataset(spec); /* a shard that was decompressed, and two files */
    assert_int_equal(mr_dataset_n_samples(dataset), 4);
    mr_dataset_name(dataset, 3, name, sizeof name);
    assert_words(name, "d/a/x.mds#1");
    mr_dataset_destroy(dataset);
    tree_destroy(&tree);
}

/* Replace the first occurrence of `from` by a text of the same length. */
static void replace(struct bytes *bytes, const char *from, const char *to)
{
    uint8_t *at = memmem(bytes->at, bytes->len, from, strlen(from));
    assert_non_null(at);
    assert_int_equal(strlen(from), strlen(to));
    memcpy(at, to, strlen(to));
}

static void shards_that_are_not_read_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *encoding, *from, *to, *keys;
        mr_status status;
        const char *words;
    } cases[] = {
        {"bytes", "", "", "window=8", MR_ERR_INVALID, "tokens as bytes: it needs dtype="},
        {"bytes", "", "", "window=8&dtype=i64", MR_ERR_DAMAGED, "sample 3 has 32 bytes"},
        {"ndarray:int32", "", "", "window=8&dtype=i64", MR_ERR_INVALID, "tokens of i32, but"},
        {"ndarray:int32", "", "", "window=300", MR_ERR_DAMAGED, "no file has the 301 tokens"},
        {"ndarray:int32", "[\"ndarray:int32\"]", "[\"str\",    \"int\"]", "window=8",
         MR_ERR_UNSUPPORTED, "has 2 columns: write the column of tokens alone"},
        {"ndarray:int32", "ndarray:int32", "ndarray:int99", "window=8", MR_ERR_UNSUPPORTED,
         "a column of ndarray:int99, not of tokens"},
        {"ndarray:int32", "\"ndarray:int32\"", "\"str\"          ", "window=8", MR_ERR_UNSUPPORTED,
         "a column of str, not of tokens"},
        {"ndarray:int32", "\"mds\"", "\"xsv\"", "window=8", MR_ERR_UNSUPPORTED, "format xsv"},
        {"ndarray:int32", "\"version\": 2", "\"version\": 3", "window=8", MR_ERR_UNSUPPORTED,
         "version 3"},
        {"ndarray:int32", "{\"col", "{ col", "window=8", MR_ERR_DAMAGED, "no JSON: "},
        {"ndarray:int32", "\x04\x28", "\x08\x28", "window=8", MR_ERR_DAMAGED,
         "sample 0 does not begin as one dimension of 40 tokens of i32"},
        {"ndarray", "\x21\x04\x28", "\x41\x04\x28", "window=8", MR_ERR_DAMAGED,
         "sample 0 does not begin as one dimension of 20 tokens of i64"},
        {"ndarray", "\x21\x04\x28", "\x22\x04\x28", "window=8", MR_ERR_UNSUPPORTED, "dtype 34"},
        {"ndarray", "\x21\x04\x07", "\x20\x04\x07", "window=6", MR_ERR_DAMAGED,
         "sample 3 does not begin"},
    };
    struct tree tree;
    tree_create(&tree);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bytes shard = bytes_mds(cases[i].encoding, LENGTHS);
        replace(&shard, cases[i].from, cases[i].to);
        bytes_write(&tree, "x.mds", &shard);
        expect_open_error(tokens_spec(&tree, "x.mds", cases[i].keys), cases[i].status, "x.mds");
        expect_open_error(tokens_spec(&tree, "x.mds", cases[i].keys), cases[i].status,
                          cases[i].words);
    }
    tree_destroy(&tree);
}

/* Change the u32 at a place of the header. */
static void expect_bad_head(const struct tree *tree, size_t at, uint32_t value, const char *words)
{
    struct bytes shard = bytes_mds("ndarray:int32", LENGTHS);
    memcpy(shard.at + at, &value, sizeof value);
    bytes_write(tree, "x.mds", &shard);
    expect_open_error(tokens_spec(tree, "x.mds", "window=8"), MR_ERR_DAMAGED, words);
}

static void headers_are_compared_with_sizes(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    struct bytes shard = bytes_mds("ndarray:int32", LENGTHS);
    uint32_t first;
    memcpy(&first, shard.at + 4, sizeof first);
    expect_bad_head(&tree, 0, UINT32_MAX, "do not fit 4294967295 samples");
    expect_bad_head(&tree, 4, 8, "do not fit 5 samples from byte 8 on");
    expect_bad_head(&tree, 4, UINT32_MAX, "do not fit 5 samples");
    expect_bad_head(&tree, 8, first, "sample 0 begins at byte");
    expect_bad_head(&tree, 12, UINT32_MAX, "sample 2 begins at byte 4294967295");
    expect_bad_head(&tree, 24, 1 << 20, "bytes; its samples end at byte 1048576");
    expect_bad_head(&tree, 8, first + 3, "sample 0 has 3 bytes, which are not tokens of i32");
    expect_bad_head(&tree, 8, first + 4 + 2, "sample 0 has 6 bytes");
    for (size_t len = 0; len < shard.len; len += len < 40 ? 1 : 97) {
        struct bytes cut = shard;
        cut.len = len;
        bytes_write(&tree, "x.mds", &cut);
        expect_open_error(tokens_spec(&tree, "x.mds", "window=8"), MR_ERR_DAMAGED, "x.mds has");
    }
    tree_destroy(&tree);
}

static void indexes_that_are_wrong_are_named(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    struct bytes shard = bytes_mds("ndarray:int32", LENGTHS);
    bytes_write(&tree, "x.mds", &shard);
    const struct {
        struct bytes index;
        mr_status status;
        const char *words;
    } cases[] = {
        {bytes_mds_index("y.mds", shard.len, "\"zstd:3\""), MR_ERR_UNSUPPORTED,
         "y.mds is compressed (zstd:3): decompress it beside the index, or write"},
        {bytes_mds_index("y.mds", shard.len, "null"), MR_ERR_IO, "y.mds"},
        {bytes_mds_index("x.mds", shard.len + 1, "null"), MR_ERR_DAMAGED, "x.mds has"},
        {bytes_mds_index("", shard.len, "null"), MR_ERR_DAMAGED, "shard 0 has no raw_data with"},
        {{"{\"shards\": []}", 14}, MR_ERR_DAMAGED, "index.json has no shards"},
        {{"{\"shards\": [1]}", 15}, MR_ERR_DAMAGED, "shard 0 has no format or version"},
        {{"[{", 2}, MR_ERR_DAMAGED, "index.json: no JSON: "},
        {{"", 0}, MR_ERR_DAMAGED, "index.json: no JSON: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes_write(&tree, "index.json", &cases[i].index);
        expect_open_error(tokens_spec(&tree, "index.json", "window=8"), cases[i].status,
                          cases[i].words);
    }
    struct bytes deep = {.len = MAX_BYTES};
    memset(deep.at, '[', deep.len);
    bytes_write(&tree, "index.json", &deep);
    expect_open_error(tokens_spec(&tree, "index.json", "window=8"), MR_ERR_DAMAGED, "nested too");
    tree_destroy(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_windows_of_samples),
        cmocka_unit_test(an_index_names_its_shards),
        cmocka_unit_test(shards_that_are_not_read_are_named),
        cmocka_unit_test(headers_are_compared_with_sizes),
        cmocka_unit_test(indexes_that_are_wrong_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
