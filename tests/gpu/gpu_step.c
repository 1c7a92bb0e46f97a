/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_step [--device cuda:0] [--data FOLDER] [--workers N] [--only WORD] [--brief] [--tiny]: a
 * training loop whose step is a spin of known length. Measures how much of the time the accelerator
 * computes, what the training thread costs, and, on a GPU, whether copies slow down a busy GPU.
 *
 * The step is many kernels of 1 ms that take every thread of the GPU, because a real step is many
 * kernels; the loader's kernels must fit in between. With --device host:0 the step is a sleep.
 */
#include "tests/gpu/gpu_check.h"
#include "tests/gpu/gpu_step_busy.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { BATCH = 256, WARM_UP = 4, MAX_STEPS = 64, N_UNTIL_STEADY = 20, N_ALONE = 5 };

struct trainer {
    struct gpu_setup *setup;
    struct gpu_cuda cuda; /* on a GPU */
    bool on_gpu;
    cudaStream_t stream;
    cudaEvent_t begin[MAX_STEPS];
    cudaEvent_t end[MAX_STEPS];
    mr_dataset *dataset;
};

static void sleep_ns(int64_t ns)
{
    struct timespec pause = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    nanosleep(&pause, NULL);
}

static int64_t thread_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static double rusage_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static mr_loader *make_loader(struct trainer *t)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.device = t->setup->device;
    options.batch_size = gpu_setup_batch(t->setup, BATCH);
    options.drop_last = true;
    options.dtype = MR_F16;
    options.num_workers = t->setup->n_workers ? t->setup->n_workers : gpu_setup_n_cpus();
    return gpu_setup_loader(t->setup, t->dataset, NULL, &options);
}

/* One step's work; on a GPU it is only issued to the stream. */
static void run_compute(struct trainer *t, uint32_t i, uint32_t step_ms)
{
    if (!t->on_gpu) {
        sleep_ns(step_ms * INT64_C(1000000));
        return;
    }
    gpu_cuda_ok(&t->cuda, cudaEventRecord(t->begin[i], t->stream), "cudaEventRecord");
    for (uint32_t k = 0; k < step_ms; k++)
        gpu_cuda_ok(&t->cuda, gpu_kernel_spin(1000000, 2 * t->cuda.n_sm, 1024, t->stream),
                    "a spin");
    gpu_cuda_ok(&t->cuda, cudaEventRecord(t->end[i], t->stream), "cudaEventRecord");
}

struct measured {
    int64_t wall_ns;           /* after the warm-up, by the host's clock */
    int64_t calls_ns;          /* CPU time of this thread in the loader's calls */
    double cpu_s;              /* of this thread, in all */
    double step_ms[MAX_STEPS]; /* computing time */
    double alone_ms;           /* median of steps without a loader */
    mr_loader_stats until_steady;
    /* From the first step's begin to the last step's end, by the device's clock. */
    double whole_ms;
};

/* By the GPU's clock, without the warm-up. */
static void read_events(struct trainer *t, uint32_t n_steps, struct measured *m)
{
    float ms;
    gpu_cuda_sync(&t->cuda, t->stream);
    for (uint32_t i = WARM_UP; i < n_steps; i++) {
        gpu_cuda_ok(&t->cuda, cudaEventElapsedTime(&ms, t->begin[i], t->end[i]),
                    "cudaEventElapsedTime");
        m->step_ms[i - WARM_UP] = (double)ms;
    }
    gpu_cuda_ok(&t->cuda, cudaEventElapsedTime(&ms, t->begin[WARM_UP], t->end[n_steps - 1]),
                "cudaEventElapsedTime");
    m->whole_ms = (double)ms;
}

/* Steps without copies at the same time. */
static double compute_alone(struct trainer *t, uint32_t step_ms)
{
    double steps[N_ALONE];
    for (uint32_t i = 0; i < N_ALONE; i++) {
        int64_t begin = gpu_report_now_ns();
        run_compute(t, i, step_ms);
        steps[i] = (double)(gpu_report_now_ns() - begin) * 1e-6;
    }
    if (t->on_gpu)
        gpu_cuda_sync(&t->cuda, t->stream);
    for (uint32_t i = 0; t->on_gpu && i < N_ALONE; i++) {
        float ms;
        gpu_cuda_ok(&t->cuda, cudaEventElapsedTime(&ms, t->begin[i], t->end[i]),
                    "cudaEventElapsedTime");
        steps[i] = (double)ms;
    }
    return gpu_report_median(steps, N_ALONE);
}

static struct measured train_steps(struct trainer *t, mr_loader *loader, uint32_t n_steps,
                                   uint32_t step_ms)
{
    struct measured m = {.until_steady = MR_LOADER_STATS_INIT};
    int64_t begin = 0;
    for (uint32_t i = 0; i < n_steps; i++) {
        mr_batch *batch;
        if (i == WARM_UP) {
            begin = gpu_report_now_ns();
            m.cpu_s = rusage_seconds();
            m.calls_ns = 0;
        }
        if (i == N_UNTIL_STEADY)
            mr_loader_get_stats(loader, &m.until_steady);
        int64_t cpu = thread_cpu_ns();
        if (mr_loader_next_on(loader, MR_FOREVER, t->stream, &batch) != MR_OK)
            gpu_report_die(&t->setup->report, "%s", mr_loader_error(loader)->text);
        m.calls_ns += thread_cpu_ns() - cpu;
        int64_t started = gpu_report_now_ns();
        run_compute(t, i, step_ms);
        if (i >= WARM_UP && !t->on_gpu)
            m.step_ms[i - WARM_UP] = (double)(gpu_report_now_ns() - started) * 1e-6;
        cpu = thread_cpu_ns();
        if (mr_batch_release_on(batch, t->stream) != MR_OK)
            gpu_report_die(&t->setup->report, "a release failed");
        m.calls_ns += thread_cpu_ns() - cpu;
    }
    if (t->on_gpu)
        read_events(t, n_steps, &m);
    m.wall_ns = gpu_report_now_ns() - begin;
    if (!t->on_gpu)
        m.whole_ms = (double)m.wall_ns * 1e-6;
    m.cpu_s = rusage_seconds() - m.cpu_s;
    return m;
}

static void report_step(const struct trainer *t, const struct measured *m, uint32_t n,
                        uint32_t step_ms, const mr_loader_stats *stats)
{
    double sum_ms = 0;
    char *name =
        gpu_setup_text("step of %u ms: share of time that the accelerator computed", step_ms);
    for (uint32_t i = 0; i < n; i++)
        sum_ms += m->step_ms[i];
    double share = sum_ms / m->whole_ms;
    gpu_report_figure(name, &share, 1, true, step_ms == 85 ? 0.90 : 0);
    free(name);

    name = gpu_setup_text("step of %u ms: image/s", step_ms);
    double rate = n * (double)gpu_setup_batch(t->setup, BATCH) / (m->whole_ms * 1e-3);
    gpu_report_figure(name, &rate, 1, true, 0);
    free(name);

    name = gpu_setup_text("step of %u ms: ms as computed", step_ms);
    double steps[MAX_STEPS];
    memcpy(steps, m->step_ms, n * sizeof *steps);
    gpu_report_figure(name, steps, n, true, 0);
    free(name);

    name = gpu_setup_text("step of %u ms: time with the loader / alone", step_ms);
    double slower = gpu_report_median(m->step_ms, n) / m->alone_ms;
    gpu_report_figure(name, &slower, 1, false, 0);
    free(name);

    name = gpu_setup_text("step of %u ms: share of steps that found their batch ready", step_ms);
    double ready = stats->ready_share;
    gpu_report_figure(name, &ready, 1, true, 0);
    free(name);
    uint64_t n_steady = stats->n_steps - m->until_steady.n_steps;
    if (m->until_steady.n_steps > 0 && n_steady > 0) {
        name = gpu_setup_text("step of %u ms: the same after %u batches", step_ms,
                              (uint32_t)N_UNTIL_STEADY);
        ready = (double)(stats->n_steps_ready - m->until_steady.n_steps_ready) / (double)n_steady;
        gpu_report_figure(name, &ready, 1, true, step_ms == 85 ? 0.99 : 0);
        free(name);
    }

    name = gpu_setup_text("step of %u ms: training thread's CPU, %% of the time", step_ms);
    double cpu = m->cpu_s * 1e9 / (double)m->wall_ns * 100;
    gpu_report_figure(name, &cpu, 1, false, 0);
    free(name);

    name = gpu_setup_text("step of %u ms: CPU in next_on and release_on, us a step", step_ms);
    double calls = (double)m->calls_ns * 1e-3 / n;
    gpu_report_figure(name, &calls, 1, false, 0);
    free(name);
}

static void run_steps(struct trainer *t, uint32_t step_ms, uint32_t n_steps)
{
    char *name = gpu_setup_text("a training loop with a step of %u ms for %u images", step_ms,
                                gpu_setup_batch(t->setup, BATCH));
    if (gpu_report_begin(&t->setup->report, name)) {
        double alone_ms = compute_alone(t, step_ms);
        mr_loader *loader = make_loader(t);
        mr_loader_stats stats = MR_LOADER_STATS_INIT;
        struct measured m = train_steps(t, loader, n_steps, step_ms);
        m.alone_ms = alone_ms;
        mr_loader_get_stats(loader, &stats);
        report_step(t, &m, n_steps - WARM_UP, step_ms, &stats);
        mr_loader_destroy(loader);
        gpu_report_end(&t->setup->report);
    }
    free(name);
}

static void open_gpu(struct trainer *t)
{
    t->cuda = gpu_cuda_open(t->setup);
    t->stream = gpu_cuda_stream(&t->cuda, GPU_STREAM_NON_BLOCKING);
    for (uint32_t i = 0; i < MAX_STEPS; i++) {
        gpu_cuda_ok(&t->cuda, cudaEventCreate(&t->begin[i]), "cudaEventCreate");
        gpu_cuda_ok(&t->cuda, cudaEventCreate(&t->end[i]), "cudaEventCreate");
    }
}

static void close_gpu(struct trainer *t)
{
    for (uint32_t i = 0; i < MAX_STEPS; i++) {
        gpu_cuda_ok(&t->cuda, cudaEventDestroy(t->begin[i]), "cudaEventDestroy");
        gpu_cuda_ok(&t->cuda, cudaEventDestroy(t->end[i]), "cudaEventDestroy");
    }
    gpu_cuda_stream_end(&t->cuda, t->stream);
    gpu_cuda_close(&t->cuda);
}

int gpu_step_main(int argc, char **argv)
{
    struct gpu_setup setup;
    gpu_setup_init(&setup, argc, argv);
    struct trainer t = {.setup = &setup, .on_gpu = gpu_setup_on_gpu(&setup)};
    if (t.on_gpu)
        open_gpu(&t);
    mr_dataset *photos = gpu_setup_dataset(&setup, setup.photos);
    uint32_t times =
        (MAX_STEPS + 8) * gpu_setup_batch(&setup, BATCH) / (uint32_t)mr_dataset_n_samples(photos) +
        1;
    char *list = gpu_setup_list(&setup, "repeated.txt", times, NULL);
    t.dataset = gpu_setup_dataset(&setup, list);
    gpu_report_fact("workers of gpu_step", "%u",
                    setup.n_workers ? setup.n_workers : gpu_setup_n_cpus());

    run_steps(&t, 85, setup.brief ? 8 : 44);
    run_steps(&t, 36, setup.brief ? 8 : MAX_STEPS);
    if (t.on_gpu)
        gpu_step_busy(&setup, &t.cuda);

    mr_dataset_destroy(t.dataset);
    mr_dataset_destroy(photos);
    free(list);
    if (t.on_gpu)
        close_gpu(&t);
    return gpu_setup_end(&setup);
}
