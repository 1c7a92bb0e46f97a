/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers if the kernel refuses system calls, as in containers (seccomp). A filter cannot be
 * removed, so each case runs in its own process. The process exits with 0, or prints the failure
 * and exits with 1.
 */
#include "tests/contract/reader_support.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef MR_HAVE_LIBSECCOMP

#include <seccomp.h>

#define N_FILES 20

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static void refuse(int system_call, int error)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    CHECK(filter);
    CHECK(seccomp_rule_add(filter, SCMP_ACT_ERRNO((uint32_t)error), system_call, 0) == 0);
    CHECK(seccomp_load(filter) == 0);
    seccomp_release(filter);
}

/* Sizes around a page, and above the first size of a buffer. */
static size_t file_len(uint64_t i)
{
    return i == 3 ? 3000000 : i * 1111 + 1;
}

static mr_dataset *make_files(void)
{
    char names[N_FILES][16];
    const char *list[N_FILES];
    for (uint64_t i = 0; i < N_FILES; i++) {
        snprintf(names[i], sizeof names[i], "f%d", (int)i);
        write_pattern(names[i], i, file_len(i));
        list[i] = names[i];
    }
    return open_list(list, N_FILES);
}

/*
 * Submit and reap n reads of all files in turn. False as soon as one differs from what was written.
 */
static bool read_files(struct mr_reader *reader, uint32_t depth, size_t n)
{
    size_t n_submitted = 0;
    for (size_t n_ended = 0; n_ended < n; n_ended++) {
        for (; n_submitted < n && mr_reader_n_busy(reader) < depth; n_submitted++)
            submit(reader, n_submitted, (int64_t)(n_submitted % N_FILES));
        struct mr_read read;
        if (!mr_reader_reap(reader, true, &read))
            return false;
        if (read.status != MR_OK)
            fprintf(stderr, "%s\n", read.error->text);
        if (read.status != MR_OK || read.part[0].len != file_len((uint64_t)read.index))
            return false;
        for (size_t i = 0; i < read.part[0].len; i++)
            if (read.part[0].bytes[i] != pattern((uint64_t)read.index, i))
                return false;
        mr_reader_recycle(reader, &read);
    }
    return true;
}

static mr_status create(const mr_dataset *dataset, mr_reader_kind kind,
                        struct mr_reader **reader_out, mr_error *error)
{
    struct mr_reader_options options = {.kind = kind, .depth = 4};
    submit_from(dataset, NO_LIMIT);
    return mr_reader_create(mr_dataset_catalog(dataset), &options, reader_out, error);
}

static void expect_fall_back(const mr_dataset *dataset, int system_call, int os_error,
                             const char *text)
{
    mr_error error = {0};
    struct mr_reader *reader;
    refuse(system_call, os_error);
    CHECK(create(dataset, MR_READER_AUTO, &reader, &error) == MR_OK);
    CHECK(strcmp(mr_reader_name(reader), "pread") == 0);
    CHECK(read_files(reader, 4, N_FILES));
    mr_reader_destroy(reader);
    CHECK(create(dataset, MR_READER_URING, &reader, &error) == MR_ERR_UNSUPPORTED);
    CHECK(!reader);
    if (strcmp(error.text, "io_uring: this build does not include it") == 0)
        return;
    fprintf(stderr, "%s\n", error.text);
    CHECK(error.os_error == os_error);
    CHECK(strcmp(error.text, text) == 0);
}

static void refuse_setup(const mr_dataset *dataset)
{
    expect_fall_back(dataset, SCMP_SYS(io_uring_setup), EPERM,
                     "io_uring: io_uring_setup: Operation not permitted");
}

static void lack_setup(const mr_dataset *dataset)
{
    expect_fall_back(dataset, SCMP_SYS(io_uring_setup), ENOSYS,
                     "io_uring: io_uring_setup: Function not implemented");
}

static void lock_no_memory(const mr_dataset *dataset)
{
    expect_fall_back(dataset, SCMP_SYS(io_uring_setup), ENOMEM,
                     "io_uring: io_uring_setup: Cannot allocate memory");
}

static void refuse_enter(const mr_dataset *dataset)
{
    expect_fall_back(dataset, SCMP_SYS(io_uring_enter), EACCES,
                     "io_uring: io_uring_enter: Permission denied");
}

/* Refuse while reads are in flight, queued and finished. */
static void refuse_enter_later(const mr_dataset *dataset)
{
    mr_error error = {0};
    struct mr_reader *reader;
    struct mr_read read;
    CHECK(create(dataset, MR_READER_URING, &reader, &error) == MR_OK);
    CHECK(read_files(reader, 4, N_FILES));
    for (int64_t i = 0; i < 3; i++)
        submit(reader, 0, i + 4);
    CHECK(mr_reader_reap(reader, true, &read));
    submit(reader, 0, 7);
    mr_reader_recycle(reader, &read);
    refuse(SCMP_SYS(io_uring_enter), EPERM);
    for (int i = 0; i < 3; i++) {
        CHECK(mr_reader_reap(reader, true, &read));
        CHECK(read.status == MR_OK && read.part[0].len == file_len((uint64_t)read.index));
        mr_reader_recycle(reader, &read);
    }
    CHECK(read_files(reader, 4, N_FILES));
    for (int64_t i = 0; i < 4; i++)
        submit(reader, 0, i);
    mr_reader_destroy(reader);
}

/* If ordinary reads are refused, a success proves that io_uring did the reads. */
static void refuse_ordinary_reads(const mr_dataset *dataset)
{
    mr_error error = {0};
    struct mr_reader *reader;
    CHECK(create(dataset, MR_READER_URING, &reader, &error) == MR_OK);
    refuse(SCMP_SYS(pread64), EPERM);
    refuse(SCMP_SYS(read), EPERM);
    CHECK(read_files(reader, 4, 3 * N_FILES));
    for (int64_t i = 2; i < 6; i++)
        submit_range(reader, 0, &(struct range){i, 100, 1000}, false);
    for (int i = 2; i < 6; i++) {
        struct mr_read read;
        CHECK(mr_reader_reap(reader, true, &read));
        CHECK(read.status == MR_OK && read.part[0].len == 1000 &&
              read.part[0].bytes[0] == pattern((uint64_t)read.index, 100));
    }
    mr_reader_destroy(reader);
}

static void refuse_ordinary_reads_of_shards(const mr_dataset *dataset)
{
    (void)dataset;
    mr_error error = {0};
    struct mr_reader *reader;
    struct mr_read read;
    write_pattern("shard-0", 1, 10000);
    mr_dataset *shards = open_shards(1, "bytes=100&stride=200&label_off=5000&label_bytes=8");
    CHECK(create(shards, MR_READER_URING, &reader, &error) == MR_OK);
    refuse(SCMP_SYS(pread64), EPERM);
    for (int64_t i = 0; i < 4; i++)
        submit(reader, 0, i);
    for (int64_t i = 0; i < 4; i++) {
        CHECK(mr_reader_reap(reader, true, &read));
        CHECK(read.status == MR_OK && read.part[0].len == 100 && read.part[1].len == 8);
        CHECK(read.part[0].bytes[0] == pattern(1, 200 * (uint64_t)read.index));
        CHECK(read.part[1].bytes[0] == pattern(1, 200 * (uint64_t)read.index + 5000));
    }
    mr_reader_destroy(reader);
    mr_dataset_destroy(shards);
}

static void in_a_process(void (*body)(const mr_dataset *dataset))
{
    mr_dataset *dataset = make_files();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        body(dataset);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    mr_dataset_destroy(dataset);
    assert_int_equal(status, 0);
}

static void skip_without_uring(void)
{
    if (!way_works(&ways[1]))
        skip();
}

static void auto_falls_back_if_set_up_is_refused(void **state)
{
    (void)state;
    in_a_process(refuse_setup);
}

static void auto_falls_back_on_a_kernel_without_io_uring(void **state)
{
    (void)state;
    in_a_process(lack_setup);
}

static void auto_falls_back_if_no_memory_can_be_locked(void **state)
{
    (void)state;
    in_a_process(lock_no_memory);
}

static void auto_falls_back_if_only_submission_is_refused(void **state)
{
    (void)state;
    skip_without_uring();
    in_a_process(refuse_enter);
}

static void a_ring_that_is_refused_later_loses_nothing(void **state)
{
    (void)state;
    skip_without_uring();
    in_a_process(refuse_enter_later);
}

static void loose_files_need_no_ordinary_reads(void **state)
{
    (void)state;
    skip_without_uring();
    in_a_process(refuse_ordinary_reads);
}

static void shards_need_no_ordinary_reads(void **state)
{
    (void)state;
    skip_without_uring();
    in_a_process(refuse_ordinary_reads_of_shards);
}

#define T(name) cmocka_unit_test_setup(name, enter_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(auto_falls_back_if_set_up_is_refused),
        T(auto_falls_back_on_a_kernel_without_io_uring),
        T(auto_falls_back_if_no_memory_can_be_locked),
        T(auto_falls_back_if_only_submission_is_refused),
        T(a_ring_that_is_refused_later_loses_nothing),
        T(loose_files_need_no_ordinary_reads),
        T(shards_need_no_ordinary_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    puts("built without libseccomp");
    return 77;
}

#endif
