/* SPDX-License-Identifier: Apache-2.0 */
/* The index of a pack: it reads what was written, and trusts nothing in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/pack_index.h"
#include "tests/dataset/invented_marks.h"
#include "tests/dataset/invented_pack.h"
#include "tests/dataset/tree.h"
#include "tests/support/assert_words.h"

enum { N = 12 };

/* The bytes of a valid index, written again for each test. */
static uint8_t *make_index(size_t *len_out)
{
    struct tree tree;
    struct mr_pack_writer_options options = invented_options(N, 3000);
    tree_create(&tree);
    invented_write(tree_at(&tree, "p"), &options);
    uint8_t *bytes = read_whole(tree_at(&tree, "p/index"), len_out);
    tree_destroy(&tree);
    return bytes;
}

/* The same with further members. */
static uint8_t *make_member_index(size_t *len_out)
{
    struct tree tree;
    struct mr_pack_writer_options options = invented_member_options(N, 3000);
    tree_create(&tree);
    invented_write(tree_at(&tree, "p"), &options);
    uint8_t *bytes = read_whole(tree_at(&tree, "p/index"), len_out);
    tree_destroy(&tree);
    return bytes;
}

/* The same with marks. */
static uint8_t *make_marked_index(size_t *len_out)
{
    size_t len;
    uint8_t *bytes = make_index(&len), *marked = mark_index(bytes, len, len_out);
    free(bytes);
    return marked;
}

static void expect_refused(const void *bytes, size_t len, mr_status status, const char *words)
{
    struct mr_pack_index index;
    mr_error error = {0};
    mr_status got = mr_pack_index_attach(bytes, len, "DIR/index", &index, &error);
    if (got != status || !strstr(error.text, words) || strncmp(error.text, "DIR/index", 9) != 0)
        fail_msg("%s: \"%s\" does not say \"%s\"", mr_status_name(got), error.text, words);
}

static void attach(const void *bytes, size_t len, struct mr_pack_index *index)
{
    mr_error error = {0};
    assert_ok(mr_pack_index_attach(bytes, len, "DIR/index", index, &error), &error);
}

static void an_index_reads_back_as_written(void **state)
{
    (void)state;
    size_t len;
    uint8_t *bytes = make_index(&len);
    struct mr_pack_index index;
    struct invented want;
    attach(bytes, len, &index);
    assert_int_equal(index.n_samples, N);
    assert_int_equal(index.header->file_bytes, len);
    assert_string_equal(index.starts[MR_PACK_ORIGIN], "invented, for a test");
    for (uint64_t i = 0; i < N; i++) {
        const struct mr_pack_sample *sample;
        struct mr_packed_image image;
        int64_t label;
        invent(i, &want);
        assert_true(mr_pack_index_sample(&index, i, &sample, &image));
        assert_string_equal(mr_pack_index_name(&index, i), want.name);
        memcpy(&label, mr_pack_index_label(&index, i), sizeof label);
        assert_int_equal(label, want.label);
        assert_int_equal(image.encoding, want.entry.image.encoding);
        assert_int_equal(image.flags, want.entry.image.flags);
        assert_int_equal(image.width, want.entry.image.width);
        assert_int_equal(image.height, want.entry.image.height);
        assert_int_equal(image.orientation, want.entry.image.orientation);
        assert_int_equal(image.len, want.entry.image.len);
        assert_int_equal(image.n_rows, want.entry.image.n_rows);
        assert_int_equal(sample->checksum, mr_pack_index_hash(want.bytes, (size_t)image.len));
        assert_int_equal(!image.sums, !want.entry.image.sums);
        if (image.sums)
            assert_memory_equal(image.sums, want.sums, image.n_rows * sizeof *want.sums);
        if (!want.entry.image.rows) {
            assert_null(image.rows);
            assert_null(image.template);
            continue;
        }
        assert_memory_equal(image.rows, want.rows, (image.n_rows + 1) * sizeof *want.rows);
        assert_memory_equal(image.template, &want.template, sizeof want.template);
    }
    free(bytes);
}

static void marked_samples_have_rows_and_marks(void **state)
{
    (void)state;
    size_t len;
    uint8_t *bytes = make_marked_index(&len);
    struct mr_pack_index index;
    struct invented want;
    uint64_t end = 0, n_marked = 0;
    attach(bytes, len, &index);
    assert_true(mr_pack_index_has_marks(&index));
    for (uint64_t i = 0; i < N; i++) {
        const struct mr_pack_sample *sample;
        struct mr_packed_image image;
        struct mr_pack_marks place;
        uint8_t marks[INVENTED_MAX_MARKS];
        invent(i, &want);
        assert_true(mr_pack_index_sample(&index, i, &sample, &image));
        assert_int_equal(image.len, want.entry.image.len);
        assert_null(image.marks);
        if (!is_marked(i)) {
            assert_int_equal(image.encoding, want.entry.image.encoding);
            assert_int_equal(image.marks_len, 0);
            assert_false(mr_pack_index_marks(&index, i, &place));
            continue;
        }
        n_marked++;
        assert_int_equal(image.encoding, MR_PACKED_MARKED);
        assert_int_equal(image.marks_len, invented_marks(i, marks));
        assert_true(mr_pack_index_marks(&index, i, &place));
        assert_int_equal(place.len, image.marks_len);
        assert_in_range(place.offset, end, end + 7);
        end = place.offset + place.len;
        assert_int_equal(image.n_rows, INVENTED_MARKED_ROWS);
        for (uint32_t r = 0; r <= INVENTED_MARKED_ROWS; r++)
            assert_int_equal(image.rows[r], invented_marked_row(image.len, r));
        assert_non_null(image.template);
    }
    assert_in_range(n_marked, 2, N);
    assert_int_equal(index.marks_bytes, end);
    free(bytes);
}

static void an_index_without_marks_reports_none(void **state)
{
    (void)state;
    size_t len;
    uint8_t *bytes = make_index(&len);
    struct mr_pack_index index;
    struct mr_pack_marks place;
    attach(bytes, len, &index);
    assert_false(mr_pack_index_has_marks(&index));
    for (uint64_t i = 0; i <= N; i++)
        assert_false(mr_pack_index_marks(&index, i, &place));
    free(bytes);
}

static void each_template_is_stored_once(void **state)
{
    (void)state;
    size_t len;
    uint8_t *bytes = make_index(&len);
    struct mr_pack_index index;
    attach(bytes, len, &index);
    assert_int_equal(index.lens[MR_PACK_TEMPLATES], 2 * sizeof(struct mr_packed_template));
    free(bytes);
}

static void classes_are_read_and_end(void **state)
{
    (void)state;
    size_t len;
    uint8_t *bytes = make_index(&len);
    struct mr_pack_index index;
    attach(bytes, len, &index);
    assert_int_equal(mr_pack_index_n_classes(&index), INVENTED_CLASSES);
    for (uint32_t i = 0; i < INVENTED_CLASSES; i++)
        assert_string_equal(mr_pack_index_class(&index, i), invented_class(NULL, i));
    assert_null(mr_pack_index_class(&index, INVENTED_CLASSES));
    assert_null(mr_pack_index_name(&index, N));
    assert_null(mr_pack_index_label(&index, N));
    free(bytes);
}

static void expect_cuts_refused(uint8_t *bytes, size_t len)
{
    for (size_t cut = 0; cut < len; cut += cut < 300 ? 1 : 97) {
        uint8_t *copy = malloc(cut ? cut : 1); /* so that a sanitizer sees the end */
        memcpy(copy, bytes, cut);
        expect_refused(copy, cut, MR_ERR_DAMAGED,
                       cut < 16                              ? "is not the index of a pack"
                       : cut < sizeof(struct mr_pack_header) ? "ends within its header"
                                                             : "its header says");
        free(copy);
    }
    free(bytes);
}

static void an_index_cut_at_any_length_is_refused(void **state)
{
    (void)state;
    size_t len;
    uint8_t *bytes = make_index(&len);
    expect_cuts_refused(bytes, len);
    bytes = make_marked_index(&len);
    expect_cuts_refused(bytes, len);
}

static void every_altered_byte_is_found(void **state)
{
    (void)state;
    size_t len;
    uint8_t *bytes = make_index(&len);
    for (size_t at = 0; at < len; at++) {
        bytes[at] ^= 0x10;
        struct mr_pack_index index;
        if (mr_pack_index_attach(bytes, len, "DIR/index", &index, NULL) == MR_OK)
            fail_msg("byte %zu may be altered", at);
        bytes[at] ^= 0x10;
    }
    free(bytes);
}

static void another_version_is_refused(void **state)
{
    (void)state;
    size_t len;
    uint8_t *bytes = make_index(&len);
    bytes[8] = 2;
    mend_index(bytes, len);
    expect_refused(
        bytes, len, MR_ERR_UNSUPPORTED,
        "is of version 2, this library reads version 3: make the pack again with millrace pack");
    bytes[8] = 0;
    mend_index(bytes, len);
    expect_refused(bytes, len, MR_ERR_UNSUPPORTED, "is of version 0");
    bytes[8] = MR_PACK_VERSION;
    bytes[12] = MR_PACK_N_SECTIONS + 1;
    mend_index(bytes, len);
    expect_refused(bytes, len, MR_ERR_UNSUPPORTED, "has 14 sections, this library knows 13");
    free(bytes);
}

/*
 * Set one field of the header of an index, with marks or without, and correct the checksum: it must
 * be refused.
 */
static void expect_refused_either(bool marked, size_t at, uint64_t value, size_t size,
                                  const char *words)
{
    size_t len;
    uint8_t *bytes = marked ? make_marked_index(&len) : make_index(&len);
    memcpy(bytes + at, &value, size);
    mend_index(bytes, len);
    expect_refused(bytes, len, MR_ERR_DAMAGED, words);
    free(bytes);
}

static void expect_refused_with(size_t at, uint64_t value, size_t size, const char *words)
{
    expect_refused_either(false, at, value, size, words);
}

#define AT(field) offsetof(struct mr_pack_header, field)

static void inconsistent_headers_are_refused(void **state)
{
    (void)state;
    expect_refused_with(AT(n_sections), MR_PACK_N_SECTIONS - 1, 4, "12 sections instead of 13");
    expect_refused_with(AT(label_ndim), 8, 4, "8 dimensions");
    expect_refused_with(AT(label_ndim), UINT32_MAX, 4, "4294967295 dimensions");
    expect_refused_with(AT(label_dtype), 99, 4, "labels of dtype 99");
    expect_refused_with(AT(label_dtype), 0, 4, "labels of dtype 0");
    expect_refused_with(AT(label_dtype), MR_F32, 4, "labels of dtype 2");
    expect_refused_with(AT(label_bytes), 0, 8, "0 bytes");
    expect_refused_with(AT(label_bytes), UINT64_MAX, 8, "18446744073709551615 bytes");
    expect_refused_with(AT(n_samples), N + 1, 8, "its header says 13 samples");
    expect_refused_with(AT(n_samples), UINT64_MAX, 8,
                        "its header says 18446744073709551615 samples");
}

static void sections_outside_the_file_are_refused(void **state)
{
    (void)state;
    static const uint64_t places[] = {
        0, 8, 324, 329, UINT64_MAX, UINT64_MAX - 7, INT64_MAX - 7, (uint64_t)1 << 40};
    for (int which = 0; which < MR_PACK_N_SECTIONS; which++) {
        size_t at = AT(sections) + 16 * (size_t)which;
        for (int marked = 0; marked < 2; marked++) {
            for (size_t i = 0; i < sizeof places / sizeof *places; i++)
                expect_refused_either(marked, at, places[i], 8, "are outside its");
            expect_refused_either(marked, at + 8, UINT64_MAX, 8, "are outside its");
            expect_refused_either(marked, at + 8, (uint64_t)1 << 40, 8, "are outside its");
        }
        expect_refused_either(true, at, 320, 8, "are outside its"); /* within the header */
    }
}

static void sections_of_odd_lengths_are_refused(void **state)
{
    (void)state;
    expect_refused_with(AT(sections[MR_PACK_SAMPLES].len), 73, 8, "not a multiple of 72");
    expect_refused_with(AT(sections[MR_PACK_ROW_SUMS].len), 7, 8, "not a multiple of 4");
    expect_refused_with(AT(sections[MR_PACK_ROWS].len), 7, 8, "not a multiple of 4");
    expect_refused_with(AT(sections[MR_PACK_TEMPLATES].len), 100, 8, "not a multiple of 528");
    expect_refused_with(AT(sections[MR_PACK_CLASSES].len), 12, 8, "not a multiple of 8");
    expect_refused_with(AT(sections[MR_PACK_SHARDS].len), 12, 8, "not a multiple of 8");
    expect_refused_with(AT(sections[MR_PACK_SHARDS].len), 0, 8, "12 samples and no shard");
    expect_refused_with(AT(sections[MR_PACK_LABELS].len), 95, 8,
                        "95 bytes of labels for 12 samples");
    expect_refused_with(AT(sections[MR_PACK_NAMES].len), 5, 8, "do not end with a zero byte");
    expect_refused_with(AT(sections[MR_PACK_CLASS_NAMES].len), 2, 8, "do not end with a zero byte");
    expect_refused_with(AT(sections[MR_PACK_ORIGIN].len), 3, 8, "do not end with a zero byte");
    expect_refused_either(true, AT(sections[MR_PACK_MARKS].len), 17, 8, "not a multiple of 16");
    expect_refused_either(true, AT(sections[MR_PACK_MARKS].len), 16 * (N - 1), 8,
                          "176 bytes of marks for 12 samples");
}

static void members_follow_their_sample(void **state)
{
    (void)state;
    size_t len;
    uint8_t *bytes = make_member_index(&len);
    struct mr_pack_index index;
    struct invented want;
    attach(bytes, len, &index);
    assert_int_equal(mr_pack_index_n_members(&index), 2);
    for (uint64_t i = 0; i < N; i++) {
        const struct mr_pack_sample *sample;
        struct mr_packed_image image;
        struct mr_pack_member member;
        uint64_t offset, at;
        invent(i, &want);
        invent_members(i, &want.entry);
        assert_true(mr_pack_index_sample(&index, i, &sample, &image));
        at = image.len;
        for (uint32_t k = 0; k < 2; k++) {
            assert_true(mr_pack_index_member(&index, i, k, &member, &offset));
            assert_int_equal(member.len, want.entry.member_lens[k]);
            assert_int_equal(offset, sample->offset + at);
            assert_int_equal(member.checksum,
                             mr_pack_index_hash(want.bytes + at, (size_t)member.len));
            at += member.len;
        }
        assert_false(mr_pack_index_member(&index, i, 2, &member, &offset));
    }
    free(bytes);
}

static void refuse_members(enum mr_pack_section which, uint64_t len_bytes, const char *words)
{
    size_t len;
    uint8_t *bytes = make_member_index(&len);
    memcpy(bytes + AT(sections) + 16 * (size_t)which + 8, &len_bytes, 8);
    mend_index(bytes, len);
    expect_refused(bytes, len, MR_ERR_DAMAGED, words);
    free(bytes);
}

static void members_that_do_not_fit_their_samples_are_refused(void **state)
{
    (void)state;
    refuse_members(MR_PACK_MEMBER_KINDS, 41, "41 bytes of kinds of members are not a multiple");
    refuse_members(MR_PACK_MEMBER_KINDS, 160, "4 members, the limit is 3");
    refuse_members(MR_PACK_MEMBER_KINDS, 0, "24 entries of 0 members for 12 samples");
    refuse_members(MR_PACK_MEMBER_KINDS, 40, "24 entries of 1 members for 12 samples");
    refuse_members(MR_PACK_MEMBERS, 100, "100 bytes of members are not a multiple of 16");
    refuse_members(MR_PACK_MEMBERS, 16 * 22, "22 entries of 2 members for 12 samples");
}

/* A member that points outside has no entry. The earlier one is not affected. */
static void members_that_point_outside_have_no_entry(void **state)
{
    (void)state;
    static const uint64_t lens[] = {3000, INT64_MAX, UINT64_MAX, UINT64_MAX - 100};
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        size_t len;
        uint8_t *bytes = make_member_index(&len);
        struct mr_pack_header header;
        struct mr_pack_index index;
        struct mr_pack_member member;
        uint64_t offset;
        memcpy(&header, bytes, sizeof header);
        memcpy(bytes + header.sections[MR_PACK_MEMBERS].off + sizeof member, &lens[i], 8);
        mend_index(bytes, len);
        attach(bytes, len, &index);
        assert_true(mr_pack_index_member(&index, 0, 0, &member, &offset));
        assert_false(mr_pack_index_member(&index, 0, 1, &member, &offset));
        assert_true(mr_pack_index_member(&index, 1, 1, &member, &offset));
        assert_false(mr_pack_index_member(&index, N, 0, &member, &offset));
        free(bytes);
    }
}

/* Set one field of sample 0, which has coefficients: this sample must be damaged, and no other. */
static void expect_sample_damaged(size_t at, uint64_t value, size_t size)
{
    size_t len;
    uint8_t *bytes = make_index(&len);
    struct mr_pack_header header;
    struct mr_pack_index index;
    const struct mr_pack_sample *sample;
    struct mr_packed_image image;
    memcpy(&header, bytes, sizeof header);
    memcpy(bytes + header.sections[MR_PACK_SAMPLES].off + at, &value, size);
    mend_index(bytes, len);
    attach(bytes, len, &index);
    if (mr_pack_index_sample(&index, 0, &sample, &image))
        fail_msg("byte %zu of a sample may be %llu", at, (unsigned long long)value);
    assert_true(mr_pack_index_sample(&index, 1, &sample, &image));
    free(bytes);
}

#define OF(field) offsetof(struct mr_pack_sample, field)

static void samples_that_point_outside_are_damaged(void **state)
{
    (void)state;
    expect_sample_damaged(OF(offset), UINT64_MAX, 8);
    expect_sample_damaged(OF(offset), 3000, 8);
    expect_sample_damaged(OF(len), UINT64_MAX, 8);
    expect_sample_damaged(OF(len), INT64_MAX, 8);
    expect_sample_damaged(OF(len), 5000, 8);
    expect_sample_damaged(OF(sums), UINT64_MAX, 8);
    expect_sample_damaged(OF(sums), 1000, 8);
    expect_sample_damaged(OF(rows), UINT64_MAX, 8);
    expect_sample_damaged(OF(rows), 1000, 8);
    expect_sample_damaged(OF(shard), 100, 4);
    expect_sample_damaged(OF(shard), UINT32_MAX, 4);
    expect_sample_damaged(OF(template), 2, 4);
    expect_sample_damaged(OF(template), UINT32_MAX, 4);
    expect_sample_damaged(OF(n_rows), UINT32_MAX, 4);
    expect_sample_damaged(OF(n_rows), 1000, 4);
}

/*
 * Set one field in a section for sample 1, whose marks are the first in the file: this sample must
 * be damaged, and no other.
 */
static void expect_marked_damaged(enum mr_pack_section which, size_t at, uint64_t value,
                                  size_t size)
{
    size_t len;
    uint8_t *bytes = make_marked_index(&len);
    struct mr_pack_header header;
    struct mr_pack_index index;
    const struct mr_pack_sample *sample;
    struct mr_packed_image image;
    memcpy(&header, bytes, sizeof header);
    size_t stride =
        which == MR_PACK_SAMPLES ? sizeof(struct mr_pack_sample) : sizeof(struct mr_pack_marks);
    memcpy(bytes + header.sections[which].off + stride + at, &value, size);
    mend_index(bytes, len);
    attach(bytes, len, &index);
    if (mr_pack_index_sample(&index, 1, &sample, &image))
        fail_msg("byte %zu of section %d may be %llu", at, which, (unsigned long long)value);
    assert_true(mr_pack_index_sample(&index, 0, &sample, &image));
    assert_true(mr_pack_index_sample(&index, 6, &sample, &image));
    assert_int_equal(image.encoding, MR_PACKED_MARKED);
    free(bytes);
}

#define IN(field) offsetof(struct mr_pack_marks, field)

static void marks_that_point_outside_make_a_damaged_sample(void **state)
{
    (void)state;
    expect_marked_damaged(MR_PACK_MARKS, IN(offset), UINT64_MAX, 8);
    expect_marked_damaged(MR_PACK_MARKS, IN(offset), INT64_MAX, 8);
    expect_marked_damaged(MR_PACK_MARKS, IN(offset), 2000, 8);
    expect_marked_damaged(MR_PACK_MARKS, IN(len), 0, 8);
    expect_marked_damaged(MR_PACK_MARKS, IN(len), 2000, 8);
    expect_marked_damaged(MR_PACK_MARKS, IN(len), UINT64_MAX, 8);
    expect_marked_damaged(MR_PACK_MARKS, IN(len), INT64_MAX, 8);
    expect_marked_damaged(MR_PACK_SAMPLES, OF(rows), UINT64_MAX, 8);
    expect_marked_damaged(MR_PACK_SAMPLES, OF(n_rows), UINT32_MAX, 4);
    expect_marked_damaged(MR_PACK_SAMPLES, OF(template), UINT32_MAX, 4);
    expect_marked_damaged(MR_PACK_SAMPLES, OF(shard), 100, 4);
}

static void marks_beyond_their_file_damage_their_samples(void **state)
{
    (void)state;
    size_t len;
    static const uint64_t sizes[] = {0, 30};
    for (size_t i = 0; i < 2; i++) {
        uint8_t *bytes = make_marked_index(&len);
        struct mr_pack_index index;
        const struct mr_pack_sample *sample;
        struct mr_packed_image image;
        memcpy(bytes + AT(marks_bytes), &sizes[i], 8);
        mend_index(bytes, len);
        attach(bytes, len, &index);
        assert_false(mr_pack_index_sample(&index, 1, &sample, &image));
        assert_false(mr_pack_index_sample(&index, 6, &sample, &image));
        assert_true(mr_pack_index_sample(&index, 0, &sample, &image));
        free(bytes);
    }
}

static void marks_of_absurd_length_make_a_damaged_sample(void **state)
{
    (void)state;
    const struct mr_pack_marks places[] = {{0, MR_PACK_MAX_MARKS_BYTES},
                                           {0, MR_PACK_MAX_MARKS_BYTES + 1}};
    const uint64_t marks_bytes = INT64_MAX;
    for (size_t i = 0; i < 2; i++) {
        size_t len;
        uint8_t *bytes = make_marked_index(&len);
        struct mr_pack_header header;
        struct mr_pack_index index;
        const struct mr_pack_sample *sample;
        struct mr_packed_image image;
        memcpy(&header, bytes, sizeof header);
        memcpy(bytes + AT(marks_bytes), &marks_bytes, 8);
        memcpy(bytes + header.sections[MR_PACK_MARKS].off + sizeof *places, &places[i],
               sizeof *places);
        mend_index(bytes, len);
        attach(bytes, len, &index);
        assert_int_equal(mr_pack_index_sample(&index, 1, &sample, &image), i == 0);
        free(bytes);
    }
}

static void a_marked_sample_without_marks_is_damaged(void **state)
{
    (void)state;
    expect_sample_damaged(OF(encoding), MR_PACKED_MARKED, 2); /* sample 0 has rows and a template */
}

static void names_that_point_outside_are_null(void **state)
{
    (void)state;
    size_t len;
    uint8_t *bytes = make_index(&len);
    struct mr_pack_header header;
    struct mr_pack_index index;
    memcpy(&header, bytes, sizeof header);
    memcpy(bytes + header.sections[MR_PACK_SAMPLES].off + OF(name),
           &header.sections[MR_PACK_NAMES].len, 8);
    memset(bytes + header.sections[MR_PACK_CLASSES].off, 0xff, 8);
    mend_index(bytes, len);
    attach(bytes, len, &index);
    assert_null(mr_pack_index_name(&index, 0));
    assert_non_null(mr_pack_index_name(&index, 1));
    assert_null(mr_pack_index_class(&index, 0));
    assert_non_null(mr_pack_index_class(&index, 1));
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_index_reads_back_as_written),
        cmocka_unit_test(marked_samples_have_rows_and_marks),
        cmocka_unit_test(an_index_without_marks_reports_none),
        cmocka_unit_test(each_template_is_stored_once),
        cmocka_unit_test(classes_are_read_and_end),
        cmocka_unit_test(an_index_cut_at_any_length_is_refused),
        cmocka_unit_test(every_altered_byte_is_found),
        cmocka_unit_test(another_version_is_refused),
        cmocka_unit_test(inconsistent_headers_are_refused),
        cmocka_unit_test(sections_outside_the_file_are_refused),
        cmocka_unit_test(sections_of_odd_lengths_are_refused),
        cmocka_unit_test(members_follow_their_sample),
        cmocka_unit_test(members_that_do_not_fit_their_samples_are_refused),
        cmocka_unit_test(members_that_point_outside_have_no_entry),
        cmocka_unit_test(samples_that_point_outside_are_damaged),
        cmocka_unit_test(marks_that_point_outside_make_a_damaged_sample),
        cmocka_unit_test(marks_beyond_their_file_damage_their_samples),
        cmocka_unit_test(marks_of_absurd_length_make_a_damaged_sample),
        cmocka_unit_test(a_marked_sample_without_marks_is_damaged),
        cmocka_unit_test(names_that_point_outside_are_null),
    };
    keep_trees_in_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
