/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures samples per second with several numbers of workers, against the speed of light over the
 * same boxes. A loader is made, used for one epoch and measured over the following ones, so that
 * its slots are as empty at the start as at the end.
 */
#include "bench/end_to_end.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { MAX_SEEN_WORKERS = 64 };

static double read_own_cpu(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static double read_workers_cpu(mr_loader *loader)
{
    int64_t pids[MAX_SEEN_WORKERS];
    uint32_t n = mr_loader_worker_pids(loader, pids, MAX_SEEN_WORKERS);
    double seconds = 0;
    for (uint32_t i = 0; i < n && i < MAX_SEEN_WORKERS; i++) {
        clockid_t clock;
        struct timespec time;
        if (clock_getcpuclockid((pid_t)pids[i], &clock) == 0 && clock_gettime(clock, &time) == 0)
            seconds += (double)time.tv_sec + (double)time.tv_nsec / 1e9;
    }
    return seconds;
}

/* Number of pixels of this batch that differ from those of a worker's code run here. */
static uint64_t count_wrong_pixels(const struct mr_photos *photos, struct mr_plan_runner *runner,
                                   uint8_t *scratch, const mr_batch *batch)
{
    const int64_t *index = mr_batch_data(batch, "index");
    const uint8_t *image = mr_batch_data(batch, "image");
    uint64_t n_wrong = 0;
    for (uint32_t row = 0; row < mr_batch_size(batch); row++) {
        const struct mr_photo *photo = NULL;
        for (uint64_t i = 0; i < photos->n && !photo; i++)
            photo = photos->photo[i].index == index[row] ? &photos->photo[i] : NULL;
        struct mr_rng rng;
        struct mr_plan_runner_report report;
        mr_rng_init(&rng, 0, mr_batch_epoch(batch), (uint64_t)index[row]);
        bool right = photo && mr_plan_runner_run(runner, photo->bytes, photo->len, true, &rng,
                                                 scratch, &report, NULL) == MR_OK;
        n_wrong += !right || memcmp(scratch, image + row * photos->plan.out_bytes,
                                    photos->plan.out_bytes) != 0;
    }
    return n_wrong;
}

static mr_status check_epoch(struct mr_end_to_end *bench, mr_loader *loader, struct mr_run *run,
                             mr_error *error)
{
    struct mr_plan_runner *runner;
    mr_batch *batch;
    uint8_t *scratch = malloc(bench->photos.plan.out_bytes);
    if (!scratch)
        return mr_error_memory(error, bench->photos.plan.out_bytes);
    mr_status status =
        mr_plan_runner_create(&bench->photos.plan, &mr_photos_limits, false, &runner, error);
    if (status != MR_OK) {
        free(scratch);
        return status;
    }
    while ((status = mr_loader_next(loader, MR_FOREVER, &batch)) == MR_OK) {
        run->n_wrong += count_wrong_pixels(&bench->photos, runner, scratch, batch);
        mr_batch_release(batch);
    }
    mr_plan_runner_destroy(runner);
    free(scratch);
    if (status != MR_END)
        mr_error_copy(error, mr_loader_error(loader));
    return status == MR_END ? MR_OK : status;
}

/* Run epochs 1 .. n_epochs; epoch 0 was the loader's warm-up. */
static mr_status run_epochs(struct mr_end_to_end *bench, mr_loader *loader, struct mr_run *run,
                            mr_error *error)
{
    double self = read_own_cpu(), workers = read_workers_cpu(loader);
    uint64_t start = mr_clock_now_ns();
    for (uint64_t epoch = 1; epoch <= bench->n_epochs; epoch++) {
        uint64_t n = 0, n_wrong = 0;
        mr_status status = mr_loader_set_epoch(loader, epoch);
        if (status != MR_OK) {
            mr_error_copy(error, mr_loader_error(loader));
            return status;
        }
        status = mr_end_to_end_epoch(bench, loader, &n, &n_wrong, error);
        if (status != MR_OK)
            return status;
        run->n_items += n;
        run->n_wrong += n_wrong;
    }
    run->seconds = (double)(mr_clock_now_ns() - start) / 1e9;
    self = read_own_cpu() - self;
    workers = read_workers_cpu(loader) - workers;
    run->value = self + workers > 0 ? 100 * self / (self + workers) : 0;
    return MR_OK;
}

static mr_status run_loader(struct mr_end_to_end *bench, uint32_t num_workers, struct mr_run *run,
                            mr_error *error)
{
    mr_loader_options options = mr_end_to_end_options(num_workers);
    options.n_epochs = bench->n_epochs + 1;
    mr_loader *loader;
    mr_status status = mr_loader_create(bench->photos.dataset, NULL, &options, &loader, error);
    if (status != MR_OK)
        return status;
    uint64_t n, n_wrong = 0;
    if (run->check)
        status = check_epoch(bench, loader, run, error);
    else
        status = mr_end_to_end_epoch(bench, loader, &n, &n_wrong, error);
    if (status == MR_OK)
        status = run_epochs(bench, loader, run, error);
    run->n_wrong += n_wrong;
    mr_loader_destroy(loader);
    return status;
}

static mr_status run_none(void *user, struct mr_run *run, mr_error *error)
{
    return run_loader(user, MR_NO_WORKERS, run, error);
}

static mr_status run_1(void *user, struct mr_run *run, mr_error *error)
{
    return run_loader(user, 1, run, error);
}

static mr_status run_2(void *user, struct mr_run *run, mr_error *error)
{
    return run_loader(user, 2, run, error);
}

static mr_status run_8(void *user, struct mr_run *run, mr_error *error)
{
    return run_loader(user, 8, run, error);
}

static mr_status run_light(void *user, struct mr_run *run, mr_error *error)
{
    struct mr_end_to_end *bench = user;
    const struct mr_roi_job boxes = {.photos = &bench->photos, .first_epoch = 1};
    const struct mr_forked_job job = mr_roi_decode_job(&boxes);
    run->n_items = bench->photos.n * bench->n_epochs;
    return mr_forked_run(&job, 2, run->n_items, &run->seconds, &run->n_wrong, error);
}

void mr_e2e_throughput_add(struct mr_end_to_end *bench)
{
    mr_engine_add(bench->engine, "loader, no workers", run_none, bench);
    mr_engine_add(bench->engine, "loader, 1 worker", run_1, bench);
    mr_engine_add(bench->engine, "loader, 2 workers", run_2, bench);
    mr_engine_add(bench->engine, "speed of light, 2 processes", run_light, bench);
    mr_engine_add(bench->engine, "loader, 8 workers", run_8, bench);
}

void mr_e2e_throughput_figures(struct mr_engine *engine)
{
    mr_engine_ratio(engine, "2 workers / speed of light, 2", "loader, 2 workers",
                    "speed of light, 2 processes", MR_AIM_AT_LEAST, 0.62);
    mr_engine_ratio(engine, "2 workers / 1 worker", "loader, 2 workers", "loader, 1 worker",
                    MR_AIM_AT_LEAST, 1.9);
    mr_engine_ratio(engine, "8 workers / 2 workers", "loader, 8 workers", "loader, 2 workers",
                    MR_AIM_AT_LEAST, 0.97);
    mr_engine_ratio(engine, "no workers / 1 worker", "loader, no workers", "loader, 1 worker",
                    MR_AIM_AT_LEAST, 0.97);
    mr_engine_bound_value(engine, "host's share of CPU, 2 workers", "loader, 2 workers", "%",
                          MR_AIM_BELOW, 2);
}
