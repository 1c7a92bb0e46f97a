/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts under limits: few descriptors, little memory, small files, and a container's refusals
 * (seccomp). Each test runs in a child, because these limits cannot be lifted again.
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
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef MR_HAVE_SECCOMP
#include <seccomp.h>
#endif

#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/folder_fill.h"
#include "tests/support/processes.h"

enum { N_SAMPLES = 60, CANNOT_RUN = 77, N_FDS = 64 };

static char *folder;

static void limit(int what, rlim_t value)
{
    struct rlimit r = {.rlim_cur = value, .rlim_max = value};
    if (setrlimit(what, &r) != 0)
        _exit(99);
}

static mr_loader_options options_of(uint32_t workers)
{
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = 8;
    o.num_workers = workers;
    return o;
}

/* Run an epoch in this process. Returns 0 if all of it came. */
static int train(const mr_loader_options *o, char reader_out[16])
{
    mr_dataset *dataset = mr_test_dataset(folder);
    mr_loader *loader = mr_test_loader(dataset, "train:48", o);
    struct mr_test_epoch e = mr_test_epoch_run(loader, 1);
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    mr_loader_get_stats(loader, &stats);
    if (reader_out)
        snprintf(reader_out, 16, "%s", stats.reader);
    int rc = e.status == MR_END && e.n_valid == N_SAMPLES ? 0 : 1;
    if (e.status < 0)
        fprintf(stderr, "%s\n", mr_loader_error(loader)->text);
    mr_test_epoch_free(&e);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    return rc;
}

static int with_64_descriptors(void)
{
    limit(RLIMIT_NOFILE, 64);
    mr_loader_options o = options_of(8);
    o.read_ahead = 64;
    return train(&o, NULL);
}

static void sixty_four_descriptors_are_enough(void **state)
{
    (void)state;
    assert_int_equal(mr_test_in_child(with_64_descriptors), 0);
}

/* Expect that the creation is refused, with this status and these words in the error. */
static int expect_refusal(mr_loader_options *o, const char *transform, mr_status expected,
                          const char *words)
{
    mr_transform *t;
    mr_loader *loader;
    mr_error error;
    mr_dataset *dataset = mr_test_dataset(folder);
    if (mr_transform_parse(transform, &t, &error) != MR_OK)
        return 90;
    mr_status status = mr_loader_create(dataset, t, o, &loader, &error);
    if (status != expected || loader != NULL || !strstr(error.text, words)) {
        fprintf(stderr, "status %d: %s\n", status, status < 0 ? error.text : "no error");
        return 1;
    }
    mr_transform_destroy(t);
    mr_dataset_destroy(dataset);
    return mr_test_count_workers(getpid()) == 0 ? 0 : 2;
}

static int with_a_slab_above_memory(void)
{
    mr_loader_options o = options_of(2);
    o.batch_size = 65535;
    o.n_slots = 1024;
    o.dtype = MR_F32;
    return expect_refusal(&o, "train:2000", MR_ERR_NO_MEMORY, "MB");
}

static int with_small_files_only(void)
{
    limit(RLIMIT_FSIZE, 4 << 20);
    mr_loader_options o = options_of(2);
    o.batch_size = 64;
    return expect_refusal(&o, "train:224", MR_ERR_NO_MEMORY, "RLIMIT_FSIZE");
}

static void a_slab_larger_than_memory_is_refused(void **state)
{
    (void)state;
    assert_int_equal(mr_test_in_child(with_a_slab_above_memory), 0);
}

static void a_slab_larger_than_the_file_size_limit_is_refused(void **state)
{
    (void)state;
    assert_int_equal(mr_test_in_child(with_small_files_only), 0);
}

#ifdef MR_HAVE_SECCOMP
static void refuse_call(int number)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    if (!filter || seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), number, 0) != 0 ||
        seccomp_load(filter) != 0)
        _exit(CANNOT_RUN);
    seccomp_release(filter);
}

static int without_io_uring(void)
{
    char reader[16];
    refuse_call(SCMP_SYS(io_uring_setup));
    mr_loader_options o = options_of(2);
    int rc = train(&o, reader);
    if (rc == 0 && strcmp(reader, "pread") != 0)
        return 2;
    if (rc != 0)
        return rc;
    /* If it was requested by name, the result is an error that says so, not a silent change. */
    o.reader = MR_READER_URING;
    mr_dataset *dataset = mr_test_dataset(folder);
    mr_loader *loader = mr_test_loader(dataset, "train:48", &o);
    mr_batch *batch;
    mr_status status = mr_loader_next(loader, MR_FOREVER, &batch);
    if (status >= 0 || !strstr(mr_loader_error(loader)->text, "io_uring")) {
        fprintf(stderr, "status %d: %s\n", status, mr_loader_error(loader)->text);
        return 3;
    }
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    return 0;
}

/* Only /dev/null is opened with these flags. */
static int without_dev_null(void)
{
    mr_loader_options o = options_of(2);
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    if (!filter ||
        seccomp_rule_add(filter, SCMP_ACT_ERRNO(EACCES), SCMP_SYS(openat), 1,
                         SCMP_A2(SCMP_CMP_EQ, O_RDWR)) != 0 ||
        seccomp_load(filter) != 0)
        return CANNOT_RUN;
    seccomp_release(filter);
    return expect_refusal(&o, "train:48", MR_ERR_WORKER,
                          "cannot open /dev/null for worker 0: Permission denied");
}

static int without_exec_from_memfd(void)
{
    refuse_call(SCMP_SYS(execveat));
    mr_loader_options o = options_of(2);
    mr_loader *loader;
    mr_error error;
    mr_dataset *dataset = mr_test_dataset(folder);
    mr_status status = mr_loader_create(dataset, NULL, &o, &loader, &error);
    if (status == MR_OK) { /* a helper is installed here */
        mr_loader_destroy(loader);
        mr_dataset_destroy(dataset);
        return 0;
    }
    mr_dataset_destroy(dataset);
    bool named = strstr(error.text, "memfd") && strstr(error.text, "millrace/millrace-worker");
    return status == MR_ERR_UNSUPPORTED && named ? 0 : 1;
}

static void check_confined(int (*f)(void))
{
    int rc = mr_test_in_child(f);
    if (rc == CANNOT_RUN)
        skip();
    assert_int_equal(rc, 0);
}

static void a_container_that_refuses_io_uring_uses_pread(void **state)
{
    (void)state;
    check_confined(without_io_uring);
}

static void a_container_that_refuses_exec_from_memfd_gets_an_error(void **state)
{
    (void)state;
    check_confined(without_exec_from_memfd);
}

static void a_container_without_dev_null_gets_an_error(void **state)
{
    (void)state;
    check_confined(without_dev_null);
}
#endif

/*
 * Raise the number of descriptors that may be opened from none until it is enough. Every refusal
 * names the shortage.
 */
static int with_more_and_more_descriptors(void)
{
    mr_loader_options o = options_of(2);
    mr_transform *transform;
    mr_error error;
    struct rlimit r;
    mr_dataset *dataset = mr_test_dataset(folder);
    mr_status status = mr_transform_parse("train:48", &transform, &error);
    int first_free = dup(0);
    close(first_free);
    getrlimit(RLIMIT_NOFILE, &r);
    for (int n = 0; status == MR_OK && n < N_FDS; n++) {
        mr_loader *loader;
        r.rlim_cur = (rlim_t)(first_free + n);
        if (setrlimit(RLIMIT_NOFILE, &r) != 0)
            return 90;
        if (mr_loader_create(dataset, transform, &o, &loader, &error) == MR_OK) {
            mr_loader_destroy(loader);
            return n > 0 ? 0 : 1;
        }
        if (!strstr(error.text, "Too many open files")) {
            fprintf(stderr, "%d descriptors: %s\n", n, error.text);
            return 2;
        }
    }
    return 3;
}

static void a_shortage_of_descriptors_is_named(void **state)
{
    (void)state;
    assert_int_equal(mr_test_in_child(with_more_and_more_descriptors), 0);
}

/*
 * In the middle of an epoch a machine becomes unable to start workers: there is no address space
 * for a new one.
 */
static int when_workers_cannot_start_any_more(void)
{
    mr_loader_options o = options_of(2);
    o.n_slots = 2;
    mr_dataset *dataset = mr_test_dataset(folder);
    mr_loader *loader = mr_test_loader(dataset, "train:48", &o);
    mr_batch *batch;
    if (mr_loader_next(loader, MR_FOREVER, &batch) != MR_OK)
        return 1;
    mr_batch_release(batch);
    /* one worker alone may have made the first batch before the other one was named */
    mr_test_await_workers(getpid(), 2);
    struct rlimit little = {.rlim_cur = 6 << 20, .rlim_max = RLIM_INFINITY};
    if (setrlimit(RLIMIT_AS, &little) != 0)
        return CANNOT_RUN;
    if (mr_test_signal_workers(getpid(), SIGKILL) != 2)
        return 3;
    mr_status status;
    while ((status = mr_loader_next(loader, 60000, &batch)) == MR_OK)
        mr_batch_release(batch);
    if (status != MR_ERR_WORKER)
        fprintf(stderr, "status %d: %s\n", status, mr_loader_error(loader)->text);
    _exit(status == MR_ERR_WORKER ? 0 : 2);
}

static void workers_that_cannot_start_any_more_end_the_loader(void **state)
{
    (void)state;
#ifdef MR_TEST_ASAN
    skip(); /* this test limits the address space */
#endif
    int rc = mr_test_in_child(when_workers_cannot_start_any_more);
    if (rc == CANNOT_RUN)
        skip();
    assert_int_equal(rc, 0);
}

static int as_nobody(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/class_1/001.jpg", folder);
    if (chmod(folder, 0755) != 0 || chmod(path, 0) != 0)
        return 90;
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
        return CANNOT_RUN;
    mr_loader_options o = options_of(2);
    o.no_shuffle = true;
    mr_dataset *dataset = mr_test_dataset(folder);
    mr_loader *loader = mr_test_loader(dataset, "train:48", &o);
    struct mr_test_epoch e = mr_test_epoch_run(loader, 0);
    bool named = strstr(e.first_error.text, "class_1/001.jpg") &&
                 strstr(e.first_error.text, "Permission denied");
    if (!named)
        fprintf(stderr, "%s\n", e.first_error.text);
    int rc = e.n_failures == 1 && named ? 0 : 1;
    mr_test_epoch_free(&e);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    return rc;
}

static void an_unreadable_file_is_named(void **state)
{
    (void)state;
    int rc = mr_test_in_child(as_nobody);
    if (rc == CANNOT_RUN)
        skip();
    assert_int_equal(rc, 0);
}

static int set_up(void **state)
{
    (void)state;
    folder = mr_test_folder_filled(2, N_SAMPLES / 2);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sixty_four_descriptors_are_enough),
        cmocka_unit_test(a_slab_larger_than_memory_is_refused),
        cmocka_unit_test(a_slab_larger_than_the_file_size_limit_is_refused),
#ifdef MR_HAVE_SECCOMP
        cmocka_unit_test(a_container_that_refuses_io_uring_uses_pread),
        cmocka_unit_test(a_container_that_refuses_exec_from_memfd_gets_an_error),
        cmocka_unit_test(a_container_without_dev_null_gets_an_error),
#endif
        cmocka_unit_test(a_shortage_of_descriptors_is_named),
        cmocka_unit_test(workers_that_cannot_start_any_more_end_the_loader),
        cmocka_unit_test(an_unreadable_file_is_named),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
