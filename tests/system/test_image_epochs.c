/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole epochs with image operations, policies and padded crops have the same bytes in every mode.
 * The oracle is the folder, loaded in the caller's thread.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include <millrace/cache.h>
#include <millrace/pack.h>

#include "tests/support/assert_words.h"
#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/folder_fill.h"
#include "tests/support/packs.h"
#include "tests/support/processes.h"

enum {
    N_EPOCHS = 2,
    N_CLASSES = 2,
    N_IMAGES = 15,
    N_SAMPLES = N_CLASSES * N_IMAGES,
    SETTLE_MS = 70
};

/*
 * Operations before and after a crop, in structures, and every policy. The parts are joined by '+'.
 */
static const char *const recipes[][8] = {
    {"random_resized_crop(48,interp=random)", "hflip", "trivial_augment_wide(interp=bilinear)",
     "random_apply(color_jitter(0.8,0.8,0.8,0.2),0.8)", "random_grayscale(0.2)",
     "random_apply(gaussian_blur(5),0.5)"},
    {"equalize(0.3)", "random_crop(70:64,padding=40,padding_mode=reflect)", "vflip", "rand_augment",
     "random_resized_crop(40,interp=bicubic)", "auto_augment(interp=bicubic)",
     "pil_gaussian_blur(0.1:2)"},
    {"random_choice(rotation(30,bilinear),affine(20,translate=0.1:0.2,scale=0.8:1.2,shear=10,fill="
     "9),perspective)",
     "random_crop(60,padding=25,padding_mode=symmetric)",
     "random_order(posterize(3),solarize(99)+invert,autocontrast,adjust_sharpness(2))",
     "random_crop(52,padding=8,fill=200:100:3)", "auto_augment(policy=svhn)",
     "timm(\"rand-m9-mstd0.5-inc1\")"},
    {"photometric_distort", "pad(9:3,padding_mode=reflect)",
     "random_crop(60,pad_if_needed,padding_mode=symmetric)",
     "random_order(hflip,vflip,channel_permutation)", "jpeg(20:90)", "rand_augment_v2",
     "affine_v2(20,scale=0.8:1.2,bilinear)", "auto_augment_v2(svhn)"},
    {"augmix", "random_resized_crop(45)", "hflip",
     "random_order(augmix_v2(9,2,fill=7),augmix(10,4,all_ops=0,nearest))"}};
enum { N_RECIPES = sizeof recipes / sizeof *recipes };

static char *work;
static char photos[600];
static char texts[N_RECIPES][1000];
static uint64_t oracle[N_RECIPES][N_EPOCHS];

static mr_loader_options options_of(uint32_t n_workers)
{
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = 7;
    o.seed = 5;
    o.num_workers = n_workers;
    o.dtype = MR_F32;
    return o;
}

static void run_epochs(mr_loader *loader, uint64_t digests_out[N_EPOCHS])
{
    for (uint64_t e = 0; e < N_EPOCHS; e++) {
        struct mr_test_epoch epoch = mr_test_epoch_run(loader, e);
        if (epoch.status != MR_END)
            fail_msg("%s", mr_loader_error(loader)->text);
        assert_int_equal(epoch.n_valid, N_SAMPLES);
        digests_out[e] = epoch.digest;
        mr_test_epoch_free(&epoch);
    }
}

static mr_loader_stats check_epochs(const char *spec, int recipe, const mr_loader_options *options,
                                    const char *what)
{
    uint64_t digests[N_EPOCHS];
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    mr_dataset *dataset = mr_test_dataset(spec);
    mr_loader *loader = mr_test_loader(dataset, texts[recipe], options);
    run_epochs(loader, digests);
    mr_loader_get_stats(loader, &stats);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    for (int e = 0; e < N_EPOCHS; e++)
        if (digests[e] != oracle[recipe][e])
            fail_msg("%s, %u workers: epoch %d of %s differs", what, options->num_workers, e,
                     texts[recipe]);
    return stats;
}

static void bytes_do_not_depend_on_the_number_of_workers(void **state)
{
    (void)state;
    for (int r = 0; r < N_RECIPES; r++)
        for (uint32_t n_workers = 1; n_workers <= 8; n_workers += 7) {
            mr_loader_options o = options_of(n_workers);
            check_epochs(photos, r, &o, "files");
        }
}

/* Workers are separate programs, which read the environment when they start. */
static void bytes_do_not_depend_on_the_set_of_loops(void **state)
{
    (void)state;
    /* a set that the machine lacks is replaced by the next best */
    static const char *const sets[] = {"c", "avx2", "avx512"};
    mr_loader_options o = options_of(2);
    o.start = MR_START_EXEC;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        assert_int_equal(setenv("MR_CPU", sets[i], 1), 0);
        for (int r = 0; r < N_RECIPES; r++)
            check_epochs(photos, r, &o, sets[i]);
    }
    assert_int_equal(unsetenv("MR_CPU"), 0);
}

static void packs_give_the_bytes_of_the_files(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        mr_pack_encoding encoding;
    } kinds[] = {{"dct", MR_PACK_DCT}, {"jpeg", MR_PACK_JPEG}, {"raw", MR_PACK_RAW}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char dir[700], spec[720];
        snprintf(dir, sizeof dir, "%s/%s", work, kinds[k].name);
        snprintf(spec, sizeof spec, "pack:%s", dir);
        mr_test_packs_make(photos, dir, kinds[k].encoding);
        for (int r = 0; r < N_RECIPES; r++)
            for (uint32_t n_workers = 0; n_workers <= 2; n_workers += 2) {
                mr_loader_options o = options_of(n_workers ? n_workers : MR_NO_WORKERS);
                check_epochs(spec, r, &o, kinds[k].name);
            }
    }
}

/* Wait until all entries exist, at most 30 s: a small epoch may end while a worker still packs. */
static void await_full(const char *cache)
{
    mr_dataset *dataset = mr_test_dataset(photos);
    mr_cache_report report = MR_CACHE_REPORT_INIT;
    mr_error error;
    for (unsigned i = 0; i < 3000 && report.n_filled < N_SAMPLES; i++) {
        if (i)
            mr_test_sleep_ms(10);
        assert_ok(mr_cache_stat(cache, dataset, true, &report, &error), &error);
    }
    assert_int_equal(report.n_filled, N_SAMPLES);
    mr_dataset_destroy(dataset);
}

static void a_cache_gives_the_bytes_of_the_files(void **state)
{
    (void)state;
    static const uint32_t workers[] = {MR_NO_WORKERS, 1, 8};
    char cache[700];
    snprintf(cache, sizeof cache, "%s/cache", work);
    mr_loader_options o = options_of(2);
    o.cache = cache;
    o.cache_slowdown = 100;
    mr_dataset *dataset = mr_test_dataset(photos);
    mr_loader *loader = mr_test_loader(dataset, texts[0], &o);
    for (int round = 0; round < 2; round++) { /* the cache fills meanwhile */
        uint64_t digests[N_EPOCHS];
        run_epochs(loader, digests);
        assert_memory_equal(digests, oracle[0], sizeof digests);
    }
    await_full(cache);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    for (int r = 0; r < N_RECIPES; r++)
        for (size_t i = 0; i < sizeof workers / sizeof *workers; i++) {
            o.num_workers = workers[i];
            assert_true(check_epochs(photos, r, &o, "cache").n_cached >= N_EPOCHS * N_SAMPLES);
        }
}

/* The batches of an epoch after its first one. kills: a worker is killed after the first batch. */
static uint64_t run_rest(mr_loader *loader, uint64_t epoch, bool kills)
{
    mr_batch *batch;
    int64_t pid;
    assert_int_equal(mr_loader_set_epoch(loader, epoch), MR_OK);
    assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_OK);
    mr_batch_release(batch);
    if (kills && mr_loader_worker_pids(loader, &pid, 1) > 0)
        kill((pid_t)pid, SIGKILL);
    struct mr_test_epoch rest = mr_test_epoch_rest(loader);
    assert_int_equal(rest.status, MR_END);
    assert_int_equal(rest.n_failures, 0);
    uint64_t digest = rest.digest;
    mr_test_epoch_free(&rest);
    return digest;
}

static void killed_workers_change_no_byte(void **state)
{
    (void)state;
    mr_loader_options calm = options_of(MR_NO_WORKERS), o = options_of(3);
    o.start = MR_START_EXEC;
    for (int r = 0; r < N_RECIPES; r++) {
        mr_dataset *dataset = mr_test_dataset(photos);
        mr_loader *expected = mr_test_loader(dataset, texts[r], &calm);
        mr_loader *loader = mr_test_loader(dataset, texts[r], &o);
        for (uint64_t e = 0; e < N_EPOCHS; e++)
            assert_int_equal(run_rest(loader, e, true), run_rest(expected, e, false));
        mr_loader_destroy(loader);
        mr_loader_destroy(expected);
        mr_dataset_destroy(dataset);
    }
}

static void join_parts(int recipe)
{
    size_t len = 0;
    for (size_t i = 0; i < sizeof recipes[0] / sizeof *recipes[0] && recipes[recipe][i]; i++)
        len += (size_t)snprintf(texts[recipe] + len, sizeof texts[0] - len, "%s%s", i ? "+" : "",
                                recipes[recipe][i]);
    assert_true(len < sizeof texts[0]);
}

static int make_folder(void **state)
{
    (void)state;
    work = mr_test_folder_create();
    snprintf(photos, sizeof photos, "%s/photos", work);
    assert_int_equal(mkdir(photos, 0777), 0);
    mr_test_folder_fill(photos, N_CLASSES, N_IMAGES);
    mr_test_sleep_ms(SETTLE_MS);
    mr_loader_options options = options_of(MR_NO_WORKERS);
    options.reader = MR_READER_PREAD;
    for (int r = 0; r < N_RECIPES; r++) {
        mr_dataset *dataset = mr_test_dataset(photos);
        join_parts(r);
        mr_loader *loader = mr_test_loader(dataset, texts[r], &options);
        run_epochs(loader, oracle[r]);
        assert_true(oracle[r][0] != oracle[r][1]);
        mr_loader_destroy(loader);
        mr_dataset_destroy(dataset);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_do_not_depend_on_the_number_of_workers),
        cmocka_unit_test(bytes_do_not_depend_on_the_set_of_loops),
        cmocka_unit_test(packs_give_the_bytes_of_the_files),
        cmocka_unit_test(a_cache_gives_the_bytes_of_the_files),
        cmocka_unit_test(killed_workers_change_no_byte),
    };
    return cmocka_run_group_tests(tests, make_folder, NULL);
}
