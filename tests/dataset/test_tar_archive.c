/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares our scanner with libarchive. libarchive writes archives in every format; both scan them,
 * and the regular members must be the same, byte for byte. Names and sizes are random; the seed is
 * printed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <archive.h>
#include <archive_entry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "dataset/file.h"
#include "dataset/tar/tar_scan.h"
#include "tests/support/assert_words.h"

enum { N_MEMBERS = 60, MAX_DATA = 3000, ARCHIVE_BYTES = 2 << 20 };

static uint8_t archive_bytes[ARCHIVE_BYTES];

/* Make a random path of up to max bytes with parts of up to 90 bytes, some not ASCII. */
static void draw_name(char *name, size_t max, int number)
{
    size_t len = (size_t)snprintf(name, max, "%d", number),
           wanted = len + (size_t)rand() % (max - 40);
    for (size_t part = len; len < wanted; len++, part++) {
        bool slash = part > 20 && rand() % 90 < (int)part - 20;
        name[len] = slash ? '/' : "abcxyz_.- 09"[rand() % 12];
        part = slash ? 0 : part;
    }
    snprintf(name + len, 8, "e.jpg");
}

static void add_member(struct archive *archive, int number, size_t max_name)
{
    char name[1200];
    uint8_t data[MAX_DATA];
    size_t len = rand() % 5 ? (size_t)rand() % MAX_DATA : 0;
    for (size_t i = 0; i < len; i++)
        data[i] = (uint8_t)rand();
    draw_name(name, max_name, number);
    struct archive_entry *entry = archive_entry_new();
    archive_entry_set_pathname(entry, name);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_mtime(entry, 1700000000 + number, max_name > 90 ? 123456789 : 0);
    switch (number % 9) {
    case 3: archive_entry_set_filetype(entry, AE_IFDIR); break;
    case 5:
        archive_entry_set_filetype(entry, AE_IFLNK);
        archive_entry_set_symlink(entry, name);
        break;
    default:
        archive_entry_set_filetype(entry, AE_IFREG);
        archive_entry_set_size(entry, (int64_t)len);
    }
    /* If a name is too long for the format, the member is left out. */
    if (archive_write_header(archive, entry) >= ARCHIVE_WARN && number % 9 != 3 && number % 9 != 5)
        assert_int_equal(archive_write_data(archive, data, len), len);
    archive_entry_free(entry);
}

static size_t write_archive(int (*set_format)(struct archive *), size_t max_name)
{
    size_t used = 0;
    struct archive *archive = archive_write_new();
    assert_int_equal(set_format(archive), ARCHIVE_OK);
    assert_int_equal(archive_write_open_memory(archive, archive_bytes, ARCHIVE_BYTES, &used),
                     ARCHIVE_OK);
    for (int i = 0; i < N_MEMBERS; i++)
        add_member(archive, i, max_name);
    assert_int_equal(archive_write_close(archive), ARCHIVE_OK);
    archive_write_free(archive);
    return used;
}

struct comparison {
    struct archive *archive;
    int n;
};

static mr_status compare_member(void *user, const struct mr_tar_member *member, mr_error *error)
{
    (void)error;
    struct comparison *comparison = user;
    struct archive_entry *entry;
    static uint8_t data[MAX_DATA];
    do
        assert_int_equal(archive_read_next_header(comparison->archive, &entry), ARCHIVE_OK);
    while (archive_entry_filetype(entry) != AE_IFREG);
    assert_string_equal(member->name, archive_entry_pathname(entry));
    assert_int_equal(member->len, archive_entry_size(entry));
    assert_false(member->is_cut);
    assert_int_equal(archive_read_data(comparison->archive, data, member->len), member->len);
    assert_memory_equal(archive_bytes + member->offset, data, member->len);
    comparison->n++;
    return MR_OK;
}

static mr_status refuse_gap(void *user, const struct mr_tar_gap *gap, mr_error *error)
{
    (void)user, (void)error;
    fail_msg("a gap at %llu: %s", (unsigned long long)gap->from, gap->why);
    return MR_OK;
}

static void compare_archive(size_t len)
{
    struct comparison comparison = {.archive = archive_read_new()};
    struct archive_entry *entry;
    archive_read_support_format_tar(comparison.archive);
    assert_int_equal(archive_read_open_memory(comparison.archive, archive_bytes, len), ARCHIVE_OK);
    struct mr_tar_file *file = calloc(1, sizeof *file);
    uint8_t window[MR_TAR_WINDOW];
    assert_non_null(file);
    file->window = window;
    file->window_size = sizeof window;
    file->fd = memfd_create("archive", MFD_CLOEXEC);
    file->shown = "archive";
    file->size = len;
    assert_int_equal(mr_file_write_at(file->fd, archive_bytes, len, 0), 0);
    struct mr_tar_events events = {
        .member = compare_member, .gap = refuse_gap, .user = &comparison};
    mr_error error = {0};
    assert_ok(mr_tar_scan(file, &events, &error), &error);
    while (archive_read_next_header(comparison.archive, &entry) == ARCHIVE_OK)
        assert_int_not_equal(archive_entry_filetype(entry), AE_IFREG);
    assert_true(comparison.n > N_MEMBERS / 3);
    archive_read_free(comparison.archive);
    close(file->fd);
    free(file);
}

static void members_are_those_of_libarchive(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int (*set_format)(struct archive *);
        size_t max_name;
    } forms[] = {{"v7", archive_write_set_format_v7tar, 90},
                 {"ustar", archive_write_set_format_ustar, 90},
                 {"ustar, prefixes", archive_write_set_format_ustar, 220},
                 {"pax", archive_write_set_format_pax, 90},
                 {"pax, long names", archive_write_set_format_pax, 1000},
                 {"restricted pax", archive_write_set_format_pax_restricted, 400},
                 {"gnu", archive_write_set_format_gnutar, 90},
                 {"gnu, long names", archive_write_set_format_gnutar, 1000}};
    unsigned seed = (unsigned)time(NULL);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        for (unsigned round = 0; round < 20; round++) {
            printf("%s, seed %u\n", forms[i].name, seed + round);
            srand(seed + round);
            compare_archive(write_archive(forms[i].set_format, forms[i].max_name));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(members_are_those_of_libarchive)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
