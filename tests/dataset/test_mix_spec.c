/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mixtures as datasets: their samples are those of the sources, whatever the sources are; texts
 * that are not mixtures, and sources that do not go together, are refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset/catalog_mix.h"
#include "dataset/dataset.h"
#include "dataset/reader/file_cache.h"
#include "tests/dataset/tree.h"
#include "tests/support/assert_words.h"

enum { SPEC = 2 * PATH_MAX, MIX = 5 * SPEC };

/* Two numbers of files are of the same file if it is there under both or under neither. */
static void compare_files(const struct mr_catalog *mix, uint64_t mixed,
                          const struct mr_catalog *alone, uint64_t file)
{
    struct stat a, b;
    int one = mr_file_cache_open(mix, mixed, NULL), two = mr_file_cache_open(alone, file, NULL);
    assert_int_equal(one >= 0, two >= 0);
    assert_int_equal(mixed < mr_catalog_n_loose_files(mix), file < mr_catalog_n_loose_files(alone));
    assert_int_equal(mr_catalog_may_lack(mix, mixed), mr_catalog_may_lack(alone, file));
    if (one < 0)
        return;
    assert_int_equal(fstat(one, &a), 0);
    assert_int_equal(fstat(two, &b), 0);
    assert_true(a.st_dev == b.st_dev && a.st_ino == b.st_ino);
    assert_true(mr_catalog_is_file(mix, mixed, &a));
    close(one);
    close(two);
}

/* The pieces of a row of joined documents. */
static void compare_pieces(const struct mr_catalog *mix, int64_t i, const struct mr_catalog *alone,
                           int64_t k)
{
    struct mr_piece_walk a, b;
    struct mr_extent x = {0}, y = {0};
    mr_catalog_begin_pieces(mix, i, &a);
    mr_catalog_begin_pieces(alone, k, &b);
    while (mr_catalog_next_piece(alone, &b, &y)) {
        assert_true(mr_catalog_next_piece(mix, &a, &x));
        assert_int_equal(x.offset, y.offset);
        assert_int_equal(x.len, y.len);
        compare_files(mix, x.file, alone, y.file);
    }
    assert_false(mr_catalog_next_piece(mix, &a, &x));
}

static void compare_parts(const struct mr_catalog *mix, int64_t i, const struct mr_catalog *alone,
                          int64_t k)
{
    struct mr_part_list a, b;
    mr_catalog_parts(mix, i, 1 << 20, &a);
    mr_catalog_parts(alone, k, 1 << 20, &b);
    assert_int_equal(a.n, b.n);
    for (uint32_t p = 0; p < a.n; p++) {
        const struct mr_extent *x = &a.part[p].extent, *y = &b.part[p].extent;
        const uint8_t *memory = mr_catalog_memory(mix, x), *other = mr_catalog_memory(alone, y);
        assert_int_equal(a.part[p].purpose, b.part[p].purpose);
        assert_int_equal(a.part[p].max_bytes, b.part[p].max_bytes);
        assert_int_equal(x->len, y->len);
        assert_int_equal(memory != NULL, other != NULL);
        if (memory) {
            assert_memory_equal(memory, other, x->len);
        } else if (y->file == MR_FILE_PIECES) {
            assert_true(x->file == MR_FILE_PIECES);
            compare_pieces(mix, i, alone, k);
        } else {
            assert_int_equal(x->offset, y->offset);
            compare_files(mix, x->file, alone, y->file);
        }
    }
}

/* Compare samples of the mixture, from `first` on, with those of a source that is opened alone. */
static int64_t compare_source(mr_dataset *mix, int64_t first, const char *spec, uint32_t source)
{
    mr_dataset *alone = open_dataset(spec);
    const struct mr_catalog *a = mr_dataset_catalog(mix), *b = mr_dataset_catalog(alone);
    int64_t n = mr_dataset_n_samples(alone);
    assert_true(first + n <= mr_dataset_n_samples(mix));
    for (int64_t k = 0; k < n; k++) {
        char name[PATH_MAX], other[PATH_MAX];
        compare_parts(a, first + k, b, k);
        mr_dataset_name(mix, first + k, name, sizeof name);
        mr_dataset_name(alone, k, other, sizeof other);
        assert_string_equal(name, other);
        assert_int_equal(mr_catalog_source_of(a, first + k), source);
        if (mr_dataset_kind(alone)->label_bytes == sizeof(int64_t))
            assert_int_equal(label_of(mix, first + k), label_of(alone, k));
    }
    mr_dataset_destroy(alone);
    return first + n;
}

/* Compare a mixture with its sources. The last is NULL. */
static void compare_all(const char *spec, const char *const *sources)
{
    mr_dataset *mix = open_dataset(spec);
    int64_t n = 0;
    uint32_t k = 0;
    for (; sources[k]; k++)
        n = compare_source(mix, n, sources[k], k);
    assert_int_equal(mr_dataset_n_samples(mix), n);
    assert_int_equal(mr_catalog_n_sources(mr_dataset_catalog(mix)), k);
    mr_dataset_destroy(mix);
}

/* "mix:2*(FIRST)|1*(SECOND)|1*(THIRD)" */
static const char *mix_of(const char *first, const char *second, const char *third)
{
    static char texts[4][MIX];
    static unsigned turn;
    char *text = texts[turn++ % 4];
    snprintf(text, MIX, "mix:2*(%s)|1*(%s)%s%s%s", first, second, third ? "|1*(" : "",
             third ? third : "", third ? ")" : "");
    return text;
}

static void make_images(const struct tree *tree)
{
    char name[64];
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "%s/%s/%02d.jpg", i % 2 ? "one" : "two", i % 3 ? "cat" : "dog",
                 i);
        tree_file(tree, name);
        snprintf(name, sizeof name, "%s/%s/%02d.txt", i % 2 ? "one" : "two", i % 3 ? "cat" : "dog",
                 i);
        if (i % 5)
            tree_file(tree, name);
    }
    tree_write(tree, "list.tsv", "one/cat/01.jpg\t5\none/dog/03.jpg\t7\n", 34);
    tree_write(tree, "ranges.tsv", "one/cat/01.jpg\t5\t1\t2\none/cat/01.jpg\t7\t0\t3\n", 42);
}

static void samples_are_those_of_the_sources(void **state)
{
    (void)state;
    struct tree tree;
    char one[SPEC], two[SPEC], extra[MIX];
    tree_create(&tree);
    make_images(&tree);
    const char *list = tree_spec(&tree, "list", "list.tsv");
    const char *ranges = tree_spec(&tree, "ranges", "ranges.tsv");
    snprintf(one, sizeof one, "%s?label=none", tree_spec(&tree, "imagefolder", "one"));
    compare_all(mix_of(one, list, NULL), (const char *const[]){one, list, NULL});
    compare_all(mix_of(ranges, list, one), (const char *const[]){ranges, list, one, NULL});
    snprintf(one, sizeof one, "%s?extra=note:99:.txt:%s", tree_spec(&tree, "imagefolder", "one"),
             tree_at(&tree, "one"));
    snprintf(two, sizeof two, "%s?extra=note:99:.txt:%s", tree_spec(&tree, "imagefolder", "two"),
             tree_at(&tree, "two"));
    compare_all(mix_of(one, two, one), (const char *const[]){one, two, one, NULL});
    mr_dataset *mix = open_dataset(mix_of(one, two, NULL));
    assert_int_equal(mr_dataset_n_classes(mix), 2);
    assert_string_equal(mr_dataset_class_name(mix, 1), "dog");
    mr_dataset_destroy(mix);
    snprintf(extra, sizeof extra, "mix:1*(%s)", one);
    compare_all(extra, (const char *const[]){one, NULL});
    tree_destroy(&tree);
}

static void records_keep_their_own_layouts(void **state)
{
    (void)state;
    struct tree tree;
    char first[SPEC], second[SPEC];
    uint8_t bytes[600];
    tree_create(&tree);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 37 >> 2);
    tree_write(&tree, "a.bin", bytes, sizeof bytes);
    snprintf(first, sizeof first, "%s?bytes=8&label_off=8&label_bytes=4&stride=12",
             tree_spec(&tree, "records", "a.bin"));
    snprintf(second, sizeof second, "%s?bytes=8&header=16&label_off=-8&label_bytes=8&stride=20",
             tree_spec(&tree, "records", "a.bin"));
    mr_dataset *alone = open_dataset(second);
    assert_int_equal(mr_dataset_kind(alone)->label_dtype, MR_I64);
    mr_dataset_destroy(alone);
    compare_all(mix_of(first, second, NULL), (const char *const[]){first, second, NULL});
    tree_destroy(&tree);
}

/* NAME.bin and NAME.idx of three documents. */
static void write_documents(const struct tree *tree, const char *name, const uint32_t lengths[3])
{
    uint8_t index[200] = "MMIDIDX";
    uint16_t tokens[300];
    char path[64];
    uint64_t at = 0, words[] = {1, 3, 4};
    memcpy(index + 9, &words[0], 8);
    index[17] = 8;
    memcpy(index + 18, &words[1], 16);
    memcpy(index + 34, lengths, 12);
    for (uint64_t i = 0; i < 3; i++) {
        memcpy(index + 46 + 8 * i, &at, sizeof at);
        at += lengths[i] * sizeof *tokens;
    }
    for (uint64_t i = 0; i <= 3; i++)
        memcpy(index + 70 + 8 * i, &i, sizeof i);
    for (uint16_t i = 0; i < 300; i++)
        tokens[i] = i;
    snprintf(path, sizeof path, "%s.idx", name);
    tree_write(tree, path, index, 102);
    snprintf(path, sizeof path, "%s.bin", name);
    tree_write(tree, path, tokens, (size_t)at);
}

static void rows_of_megatron_core_keep_their_pieces(void **state)
{
    (void)state;
    static const char keys[] = "?window=7&order=megatron&samples=30&seed=";
    struct tree tree;
    char one[SPEC], two[SPEC];
    tree_create(&tree);
    write_documents(&tree, "a", (const uint32_t[3]){40, 3, 60});
    write_documents(&tree, "b", (const uint32_t[3]){5, 70, 31});
    snprintf(one, SPEC, "%s%s1", tree_spec(&tree, "tokens", "a.bin"), keys);
    snprintf(two, SPEC, "%s%s2", tree_spec(&tree, "tokens", "b.bin"), keys);
    compare_all(mix_of(one, two, one), (const char *const[]){one, two, one, NULL});
    tree_destroy(&tree);
}

/* Their boxes are in the catalog. */
static void annotations_go_with_their_images(void **state)
{
    (void)state;
#ifdef MR_HAVE_YAJL
    static const char format[] =
        "{\"images\": [{\"id\": 3, \"file_name\": \"03.jpg\", \"width\": 9, \"height\": 9},"
        "{\"id\": %d, \"file_name\": \"09.jpg\", \"width\": 9, \"height\": 9}],"
        "\"annotations\": [{\"id\": 1, \"image_id\": 3, \"category_id\": 1, \"area\": 4,"
        "\"bbox\": [%d, 0, 2, 2], \"iscrowd\": 0}], \"categories\": [{\"id\": 1, \"name\": "
        "\"x\"}]}";
    struct tree tree;
    char text[1000], one[SPEC], two[SPEC];
    tree_create(&tree);
    make_images(&tree);
    for (int i = 0; i < 2; i++) {
        int len = snprintf(text, sizeof text, format, 4 + i, i);
        tree_write(&tree, i ? "two.json" : "one.json", text, (size_t)len);
        snprintf(i ? two : one, SPEC, "%s?annotations=%s&index=none",
                 tree_spec(&tree, "coco", "one/dog"), tree_at(&tree, i ? "two.json" : "one.json"));
    }
    compare_all(mix_of(one, two, NULL), (const char *const[]){one, two, NULL});
    tree_destroy(&tree);
#else
    skip();
#endif
}

static void nested_mixtures_become_one_list(void **state)
{
    (void)state;
    struct tree tree;
    char text[MIX];
    tree_create(&tree);
    make_images(&tree);
    const char *one = tree_spec(&tree, "imagefolder", "one");
    const char *two = tree_spec(&tree, "imagefolder", "two");
    snprintf(text, sizeof text, "MIX:0.5*(mix:3*(%s)|1*(mix:1*(%s)|1e0*(%s)))|.5*(%s)", one, two,
             one, two);
    compare_all(text, (const char *const[]){one, two, one, two, NULL});
    mr_dataset *mix = open_dataset(text);
    const struct mr_catalog *catalog = mr_dataset_catalog(mix);
    const double weights[] = {0.375, 0.0625, 0.0625, 0.5};
    for (uint32_t k = 0; k < 4; k++)
        assert_true(mr_catalog_mix_source(catalog, k)->weight == weights[k]);
    mr_dataset_destroy(mix);
    tree_destroy(&tree);
}

/* The escapes stay for the inner SPEC; other ( ) | end it. */
static void names_may_have_parentheses_and_bars(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    tree_file(&tree, "a(b)|c?&*%/x/1.jpg");
    tree_file(&tree, "a(b)|c?&*%/y/2.jpg");
    const char *odd = tree_spec(&tree, "imagefolder", "a(b)|c?&*%");
    assert_words(odd, "%28");
    compare_all(mix_of(odd, odd, NULL), (const char *const[]){odd, odd, NULL});
    tree_destroy(&tree);
}

static void sources_that_do_not_fit_are_named(void **state)
{
    (void)state;
    struct tree tree;
    char one[PATH_MAX], a[SPEC], b[SPEC];
    uint8_t bytes[256] = {0};
    tree_create(&tree);
    make_images(&tree);
    tree_file(&tree, "other/cow/1.jpg");
    tree_file(&tree, "other/dog/1.jpg");
    tree_write(&tree, "a.bin", bytes, sizeof bytes);
    snprintf(one, sizeof one, "%s", tree_spec(&tree, "imagefolder", "one"));
    const char *other = tree_spec(&tree, "imagefolder", "other");
    expect_open_error(mix_of(one, other, NULL), MR_ERR_INVALID,
                      "class 0 is 'cat' in source 0 of the mixture and 'cow' in source 1");
    expect_open_error(mix_of(one, tree_spec(&tree, "list", "list.tsv"), NULL), MR_ERR_INVALID,
                      "source 0 of the mixture has 2 classes, and source 1 0");
    snprintf(a, sizeof a, "%s?bytes=4", tree_spec(&tree, "records", "a.bin"));
    expect_open_error(mix_of(one, a, NULL), MR_ERR_INVALID,
                      "sources 0 and 1 of the mixture make different batches: one has image files");
    snprintf(b, sizeof b, "%s?bytes=8", tree_spec(&tree, "records", "a.bin"));
    expect_open_error(mix_of(a, a, b), MR_ERR_INVALID,
                      "sources 0 and 2 of the mixture make different batches: the shapes");
    snprintf(b, sizeof b, "%s?bytes=4&dtype=i8", tree_spec(&tree, "records", "a.bin"));
    expect_open_error(mix_of(a, b, NULL), MR_ERR_INVALID, "the dtypes of their elements");
    snprintf(b, sizeof b, "%s?window=4&dtype=u8", tree_spec(&tree, "tokens", "a.bin"));
    expect_open_error(mix_of(a, b, NULL), MR_ERR_INVALID, "the numbers of tokens in a row");
    snprintf(b, sizeof b, "%s?extra=x:9:.txt:%s", one, tree_at(&tree, "one"));
    expect_open_error(mix_of(one, b, NULL), MR_ERR_INVALID, "the numbers of further members");
    expect_open_error(mix_of(one, "imagefolder:/nowhere", NULL), MR_ERR_IO, "/nowhere");
    tree_destroy(&tree);
}

static void texts_that_are_not_mixtures_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"mix:", "has no path"},
        {"mix:x", "item 1 of the mixture: it is not WEIGHT*(SPEC)"},
        {"mix:1*x", "item 1 of the mixture: it is not WEIGHT*(SPEC)"},
        {"mix:*(x)", "item 1 of the mixture: its weight is not a number above 0"},
        {"mix:0*(x)", "its weight is not"},
        {"mix:-1*(x)", "its weight is not"},
        {"mix:nan*(x)", "its weight is not"},
        {"mix:inf*(x)", "its weight is not"},
        {"mix:1e999*(x)", "its weight is not"},
        {"mix:0x1*(x)", "its weight is not"},
        {"mix:1,5*(x)", "its weight is not"},
        {"mix: 1*(x)", "its weight is not"},
        {"mix:1**(x)", "it is not WEIGHT"},
        {"mix:1*()", "its parentheses are empty"},
        {"mix:1*(x", "a parenthesis is not closed"},
        {"mix:1*((x)", "a parenthesis is not closed"},
        {"mix:1*(x))", "something other than | follows"},
        {"mix:1*(x)1*(y)", "something other than | follows"},
        {"mix:1*((((((((((x))))))))))", "nested more than 8 deep"},
        {"mix:1*(mix:2)", "item 1 of the mixture: it is not WEIGHT*(SPEC)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_open_error(cases[i].text, MR_ERR_INVALID, cases[i].words);
}

/* Errors after the first source, which can be opened. */
static void later_items_are_checked_too(void **state)
{
    (void)state;
    static const char *const ends[] = {"|", "||1*(x)", "|1", "|1*(", "|0*(x)", "*1", "|1*(%)"};
    struct tree tree;
    char text[MIX];
    tree_create(&tree);
    make_images(&tree);
    const char *one = tree_spec(&tree, "imagefolder", "one");
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        mr_dataset *dataset;
        snprintf(text, sizeof text, "mix:1*(%s)%s", one, ends[i]);
        assert_int_equal(mr_dataset_open(text, NULL, &dataset, NULL), MR_ERR_INVALID);
    }
    int n = snprintf(text, sizeof text, "mix:1*(list:%s)", tree_at(&tree, "list.tsv"));
    char *many = calloc(101, (size_t)n + 2);
    for (int i = 0; i < 101; i++)
        sprintf(many + strlen(many), "%s%s", i ? "|" : "mix:", text + 4);
    expect_open_error(many, MR_ERR_INVALID, "more than 100 sources");
    *strrchr(many, '|') = '\0';
    mr_dataset *dataset = open_dataset(many);
    assert_int_equal(mr_dataset_n_samples(dataset), 200);
    mr_dataset_destroy(dataset);
    free(many);
    tree_destroy(&tree);
}

static void mutated_texts_open_or_are_refused(void **state)
{
    (void)state;
    static const char letters[] = "()|*%:1.e-?&=/mix";
    struct tree tree;
    char good[MIX], text[MIX];
    unsigned n_opened = 0;
    tree_create(&tree);
    make_images(&tree);
    const char *list = tree_spec(&tree, "list", "list.tsv");
    snprintf(good, sizeof good, "mix:0.5*(mix:3*(%s)|1*(%s))|.5*(%s)", list, list, list);
    srand(33);
    for (int i = 0; i < 2000; i++) {
        mr_dataset *dataset;
        mr_error error;
        snprintf(text, sizeof text, "%s", good);
        for (int k = rand() % 3; k >= 0; k--)
            text[4 + (size_t)rand() % (strlen(text) - 4)] =
                letters[(size_t)rand() % (sizeof letters - 1)];
        if (i % 4 == 0)
            text[4 + (size_t)rand() % (strlen(text) - 4)] = '\0';
        if (mr_dataset_open(text, NULL, &dataset, &error) == MR_OK) {
            n_opened++;
            mr_dataset_destroy(dataset);
        } else {
            assert_true(error.status < 0 && error.text[0]);
        }
    }
    assert_in_range(n_opened, 1, 1000);
    tree_destroy(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_those_of_the_sources),
        cmocka_unit_test(records_keep_their_own_layouts),
        cmocka_unit_test(rows_of_megatron_core_keep_their_pieces),
        cmocka_unit_test(annotations_go_with_their_images),
        cmocka_unit_test(nested_mixtures_become_one_list),
        cmocka_unit_test(names_may_have_parentheses_and_bars),
        cmocka_unit_test(sources_that_do_not_fit_are_named),
        cmocka_unit_test(texts_that_are_not_mixtures_are_refused),
        cmocka_unit_test(later_items_are_checked_too),
        cmocka_unit_test(mutated_texts_open_or_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
