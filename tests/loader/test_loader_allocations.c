/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After every buffer has had its largest sample, neither a worker nor the consumer allocates or
 * maps memory; with real files. The linker redirects the calls of this program and of the library
 * in it (--wrap). Allocations inside libjpeg and libpng do not count, nor does the beginning of an
 * epoch, when the next epoch's order is made.
 */
#include "tests/loader/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/allocations.h"
#include "tests/support/assert_words.h"
#include "tests/support/folder.h"
#include "tests/support/images.h"

#include <millrace/pack.h>

enum { N_IMAGES = 96, BATCH = 8, N_EPOCHS = 5, N_COUNTED = N_IMAGES - 3 * BATCH };

void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off);
int __wrap_munmap(void *at, size_t len);
void *__real_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off);
int __real_munmap(void *at, size_t len);

void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
    allocations.n_own++;
    return __real_mmap(at, len, prot, flags, fd, off);
}

int __wrap_munmap(void *at, size_t len)
{
    allocations.n_own++;
    return __real_munmap(at, len);
}

struct folder {
    char *path;
    mr_dataset *dataset;
    mr_dataset *pack; /* of the same files */
};

static void name_of(const struct folder *folder, unsigned i, char path_out[128])
{
    snprintf(path_out, 128, "%s/class/%03u.jpg", folder->path, i);
}

static void make_pack(struct folder *folder)
{
    char dir[128], spec[160];
    mr_error error;

    snprintf(dir, sizeof dir, "%s-pack", folder->path);
    snprintf(spec, sizeof spec, "pack:%s", dir);
    if (mr_dataset_pack(folder->dataset, dir, NULL, NULL, &error) != MR_OK ||
        mr_dataset_open(spec, NULL, &folder->pack, &error) != MR_OK)
        fail_msg("%s", error.text);
}

/* All images are the same, so that no worker gets the largest one late. */
static int make_folder(void **state)
{
    static struct folder folder;
    char path[128];
    mr_error error;

    folder.path = mr_test_folder_create();
    snprintf(path, sizeof path, "%s/class", folder.path);
    if (mkdir(path, 0777) != 0)
        return -1;
    for (unsigned i = 0; i < N_IMAGES; i++) {
        struct mr_test_image image =
            mr_test_jpeg(&(struct mr_test_jpeg){.width = 120, .height = 90, .seed = 7});
        name_of(&folder, i, path);
        mr_test_image_save(&image, path);
        mr_test_image_free(&image);
    }
    assert_ok(mr_dataset_open(folder.path, NULL, &folder.dataset, &error), &error);
    make_pack(&folder);
    *state = &folder;
    return 0;
}

static int remove_folder(void **state)
{
    struct folder *folder = *state;
    char path[128];

    mr_dataset_destroy(folder->dataset);
    mr_dataset_destroy(folder->pack);
    snprintf(path, sizeof path, "%s-pack", folder->path);
    mr_test_folder_remove(strdup(path));
    return 0;
}

/* The allocations after the first batches of the last epochs. */
static size_t run(mr_dataset *dataset, mr_loader_options options)
{
    size_t n_asked = 0, before = 0;
    mr_loader *loader;
    mr_batch *batch;
    mr_error error;

    options.batch_size = BATCH;
    options.n_epochs = N_EPOCHS;
    assert_ok(mr_loader_create(dataset, NULL, &options, &loader, &error), &error);
    for (uint64_t epoch = 0; epoch < N_EPOCHS; epoch++) {
        assert_int_equal(mr_loader_set_epoch(loader, epoch), MR_OK);
        unsigned n = 0;
        for (; mr_loader_next(loader, MR_FOREVER, &batch) == MR_OK; n++) {
            if (n == 2)
                before = allocations.n_own;
            mr_batch_release(batch);
        }
        n_asked = allocations.n_own - before;
        assert_int_equal(n, N_IMAGES / BATCH);
    }
    mr_loader_destroy(loader);
    return n_asked;
}

static void counter_counts(void **state)
{
    (void)state;
    size_t before = allocations.n_own;
    void *volatile memory = malloc(3);
    memory = realloc(memory, 30);
    size_t after = allocations.n_own;
    free(memory);
    assert_int_equal(after - before, 2);
}

static void check_samples(mr_dataset *dataset)
{
    static const mr_reader_kind readers[] = {MR_READER_AUTO, MR_READER_PREAD};
    static const mr_dtype dtypes[] = {MR_U8, MR_F32};

    for (unsigned i = 0; i < 8; i++) {
        mr_loader_options options = MR_LOADER_OPTIONS_INIT;
        options.reader = readers[i & 1];
        options.dtype = dtypes[i >> 1 & 1];
        options.start = MR_START_THREAD;
        options.num_workers = i < 4 ? MR_NO_WORKERS : 2;
        size_t n = run(dataset, options);
        /* A worker that got no CPU before may get its first sample in the last epoch. */
        for (unsigned more = 0; n != 0 && n < N_COUNTED && more < 5; more++)
            n = run(dataset, options);
        if (n != 0)
            fail_msg("case %u: %zu times", i, n);
    }
}

static void samples_after_the_first_ones_allocate_nothing(void **state)
{
    const struct folder *folder = *state;
    check_samples(folder->dataset);
}

static void packed_samples_allocate_nothing_either(void **state)
{
    const struct folder *folder = *state;
    check_samples(folder->pack);
}

int main(void)
{
    if (STATIC_DEPS) {
        puts("skipped: libjpeg is linked statically, so its allocations cannot be distinguished "
             "from "
             "the library's");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counter_counts),
        cmocka_unit_test(samples_after_the_first_ones_allocate_nothing),
        cmocka_unit_test(packed_samples_allocate_nothing_either),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
