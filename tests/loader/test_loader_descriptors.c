/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers that are threads keep shards open with the program's descriptors, and leave most of them
 * to it.
 */
#include "tests/loader/rig.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/assert_words.h"
#include "tests/support/folder.h"

enum { N_FILES = 100, PER_FILE = 8, N_THREADS = 16, LIMIT = 256, LEFT = LIMIT / 2 };

static char *make_records(const char *folder)
{
    char bytes[PER_FILE], name[32];
    size_t room = N_FILES * (strlen(folder) + 8) + 64, at = 0;
    char *spec = malloc(room);
    assert_non_null(spec);
    at += (size_t)snprintf(spec + at, room - at, "records:");
    for (int i = 0; i < N_FILES; i++) {
        memset(bytes, i, sizeof bytes);
        snprintf(name, sizeof name, "%03d", i);
        mr_test_folder_write(folder, name, bytes, sizeof bytes);
        at += (size_t)snprintf(spec + at, room - at, "%s%s/%s", i ? "," : "", folder, name);
    }
    snprintf(spec + at, room - at, "?bytes=1");
    return spec;
}

/* How many descriptors the program can still open. */
static int count_free(void)
{
    int fds[LIMIT], n = 0;
    while (n < LIMIT && (fds[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        n++;
    for (int i = 0; i < n; i++)
        close(fds[i]);
    return n;
}

static void threads_leave_descriptors_to_the_program(void **state)
{
    (void)state;
    mr_error error = {0};
    mr_dataset *dataset;
    mr_loader *loader;
    mr_batch *batch;
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = LIMIT;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    char *folder = mr_test_folder_create(), *spec = make_records(folder);
    assert_ok(mr_dataset_open(spec, NULL, &dataset, &error), &error);
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.start = MR_START_THREAD;
    options.num_workers = N_THREADS;
    options.batch_size = 16;
    options.n_epochs = 20;
    assert_ok(mr_loader_create(dataset, NULL, &options, &loader, &error), &error);
    int n_free = LIMIT;
    for (uint64_t epoch = 0; epoch < options.n_epochs; epoch++) {
        mr_status status = mr_loader_set_epoch(loader, epoch);
        while (status == MR_OK && (status = mr_loader_next(loader, MR_FOREVER, &batch)) == MR_OK)
            mr_batch_release(batch);
        assert_int_equal(status, MR_END);
        int now = count_free();
        n_free = now < n_free ? now : n_free;
    }
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    free(spec);
    mr_test_folder_remove(folder);
    if (n_free < LEFT)
        fail_msg("%d of %d descriptors are left, not %d", n_free, LIMIT, LEFT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_leave_descriptors_to_the_program)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
