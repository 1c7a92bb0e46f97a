/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each allocation on the way to a batch is refused once. A failure has an error text, and nothing
 * crashes. The linker redirects the calls of this program and of the library in it (--wrap), those
 * of mmap() too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/allocations.h"
#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/folder_fill.h"

enum { MAX_ALLOCATIONS = 20000, TIMEOUT_MS = 60000 };

static mr_loader_stats stats; /* of the last epoch */
static unsigned n_lines;      /* log lines about damage */

void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off);
void *__real_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off);

void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
    return allocations_meet(len) ? MAP_FAILED : __real_mmap(at, len, prot, flags, fd, off);
}

/* Run from the folder to the end of an epoch, or to the first error. */
static mr_status run_epoch(const char *spec, const mr_loader_options *options, mr_error *error)
{
    mr_dataset *dataset = NULL;
    mr_transform *transform = NULL;
    mr_loader *loader = NULL;
    mr_batch *batch;
    stats = (mr_loader_stats){.struct_size = sizeof stats};
    mr_status status = mr_dataset_open(spec, NULL, &dataset, error);
    if (status == MR_OK && options->cache)
        status = mr_transform_parse("train:48", &transform, error);
    if (status == MR_OK)
        status = mr_loader_create(dataset, transform, options, &loader, error);
    while (status == MR_OK && (status = mr_loader_next(loader, TIMEOUT_MS, &batch)) == MR_OK)
        mr_batch_release(batch);
    if (loader && status < 0)
        *error = *mr_loader_error(loader);
    if (loader)
        mr_loader_get_stats(loader, &stats);
    mr_loader_destroy(loader);
    mr_transform_destroy(transform);
    mr_dataset_destroy(dataset);
    return status;
}

static void check_each_allocation(const char *spec, mr_loader_options options)
{
    mr_error error;
    /* things that are tried once per process are tried here */
    assert_int_equal(run_epoch(spec, &options, &error), MR_END);
    for (size_t refused = 1; refused <= MAX_ALLOCATIONS; refused++) {
        error = (mr_error){0};
        allocations = (struct allocations){.refused = refused};
        mr_status status = run_epoch(spec, &options, &error);
        allocations.refused = 0;
        if (options.trace)
            unlink(options.trace);
        if (status != MR_END && (status >= 0 || error.status != status || error.text[0] == '\0'))
            fail_msg("allocation %zu: status %d, in the error %d: \"%s\"", refused, status,
                     error.status, error.text);
        if (allocations.n_met >= refused)
            continue;
        assert_int_equal(status, MR_END);
        print_message("%s: %zu allocations\n", spec, refused - 1);
        return;
    }
    fail_msg("there are more than %d allocations", MAX_ALLOCATIONS);
}

/* A folder, a list and records; the images with a cache, in either form, and with a trace. */
static void check_datasets(const char *folder, mr_loader_options options)
{
    char images[256], list[256], records[256], cache[256], trace[256];
    snprintf(images, sizeof images, "%s/images", folder);
    snprintf(list, sizeof list, "list:%s/list", folder);
    snprintf(records, sizeof records, "records:%s/records?bytes=4", folder);
    snprintf(cache, sizeof cache, "%s/cache", folder);
    snprintf(trace, sizeof trace, "%s/trace", folder);
    options.batch_size = 2;
    check_each_allocation(records, options);
    options.cache = cache;
    options.trace = trace;
    check_each_allocation(images, options);
    options.cache_form = MR_CACHE_FORM_INDEX;
    check_each_allocation(list, options);
}

static void each_allocation_that_fails_has_an_error_text(void **state)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.num_workers = MR_NO_WORKERS;
    check_datasets(*state, options);
}

static void each_allocation_that_fails_among_threads_has_an_error_text(void **state)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.num_workers = 1;
    options.start = MR_START_THREAD;
    options.device = "host:0";
    check_datasets(*state, options);
}

static void count_line(void *user, mr_log_level level, const char *line)
{
    (void)user, (void)level;
    n_lines += strstr(line, "to tell damaged samples apart") != NULL;
}

/* Without memory for a bit for each sample, the list is used. */
static void damaged_samples_are_distinguished_without_memory(void **state)
{
    char list[256];
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    mr_error error;
    static const char lines[] = "x\t0\nx\t0\nimages/class_0/000.jpg\t0\nx\t0\n";
    mr_test_folder_write(*state, "bad", lines, sizeof lines - 1);
    snprintf(list, sizeof list, "list:%s/bad", (char *)*state);
    options.num_workers = MR_NO_WORKERS;
    options.on_error = MR_ON_ERROR_ZERO;
    options.batch_size = 2;
    options.n_epochs = 1;
    mr_log_set(count_line, NULL);
    size_t refused = 0;
    do {
        allocations = (struct allocations){.refused = ++refused};
        mr_status status = run_epoch(list, &options, &error);
        allocations.refused = 0;
        if (status != MR_END)
            continue;
        assert_int_equal(stats.n_damaged, 3);
        assert_int_equal(stats.n_damaged_distinct, 3);
    } while (allocations.n_met >= refused);
    assert_int_equal(n_lines, 1);
    mr_log_set(NULL, NULL);
}

static int make_folder(void **state)
{
    char *folder = mr_test_folder_create();
    char inner[256];
    snprintf(inner, sizeof inner, "%s/images", folder);
    if (mkdir(inner, 0777) != 0)
        return -1;
    mr_test_folder_fill(inner, 2, 2);
    static const char list[] = "images/class_0/000.jpg\t0\nimages/class_1/001.jpg\t1\n";
    mr_test_folder_write(folder, "list", list, sizeof list - 1);
    mr_test_folder_write(folder, "records", "0123456789ab", 12);
    *state = folder;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_allocation_that_fails_has_an_error_text),
        cmocka_unit_test(each_allocation_that_fails_among_threads_has_an_error_text),
        cmocka_unit_test(damaged_samples_are_distinguished_without_memory),
    };
    return cmocka_run_group_tests(tests, make_folder, NULL);
}
