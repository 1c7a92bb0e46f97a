/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage: everything that a worker does with the bytes of one sample: geometry, decoding,
 * resampling, conversion (train:224, u8, NCHW).
 */
#include "bench/stages.h"

#include "base/clock.h"
#include "bench/roi_decode.h"

#include <stdlib.h>
#include <string.h>

/* A new object made for this photograph must give the same bytes. */
static bool equals_fresh(const struct mr_plan *plan, const struct mr_photo *photo,
                         const uint8_t *out)
{
    struct mr_plan_runner *runner;
    struct mr_plan_runner_report report;
    struct mr_rng rng;
    uint8_t *again = malloc(plan->out_bytes);
    bool equal = again != NULL &&
                 mr_plan_runner_create(plan, &mr_photos_limits, false, &runner, NULL) == MR_OK;
    if (equal) {
        mr_rng_init(&rng, 0, 0, (uint64_t)photo->index);
        equal = mr_plan_runner_run(runner, photo->bytes, photo->len, true, &rng, again, &report,
                                   NULL) == MR_OK &&
                memcmp(again, out, plan->out_bytes) == 0;
        mr_plan_runner_destroy(runner);
    }
    free(again);
    return equal;
}

static mr_status run_plan(struct mr_photos *photos, const struct mr_plan *plan, struct mr_run *run,
                          mr_error *error)
{
    struct mr_plan_runner *runner;
    mr_status status = mr_plan_runner_create(plan, &mr_photos_limits, false, &runner, error);
    if (status != MR_OK)
        return status;
    uint8_t *out = malloc(plan->out_bytes);
    uint64_t start = mr_clock_now_ns();
    for (uint64_t i = 0; out && i < photos->n; i++) {
        const struct mr_photo *photo = &photos->photo[i];
        struct mr_plan_runner_report report;
        struct mr_rng rng;
        mr_rng_init(&rng, 0, 0, (uint64_t)photo->index);
        bool right = mr_plan_runner_run(runner, photo->bytes, photo->len, true, &rng, out, &report,
                                        NULL) == MR_OK &&
                     report.geometry[4] == photo->stage.source.width &&
                     report.geometry[5] == photo->stage.source.height;
        run->n_wrong += !right || (run->check && !equals_fresh(plan, photo, out));
    }
    run->seconds = (double)(mr_clock_now_ns() - start) / 1e9;
    run->n_items = photos->n;
    status = out ? MR_OK : mr_error_memory(error, plan->out_bytes);
    free(out);
    mr_plan_runner_destroy(runner);
    return status;
}

static mr_status run_whole(void *user, struct mr_run *run, mr_error *error)
{
    struct mr_photos *photos = user;
    return run_plan(photos, &photos->plan, run, error);
}

static mr_status run_bicubic(void *user, struct mr_run *run, mr_error *error)
{
    struct mr_photos *photos = user;
    return run_plan(photos, &photos->bicubic, run, error);
}

void mr_stage_whole_add(struct mr_engine *engine, struct mr_photos *photos)
{
    mr_engine_add(engine, "whole sample", run_whole, photos);
    mr_engine_add(engine, "whole sample, bicubic", run_bicubic, photos);
}
