/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "pack:DIR" as a dataset: what the catalog says about samples, and the errors of a damaged pack.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dataset/dataset.h"
#include "dataset/pack_index.h"
#include "tests/dataset/invented_pack.h"
#include "tests/dataset/tree.h"
#include "tests/support/assert_words.h"

enum { N = 12, SHARD = 3000 };

static void make_pack(struct tree *tree)
{
    struct mr_pack_writer_options options = invented_options(N, SHARD);
    tree_create(tree);
    invented_write(tree_at(tree, "p"), &options);
}

static mr_dataset *open_pack(const struct tree *tree)
{
    return open_dataset(tree_spec(tree, "pack", "p"));
}

static void expect_error(const struct tree *tree, mr_status status, const char *words)
{
    expect_open_error(tree_spec(tree, "pack", "p"), status, words);
}

/* Change bytes of the index at an offset in a section, and correct its checksum. */
static void alter_index(const struct tree *tree, enum mr_pack_section which, uint64_t at,
                        uint64_t value, size_t size)
{
    size_t len;
    struct mr_pack_header header;
    uint8_t *bytes = read_whole(tree_at(tree, "p/index"), &len);
    memcpy(&header, bytes, sizeof header);
    memcpy(bytes + header.sections[which].off + at, &value, size);
    mend_index(bytes, len);
    write_whole(tree_at(tree, "p/index"), bytes, len);
    free(bytes);
}

static void samples_have_the_names_and_labels_of_the_packed_files(void **state)
{
    (void)state;
    struct tree tree;
    struct invented want;
    make_pack(&tree);
    mr_dataset *dataset = open_pack(&tree);
    assert_int_equal(mr_dataset_n_samples(dataset), N);
    const struct mr_sample_kind *kind = mr_dataset_kind(dataset);
    assert_int_equal(kind->encoded, 1);
    assert_int_equal(kind->picture, 1);
    assert_int_equal(kind->label_dtype, MR_I64);
    for (int64_t i = 0; i < N; i++) {
        char name[256];
        invent((uint64_t)i, &want);
        assert_true(mr_dataset_name(dataset, i, name, sizeof name) > 0);
        assert_string_equal(name, want.name);
        assert_true(mr_dataset_relative_name(dataset, i, name, sizeof name) > 0);
        assert_string_equal(name, want.name);
        assert_int_equal(label_of(dataset, i), want.label);
    }
    assert_int_equal(mr_dataset_n_classes(dataset), INVENTED_CLASSES);
    for (uint32_t i = 0; i < INVENTED_CLASSES; i++)
        assert_string_equal(mr_dataset_class_name(dataset, i), invented_class(NULL, i));
    assert_null(mr_dataset_class_name(dataset, INVENTED_CLASSES));
    mr_dataset_destroy(dataset);
}

/*
 * Check extents, description, checksum and label of all samples, as a worker reads them. Ends the
 * process on an error.
 */
static bool samples_are_right(const struct mr_catalog *catalog)
{
    struct invented want;
    uint8_t *const bytes = want.bytes;
    bool good = mr_catalog_is_pack(catalog) && mr_catalog_is_described(catalog) &&
                !mr_catalog_loose_files(catalog);
    for (int64_t i = 0; good && i < mr_catalog_count(catalog); i++) {
        struct mr_extent extent = mr_catalog_image(catalog, i);
        struct mr_packed_image image;
        char path[MR_CATALOG_PATH];
        const uint8_t *data;
        size_t data_len, len;
        int64_t label = -1;
        invent((uint64_t)i, &want);
        len = (size_t)want.entry.image.len;
        good = mr_catalog_path(catalog, extent.file, path) == 0 && extent.len == len;
        good = good && mr_catalog_packed(catalog, i, &image, NULL) == MR_OK &&
               image.len == want.entry.image.len && image.width == want.entry.image.width;
        good = good && mr_catalog_verify(catalog, i, bytes, len, NULL) == MR_OK &&
               mr_catalog_verify(catalog, i, bytes, len - 1, NULL) == MR_ERR_DAMAGED;
        good =
            good &&
            mr_catalog_split(catalog, i, bytes, 7, NULL, &data, &data_len, &label, NULL) == MR_OK &&
            data == bytes && data_len == 7 && label == want.label;
    }
    return good;
}

static void samples_are_described_before_they_are_read(void **state)
{
    (void)state;
    struct tree tree;
    make_pack(&tree);
    mr_dataset *dataset = open_pack(&tree);
    assert_true(samples_are_right(mr_dataset_catalog(dataset)));
    assert_non_null(mr_catalog_pack(mr_dataset_catalog(dataset)));
    mr_dataset_destroy(dataset);
}

static void samples_have_the_members_that_were_packed(void **state)
{
    (void)state;
    struct tree tree;
    struct invented want;
    struct mr_pack_writer_options options = invented_member_options(N, 3000);
    tree_create(&tree);
    invented_write(tree_at(&tree, "p"), &options);
    mr_dataset *dataset = open_pack(&tree);
    const struct mr_catalog *catalog = mr_dataset_catalog(dataset);
    const struct mr_sample_kind *kind = mr_dataset_kind(dataset);
    assert_int_equal(kind->n_extra, 2);
    assert_string_equal(kind->extra[1].name, "a caption");
    assert_string_equal(kind->extra[1].offsets, "a caption.offsets");
    assert_int_equal(kind->extra[1].max_bytes, INVENTED_MEMBER_BYTES);
    for (int64_t i = 0; i < N; i++) {
        struct mr_extent members[MR_MAX_MEMBERS], image = mr_catalog_image(catalog, i);
        mr_error error = {0};
        invent((uint64_t)i, &want);
        invent_members((uint64_t)i, &want.entry);
        mr_catalog_members(catalog, i, members);
        uint64_t at = image.len;
        for (uint32_t k = 0; k < 2; k++) {
            uint8_t *bytes = want.bytes + at;
            size_t len = (size_t)want.entry.member_lens[k];
            assert_int_equal(members[k].file, image.file);
            assert_int_equal(members[k].offset, image.offset + at);
            assert_int_equal(members[k].len, len);
            assert_ok(mr_catalog_verify_member(catalog, i, k, bytes, len, &error), &error);
            bytes[0] ^= 1;
            if (len > 0)
                assert_error(mr_catalog_verify_member(catalog, i, k, bytes, len, &error),
                             MR_ERR_DAMAGED, &error, "the bytes of its member '");
            bytes[0] ^= 1;
            at += len;
        }
    }
    mr_dataset_destroy(dataset);
}

static void member_names_and_maxima_that_no_spec_could_state_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint64_t at, value;
        const char *words;
    } cases[] = {{32, 0, "p/index: member 0 is called 'mask' and has up to 0 bytes"},
                 {32, 16777217, "member 0 is called 'mask' and has up to 16777217 bytes"},
                 {0, 0, "member 0 is called ''"},
                 {0, 0x61622f6161, "member 0 is called 'aa/ba'"},
                 {40, 0x6b73616d, "member 1 is called 'mask'"},
                 {36, MR_ANNOTATIONS_MASKS + 1, "up to 64 bytes of annotations 6"},
                 {76, MR_ANNOTATIONS_MASKS, "member 1 is called 'a caption' and has up to 64"}};
    struct tree tree;
    struct mr_pack_writer_options options = invented_member_options(N, SHARD);
    char name[16];
    tree_create(&tree);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(name, sizeof name, "p%zu", i);
        invented_write(tree_at(&tree, "p"), &options);
        alter_index(&tree, MR_PACK_MEMBER_KINDS, cases[i].at, cases[i].value,
                    cases[i].at % 8 == 0 ? 8 : 4);
        if (i == 4) /* the rest of "a caption" */
            alter_index(&tree, MR_PACK_MEMBER_KINDS, 48, 0, 1);
        expect_error(&tree, MR_ERR_DAMAGED, cases[i].words);
        assert_int_equal(rename(tree_at(&tree, "p"), tree_at(&tree, name)), 0);
    }
    invented_write(tree_at(&tree, "p"), &options);
    for (uint64_t at = 0; at < 32; at += 8)
        alter_index(&tree, MR_PACK_MEMBER_KINDS, at, 0x6161616161616161, 8);
    expect_error(&tree, MR_ERR_DAMAGED, "aaaaaaaa' and has up to 64 bytes");
}

static void one_member_may_be_annotations(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options = invented_member_options(N, SHARD);
    tree_create(&tree);
    invented_write(tree_at(&tree, "p"), &options);
    alter_index(&tree, MR_PACK_MEMBER_KINDS, 76, MR_ANNOTATIONS_VOC, 4);
    mr_dataset *dataset = open_pack(&tree);
    assert_int_equal(mr_dataset_annotations(dataset), MR_ANNOTATIONS_VOC);
    assert_int_equal(mr_dataset_kind(dataset)->boxes, 2);
    mr_dataset_destroy(dataset);
    alter_index(&tree, MR_PACK_MEMBER_KINDS, 36, MR_ANNOTATIONS_BOXES, 4);
    expect_error(&tree, MR_ERR_DAMAGED, "'a caption' is its second member of annotations");
    alter_index(&tree, MR_PACK_MEMBER_KINDS, 36, MR_ANNOTATIONS_MASKS, 4);
    expect_error(&tree, MR_ERR_DAMAGED, "'a caption' is its second member of annotations");
    alter_index(&tree, MR_PACK_MEMBER_KINDS, 76, MR_ANNOTATIONS_NONE, 4);
    dataset = open_pack(&tree);
    assert_int_equal(mr_dataset_annotations(dataset), MR_ANNOTATIONS_MASKS);
    assert_int_equal(mr_dataset_kind(dataset)->boxes, 0);
    mr_dataset_destroy(dataset);
    tree_destroy(&tree);
}

static void another_process_sees_the_same_catalog(void **state)
{
    (void)state;
    struct tree tree;
    int status;
    make_pack(&tree);
    mr_dataset *dataset = open_pack(&tree);
    pid_t pid = fork();
    if (pid == 0) {
        struct mr_catalog *catalog;
        _exit(mr_catalog_attach(mr_dataset_fds(dataset), &catalog, NULL) == MR_OK &&
                      samples_are_right(catalog)
                  ? 0
                  : 1);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    mr_dataset_destroy(dataset);
}

static void messages_name_shard_and_sample(void **state)
{
    (void)state;
    struct tree tree;
    char which[MR_CATALOG_DESCRIPTION], want[8192];
    make_pack(&tree);
    assert_int_equal(chdir(tree.path), 0);
    mr_dataset *dataset = open_dataset("pack:p/");
    mr_catalog_describe(mr_dataset_catalog(dataset), 7, which);
    assert_string_equal(which, "p/shard-00001 (n01/file 7.JPEG, index 7)");
    mr_dataset_destroy(dataset);
    assert_int_equal(chdir("/"), 0);
    dataset = open_pack(&tree);
    mr_catalog_describe(mr_dataset_catalog(dataset), 0, which);
    snprintf(want, sizeof want, "%s/p/shard-00000 (n00/file 0.JPEG, index 0)", tree.path);
    assert_string_equal(which, want);
    mr_dataset_destroy(dataset);
}

static void altered_bytes_are_found_and_named(void **state)
{
    (void)state;
    struct tree tree;
    struct invented sample;
    mr_error error = {0};
    make_pack(&tree);
    mr_dataset *dataset = open_pack(&tree);
    invent(3, &sample);
    size_t len = (size_t)sample.entry.image.len;
    uint8_t *whole = sample.bytes;
    assert_error(mr_catalog_verify(mr_dataset_catalog(dataset), 3, whole, len - 1, &error),
                 MR_ERR_DAMAGED, &error, "file 3.JPEG, index 3): 1092 bytes instead of 1093");
    for (size_t at = 0; at < len; at += 61) {
        whole[at] ^= 4;
        assert_error(mr_catalog_verify(mr_dataset_catalog(dataset), 3, whole, len, &error),
                     MR_ERR_DAMAGED, &error,
                     "/p/shard-00000 (n00/file 3.JPEG, index 3): its bytes were altered");
        assert_int_equal(error.index, 3);
        whole[at] ^= 4;
    }
    mr_dataset_destroy(dataset);
}

static void labels_may_be_arrays(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_sample_kind kind = {.label_dtype = MR_F32,
                                  .label_ndim = 2,
                                  .label_shape = {2, 3},
                                  .label_bytes = 6 * sizeof(float)};
    struct mr_pack_writer_options options = invented_options(2, SHARD);
    struct mr_pack_writer *writer;
    struct invented sample;
    uint64_t n;
    float labels[2][6] = {{1, 2, 3, 4, 5, 6}, {-1, -2, -3, -4, -5, -6}}, got[6];
    options.kind = &kind;
    tree_create(&tree);
    assert_int_equal(mr_pack_writer_open(tree_at(&tree, "p"), &options, &writer, &n, NULL), MR_OK);
    for (uint64_t i = 0; i < 2; i++) {
        invent(i, &sample);
        sample.entry.label = labels[i];
        assert_int_equal(mr_pack_writer_add(writer, &sample.entry, NULL), MR_OK);
    }
    assert_int_equal(mr_pack_writer_finish(writer, NULL), MR_OK);
    mr_pack_writer_close(writer);
    mr_dataset *dataset = open_pack(&tree);
    assert_int_equal(mr_dataset_kind(dataset)->label_ndim, 2);
    assert_int_equal(mr_dataset_kind(dataset)->label_shape[1], 3);
    for (int64_t i = 0; i < 2; i++) {
        struct mr_extent extent;
        assert_int_equal(mr_catalog_label(mr_dataset_catalog(dataset), i, got, &extent, NULL),
                         MR_OK);
        assert_memory_equal(got, labels[i], sizeof got);
    }
    int64_t label;
    assert_int_equal(mr_dataset_label(dataset, 0, &label, NULL), MR_ERR_UNSUPPORTED);
    mr_dataset_destroy(dataset);
}

static void inspect_reports_the_index(void **state)
{
    (void)state;
    static const char *const formats[] = {"dct", "unknown", "dct", "raw", "dct"};
    struct tree tree;
    struct invented want;
    mr_sample_info info = MR_SAMPLE_INFO_INIT;
    mr_error error = {0};
    make_pack(&tree);
    mr_dataset *dataset = open_pack(&tree);
    for (int64_t i = 0; i < N; i++) {
        invent((uint64_t)i, &want);
        assert_ok(mr_dataset_inspect(dataset, i, &info, &error), &error);
        assert_int_equal(info.len_bytes, want.entry.image.len);
        assert_string_equal(info.format, formats[i % 5]);
        if (i % 5 == 1) /* bytes that are not an image, packed unchanged */
            continue;
        assert_int_equal(info.width, want.entry.image.width);
        assert_int_equal(info.height, want.entry.image.height);
        assert_int_equal(info.channels, 3);
    }
    mr_dataset_destroy(dataset);
}

static void inspect_reads_files_packed_unchanged(void **state)
{
    (void)state;
    static const uint8_t jpeg[] =
        "\xff\xd8\xff\xe0\0\x04\1\2\xff\xc0\0\x11\x08\x01\x02\x03\x04\x03";
    struct tree tree;
    struct mr_pack_writer_options options = invented_options(3, SHARD);
    struct mr_pack_writer *writer;
    uint64_t n;
    mr_sample_info info = MR_SAMPLE_INFO_INIT;
    tree_create(&tree);
    assert_int_equal(mr_pack_writer_open(tree_at(&tree, "p"), &options, &writer, &n, NULL), MR_OK);
    for (uint64_t i = 0; i < 3; i++) {
        struct invented sample;
        invent(1, &sample);
        /*
         * the second file ends within its frame header, which continues in the bytes of the third
         */
        sample.entry.image.len = i == 1 ? 12 : sizeof jpeg - 1;
        sample.entry.bytes = i == 2 ? jpeg + 12 : jpeg;
        sample.entry.image.len -= i == 2 ? 12 : 0;
        assert_int_equal(mr_pack_writer_add(writer, &sample.entry, NULL), MR_OK);
    }
    assert_int_equal(mr_pack_writer_finish(writer, NULL), MR_OK);
    mr_pack_writer_close(writer);
    mr_dataset *dataset = open_pack(&tree);
    assert_int_equal(mr_dataset_inspect(dataset, 0, &info, NULL), MR_OK);
    assert_string_equal(info.format, "jpeg");
    assert_int_equal(info.width, 0x304);
    assert_int_equal(info.height, 0x102);
    assert_int_equal(info.len_bytes, sizeof jpeg - 1);
    assert_int_equal(mr_dataset_inspect(dataset, 1, &info, NULL), MR_OK);
    assert_string_equal(info.format, "jpeg");
    assert_int_equal(info.width, 0);
    mr_dataset_destroy(dataset);
}

static void a_pack_cannot_be_saved_as_a_list(void **state)
{
    (void)state;
    struct tree tree;
    mr_error error = {0};
    make_pack(&tree);
    mr_dataset *dataset = open_pack(&tree);
    assert_error(mr_dataset_save_list(dataset, tree_at(&tree, "l"), &error), MR_ERR_UNSUPPORTED,
                 &error, "one file per sample");
    mr_dataset_destroy(dataset);
}

static void a_folder_that_is_not_a_pack_is_refused(void **state)
{
    (void)state;
    struct tree tree;
    tree_create(&tree);
    expect_error(&tree, MR_ERR_IO, "cannot open the folder");
    tree_folder(&tree, "p");
    expect_error(&tree, MR_ERR_IO, "/p/index: No such file or directory");
    tree_write(&tree, "p/index", "", 0);
    expect_error(&tree, MR_ERR_DAMAGED, "/p/index is empty");
    tree_write(&tree, "p/index", "an index of something", 21);
    expect_error(&tree, MR_ERR_DAMAGED, "/p/index is not the index of a pack");
    assert_int_equal(remove(tree_at(&tree, "p/index")), 0);
    tree_folder(&tree, "p/index");
    expect_error(&tree, MR_ERR_IO, "/p/index: Is a directory");
}

static void an_unfinished_pack_is_refused(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options = invented_options(N, SHARD);
    mr_error error = {0};
    tree_create(&tree);
    assert_int_equal(invented_write_some(tree_at(&tree, "p"), &options, 5, &error), MR_OK);
    expect_error(&tree, MR_ERR_DAMAGED, "/p is not finished");
}

static void a_pack_has_no_keys(void **state)
{
    (void)state;
    struct tree tree;
    char spec[8192];
    make_pack(&tree);
    snprintf(spec, sizeof spec, "%s?label=f32", tree_spec(&tree, "pack", "p"));
    expect_open_error(spec, MR_ERR_INVALID, "pack has no key 'label'; its keys: none");
}

static void an_index_that_was_altered_is_refused(void **state)
{
    (void)state;
    struct tree tree;
    make_pack(&tree);
    size_t len;
    uint8_t *bytes = read_whole(tree_at(&tree, "p/index"), &len);
    bytes[len / 2] ^= 1;
    write_whole(tree_at(&tree, "p/index"), bytes, len);
    expect_error(&tree, MR_ERR_DAMAGED, "/p/index was altered: its checksum is ");
    bytes[len / 2] ^= 1;
    bytes[8] = 7;
    write_whole(tree_at(&tree, "p/index"), bytes, len);
    expect_error(&tree, MR_ERR_UNSUPPORTED,
                 "/p/index is of version 7, this library reads version 3: make the pack again with "
                 "millrace pack");
    bytes[8] = 3;
    write_whole(tree_at(&tree, "p/index"), bytes, len - 1);
    expect_error(&tree, MR_ERR_DAMAGED, "its header says ");
    free(bytes);
}

static void shards_that_differ_from_the_index_are_named(void **state)
{
    (void)state;
    struct tree tree;
    struct stat st;
    char words[64];
    make_pack(&tree);
    const char *shard = tree_at(&tree, "p/shard-00001");
    assert_int_equal(stat(shard, &st), 0);
    assert_int_equal(truncate(shard, st.st_size - 1), 0);
    snprintf(words, sizeof words, "/p/shard-00001 has %jd bytes, the index says %jd",
             (intmax_t)st.st_size - 1, (intmax_t)st.st_size);
    expect_error(&tree, MR_ERR_DAMAGED, words);
    assert_int_equal(truncate(shard, st.st_size + 1), 0);
    expect_error(&tree, MR_ERR_DAMAGED, "/p/shard-00001 has ");
    assert_int_equal(remove(shard), 0);
    expect_error(&tree, MR_ERR_IO, "/p/shard-00001: No such file or directory");
    assert_int_equal(mkdir(shard, 0777), 0);
    expect_error(&tree, MR_ERR_IO, "/p/shard-00001 is not a regular file");
}

static void class_names_outside_the_index_are_refused(void **state)
{
    (void)state;
    struct tree tree;
    make_pack(&tree);
    alter_index(&tree, MR_PACK_CLASSES, 8, UINT64_MAX, 8);
    expect_error(&tree, MR_ERR_DAMAGED, "/p/index: the name of class 1 is outside the file");
}

static void a_sample_that_points_outside_is_damaged_and_named(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_packed_image image;
    mr_sample_info info = MR_SAMPLE_INFO_INIT;
    mr_error error = {0};
    make_pack(&tree);
    alter_index(&tree, MR_PACK_SAMPLES,
                4 * sizeof(struct mr_pack_sample) + offsetof(struct mr_pack_sample, shard), 99, 4);
    alter_index(&tree, MR_PACK_SAMPLES,
                5 * sizeof(struct mr_pack_sample) + offsetof(struct mr_pack_sample, name),
                UINT64_MAX, 8);
    mr_dataset *dataset = open_pack(&tree);
    const struct mr_catalog *catalog = mr_dataset_catalog(dataset);
    static const char want[] =
        "/p/index (n01/file 4.JPEG, index 4): its entry in the index points outside the pack";
    assert_error(mr_catalog_packed(catalog, 4, &image, &error), MR_ERR_DAMAGED, &error, want);
    assert_int_equal(error.index, 4);
    memset(&error, 0, sizeof error);
    assert_error(mr_catalog_verify(catalog, 4, (const uint8_t *)"", 0, &error), MR_ERR_DAMAGED,
                 &error, want);
    assert_in_range(mr_catalog_image(catalog, 4).file, 0, mr_catalog_n_files(catalog) - 1);
    assert_int_equal(mr_dataset_inspect(dataset, 4, &info, &error), MR_ERR_DAMAGED);
    assert_int_equal(label_of(dataset, 4), 12);
    char name[64];
    mr_dataset_name(dataset, 5, name, sizeof name);
    assert_string_equal(name, "sample 5");
    mr_dataset_destroy(dataset);
}

static void an_index_that_was_overwritten_is_not_attached(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_catalog *catalog;
    mr_error error = {0};
    make_pack(&tree);
    size_t len;
    uint8_t *bytes = read_whole(tree_at(&tree, "p/index"), &len);
    mr_dataset *dataset = open_pack(&tree);
    int fd = open(tree_at(&tree, "p/index"), O_WRONLY);
    struct mr_pack_header header;
    memcpy(&header, bytes, sizeof header);
    header.sections[MR_PACK_SHARDS].len -= 8;
    assert_int_equal(pwrite(fd, &header, sizeof header, 0), sizeof header);
    assert_error(mr_catalog_attach(mr_dataset_fds(dataset), &catalog, &error), MR_ERR_IO, &error,
                 "was overwritten after it was opened");
    memset(&header, 0, sizeof header);
    assert_int_equal(pwrite(fd, &header, sizeof header, 0), sizeof header);
    assert_int_equal(mr_catalog_attach(mr_dataset_fds(dataset), &catalog, &error), MR_ERR_DAMAGED);
    /* the header is not read again */
    assert_true(samples_are_right(mr_dataset_catalog(dataset)));
    close(fd);
    free(bytes);
    mr_dataset_destroy(dataset);
}

static void long_names_do_not_displace_the_index_in_a_message(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options = invented_options(1, SHARD);
    struct mr_pack_writer *writer;
    struct invented sample;
    char name[5000], which[MR_CATALOG_DESCRIPTION];
    uint64_t n;
    tree_create(&tree);
    assert_int_equal(mr_pack_writer_open(tree_at(&tree, "p"), &options, &writer, &n, NULL), MR_OK);
    invent(0, &sample);
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    sample.entry.name = name;
    assert_int_equal(mr_pack_writer_add(writer, &sample.entry, NULL), MR_OK);
    assert_int_equal(mr_pack_writer_finish(writer, NULL), MR_OK);
    mr_pack_writer_close(writer);
    mr_dataset *dataset = open_pack(&tree);
    mr_catalog_describe(mr_dataset_catalog(dataset), 0, which);
    assert_words(which, "/p/shard-00000 (nnn");
    assert_words(which, "nnn, index 0)");
    mr_dataset_destroy(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_have_the_names_and_labels_of_the_packed_files),
        cmocka_unit_test(samples_are_described_before_they_are_read),
        cmocka_unit_test(samples_have_the_members_that_were_packed),
        cmocka_unit_test(member_names_and_maxima_that_no_spec_could_state_are_refused),
        cmocka_unit_test(one_member_may_be_annotations),
        cmocka_unit_test(another_process_sees_the_same_catalog),
        cmocka_unit_test(messages_name_shard_and_sample),
        cmocka_unit_test(altered_bytes_are_found_and_named),
        cmocka_unit_test(labels_may_be_arrays),
        cmocka_unit_test(inspect_reports_the_index),
        cmocka_unit_test(inspect_reads_files_packed_unchanged),
        cmocka_unit_test(a_pack_cannot_be_saved_as_a_list),
        cmocka_unit_test(a_folder_that_is_not_a_pack_is_refused),
        cmocka_unit_test(an_unfinished_pack_is_refused),
        cmocka_unit_test(a_pack_has_no_keys),
        cmocka_unit_test(an_index_that_was_altered_is_refused),
        cmocka_unit_test(shards_that_differ_from_the_index_are_named),
        cmocka_unit_test(class_names_outside_the_index_are_refused),
        cmocka_unit_test(a_sample_that_points_outside_is_damaged_and_named),
        cmocka_unit_test(an_index_that_was_overwritten_is_not_attached),
        cmocka_unit_test(long_names_do_not_displace_the_index_in_a_message),
    };
    keep_trees_in_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
