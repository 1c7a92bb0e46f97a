/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache of the members of tar shards, in both forms. The bytes are those of the same dataset
 * without a cache: while the cache fills, when it is full, when workers are killed, and after a
 * shard was replaced. The oracle is loaded in the caller's thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <millrace/cache.h>

#include "tests/support/assert_words.h"
#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/images.h"
#include "tests/support/processes.h"
#include "tests/support/shards.h"

/* The last image of each shard is progressive, so it has no marks. */
enum {
    N_SHARDS = 3,
    N_EACH = 8,
    N = N_SHARDS * N_EACH,
    N_MARKED = N - N_SHARDS,
    IMAGE_BYTES = 20000
};

static char *folder;
static char cache[4096];

/*
 * All images have the same size, so that another shard can have the same places. The shard is old,
 * so that the cache trusts it.
 */
static void write_shard(int s, uint32_t seed, int seconds)
{
    struct mr_test_shard shard = {0};
    char path[4096], text[16];
    static uint8_t bytes[IMAGE_BYTES];
    const struct timespec times[2] = {{.tv_sec = 1700000000}, {.tv_sec = 1700000000 + seconds}};
    for (int i = 0; i < N_EACH; i++) {
        struct mr_test_image image =
            mr_test_jpeg(&(struct mr_test_jpeg){.width = 90,
                                                .height = 120,
                                                .seed = seed + (uint32_t)i,
                                                .progressive = i == N_EACH - 1});
        assert_true(image.len <= IMAGE_BYTES);
        memset(bytes, 0, sizeof bytes);
        memcpy(bytes, image.bytes, image.len);
        mr_test_image_free(&image);
        snprintf(path, sizeof path, "%02d.jpg", i);
        mr_test_shard_add(&shard, path, bytes, sizeof bytes);
        snprintf(path, sizeof path, "%02d.cls", i);
        snprintf(text, sizeof text, "%d", i);
        mr_test_shard_add_text(&shard, path, text);
    }
    mr_test_shard_end(&shard);
    snprintf(path, sizeof path, "t-%d.tar", s);
    mr_test_folder_write(folder, path, shard.bytes, shard.len);
    snprintf(path, sizeof path, "%s/t-%d.tar", folder, s);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    mr_test_shard_free(&shard);
}

static int set_up(void **state)
{
    (void)state;
    folder = mr_test_folder_create();
    for (int s = 0; s < N_SHARDS; s++)
        write_shard(s, 100 * (uint32_t)s, 0);
    mr_test_sleep_ms(70); /* a cache skips files that changed a moment ago */
    return 0;
}

static mr_dataset *open_shards(void)
{
    char spec[4200];
    snprintf(spec, sizeof spec, "tar:%s/t-*.tar", folder);
    return mr_test_dataset(spec);
}

static mr_loader *make_loader(mr_dataset *shards, uint32_t workers, mr_cache_form form)
{
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = 5;
    o.seed = 2;
    o.num_workers = workers;
    o.cache = form == MR_CACHE_FORM_AUTO ? NULL : cache;
    o.cache_form = form;
    o.cache_slowdown = 100;
    return mr_test_loader(shards, "train:32", &o);
}

static uint64_t digest_of(mr_loader *loader, uint64_t number)
{
    struct mr_test_epoch epoch = mr_test_epoch_run(loader, number);
    if (epoch.status != MR_END || epoch.n_failures > 0 || epoch.n_valid != N)
        fail_msg("%s", mr_loader_error(loader)->text);
    uint64_t digest = epoch.digest;
    mr_test_epoch_free(&epoch);
    return digest;
}

static uint64_t oracle(mr_dataset *shards, uint64_t number)
{
    mr_loader *loader = make_loader(shards, MR_NO_WORKERS, MR_CACHE_FORM_AUTO);
    uint64_t digest = digest_of(loader, number);
    mr_loader_destroy(loader);
    return digest;
}

/*
 * Run two epochs of one loader. kills: kill a worker before each epoch. Returns the number of
 * samples from the cache.
 */
static uint64_t run_epochs(mr_dataset *shards, uint32_t workers, mr_cache_form form, bool kills)
{
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    mr_loader *loader = make_loader(shards, workers, form);
    for (uint64_t e = 0; e < 2; e++) {
        if (kills)
            mr_test_signal_workers(getpid(), SIGKILL);
        assert_int_equal(digest_of(loader, e), oracle(shards, e));
    }
    assert_int_equal(mr_loader_get_stats(loader, &stats), MR_OK);
    mr_loader_destroy(loader);
    return stats.n_cached;
}

static mr_cache_report census(mr_dataset *shards)
{
    mr_cache_report report = MR_CACHE_REPORT_INIT;
    mr_error error;
    assert_ok(mr_cache_stat(cache, shards, true, &report, &error), &error);
    return report;
}

static uint64_t n_entries(mr_cache_form form)
{
    return form == MR_CACHE_FORM_INDEX ? N_MARKED : N;
}

static void fill(mr_dataset *shards, mr_cache_form form)
{
    snprintf(cache, sizeof cache, "%s/cache-%d", folder, (int)form);
    for (int i = 0; i < 20; i++) {
        run_epochs(shards, MR_NO_WORKERS, form, false);
        mr_cache_report report = census(shards);
        if ((form == MR_CACHE_FORM_INDEX ? report.n_filled_index : report.n_filled) ==
            n_entries(form))
            return;
    }
    fail_msg("the cache was not filled");
}

static const mr_cache_form forms[] = {MR_CACHE_FORM_DCT, MR_CACHE_FORM_INDEX};

static void bits_are_the_same_while_it_fills_and_from_it(void **state)
{
    (void)state;
    mr_dataset *shards = open_shards();
    for (size_t f = 0; f < 2; f++) {
        fill(shards, forms[f]);
        assert_int_equal(run_epochs(shards, MR_NO_WORKERS, forms[f], false),
                         2 * n_entries(forms[f]));
        /* more, because workers are ahead */
        assert_true(run_epochs(shards, 2, forms[f], false) >= 2 * n_entries(forms[f]));
    }
    mr_dataset_destroy(shards);
}

#ifndef MR_TEST_TSAN
static void killed_workers_change_nothing(void **state)
{
    (void)state;
    mr_dataset *shards = open_shards();
    for (size_t f = 0; f < 2; f++) {
        fill(shards, forms[f]);
        run_epochs(shards, 2, forms[f], true);
    }
    mr_dataset_destroy(shards);
}
#endif

/* Also for a glob and another order, because an entry's key is shard and place. */
static void entries_are_found_by_another_spec_of_the_same_shards(void **state)
{
    (void)state;
    char spec[4200];
    mr_dataset *shards = open_shards();
    fill(shards, MR_CACHE_FORM_DCT);
    mr_dataset_destroy(shards);
    snprintf(spec, sizeof spec, "tar:%s/t-2.tar,%s/t-1.tar?label=none&image=jpg", folder, folder);
    shards = mr_test_dataset(spec);
    assert_int_equal(census(shards).n_filled, 2 * N_EACH);
    mr_dataset_destroy(shards);
}

/* Places and sizes stay the same, only the time of change differs. */
static void a_shard_that_was_replaced_is_read_again(void **state)
{
    (void)state;
    for (size_t f = 0; f < 2; f++) {
        mr_dataset *shards = open_shards();
        fill(shards, forms[f]);
        uint64_t before = oracle(shards, 0);
        write_shard(1, 5000 + (uint32_t)f * 100, 10 + (int)f);
        mr_test_sleep_ms(70);
        mr_dataset_destroy(shards); /* its places are those of the old shard */
        shards = open_shards();
        assert_true(oracle(shards, 0) != before);
        assert_int_equal(census(shards).n_filled_stale, N_EACH);
        run_epochs(shards, MR_NO_WORKERS, forms[f], false);
        fill(shards, forms[f]);
        mr_dataset_destroy(shards);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_the_same_while_it_fills_and_from_it),
#ifndef MR_TEST_TSAN
        cmocka_unit_test(killed_workers_change_nothing),
#endif
        cmocka_unit_test(entries_are_found_by_another_spec_of_the_same_shards),
        cmocka_unit_test(a_shard_that_was_replaced_is_read_again),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
