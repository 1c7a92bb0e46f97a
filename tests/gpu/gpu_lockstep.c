/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares two loaders. The host's loader never pads channels. So elements that only the device has
 * must be zero; the strides give their place. Several parts are compared with their rows in the
 * host's one batch.
 */
#include "tests/gpu/gpu_lockstep.h"

#include "tests/gpu/gpu_fetch.h"

#include <stdlib.h>
#include <string.h>

struct gpu_lockstep gpu_lockstep_open(struct gpu_setup *setup, const char *spec,
                                      const char *transform, const mr_loader_options *options)
{
    mr_loader_options on_host = *options;
    mr_loader_options on_device = *options;
    on_host.device = NULL;
    on_host.devices = NULL;
    on_host.n_devices = 0;
    on_host.label_device = NULL;
    on_host.n_buffers = 0;
    on_host.pad_channels = 0;
    on_host.finish_on_host = false;
    if (!on_device.device && !on_device.devices)
        on_device.device = setup->device;
    mr_dataset *dataset = gpu_setup_dataset(setup, spec);
    return (struct gpu_lockstep){.setup = setup,
                                 .dataset = dataset,
                                 .host = gpu_setup_loader(setup, dataset, transform, &on_host),
                                 .device = gpu_setup_loader(setup, dataset, transform, &on_device)};
}

void gpu_lockstep_close(struct gpu_lockstep *pair)
{
    mr_loader_destroy(pair->host);
    mr_loader_destroy(pair->device);
    mr_dataset_destroy(pair->dataset);
}

/* Compare one sample's elements. Indices of an axis that only the device has must be zero. */
static bool same_row(const mr_array *host, const mr_array *device, const uint8_t *a,
                     const uint8_t *b, uint32_t axis)
{
    if (axis == host->ndim) {
        static const uint8_t zeros[8] = {0};
        return memcmp(a ? a : zeros, b, mr_dtype_size(host->dtype)) == 0;
    }
    for (int64_t i = 0; i < device->shape[axis]; i++) {
        const uint8_t *there = a && i < host->shape[axis] ? a + i * host->strides[axis] : NULL;
        if (!same_row(host, device, there, b + i * device->strides[axis], axis + 1))
            return false;
    }
    return true;
}

static bool same_layout(const mr_array *host, const mr_array *device)
{
    for (uint32_t i = 1; i < host->ndim; i++)
        if (host->shape[i] != device->shape[i] || host->strides[i] != device->strides[i])
            return false;
    return host->strides[0] == device->strides[0];
}

/* Only pictures may have more channels on the device. */
static bool same_shape(const mr_array *host, const mr_array *device)
{
    bool picture = strcmp(host->name, "image") == 0;
    if (host->dtype != device->dtype || host->ndim != device->ndim)
        return false;
    for (uint32_t i = 1; i < host->ndim; i++)
        if (picture ? device->shape[i] < host->shape[i] : device->shape[i] != host->shape[i])
            return false;
    return true;
}

/* Compare the device's rows with those of the host from first_row on. */
static bool compare_array(struct gpu_lockstep *pair, const mr_array *host, const mr_array *device,
                          int64_t first_row)
{
    struct gpu_report *report = &pair->setup->report;
    if (!gpu_report_expect(report, device != NULL, "the array %s is missing", host->name) ||
        !gpu_report_expect(report, same_shape(host, device), "%s has another dtype or shape",
                           host->name))
        return false;
    size_t len = (size_t)(device->shape[0] * device->strides[0]);
    uint8_t *bytes = malloc(len ? len : 1);
    if (!bytes)
        gpu_report_die(report, "no memory for %zu bytes", len);
    int failed = gpu_fetch(bytes, device->device, device->data, len);
    bool same = gpu_report_expect(report, failed == 0, "%s cannot be copied back: CUDA error %d",
                                  host->name, failed);
    bool alike = same_layout(host, device);
    for (int64_t i = 0; same && i < device->shape[0]; i++) {
        const uint8_t *a = (const uint8_t *)host->data + (first_row + i) * host->strides[0];
        const uint8_t *b = bytes + i * device->strides[0];
        same =
            alike ? memcmp(a, b, (size_t)host->strides[0]) == 0 : same_row(host, device, a, b, 1);
        gpu_report_expect(report, same, "row %lld of %s differs", (long long)(first_row + i),
                          host->name);
    }
    pair->n_bytes += len;
    free(bytes);
    return same;
}

static bool compare_heads(struct gpu_report *report, const mr_batch *host, const mr_batch *device)
{
    return gpu_report_expect(report, mr_batch_size(host) == mr_batch_size(device),
                             "%u rows, not %u", mr_batch_size(device), mr_batch_size(host)) &&
           gpu_report_expect(report, mr_batch_valid(host) == mr_batch_valid(device),
                             "%u valid rows, not %u", mr_batch_valid(device),
                             mr_batch_valid(host)) &&
           gpu_report_expect(report,
                             mr_batch_epoch(host) == mr_batch_epoch(device) &&
                                 mr_batch_number(host) == mr_batch_number(device),
                             "batch %llu of epoch %llu, not %llu of %llu",
                             (unsigned long long)mr_batch_number(device),
                             (unsigned long long)mr_batch_epoch(device),
                             (unsigned long long)mr_batch_number(host),
                             (unsigned long long)mr_batch_epoch(host));
}

bool gpu_lockstep_compare(struct gpu_lockstep *pair, const mr_batch *host, mr_batch *device)
{
    struct gpu_report *report = &pair->setup->report;
    bool same = compare_heads(report, host, device);
    int64_t first_row = 0;
    for (uint32_t p = 0; same && p < mr_batch_n_parts(device); p++) {
        mr_batch *part = mr_batch_part(device, p);
        for (uint32_t i = 0; same && i < mr_batch_n_arrays(host); i++) {
            const mr_array *array = mr_batch_array_at(host, i);
            same = compare_array(pair, array, mr_batch_array(part, array->name), first_row);
        }
        first_row += mr_batch_size(part);
    }
    pair->n_batches++;
    return same && gpu_report_expect(report, first_row == mr_batch_size(host),
                                     "the parts hold %lld rows, not %u", (long long)first_row,
                                     mr_batch_size(host));
}

/* Both returned an error instead of a batch. */
static bool compare_errors(struct gpu_lockstep *pair)
{
    const mr_error *a = mr_loader_error(pair->host);
    const mr_error *b = mr_loader_error(pair->device);
    pair->n_errors++;
    return gpu_report_expect(&pair->setup->report,
                             a->index == b->index && strcmp(a->text, b->text) == 0,
                             "the error is \"%s\", not \"%s\"", b->text, a->text);
}

static bool compare_step(struct gpu_lockstep *pair)
{
    mr_batch *host;
    mr_batch *device;
    mr_status a = mr_loader_next(pair->host, MR_FOREVER, &host);
    mr_status b = mr_loader_next(pair->device, MR_FOREVER, &device);
    bool go_on = gpu_report_expect(
        &pair->setup->report, a == b, "next gave %s (%s), not %s", mr_status_name(b),
        b < 0 ? mr_loader_error(pair->device)->text : "", mr_status_name(a));
    if (go_on && a == MR_OK)
        go_on = gpu_lockstep_compare(pair, host, device);
    else if (go_on && a == MR_ERR_DAMAGED)
        go_on = compare_errors(pair);
    else
        go_on = false;
    mr_batch_release(host);
    gpu_report_expect(&pair->setup->report, mr_batch_release(device) >= 0 || !device,
                      "a release failed");
    return go_on;
}

bool gpu_lockstep_step(struct gpu_lockstep *pair, uint64_t max_batches)
{
    for (uint64_t i = 0; i < max_batches; i++)
        if (!compare_step(pair))
            return false;
    return true;
}

void gpu_lockstep_epoch(struct gpu_lockstep *pair, uint64_t epoch)
{
    mr_status a = mr_loader_set_epoch(pair->host, epoch);
    mr_status b = mr_loader_set_epoch(pair->device, epoch);
    uint64_t before = pair->n_batches + pair->n_errors;
    gpu_report_expect(&pair->setup->report, a == MR_OK && b == MR_OK, "set_epoch gave %s, not %s",
                      mr_status_name(b), mr_status_name(a));
    gpu_lockstep_step(pair, UINT64_MAX);
    uint64_t n = pair->n_batches + pair->n_errors - before;
    gpu_report_expect(&pair->setup->report, n == mr_loader_n_batches(pair->host),
                      "%llu batches, not %llu", (unsigned long long)n,
                      (unsigned long long)mr_loader_n_batches(pair->host));
}
