/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU twin of finish_cuda.cu: the same inline arithmetic, pixel by pixel, as a kernel on the fake stream, with
 * threads running from last to first. The settings (job->finish) are read at the launch, everything else when the
 * kernel runs.
 */
#include "pinned/finish.h"
#include "pinned/finish_cuda.h"
#include "pinned/finish_pixel.h"
#include "tests/double/double_machine.h"

enum { DESCRIPTORS, STAGING, OUT, STATUS, TABLES };

static void finish_sample(const struct mr_finish_view *view, const struct mr_descriptor *descriptor)
{
    uint32_t row = mr_finish_row(view, descriptor);
    if (row == MR_NO_ROW)
        return;
    const uint8_t *source = mr_finish_source(view, descriptor);
    for (uint64_t pixel = view->n_pixels; pixel-- > 0;)
        mr_finish_pixel(view, row, source, descriptor->flip, pixel);
}

static void run_finish(void *payload, void *const *views)
{
    struct mr_finish_view view = *(const struct mr_finish_view *)payload;
    view.descriptors = views[DESCRIPTORS];
    view.staging = views[STAGING];
    view.out = views[OUT];
    view.status = views[STATUS];
    if (view.exact)
        view.tables = views[TABLES];
    for (uint32_t i = view.n; i-- > 0;) {
        view.status[i] = mr_finish_check(&view, &view.descriptors[i]);
        finish_sample(&view, &view.descriptors[i]);
    }
}

static cudaError_t launch(const struct mr_finish_job *job, cudaStream_t stream)
{
    uint64_t n = job->n;
    struct double_access accesses[] = {
        [DESCRIPTORS] = {(void *)job->descriptors, n * sizeof *job->descriptors, false},
        [STAGING] = {(void *)job->staging, job->staging_len, false},
        [OUT] = {job->out, n * mr_finish_out_bytes(job->finish), true},
        [STATUS] = {job->status, n * sizeof *job->status, true},
        [TABLES] = {(void *)job->tables, sizeof job->finish->table, false},
    };
    struct mr_finish_view view;
    mr_finish_view_init(&view, job);
    struct double_work work = {.name = "finish", .run = run_finish, .gate = DOUBLE_NO_GATE};
    return double_kernel_issue(stream, accesses, job->finish->exact ? 5 : 4, &work, &view, sizeof view);
}

/* A launch is what fails in the runtime, so that is its name where errors are ordered and calls counted. */
int mr_finish_cuda_launch(const struct mr_finish_job *job, void *stream)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaLaunchKernel", stream, DOUBLE_CONTEXT))
        return double_call_end(&call, call.error);
    return double_call_end(&call, job->n > 0 ? launch(job, stream) : cudaSuccess);
}
