/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes and compares packs for the tests of the writer. Two packs are the same only if neither has
 * a file that the other lacks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/packs/pack_parts.h"

#include "tests/support/assert_words.h"

int n_entries(const char *path)
{
    DIR *dir = opendir(path);
    int n = -2;
    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

void expect_same(const struct tree *tree, const char *a, const char *b, unsigned n_call)
{
    DIR *dir = opendir(tree_at(tree, a));
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        char name[300];
        size_t x_len, y_len;
        if (entry->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%s/%.200s", a, entry->d_name);
        uint8_t *x = read_whole(tree_at(tree, name), &x_len);
        snprintf(name, sizeof name, "%s/%.200s", b, entry->d_name);
        uint8_t *y = read_whole(tree_at(tree, name), &y_len);
        if (x_len != y_len || memcmp(x, y, x_len) != 0)
            fail_msg("after call %u %s has other bytes (%zu, %zu)", n_call, name, x_len, y_len);
        free(x);
        free(y);
    }
    closedir(dir);
    assert_int_equal(n_entries(tree_at(tree, a)), n_entries(tree_at(tree, b)));
}

void remove_pack(const struct tree *tree, const char *name)
{
    DIR *dir = opendir(tree_at(tree, name));
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            assert_int_equal(unlinkat(dirfd(dir), entry->d_name, 0), 0);
    closedir(dir);
    assert_int_equal(rmdir(tree_at(tree, name)), 0);
}

void write_part(const struct tree *tree, const struct mr_pack_writer_options *options,
                uint64_t n_stop)
{
    mr_error error = {0};
    assert_ok(invented_write_some(tree_at(tree, "p"), options, n_stop, &error), &error);
}

uint64_t n_there(const struct tree *tree, const struct mr_pack_writer_options *options)
{
    struct mr_pack_writer *writer;
    uint64_t n = UINT64_MAX;
    mr_error error = {0};
    assert_ok(mr_pack_writer_open(tree_at(tree, "p"), options, &writer, &n, &error), &error);
    mr_pack_writer_close(writer);
    return n;
}

uint64_t first_in_shard(const struct tree *tree, uint64_t sample)
{
    struct mr_pack_header header;
    size_t len;
    uint8_t *index = read_whole(tree_at(tree, "whole/index"), &len);
    memcpy(&header, index, sizeof header);
    const struct mr_pack_sample *samples =
        (const void *)(index + header.sections[MR_PACK_SAMPLES].off);
    uint64_t first = sample;
    while (first > 0 && samples[first - 1].shard == samples[sample].shard)
        first--;
    free(index);
    return first;
}

void begin_tree(struct tree *tree, struct mr_pack_writer_options *options, uint64_t n_stop)
{
    tree_create(tree);
    *options = invented_options(PARTS_N, PARTS_SHARD);
    invented_write(tree_at(tree, "whole"), options);
    if (n_stop > 0)
        write_part(tree, options, n_stop);
}

void expect_goes_on(const struct tree *tree, const struct mr_pack_writer_options *options)
{
    invented_write(tree_at(tree, "p"), options);
    expect_same(tree, "whole", "p", 0);
}
