/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where arrays are: buffers, labels elsewhere, several devices, names of devices that do not exist.
 */
#include "tests/gpu/gpu_contract.h"

#include <stdlib.h>
#include <string.h>

static mr_device_kind find_kind(const struct gpu_setup *setup)
{
    return gpu_setup_on_gpu(setup) ? MR_DEVICE_CUDA : MR_DEVICE_HOST;
}

/* host:N gives as many devices as a test needs. */
static uint32_t n_devices(const struct gpu_setup *setup)
{
    return gpu_setup_on_gpu(setup) ? mr_device_count(MR_DEVICE_CUDA, NULL) : 4;
}

static mr_batch *take_batch(struct gpu_setup *setup, mr_loader *loader)
{
    mr_batch *batch;
    if (mr_loader_next(loader, MR_FOREVER, &batch) != MR_OK)
        gpu_report_die(&setup->report, "%s", mr_loader_error(loader)->text);
    return batch;
}

static void constant_addresses(struct gpu_setup *setup)
{
    mr_loader_options options = gpu_contract_options(setup);
    void *image[64] = {NULL};
    void *label[64] = {NULL};
    options.batch_size = 4;
    options.n_buffers = 5;
    options.device = setup->device;
    mr_dataset *dataset = gpu_setup_dataset(setup, setup->photos);
    mr_loader *loader = gpu_setup_loader(setup, dataset, "train:64", &options);
    uint32_t n_seen = 0;
    for (uint32_t i = 0; i < 17; i++) {
        mr_batch *batch = take_batch(setup, loader);
        uint32_t buffer = mr_batch_buffer(batch);
        if (!gpu_report_expect(&setup->report, buffer < 5, "buffer %u of 5", buffer))
            break;
        const mr_array *array = mr_batch_array(batch, "image");
        gpu_report_expect(&setup->report, array->device.kind == find_kind(setup),
                          "the image is on kind %d", (int)array->device.kind);
        n_seen += image[buffer] == NULL;
        gpu_report_expect(&setup->report,
                          !image[buffer] || (image[buffer] == mr_batch_data(batch, "image") &&
                                             label[buffer] == mr_batch_data(batch, "label")),
                          "buffer %u has moved", buffer);
        image[buffer] = mr_batch_data(batch, "image");
        label[buffer] = mr_batch_data(batch, "label");
        mr_batch_release(batch);
    }
    gpu_report_expect(&setup->report, n_seen >= 2, "only %u buffers were used", n_seen);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
}

/*
 * Everything except the images is in another place; if that is the host, it is read there directly.
 */
static void labels_elsewhere(struct gpu_setup *setup)
{
    char *second = gpu_setup_device_name(setup, 1);
    const char *const places[] = {"host", "host:0", n_devices(setup) > 1 ? second : NULL};
    for (uint32_t i = 0; i < 3; i++) {
        mr_loader_options options = gpu_contract_options(setup);
        if (!places[i])
            continue;
        options.label_device = places[i];
        options.dtype = MR_F16;
        struct gpu_lockstep pair = gpu_lockstep_open(setup, setup->photos, "train:64", &options);
        gpu_lockstep_epoch(&pair, 0);
        mr_loader_set_epoch(pair.device, 1);
        mr_batch *batch = take_batch(setup, pair.device);
        mr_device device = mr_batch_array(batch, "label")->device;
        mr_device_kind wanted = places[i] == second ? find_kind(setup) : MR_DEVICE_HOST;
        gpu_report_expect(&setup->report, device.kind == wanted, "labels for %s are on kind %d",
                          places[i], (int)device.kind);
        gpu_report_expect(&setup->report,
                          mr_batch_array(batch, "image")->device.kind == find_kind(setup),
                          "the images have moved too");
        mr_batch_release(batch);
        gpu_lockstep_close(&pair);
    }
    free(second);
}

static void split_over_devices(struct gpu_setup *setup)
{
    uint32_t n = n_devices(setup);
    const char *names[MR_MAX_DEVICES];
    if (n < 2) {
        gpu_report_skip(&setup->report, "one GPU");
        return;
    }
    n = n > 4 ? 4 : n;
    for (uint32_t i = 0; i < n; i++)
        names[i] = gpu_setup_device_name(setup, i);
    for (uint32_t k = 0; k < 2; k++) {
        mr_loader_options options = gpu_contract_options(setup);
        options.devices = names;
        options.n_devices = n;
        options.dtype = k ? MR_BF16 : MR_U8;
        options.batch_size = k ? 9 : 5;
        options.label_device = k ? "host" : NULL;
        struct gpu_lockstep pair = gpu_lockstep_open(setup, setup->photos, "train:64", &options);
        gpu_lockstep_epoch(&pair, 0);
        gpu_lockstep_epoch(&pair, 1);
        gpu_lockstep_close(&pair);
    }
    for (uint32_t i = 0; i < n; i++)
        free((void *)names[i]);
}

static void expect_refusal(struct gpu_setup *setup, const mr_loader_options *options,
                           const char *what)
{
    mr_dataset *dataset = gpu_setup_dataset(setup, setup->photos);
    mr_loader *loader = NULL;
    mr_error error = {0};
    mr_status status = mr_loader_create(dataset, NULL, options, &loader, &error);
    gpu_report_expect(&setup->report, status < 0 && !loader && error.text[0], "%s gave %s", what,
                      mr_status_name(status));
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
}

static void names_that_lead_nowhere(struct gpu_setup *setup)
{
    static const char *const names[] = {"cuda:4096", "gpu:0", "cuda:", "cuda:-1", "host:x"};
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++) {
        mr_loader_options options = gpu_contract_options(setup);
        options.device = names[i];
        expect_refusal(setup, &options, names[i]);
    }
    mr_loader_options twice = gpu_contract_options(setup);
    const char *const same[] = {setup->device, setup->device};
    twice.devices = same;
    twice.n_devices = 2;
    expect_refusal(setup, &twice, "a device that is named twice");
}

static void count_bytes(struct gpu_setup *setup)
{
    mr_loader_options options = gpu_contract_options(setup);
    struct gpu_lockstep pair = gpu_lockstep_open(setup, setup->photos, "train:64", &options);
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    gpu_lockstep_epoch(&pair, 0);
    gpu_report_expect(&setup->report, mr_loader_get_stats(pair.device, &stats) == MR_OK,
                      "no statistics");
    gpu_report_expect(&setup->report,
                      stats.n_buffers == 3 && stats.h2d_bytes >= stats.n_samples * 3 * 64 * 64,
                      "%u buffers, %llu bytes copied for %llu samples", stats.n_buffers,
                      (unsigned long long)stats.h2d_bytes, (unsigned long long)stats.n_samples);
    if (gpu_setup_on_gpu(setup))
        gpu_report_expect(&setup->report, stats.h2d_ns > 0, "copies took no time");
    gpu_lockstep_close(&pair);
}

const struct gpu_case gpu_place_cases[] = {
    {"buffers keep their addresses", constant_addresses},
    {"labels on the host or on another device", labels_elsewhere},
    {"a batch split over several devices", split_over_devices},
    {"names that lead nowhere are refused in words", names_that_lead_nowhere},
    {"copies are counted", count_bytes},
    {NULL, NULL}};
