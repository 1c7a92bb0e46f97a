/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_start [--device cuda:0] [--data FOLDER] [--workers N] [--brief] [--tiny]: the time from
 * mr_loader_create() to the first batch on the GPU. The first loader of the process also starts
 * CUDA.
 */
#include "tests/gpu/gpu_check.h"
#include "tests/gpu/gpu_setup.h"

#include <stdlib.h>

enum { MAX_LOADERS = 4 };

struct start {
    double create_s;
    double first_s; /* from the same start until the batch is on the GPU */
};

static struct start start_loader(struct gpu_setup *setup, mr_dataset *dataset)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    mr_batch *batch;
    options.device = setup->device;
    options.batch_size = gpu_setup_batch(setup, 256);
    options.dtype = MR_F16;
    options.num_workers = setup->n_workers ? setup->n_workers : gpu_setup_n_cpus();
    int64_t begin_ns = gpu_report_now_ns();
    mr_loader *loader = gpu_setup_loader(setup, dataset, NULL, &options);
    int64_t created_ns = gpu_report_now_ns();
    if (mr_loader_next(loader, MR_FOREVER, &batch) != MR_OK)
        gpu_report_die(&setup->report, "%s", mr_loader_error(loader)->text);
    int64_t end_ns = gpu_report_now_ns();
    mr_batch_release(batch);
    mr_loader_destroy(loader);
    return (struct start){(double)(created_ns - begin_ns) * 1e-9,
                          (double)(end_ns - begin_ns) * 1e-9};
}

static void report_starts(const struct start *starts, uint32_t n, const char *which, double aim)
{
    double create_s[MAX_LOADERS], first_s[MAX_LOADERS];
    for (uint32_t i = 0; i < n; i++) {
        create_s[i] = starts[i].create_s;
        first_s[i] = starts[i].first_s;
    }
    char *name = gpu_setup_text("%s: mr_loader_create, s", which);
    gpu_report_figure(name, create_s, n, false, 0);
    free(name);
    name = gpu_setup_text("%s: create to first batch on the GPU, s", which);
    gpu_report_figure(name, first_s, n, false, aim);
    free(name);
}

int gpu_start_main(int argc, char **argv)
{
    struct gpu_setup setup;
    struct start starts[MAX_LOADERS];
    gpu_setup_init(&setup, argc, argv);
    uint32_t n = setup.brief ? 2 : MAX_LOADERS;
    mr_dataset *photos = gpu_setup_dataset(&setup, setup.photos);
    char *list = gpu_setup_list(&setup, "repeated.txt",
                                2048 / (uint32_t)mr_dataset_n_samples(photos) + 1, NULL);
    mr_dataset *dataset = gpu_setup_dataset(&setup, list);
    if (gpu_report_begin(&setup.report, "a loader's first batch")) {
        for (uint32_t i = 0; i < n; i++)
            starts[i] = start_loader(&setup, dataset);
        report_starts(starts, 1, "first loader of a process", 2);
        report_starts(starts + 1, n - 1, "later loaders", 1);
        gpu_report_end(&setup.report);
    }
    mr_dataset_destroy(dataset);
    mr_dataset_destroy(photos);
    free(list);
    return gpu_setup_end(&setup);
}
