/* SPDX-License-Identifier: Apache-2.0 */
/* Stage: the speed of light. Plain processes read each file and decode its box, nothing else. */
#include "bench/stages.h"

#include "bench/roi_decode.h"

static mr_status run_processes(struct mr_photos *photos, uint32_t n_processes, struct mr_run *run,
                               mr_error *error)
{
    const struct mr_roi_job boxes = {.photos = photos};
    const struct mr_forked_job job = mr_roi_decode_job(&boxes);
    run->n_items = photos->n;
    return mr_forked_run(&job, n_processes, photos->n, &run->seconds, &run->n_wrong, error);
}

static mr_status run_one(void *user, struct mr_run *run, mr_error *error)
{
    return run_processes(user, 1, run, error);
}

static mr_status run_two(void *user, struct mr_run *run, mr_error *error)
{
    return run_processes(user, 2, run, error);
}

void mr_stage_light_add(struct mr_engine *engine, struct mr_photos *photos)
{
    mr_engine_add(engine, "speed of light, 1 process", run_one, photos);
    mr_engine_add(engine, "speed of light, 2 processes", run_two, photos);
}
