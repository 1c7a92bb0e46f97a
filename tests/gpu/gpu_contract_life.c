/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares epochs, positions, damaged files, dead workers, lent batches and ends with the host's
 * loader.
 */
#include "tests/gpu/gpu_contract.h"

#include "tests/support/folder.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LENT = 16 };

static mr_loader_options small_options(const struct gpu_setup *setup)
{
    mr_loader_options options = gpu_contract_options(setup);
    options.batch_size = 8;
    options.dtype = MR_F16;
    return options;
}

static void compare_epochs(struct gpu_setup *setup)
{
    mr_loader_options options = small_options(setup);
    struct gpu_lockstep pair = gpu_lockstep_open(setup, setup->photos, "train:64", &options);
    for (uint64_t epoch = 0; epoch < 4; epoch++)
        gpu_lockstep_epoch(&pair, epoch);
    gpu_lockstep_step(&pair, 3);
    gpu_lockstep_epoch(&pair, 9);
    gpu_lockstep_step(&pair, 1);
    gpu_lockstep_epoch(&pair, 9);
    gpu_lockstep_epoch(&pair, 2);
    gpu_lockstep_close(&pair);
}

static void own_order(struct gpu_setup *setup)
{
    mr_loader_options options = small_options(setup);
    struct gpu_lockstep pair = gpu_lockstep_open(setup, setup->photos, "train:64", &options);
    int64_t order[100];
    for (int64_t i = 0; i < 100; i++)
        order[i] = (i * i * 7 + 3) % mr_dataset_n_samples(pair.dataset);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        gpu_report_expect(&setup->report,
                          mr_loader_set_epoch_order(pair.host, epoch, order, 100) == MR_OK &&
                              mr_loader_set_epoch_order(pair.device, epoch, order, 100) == MR_OK,
                          "an order was refused");
        gpu_lockstep_step(&pair, UINT64_MAX);
    }
    gpu_report_expect(&setup->report, pair.n_batches == 26, "%llu batches, not 26",
                      (unsigned long long)pair.n_batches);
    gpu_lockstep_close(&pair);
}

/*
 * A saved position does not count batches that were copied ahead, and a restored position drops
 * them.
 */
static void compare_positions(struct gpu_setup *setup)
{
    mr_loader_options options = small_options(setup);
    struct gpu_lockstep pair = gpu_lockstep_open(setup, setup->photos, "train:64", &options);
    uint8_t host[MR_LOADER_STATE_MAX];
    uint8_t device[MR_LOADER_STATE_MAX];
    size_t n_host = 0;
    size_t n_device = 1;
    gpu_lockstep_step(&pair, 4);
    bool saved = mr_loader_save(pair.host, host, sizeof host, &n_host) == MR_OK &&
                 mr_loader_save(pair.device, device, sizeof device, &n_device) == MR_OK;
    gpu_report_expect(&setup->report,
                      saved && n_host == n_device && memcmp(host, device, n_host) == 0,
                      "the saved positions differ");
    gpu_lockstep_step(&pair, 3);
    bool restored = mr_loader_restore(pair.host, device, n_device) == MR_OK &&
                    mr_loader_restore(pair.device, device, n_device) == MR_OK;
    gpu_report_expect(&setup->report, restored, "a position was refused");
    gpu_lockstep_step(&pair, UINT64_MAX);
    gpu_lockstep_epoch(&pair, 1);
    gpu_lockstep_close(&pair);
}

/* The photographs and, at the end of the list, four files that no decoder accepts. */
static char *damaged_list(struct gpu_setup *setup)
{
    static const uint8_t begin_of_jpeg[64] = {0xff, 0xd8, 0xff, 0xe0, 0, 16, 'J', 'F', 'I', 'F'};
    mr_test_folder_write(setup->folder, "cut.jpg", begin_of_jpeg, sizeof begin_of_jpeg);
    mr_test_folder_write(setup->folder, "text.jpg", "no image\n", 9);
    mr_test_folder_write(setup->folder, "empty.jpg", "", 0);
    return gpu_setup_list(setup, "damaged.txt", 1,
                          "cut.jpg\t0\ntext.jpg\t1\nempty.jpg\t2\nmissing.jpg\t1\n");
}

static void compare_damaged(struct gpu_setup *setup, mr_on_error on_error, uint64_t least_errors)
{
    char *spec = damaged_list(setup);
    mr_loader_options options = small_options(setup);
    options.on_error = on_error;
    struct gpu_lockstep pair = gpu_lockstep_open(setup, spec, "train:64", &options);
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    for (uint64_t epoch = 0; epoch < 3; epoch++)
        gpu_lockstep_epoch(&pair, epoch);
    mr_loader_get_stats(pair.device, &stats);
    gpu_report_expect(&setup->report, pair.n_errors >= least_errors,
                      "%llu errors took a batch's place", (unsigned long long)pair.n_errors);
    if (on_error != MR_ON_ERROR_FAIL)
        gpu_report_expect(&setup->report, stats.n_damaged >= 12,
                          "%llu damaged samples, not 12 or more",
                          (unsigned long long)stats.n_damaged);
    gpu_lockstep_close(&pair);
    free(spec);
}

static void damaged_fail(struct gpu_setup *setup)
{
    compare_damaged(setup, MR_ON_ERROR_FAIL, 3);
}

static void damaged_skip(struct gpu_setup *setup)
{
    compare_damaged(setup, MR_ON_ERROR_SKIP, 0);
}

static void damaged_zero(struct gpu_setup *setup)
{
    compare_damaged(setup, MR_ON_ERROR_ZERO, 0);
}

static uint32_t kill_workers(mr_loader *loader, uint32_t most)
{
    int64_t pids[64];
    uint32_t n = mr_loader_worker_pids(loader, pids, 64);
    uint32_t n_killed = 0;
    for (uint32_t i = 0; i < n && i < 64 && n_killed < most; i++)
        n_killed += kill((pid_t)pids[i], SIGKILL) == 0;
    return n_killed;
}

static void killed_workers(struct gpu_setup *setup)
{
    mr_loader_options options = small_options(setup);
    struct gpu_lockstep pair = gpu_lockstep_open(setup, setup->photos, "train:64", &options);
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    uint32_t n_killed = 0;
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        mr_loader_set_epoch(pair.host, epoch);
        mr_loader_set_epoch(pair.device, epoch);
        gpu_lockstep_step(&pair, 2);
        n_killed += kill_workers(pair.device, epoch == 1 ? 64 : 1);
        gpu_lockstep_step(&pair, UINT64_MAX);
    }
    gpu_report_expect(&setup->report, pair.n_batches == 3 * mr_loader_n_batches(pair.host),
                      "%llu batches", (unsigned long long)pair.n_batches);
    mr_loader_get_stats(pair.device, &stats);
    gpu_report_expect(&setup->report, n_killed > 2 && stats.n_deaths > 0,
                      "%u killed, %llu deaths counted", n_killed,
                      (unsigned long long)stats.n_deaths);
    gpu_lockstep_close(&pair);
}

static void ways_to_start(struct gpu_setup *setup)
{
    for (uint32_t i = 0; i < 2; i++) {
        mr_loader_options options = small_options(setup);
        if (i == 0)
            options.num_workers = MR_NO_WORKERS;
        else
            options.start = MR_START_THREAD;
        struct gpu_lockstep pair = gpu_lockstep_open(setup, setup->photos, "train:64", &options);
        gpu_lockstep_epoch(&pair, 0);
        gpu_lockstep_epoch(&pair, 1);
        gpu_lockstep_close(&pair);
    }
}

static void several_loaders(struct gpu_setup *setup)
{
    static const mr_dtype dtypes[] = {MR_U8, MR_F32, MR_BF16};
    struct gpu_lockstep pairs[3];
    for (uint32_t i = 0; i < 3; i++) {
        mr_loader_options options = small_options(setup);
        options.dtype = dtypes[i];
        options.seed = i;
        options.batch_size = 6 + i;
        pairs[i] =
            gpu_lockstep_open(setup, setup->photos, i == 1 ? "train:96" : "train:64", &options);
    }
    for (uint32_t round = 0; round < 6; round++)
        for (uint32_t i = 0; i < 3; i++)
            gpu_lockstep_step(&pairs[i], 1);
    gpu_lockstep_close(&pairs[1]);
    gpu_lockstep_step(&pairs[0], 2);
    gpu_lockstep_step(&pairs[2], 2);
    gpu_lockstep_close(&pairs[2]);
    gpu_lockstep_close(&pairs[0]);
}

/*
 * A loader may be destroyed before its batches: they do not change, and the last release frees
 * everything.
 */
static void lent_batches_outlive_the_loader(struct gpu_setup *setup)
{
    mr_loader_options options = small_options(setup);
    options.n_buffers = 4;
    for (uint32_t backwards = 0; backwards < 2; backwards++) {
        struct gpu_lockstep pair = gpu_lockstep_open(setup, setup->photos, "train:64", &options);
        mr_batch *host[4];
        mr_batch *device[4];
        for (uint32_t i = 0; i < 4; i++)
            if (mr_loader_next(pair.host, MR_FOREVER, &host[i]) != MR_OK ||
                mr_loader_next(pair.device, MR_FOREVER, &device[i]) != MR_OK)
                gpu_report_die(&setup->report, "%s", mr_loader_error(pair.device)->text);
        gpu_lockstep_close(&pair);
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t k = backwards ? 3 - i : i;
            gpu_lockstep_compare(&pair, host[k], device[k]);
            mr_batch_release(host[k]);
            gpu_report_expect(&setup->report, mr_batch_release(device[k]) == MR_OK,
                              "release %u failed", k);
        }
    }
}

/* With all buffers lent, next reports it, loses nothing, and works again after a release. */
static void all_buffers_lent(struct gpu_setup *setup)
{
    mr_loader_options options = small_options(setup);
    options.n_buffers = 2;
    mr_loader *loader;
    mr_batch *lent[3] = {NULL};
    mr_dataset *dataset = gpu_setup_dataset(setup, setup->photos);
    options.device = setup->device;
    loader = gpu_setup_loader(setup, dataset, "train:64", &options);
    for (uint32_t i = 0; i < 2; i++)
        if (mr_loader_next(loader, MR_FOREVER, &lent[i]) != MR_OK)
            gpu_report_die(&setup->report, "%s", mr_loader_error(loader)->text);
    for (uint32_t i = 0; i < 2; i++) {
        mr_status status = mr_loader_next(loader, MR_FOREVER, &lent[2]);
        gpu_report_expect(&setup->report, status == MR_ERR_STATE,
                          "next gave %s with all buffers lent", mr_status_name(status));
    }
    mr_batch_release(lent[0]);
    mr_status status = mr_loader_next(loader, 10000, &lent[2]);
    gpu_report_expect(&setup->report, status == MR_OK && mr_batch_number(lent[2]) == 2,
                      "after a release next gave %s and not batch 2", mr_status_name(status));
    mr_batch_release(lent[2]);
    mr_batch_release(lent[1]);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
}

static void loaders_come_and_go(struct gpu_setup *setup)
{
    mr_loader_options options = small_options(setup);
    mr_dataset *dataset = gpu_setup_dataset(setup, setup->photos);
    mr_batch *batch;
    options.device = setup->device;
    for (uint32_t i = 0; i < (setup->brief ? 3 : 10); i++) {
        mr_loader *loader = gpu_setup_loader(setup, dataset, "train:64", &options);
        for (uint32_t k = 0; k < i % 4; k++) {
            mr_status status = mr_loader_next(loader, MR_FOREVER, &batch);
            gpu_report_expect(&setup->report, status == MR_OK, "next gave %s",
                              mr_status_name(status));
            mr_batch_release(batch);
        }
        if (i % 2)
            mr_loader_cancel(loader);
        mr_loader_destroy(loader);
    }
    mr_dataset_destroy(dataset);
}

const struct gpu_case gpu_life_cases[] = {
    {"several epochs, and jumps between them", compare_epochs},
    {"orders of the caller's own", own_order},
    {"a saved position is continued", compare_positions},
    {"damaged files: the error takes the batch's place", damaged_fail},
    {"damaged files: the next good one stands in", damaged_skip},
    {"damaged files: zeros and mask 0", damaged_zero},
    {"workers are killed in the middle", killed_workers},
    {"no workers, and workers that are threads", ways_to_start},
    {"three loaders at once", several_loaders},
    {"lent batches outlive their loader", lent_batches_outlive_the_loader},
    {"all buffers lent is a state, and no batch is lost", all_buffers_lent},
    {"loaders come and go", loaders_come_and_go},
    {NULL, NULL}};
