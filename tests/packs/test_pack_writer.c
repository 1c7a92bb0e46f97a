/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children that die while they write a pack. Wherever a child dies, the same call continues the
 * pack, and the result has the same bytes as a pack that was written without interruption.
 *
 * Invariant: the calls that change files are counted by the linker's --wrap, so a new kind of call
 * is added here and in CMakeLists.txt, or no child dies at it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/packs/pack_parts.h"
#include "tests/dataset/tree.h"
#include "tests/support/assert_words.h"

/*
 * Number of calls so far that change files. Call fatal_call is half done, then the child dies. 0:
 * none.
 */
static unsigned n_calls, fatal_call;

static bool is_fatal(void)
{
    return ++n_calls == fatal_call;
}

static void die(void)
{
    kill(getpid(), SIGKILL);
    _exit(1);
}

ssize_t __real_pwrite(int fd, const void *bytes, size_t len, off_t at);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t len, off_t at);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t len, off_t at)
{
    if (!is_fatal())
        return __real_pwrite(fd, bytes, len, at);
    (void)!__real_pwrite(fd, bytes, len / 2, at);
    die();
    return -1;
}

#define DIES_AT(name, params, args)                                                                \
    int __real_##name params;                                                                      \
    int __wrap_##name params;                                                                      \
    int __wrap_##name params                                                                       \
    {                                                                                              \
        if (is_fatal())                                                                            \
            die();                                                                                 \
        return __real_##name args;                                                                 \
    }
DIES_AT(ftruncate, (int fd, off_t len), (fd, len))
DIES_AT(fsync, (int fd), (fd))
DIES_AT(fdatasync, (int fd), (fd))
DIES_AT(renameat, (int from_dir, const char *from, int to_dir, const char *to),
        (from_dir, from, to_dir, to))
DIES_AT(unlinkat, (int dir, const char *name, int flags), (dir, name, flags))

/* Write in a child that dies at its n-th call. False: the child finished before that call. */
static bool write_until(const char *dir, const struct mr_pack_writer_options *options, unsigned n)
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        mr_error error = {0};
        n_calls = 0;
        fatal_call = n;
        if (invented_write_some(dir, options, UINT64_MAX, &error) == MR_OK)
            _exit(0);
        fprintf(stderr, "%s\n", error.text);
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return true;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("call %u: the child ended with %x", n, (unsigned)status);
    return false;
}

/*
 * For each call: die at it, die once more while continuing, then continue to the end and compare.
 */
static void expect_survival(struct mr_pack_writer_options options)
{
    struct tree tree;
    tree_create(&tree);
    invented_write(tree_at(&tree, "whole"), &options);
    unsigned n = 1;
    for (bool died = true; died; n++) {
        died = write_until(tree_at(&tree, "p"), &options, n);
        if (died && access(tree_at(&tree, "p/index"), F_OK) != 0) {
            write_until(tree_at(&tree, "p"), &options, 1 + n * 7 % 11);
            if (access(tree_at(&tree, "p/index"), F_OK) != 0)
                invented_write(tree_at(&tree, "p"), &options);
        }
        /* it died right after the rename */
        if (access(tree_at(&tree, "p/unfinished"), F_OK) == 0) {
            mr_error error = {0};
            assert_int_equal(invented_write_some(tree_at(&tree, "p"), &options, UINT64_MAX, &error),
                             MR_END);
        }
        expect_same(&tree, "whole", "p", n);
        remove_pack(&tree, "p");
    }
    assert_in_range(n, 3 * PARTS_N, 20 * PARTS_N); /* so all calls were tried */
}

static void whenever_it_is_killed_packing_continues_to_the_same_bytes(void **state)
{
    (void)state;
    expect_survival(invented_options(PARTS_N, PARTS_SHARD));
}

static void with_aligned_samples_too(void **state)
{
    (void)state;
    struct mr_pack_writer_options options = invented_options(PARTS_N, PARTS_SHARD);
    options.align = 256;
    expect_survival(options);
}

static void with_marks_too(void **state)
{
    (void)state;
    struct mr_pack_writer_options options = invented_options(PARTS_N, PARTS_SHARD);
    options.marks = true;
    expect_survival(options);
}

static void with_members_too(void **state)
{
    (void)state;
    struct mr_pack_writer_options options = invented_member_options(PARTS_N, PARTS_SHARD);
    expect_survival(options);
    options.align = 256;
    options.marks = true;
    expect_survival(options);
}

static void a_full_disk_is_named_and_survived(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options;
    size_t largest;
    begin_tree(&tree, &options, 0);
    free(read_whole(tree_at(&tree, "whole/index"), &largest));
    for (rlim_t limit = 100; limit < largest; limit += 391) {
        int status;
        pid_t pid = fork();
        if (pid == 0) {
            mr_error error = {0};
            signal(SIGXFSZ, SIG_IGN);
            setrlimit(RLIMIT_FSIZE, &(struct rlimit){limit, limit});
            mr_status failed =
                invented_write_some(tree_at(&tree, "p"), &options, UINT64_MAX, &error);
            bool named = strstr(error.text, "/p/shard-0000") ||
                         strstr(error.text, "/p/unfinished") || strstr(error.text, "/p/index.tmp");
            _exit(failed == MR_ERR_IO && error.os_error == EFBIG && named ? 0 : 1);
        }
        waitpid(pid, &status, 0);
        if (status != 0)
            fail_msg("with %llu bytes the child ended with %x", (unsigned long long)limit,
                     (unsigned)status);
        expect_goes_on(&tree, &options);
        remove_pack(&tree, "p");
    }
}

static void after_a_failure_only_close_is_left(void **state)
{
    (void)state;
    struct tree tree;
    int status;
    tree_create(&tree);
    pid_t pid = fork();
    if (pid == 0) {
        struct mr_pack_writer_options options = invented_options(PARTS_N, PARTS_SHARD);
        struct mr_pack_writer *writer;
        struct invented invented;
        uint64_t n;
        mr_error error;
        signal(SIGXFSZ, SIG_IGN);
        if (mr_pack_writer_open(tree_at(&tree, "p"), &options, &writer, &n, &error) != MR_OK)
            _exit(1);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){50, 50});
        invent(0, &invented);
        bool good = mr_pack_writer_add(writer, &invented.entry, &error) == MR_ERR_IO &&
                    mr_pack_writer_add(writer, &invented.entry, &error) == MR_ERR_STATE &&
                    mr_pack_writer_finish(writer, &error) == MR_ERR_STATE;
        mr_pack_writer_close(writer);
        _exit(good ? 0 : 2);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

static void expect_refused(const struct tree *tree, const struct mr_pack_writer_options *options,
                           const char *words)
{
    struct mr_pack_writer *writer = (struct mr_pack_writer *)(uintptr_t)1;
    uint64_t n;
    mr_error error = {0};
    mr_status status = mr_pack_writer_open(tree_at(tree, "p"), options, &writer, &n, &error);
    if (status != MR_ERR_INVALID || writer || !strstr(error.text, words))
        fail_msg("%s: \"%s\" does not say \"%s\"", mr_status_name(status), error.text, words);
}

static const char *other_class(void *user, uint32_t i)
{
    return i == 2 ? "other" : invented_class(user, i);
}

static void another_call_is_refused_and_says_what_differs(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options, other;
    begin_tree(&tree, &options, 3);
    other = options;
    other.origin = "something else";
    expect_refused(
        &tree, &other,
        "holds a part of another pack: \"invented, for a test\", now \"something else\"");
    other = options;
    other.n_samples = PARTS_N + 1;
    expect_refused(&tree, &other, "holds a part of a pack of 14 samples, now there are 15");
    other = options;
    other.shard_bytes = 77;
    expect_refused(&tree, &other, "shards of 3000 bytes, aligned to 1; now 77 and 1");
    other = options;
    other.align = 512;
    expect_refused(&tree, &other, "shards of 3000 bytes, aligned to 1; now 3000 and 512");
    other = options;
    other.class_name = other_class;
    expect_refused(&tree, &other, "other labels, classes or members");
    other.class_name = invented_class;
    other.n_classes = 2;
    expect_refused(&tree, &other, "other labels, classes or members");
    other = invented_member_options(PARTS_N, PARTS_SHARD);
    expect_refused(&tree, &other, "other labels, classes or members");
    expect_goes_on(&tree, &options);
}

static void options_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_sample_kind kind = {.label_dtype = MR_I64, .label_bytes = 0};
    struct mr_pack_writer_options options = invented_options(PARTS_N, 0);
    tree_create(&tree);
    expect_refused(&tree, &options, "shards of 0 bytes");
    options = invented_options(PARTS_N, PARTS_SHARD);
    options.align = 3;
    expect_refused(&tree, &options, "align 3 is not a power of two");
    options.align = 8192;
    expect_refused(&tree, &options, "align 8192 is not a power of two up to 4096");
    options.align = 0;
    options.kind = &kind;
    expect_refused(&tree, &options, "labels of 0 bytes");
}

static void a_complete_pack_stays_as_it_is(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options;
    begin_tree(&tree, &options, 0);
    expect_goes_on(&tree, &options);
    mr_error error = {0};
    assert_int_equal(invented_write_some(tree_at(&tree, "p"), &options, UINT64_MAX, &error),
                     MR_END);
    struct mr_pack_writer_options other = options;
    other.origin = "something else";
    expect_refused(&tree, &other,
                   "/p holds a complete pack of another dataset, or made with other options");
    other = options;
    other.class_name = other_class;
    expect_refused(&tree, &other,
                   "/p holds a complete pack of another dataset, or made with other options");
    other = invented_member_options(PARTS_N, PARTS_SHARD);
    expect_refused(&tree, &other,
                   "/p holds a complete pack of another dataset, or made with other options");
    expect_same(&tree, "whole", "p", 0);
}

static void files_of_others_stay_as_they_are(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options = invented_options(PARTS_N, PARTS_SHARD);
    tree_create(&tree);
    tree_write(&tree, "p/index", "mine", 4);
    expect_refused(&tree, &options, "/p holds a file called index");
    assert_int_equal(remove(tree_at(&tree, "p/index")), 0);
    tree_write(&tree, "p/unfinished", "Dear diary, today", 17);
    expect_refused(&tree, &options, "/p/unfinished does not belong to a pack");
    assert_int_equal(remove(tree_at(&tree, "p/unfinished")), 0);
    tree_write(&tree, "p/shard-00000", "mine", 4);
    expect_refused(&tree, &options, "/p holds shard-00000, but no index and no unfinished");
    assert_int_equal(n_entries(tree_at(&tree, "p")), 1);
}

static void two_processes_cannot_write_one_pack(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options;
    struct mr_pack_writer *writer;
    uint64_t n;
    int status;
    begin_tree(&tree, &options, 2);
    assert_int_equal(mr_pack_writer_open(tree_at(&tree, "p"), &options, &writer, &n, NULL), MR_OK);
    pid_t pid = fork();
    if (pid == 0) {
        struct mr_pack_writer *second;
        mr_error error = {0};
        mr_status refused = mr_pack_writer_open(tree_at(&tree, "p"), &options, &second, &n, &error);
        _exit(refused == MR_ERR_INVALID && strstr(error.text, "another process is packing into ")
                  ? 0
                  : 1);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    mr_pack_writer_close(writer);
    expect_goes_on(&tree, &options);
}

static void too_few_and_too_many_samples_are_refused(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options = invented_options(1, PARTS_SHARD);
    struct mr_pack_writer *writer;
    struct invented invented;
    uint64_t n;
    mr_error error;
    tree_create(&tree);
    assert_int_equal(mr_pack_writer_open(tree_at(&tree, "p"), &options, &writer, &n, &error),
                     MR_OK);
    assert_error(mr_pack_writer_finish(writer, &error), MR_ERR_INVALID, &error,
                 "holds 0 of 1 samples");
    invent(0, &invented);
    assert_int_equal(mr_pack_writer_add(writer, &invented.entry, &error), MR_OK);
    assert_int_equal(mr_pack_writer_bytes(writer), invented.entry.image.len);
    assert_int_equal(mr_pack_writer_add(writer, &invented.entry, &error), MR_ERR_INVALID);
    assert_int_equal(mr_pack_writer_finish(writer, &error), MR_OK);
    mr_pack_writer_close(writer);
}

static void a_pack_may_hold_no_sample(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options = invented_options(0, PARTS_SHARD);
    tree_create(&tree);
    invented_write(tree_at(&tree, "p"), &options);
    assert_int_equal(n_entries(tree_at(&tree, "p")), 1);
    mr_dataset *dataset = open_dataset(tree_spec(&tree, "pack", "p"));
    assert_int_equal(mr_dataset_n_samples(dataset), 0);
    assert_int_equal(mr_dataset_n_classes(dataset), INVENTED_CLASSES);
    mr_dataset_destroy(dataset);
}

static void many_templates_are_told_apart(void **state)
{
    (void)state;
    enum { MANY = 300 };
    struct tree tree;
    struct mr_pack_writer_options options = invented_options(2 * MANY, 1 << 20);
    struct mr_pack_writer *writer;
    struct invented invented;
    uint64_t n;
    tree_create(&tree);
    assert_int_equal(mr_pack_writer_open(tree_at(&tree, "p"), &options, &writer, &n, NULL), MR_OK);
    for (uint64_t i = 0; i < 2 * MANY; i++) {
        invent(0, &invented);
        invented.template.quant[1][7] = (uint16_t)(i % MANY);
        assert_int_equal(mr_pack_writer_add(writer, &invented.entry, NULL), MR_OK);
    }
    assert_int_equal(mr_pack_writer_finish(writer, NULL), MR_OK);
    mr_pack_writer_close(writer);
    size_t len;
    uint8_t *bytes = read_whole(tree_at(&tree, "p/index"), &len);
    struct mr_pack_header header;
    memcpy(&header, bytes, sizeof header);
    assert_int_equal(header.sections[MR_PACK_TEMPLATES].len,
                     MANY * sizeof(struct mr_packed_template));
    for (uint64_t i = 0; i < 2 * MANY; i++) {
        struct mr_pack_sample sample;
        memcpy(&sample, bytes + header.sections[MR_PACK_SAMPLES].off + i * sizeof sample,
               sizeof sample);
        assert_int_equal(sample.template, i % MANY);
    }
    free(bytes);
}

static void samples_lie_where_they_were_told_to(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options = invented_options(PARTS_N, 8192);
    options.align = 4096;
    tree_create(&tree);
    invented_write(tree_at(&tree, "p"), &options);
    size_t len;
    uint8_t *bytes = read_whole(tree_at(&tree, "p/index"), &len);
    struct mr_pack_header header;
    memcpy(&header, bytes, sizeof header);
    for (uint64_t i = 0; i < PARTS_N; i++) {
        struct mr_pack_sample sample;
        memcpy(&sample, bytes + header.sections[MR_PACK_SAMPLES].off + i * sizeof sample,
               sizeof sample);
        assert_int_equal(sample.shard, i / 2);
        assert_int_equal(sample.offset, i % 2 * 4096);
    }
    free(bytes);
}

static void a_folder_that_cannot_be_made_is_named(void **state)
{
    (void)state;
    struct tree tree;
    struct mr_pack_writer_options options = invented_options(PARTS_N, PARTS_SHARD);
    struct mr_pack_writer *writer;
    uint64_t n;
    mr_error error;
    tree_create(&tree);
    assert_error(mr_pack_writer_open(tree_at(&tree, "no/such"), &options, &writer, &n, &error),
                 MR_ERR_IO, &error, "/no/such: No such file or directory");
    tree_file(&tree, "file");
    assert_error(mr_pack_writer_open(tree_at(&tree, "file"), &options, &writer, &n, &error),
                 MR_ERR_IO, &error, "/file: Not a directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whenever_it_is_killed_packing_continues_to_the_same_bytes),
        cmocka_unit_test(with_aligned_samples_too),
        cmocka_unit_test(with_marks_too),
        cmocka_unit_test(with_members_too),
        cmocka_unit_test(a_full_disk_is_named_and_survived),
        cmocka_unit_test(after_a_failure_only_close_is_left),
        cmocka_unit_test(another_call_is_refused_and_says_what_differs),
        cmocka_unit_test(options_that_make_no_sense_are_refused),
        cmocka_unit_test(a_complete_pack_stays_as_it_is),
        cmocka_unit_test(files_of_others_stay_as_they_are),
        cmocka_unit_test(two_processes_cannot_write_one_pack),
        cmocka_unit_test(too_few_and_too_many_samples_are_refused),
        cmocka_unit_test(a_pack_may_hold_no_sample),
        cmocka_unit_test(many_templates_are_told_apart),
        cmocka_unit_test(samples_lie_where_they_were_told_to),
        cmocka_unit_test(a_folder_that_cannot_be_made_is_named),
    };
    keep_trees_in_memory();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
