/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU version of finish_cuda.cu: the same inline arithmetic, pixel by pixel, as a kernel on the
 * fake stream, with threads running from last to first. The settings (job->finish) are read at the
 * launch, everything else when the kernel runs.
 */
#include "pinned/finish.h"
#include "pinned/finish_cuda.h"
#include "pinned/finish_pixel.h"
#include "tests/double/double_machine.h"

/* The accesses that every launch has; the others follow in the order of add_others(). */
enum { MASK, STAGING, OUT, OTHERS, MAX_VIEWS = OTHERS + 3 };

static void finish_sample(const struct mr_finish_view *view, uint32_t i)
{
    struct mr_finish_sample sample;
    mr_finish_sample_init(&sample, view, i);
    for (uint64_t pixel = view->n_pixels; pixel-- > 0;)
        mr_finish_pixel(view, &sample, pixel);
}

static void run_finish(void *payload, void *const *views)
{
    struct mr_finish_view view = *(const struct mr_finish_view *)payload;
    view.mask = views[MASK];
    view.staging = views[STAGING];
    view.out = views[OUT];
    uint32_t next = OTHERS;
    if (view.exact)
        view.tables = views[next++];
    if (view.erases) {
        view.erases = views[next++];
        view.normals = views[next++];
    }
    for (uint32_t i = view.n; i-- > 0;)
        finish_sample(&view, i);
}

static uint32_t add_others(const struct mr_finish_job *job, struct double_access *accesses)
{
    uint32_t n = 0;
    if (job->finish->exact)
        accesses[n++] =
            (struct double_access){(void *)job->tables, sizeof job->finish->table, false};
    if (job->finish->erases) {
        accesses[n++] =
            (struct double_access){(void *)job->erases, job->n * sizeof *job->erases, false};
        accesses[n++] = (struct double_access){(void *)job->normals, sizeof mr_normal_nodes, false};
    }
    return n;
}

static cudaError_t launch(const struct mr_finish_job *job, cudaStream_t stream)
{
    uint64_t n = job->n;
    struct mr_finish_view view;
    mr_finish_view_init(&view, job);
    struct double_access accesses[MAX_VIEWS] = {
        [MASK] = {(void *)job->mask, n, false},
        [STAGING] = {(void *)job->staging, n * view.source_bytes, false},
        [OUT] = {job->out, n * mr_finish_out_bytes(job->finish), true},
    };
    uint32_t n_accesses = OTHERS + add_others(job, accesses + OTHERS);
    struct double_work work = {.name = "finish", .run = run_finish, .gate = DOUBLE_NO_GATE};
    return double_kernel_issue(stream, accesses, n_accesses, &work, &view, sizeof view);
}

/* In the runtime this is a launch, so errors are injected and calls counted under that name. */
int mr_finish_cuda_launch(const struct mr_finish_job *job, void *stream)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaLaunchKernel", stream, DOUBLE_CONTEXT))
        return double_call_end(&call, call.error);
    return double_call_end(&call, job->n > 0 ? launch(job, stream) : cudaSuccess);
}
