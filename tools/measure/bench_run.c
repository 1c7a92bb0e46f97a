/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common part of bench and tune. A failed sample does not end the measurement; the exit status
 * reports it at the end.
 */
#include "tools/measure/bench_run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/measure/bench_json.h"
#include "tools/command.h"
#include "tools/say.h"

int mr_bench_run_open(struct mr_bench_run *run, const struct mr_bench_args *args, int argc,
                      char **argv)
{
    *run = (struct mr_bench_run){.args = args};
    if (args->json != NULL && !mr_bench_json_check())
        return MR_EXIT_FAILED;
    if (!mr_outlet_open(&run->json, args->json))
        return MR_EXIT_FAILED;
    int exit_status = MR_EXIT_FAILED;
    if (mr_bench_report_meta(&run->meta, argc, argv))
        exit_status = mr_feed_open(&run->feed, &args->common);
    if (exit_status != MR_EXIT_OK) {
        mr_bench_report_free(&run->meta);
        mr_outlet_close(&run->json);
    }
    mr_progress_init(&run->progress);
    return exit_status;
}

int mr_bench_run_close(struct mr_bench_run *run, int exit_status)
{
    mr_feed_close(&run->feed);
    mr_bench_report_free(&run->meta);
    mr_outlet_close(&run->json);
    return exit_status == MR_EXIT_OK && run->failed ? MR_EXIT_FAILED : exit_status;
}

/* Fill in the resolved options; they are known after the first loader was created. */
static bool complete_meta(struct mr_bench_run *run)
{
    const struct mr_bench_args *args = run->args;

    run->meta.data = args->common.data;
    run->meta.device = args->device != NULL ? args->device : "host";
    run->meta.seconds = args->how.seconds;
    run->meta.step_ms = args->how.step_s * 1e3;
    run->meta.n_samples = mr_dataset_n_samples(run->feed.dataset);
    run->meta.options = *mr_loader_resolved(run->feed.loader);
    /* with --mean and --std, the transform differs from the given text */
    run->meta.transform = args->common.n_channels > 0
                              ? mr_feed_format_transform(run->feed.transform)
                              : strdup(run->feed.transform_name);
    if (run->meta.transform == NULL)
        mr_say_error("out of memory");
    return run->meta.transform != NULL;
}

static void report_failures(struct mr_bench_run *run, const struct mr_bench_row *row)
{
    if (row->failure[0] != '\0') {
        mr_say_error("--workers %" PRIu32 ": %" PRIu64 " batches failed; the first: %s",
                     row->workers, row->n_failed, row->failure);
        run->failed = true;
    } else if (row->n_failed > 0 && !run->damage_reported) {
        mr_feed_report_damage(&run->feed); /* once, because every row has the same samples */
        run->damage_reported = true;
    }
}

static bool report_row(struct mr_bench_run *run, struct mr_bench_row *row)
{
    if (!run->head_printed) {
        if (!complete_meta(run) || !mr_bench_report_head(&run->meta))
            return false;
        run->head_printed = true;
        run->first_img_s = row->img_s;
    }
    row->ratio = run->first_img_s > 0 ? row->img_s / run->first_img_s : 0;
    bool good = mr_bench_report_row(row);
    report_failures(run, row);
    return good;
}

int mr_bench_run_row(struct mr_bench_run *run, uint32_t workers, uint32_t round,
                     struct mr_bench_row *row_out)
{
    mr_loader_options options = mr_loader_args_options(&run->args->common, workers);
    int exit_status =
        mr_bench_row_measure(&run->feed, &options, &run->args->how, &run->progress, row_out);

    row_out->round = round;
    if (exit_status == MR_EXIT_OK && !report_row(run, row_out))
        exit_status = MR_EXIT_FAILED;
    mr_feed_stop(&run->feed);
    return exit_status;
}
