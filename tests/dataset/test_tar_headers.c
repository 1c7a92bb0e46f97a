/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Headers that programs seldom or never write: which members a scan of the shard finds, and where
 * it reports that the shard is broken. The events are compared as text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dataset/file.h"
#include "dataset/tar/tar_scan.h"
#include "tests/support/shards.h"
#include "tests/support/assert_words.h"

enum { NAME_AT = 0, SIZE_AT = 124, SUM_AT = 148, MAGIC_AT = 257, PREFIX_AT = 345 };

static struct mr_test_shard shard;
static char report[8192];

static void add_line(const char *format, ...)
{
    va_list args;
    size_t len = strlen(report);
    va_start(args, format);
    vsnprintf(report + len, sizeof report - len, format, args);
    va_end(args);
}

static mr_status report_member(void *user, const struct mr_tar_member *member, mr_error *error)
{
    (void)user, (void)error;
    add_line("%s %" PRIu64 "+%" PRIu64 "%s\n", member->name, member->offset, member->len,
             member->is_cut ? " cut" : "");
    return MR_OK;
}

static mr_status report_gap(void *user, const struct mr_tar_gap *gap, mr_error *error)
{
    (void)user, (void)error;
    add_line("gap %" PRIu64 " to %" PRIu64 ": %s\n", gap->from, gap->to, gap->why);
    return MR_OK;
}

/* Scan the shard, then start a new one. */
static mr_status scan_shard(mr_error *error)
{
    struct mr_tar_events events = {.member = report_member, .gap = report_gap};
    struct mr_tar_file *file = calloc(1, sizeof *file);
    uint8_t window[MR_TAR_WINDOW];
    assert_non_null(file);
    file->window = window;
    file->window_size = sizeof window;
    file->fd = memfd_create("shard", MFD_CLOEXEC);
    file->shown = "shard";
    file->size = shard.len;
    assert_int_equal(mr_file_write_at(file->fd, shard.bytes, shard.len, 0), 0);
    report[0] = '\0';
    mr_status status = mr_tar_scan(file, &events, error);
    close(file->fd);
    free(file);
    mr_test_shard_free(&shard);
    return status;
}

static void expect_report(const char *expected)
{
    mr_error error = {0};
    assert_ok(scan_shard(&error), &error);
    assert_string_equal(report, expected);
}

static uint8_t *add_header(char type, const char *name, const char *text)
{
    size_t at = mr_test_shard_add_type(&shard, type, name, text, strlen(text));
    return shard.bytes + at;
}

static void set_field(uint8_t *header, size_t at, const char *bytes, size_t len)
{
    memcpy(header + at, bytes, len);
    mr_test_shard_sum(header);
}

static void sizes_are_octal_or_binary(void **state)
{
    (void)state;
    static const struct {
        const char field[13];
        const char *found;
    } cases[] = {
        {"         3  ", "a 512+3\nb 1536+1\n"},
        {"00000000003", "a 512+3\nb 1536+1\n"},
        {"000000000003", "a 512+3\nb 1536+1\n"},
        {"3\0garbage", "a 512+3\nb 1536+1\n"},
        {"\x80\0\0\0\0\0\0\0\0\0\0\3", "a 512+3\nb 1536+1\n"},
        {"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", "a 512+9223372036854775807 cut\n"},
        {"\x80\0\0\0\x80\0\0\0\0\0\0\0", "gap 0 to 1024: wrong size\nb 1536+1\n"},
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
         "gap 0 to 1024: wrong size\nb 1536+1\n"},
        {"-0000000003", "gap 0 to 1024: wrong size\nb 1536+1\n"},
        {"0000000003x", "gap 0 to 1024: wrong size\nb 1536+1\n"},
        {"777777777777", "a 512+68719476735 cut\n"},
        {"\0\0\0\0\0\0\0\0\0\0\0\0", "a 512+0\ngap 512 to 1024: wrong checksum\nb 1536+1\n"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t *header = add_header('0', "a", "abc");
        set_field(header, SIZE_AT, cases[i].field, 12);
        add_header('0', "b", "b");
        mr_test_shard_end(&shard);
        expect_report(cases[i].found);
    }
}

static void checksums_may_add_signed_bytes(void **state)
{
    (void)state;
    for (int wrong = 0; wrong < 2; wrong++) {
        uint8_t *header = add_header('0', "\xc3\xa9", "abc");
        unsigned sum = 0;
        memset(header + SUM_AT, ' ', 8);
        for (int i = 0; i < 512; i++)
            sum += header[i];
        sum += (unsigned)wrong;
        snprintf((char *)header + SUM_AT, 8, "%06o", sum - 512);
        expect_report(wrong ? "gap 0 to 1024: wrong checksum\n" : "\xc3\xa9 512+3\n");
    }
}

/*
 * POSIX headers have a prefix of the name. GNU headers have other data in its place, and old
 * headers have no prefix.
 */
static void only_posix_headers_have_a_prefix(void **state)
{
    (void)state;
    char name[101], prefix[156], expected[512];
    memset(name, 'n', 100);
    memset(prefix, 'p', 155);
    name[100] = prefix[155] = '\0';
    uint8_t *header = add_header('0', "x", "");
    memcpy(header, name, 100);
    set_field(header, PREFIX_AT, prefix, 155);
    snprintf(expected, sizeof expected, "%s/%s 512+0\n", prefix, name);
    expect_report(expected);
    header = add_header('0', "x", "");
    set_field(header, MAGIC_AT, "ustar  ", 8);
    set_field(header, PREFIX_AT, "12345670123", 11);
    expect_report("x 512+0\n");
    header = add_header('0', "x", "");
    set_field(header, MAGIC_AT, "\0\0\0\0\0\0\0", 8);
    set_field(header, PREFIX_AT, "p", 1);
    expect_report("x 512+0\n");
}

/*
 * Data follow the header of a file and of an unknown type. No data follow a folder, a link or a
 * device, whatever its size field says.
 */
static void types_decide_whether_data_follow(void **state)
{
    (void)state;
    for (const char *type = "123456"; *type; type++) {
        set_field(add_header(*type, "e", ""), SIZE_AT, "00000001000", 12);
        add_header('0', "f", "f");
        expect_report("f 1024+1\n");
    }
    for (const char *type = "VADz"; *type; type++) {
        add_header(*type, "e", "data");
        add_header('0', "f", "f");
        expect_report("f 1536+1\n");
    }
    add_header('7', "contiguous", "c");
    add_header('\0', "old", "o");
    set_field(add_header('\0', "old/", ""), SIZE_AT, "00000001000", 12);
    add_header('0', "slash/", "s");
    expect_report("contiguous 512+1\nold 1536+1\nslash/ 3072+1\n");
}

/* The 100 bytes in an old header may end with a slash although the full name does not. */
static void an_old_header_is_a_folder_by_its_whole_name(void **state)
{
    (void)state;
    add_header('L', "long", "d/a.jpg");
    add_header('\0', "d/", "abc");
    add_header('L', "long", "d/");
    set_field(add_header('\0', "d", ""), SIZE_AT, "00000001000", 12);
    add_header('0', "b", "b");
    expect_report("d/a.jpg 1536+3\nb 4096+1\n");
}

static void pax_records_replace_name_and_size(void **state)
{
    (void)state;
    add_header('g', "p", "16 comment=none\n");
    add_header('x', "p", "11 path=new\n"); /* a wrong length, which ends before the line does */
    add_header('0', "a", "a");
    add_header('x', "p", "12 path=new\n9 size=3\n16 comment=none\n");
    set_field(add_header('0', "old", "abc"), SIZE_AT, "00000000000", 12);
    add_header('0', "b", "b");
    add_header('X', "p", "14 path=first\n");
    add_header('K', "k", "d/link");
    add_header('L', "l", "last");
    add_header('0', "old", "");
    expect_report("gap 0 to 2048: a malformed pax header\na 2560+1\nnew 4608+3\nb 5632+1\n"
                  "last 9728+0\n");
}

static void malformed_pax_records_are_a_broken_place(void **state)
{
    (void)state;
    static const struct {
        char type;
        const char *text, *why;
    } cases[] = {{'x', "8 path=\n", "a pax header whose path is empty or too long"},
                 {'x', "28 size=9223372036854775808\n", "a malformed pax header"},
                 {'x', "11 size=-1\n", "a malformed pax header"},
                 {'x', "8 size=\n", "a malformed pax header"},
                 {'x', "12 path=new", "a malformed pax header"},
                 {'x', "99 path=new\n", "a malformed pax header"},
                 {'x', "8 pathx\n", "a malformed pax header"},
                 {'x', "2 \n", "a malformed pax header"},
                 {'x', " path=new\n", "a malformed pax header"},
                 {'x', "00000000000000000012 path=new\n", "a malformed pax header"},
                 {'g', "12 path=new\n", "a pax header with one path or size for all members"},
                 {'g', "9 size=3\n", "a pax header with one path or size for all members"},
                 {'L', "", "a long name that is empty or too long"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char expected[256];
        unsigned next = *cases[i].text ? 1024 : 512;
        add_header(cases[i].type, "p", cases[i].text);
        add_header('0', "a", "abc");
        snprintf(expected, sizeof expected, "gap 0 to %u: %s\na %u+3\n", next, cases[i].why,
                 next + 512);
        expect_report(expected);
    }
}

static void a_name_with_a_zero_byte_is_a_broken_place(void **state)
{
    (void)state;
    static const char text[] = "13 path=ne\0w\n";
    mr_test_shard_add_type(&shard, 'x', "p", text, sizeof text - 1);
    add_header('0', "a", "abc");
    add_header('L', "l", "b");
    add_header('0', "x", "");
    expect_report(
        "gap 0 to 1024: a pax header whose path is empty or too long\na 1536+3\nb 3584+0\n");
}

/* An extended header applies to the next member only, and to none after a broken place. */
static void extended_headers_before_a_broken_place_are_dropped(void **state)
{
    (void)state;
    add_header('L', "l", "lost");
    memset(add_header('0', "a", "abc"), 'x', 512);
    add_header('0', "b", "b");
    add_header('L', "l", "late");
    expect_report("gap 0 to 2048: wrong checksum\nb 2560+1\ngap 3072 to 4096: the file ends within "
                  "a header\n");
    add_header('L', "l", "lost");
    mr_test_shard_end(&shard);
    expect_report("");
}

/* One or both of the two blocks of zeros may be missing. Nothing after the first one is read. */
static void a_block_of_zeros_ends_a_shard(void **state)
{
    (void)state;
    add_header('0', "a", "a");
    expect_report("a 512+1\n");
    add_header('0', "a", "a");
    mr_test_shard_end(&shard);
    shard.len -= 512;
    add_header('0', "b", "b");
    expect_report("a 512+1\n");
    add_header('0', "a", "a");
    shard.len -= 500; /* without the padding */
    expect_report("a 512+1\n");
    add_header('0', "a", "a");
    shard.len -= 512;
    expect_report("a 512+1 cut\n");
}

/*
 * Old headers have no magic, so random bytes would often look like one. After a broken place the
 * scan continues only at a header with a magic.
 */
static void the_scan_continues_at_a_header_with_a_magic(void **state)
{
    (void)state;
    memset(add_header('0', "a", "a"), 'x', 512);
    set_field(add_header('0', "old", "b"), MAGIC_AT, "\0\0\0\0\0\0\0", 8);
    add_header('0', "c", "c");
    expect_report("gap 0 to 2048: wrong checksum\nc 2560+1\n");
}

/*
 * Malformed headers whose data contain the next headers: reading the data of each would take
 * quadratic time.
 */
static void overlapping_data_of_headers_are_not_read_repeatedly(void **state)
{
    (void)state;
    mr_error error = {0};
    for (int i = 0; i < 40; i++)
        set_field(add_header('x', "p", ""), SIZE_AT, "00000020000", 12); /* 8192 */
    assert_int_equal(scan_shard(&error), MR_OK);
    assert_words(report, "gap 512 to 1024: a malformed pax header\n");
    assert_words(report, "gap 1024 to 1536: extended headers whose data overlap\n");
}

static void sparse_members_of_every_format_are_refused(void **state)
{
    (void)state;
    static const char *const records[] = {"22 GNU.sparse.size=12\n", "22 GNU.sparse.major=1\n",
                                          "18 GNU.sparse.x=1\n"};
    mr_error error = {0};
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        add_header('x', "p", records[i]);
        add_header('0', "a", "abc");
        assert_error(scan_shard(&error), MR_ERR_UNSUPPORTED, &error,
                     "shard/a is stored with holes");
    }
    add_header('L', "l", "long");
    add_header('S', "a", "abc");
    assert_error(scan_shard(&error), MR_ERR_UNSUPPORTED, &error, "shard/long is stored with holes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_octal_or_binary),
        cmocka_unit_test(checksums_may_add_signed_bytes),
        cmocka_unit_test(only_posix_headers_have_a_prefix),
        cmocka_unit_test(types_decide_whether_data_follow),
        cmocka_unit_test(an_old_header_is_a_folder_by_its_whole_name),
        cmocka_unit_test(pax_records_replace_name_and_size),
        cmocka_unit_test(malformed_pax_records_are_a_broken_place),
        cmocka_unit_test(a_name_with_a_zero_byte_is_a_broken_place),
        cmocka_unit_test(extended_headers_before_a_broken_place_are_dropped),
        cmocka_unit_test(a_block_of_zeros_ends_a_shard),
        cmocka_unit_test(the_scan_continues_at_a_header_with_a_magic),
        cmocka_unit_test(overlapping_data_of_headers_are_not_read_repeatedly),
        cmocka_unit_test(sparse_members_of_every_format_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
