/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loader of many documents returns its first packed rows before all rows of the epoch are
 * counted. Whatever the program does meanwhile, it gets what a loader that counts first gives.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <millrace/millrace.h>

#include "tests/support/assert_words.h"
#include "tests/support/epochs.h"
#include "tests/support/documents.h"
#include "tests/support/folder.h"

/* The rows of the first 65,536 documents are about 3,000, three batches. */
enum { WINDOW = 64, N_DOCUMENTS = 400000, BATCH = 1000, N_ROUNDS = 20 };

static const char *const packs[] = {"bfd", "wrapped&pack_window=0"};
enum { N_PACKS = sizeof packs / sizeof *packs };

static char *folder;

static int write_corpus(void **state)
{
    int32_t *lengths = malloc(N_DOCUMENTS * sizeof *lengths);
    (void)state;
    assert_non_null(lengths);
    folder = mr_test_folder_create();
    for (int32_t i = 0; i < N_DOCUMENTS; i++)
        lengths[i] = i * 7 % 6;
    mr_test_documents_write(folder, "x", lengths, N_DOCUMENTS);
    free(lengths);
    return 0;
}

static int remove_corpus(void **state)
{
    (void)state;
    mr_test_folder_remove(folder);
    return 0;
}

static mr_dataset *open_packed(const char *pack)
{
    char spec[4096];
    snprintf(spec, sizeof spec, "tokens:%s/x.bin?window=%d&pad=0&pack=%s", folder, WINDOW, pack);
    return mr_test_dataset(spec);
}

static mr_loader *make_loader(mr_dataset *dataset, uint32_t workers)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.batch_size = BATCH;
    options.num_workers = workers;
    options.seed = 3;
    options.n_slots = 8; /* more than the first rows fill */
    return mr_test_loader(dataset, NULL, &options);
}

/* All rows are counted first, since no thread could do it later. */
static struct mr_test_epoch run_counted(mr_dataset *dataset, uint64_t epoch)
{
    mr_loader *loader = make_loader(dataset, MR_NO_WORKERS);
    struct mr_test_epoch run = mr_test_epoch_run(loader, epoch);
    assert_int_equal(run.status, MR_END);
    assert_int_equal(run.n_batches, mr_loader_n_batches(loader));
    mr_loader_destroy(loader);
    return run;
}

static void expect_rest(mr_loader *loader, const struct mr_test_epoch *expected)
{
    struct mr_test_epoch run = mr_test_epoch_rest(loader);
    assert_int_equal(run.status, MR_END);
    assert_int_equal(run.n_batches, expected->n_batches);
    assert_int_equal(run.digest, expected->digest);
    mr_test_epoch_free(&run);
}

static void the_first_epoch_and_the_next_are_whole(void **state)
{
    (void)state;
    for (int p = 0; p < N_PACKS; p++) {
        mr_dataset *dataset = open_packed(packs[p]);
        struct mr_test_epoch first = run_counted(dataset, 0), second = run_counted(dataset, 1);
        mr_loader *loader = make_loader(dataset, 2);
        expect_rest(loader, &first);
        assert_int_equal(mr_loader_set_epoch(loader, 1), MR_OK);
        expect_rest(loader, &second);
        mr_loader_destroy(loader);
        mr_test_epoch_free(&first);
        mr_test_epoch_free(&second);
        mr_dataset_destroy(dataset);
    }
}

static void calls_wait_for_the_rows_that_they_count(void **state)
{
    (void)state;
    uint8_t saved[MR_LOADER_STATE_MAX];
    size_t len;
    mr_batch *batch;
    mr_dataset *dataset = open_packed("bfd");
    struct mr_test_epoch first = run_counted(dataset, 0), second = run_counted(dataset, 1);
    mr_loader *loader = make_loader(dataset, 1);
    assert_int_equal(mr_loader_n_batches(loader), first.n_batches);
    expect_rest(loader, &first);
    mr_loader_destroy(loader);

    loader = make_loader(dataset, 1);
    assert_int_equal(mr_loader_n_samples(loader), first.n_samples);
    mr_loader_destroy(loader);

    loader = make_loader(dataset, 1);
    assert_int_equal(mr_loader_set_epoch(loader, 1), MR_OK);
    assert_int_equal(mr_loader_n_batches(loader), second.n_batches);
    expect_rest(loader, &second);
    mr_loader_destroy(loader);

    loader = make_loader(dataset, 1);
    assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_OK);
    mr_batch_release(batch);
    assert_int_equal(mr_loader_save(loader, saved, sizeof saved, &len), MR_OK);
    struct mr_test_epoch rest = mr_test_epoch_rest(loader);
    mr_loader_destroy(loader);
    loader = make_loader(dataset, 1);
    assert_int_equal(mr_loader_restore(loader, saved, len), MR_OK);
    expect_rest(loader, &rest);
    assert_int_equal(rest.n_batches, first.n_batches - 1);
    mr_loader_destroy(loader);
    mr_test_epoch_free(&first);
    mr_test_epoch_free(&second);
    mr_test_epoch_free(&rest);
    mr_dataset_destroy(dataset);
}

static void a_loader_ends_while_it_counts(void **state)
{
    (void)state;
    mr_dataset *dataset = open_packed("bfd_split");
    for (int i = 0; i < N_ROUNDS; i++) {
        mr_batch *batch = NULL;
        mr_loader *loader = make_loader(dataset, 1);
        if (i % 2)
            assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_OK);
        mr_batch_release(batch);
        mr_loader_destroy(loader);
    }
    mr_dataset_destroy(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_epoch_and_the_next_are_whole),
        cmocka_unit_test(calls_wait_for_the_rows_that_they_count),
        cmocka_unit_test(a_loader_ends_while_it_counts),
    };
    return cmocka_run_group_tests(tests, write_corpus, remove_corpus);
}
