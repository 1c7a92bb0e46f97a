/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the time from create to the first batch, against the time that two running processes
 * need for the same samples. Also measures the time to make a loader over a long list.
 */
#include "bench/end_to_end.h"

#include "base/clock.h"

#include <stdlib.h>

static mr_status run_first_batch(void *user, struct mr_run *run, mr_error *error)
{
    struct mr_end_to_end *bench = user;
    mr_loader_options options = mr_end_to_end_options(2);
    mr_loader *loader;
    mr_batch *batch = NULL;
    uint64_t start = mr_clock_now_ns();
    mr_status status = mr_loader_create(bench->photos.dataset, NULL, &options, &loader, error);
    if (status != MR_OK)
        return status;
    status = mr_loader_next(loader, MR_FOREVER, &batch);
    run->seconds = (double)(mr_clock_now_ns() - start) / 1e9;
    if (status != MR_OK) {
        mr_error_copy(error, mr_loader_error(loader));
    } else {
        const int64_t *index = mr_batch_data(batch, "index");
        run->n_items = mr_batch_size(batch);
        for (uint64_t i = 0; i < run->n_items; i++)
            run->n_wrong += index[i] != bench->photos.photo[i].index;
    }
    mr_batch_release(batch);
    mr_loader_destroy(loader);
    return status;
}

/*
 * A process that does a worker's work. Never freed: the process is a fork, and its exit frees it.
 */
struct whole {
    struct mr_roi_file *file;
    struct mr_plan_runner *runner;
    uint8_t *out;
};

static void *begin_whole(const void *user)
{
    const struct mr_photos *photos = user;
    struct whole *whole = calloc(1, sizeof *whole);
    if (!whole)
        return NULL;
    whole->file = mr_roi_file_create(photos);
    whole->out = malloc(photos->plan.out_bytes);
    mr_status status =
        mr_plan_runner_create(&photos->plan, &mr_photos_limits, false, &whole->runner, NULL);
    return status == MR_OK && whole->file && whole->out ? whole : NULL;
}

static bool do_whole(void *state, const void *user, uint64_t item)
{
    struct whole *whole = state;
    const struct mr_photos *photos = user;
    const struct mr_photo *photo = &photos->photo[item];
    const uint8_t *bytes;
    struct mr_rng rng;
    struct mr_plan_runner_report report;
    size_t len = mr_roi_file_read(whole->file, photo->path, &bytes);
    mr_rng_init(&rng, 0, 0, (uint64_t)photo->index);
    return len == photo->len && mr_plan_runner_run(whole->runner, bytes, len, true, &rng,
                                                   whole->out, &report, NULL) == MR_OK;
}

static mr_status run_64(void *user, struct mr_run *run, mr_error *error)
{
    struct mr_end_to_end *bench = user;
    const struct mr_forked_job job = {
        .begin = begin_whole, .run = do_whole, .user = &bench->photos};
    run->n_items = bench->photos.n < MR_E2E_BATCH ? bench->photos.n : MR_E2E_BATCH;
    return mr_forked_run(&job, 2, run->n_items, &run->seconds, &run->n_wrong, error);
}

static mr_status run_create(void *user, struct mr_run *run, mr_error *error)
{
    struct mr_end_to_end *bench = user;
    mr_loader_options options = mr_end_to_end_options(2);
    options.on_error = MR_ON_ERROR_ZERO; /* the listed files do not exist */
    char spec[128];
    snprintf(spec, sizeof spec, "list:%s", bench->listed);
    mr_dataset *dataset;
    mr_loader *loader;
    uint64_t start = mr_clock_now_ns();
    mr_status status = mr_dataset_open(spec, NULL, &dataset, error);
    if (status != MR_OK)
        return status;
    uint64_t opened = mr_clock_now_ns();
    status = mr_loader_create(dataset, NULL, &options, &loader, error);
    uint64_t created = mr_clock_now_ns();
    run->seconds = (double)(created - start) / 1e9;
    run->value = (double)(created - start) / 1e6;
    run->n_items = 1;
    run->n_wrong = mr_dataset_n_samples(dataset) != MR_E2E_LISTED;
    mr_engine_fact_int(bench->engine, "list, open us", (int64_t)((opened - start) / 1000));
    mr_engine_fact_int(bench->engine, "list, make us", (int64_t)((created - opened) / 1000));
    if (status == MR_OK)
        mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    return status;
}

void mr_e2e_startup_add(struct mr_end_to_end *bench)
{
    mr_engine_add(bench->engine, "create to first batch, 2 w.", run_first_batch, bench);
    mr_engine_add(bench->engine, "64 samples, 2 processes", run_64, bench);
    mr_engine_add(bench->engine, "create from a list", run_create, bench);
}

void mr_e2e_startup_figures(struct mr_engine *engine)
{
    mr_engine_time_ratio(engine, "first batch / 64 samples, 2 processes",
                         "create to first batch, 2 w.", "64 samples, 2 processes", MR_AIM_BELOW,
                         1.3);
    mr_engine_bound_value(engine, "create, 1281167 listed files", "create from a list", "ms",
                          MR_AIM_BELOW, 300);
}
