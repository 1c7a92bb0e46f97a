/* SPDX-License-Identifier: Apache-2.0 */
/* Runs epochs for tests. The digest is FNV-1a; it is only compared between runs, never stored. */
#include "tests/support/epochs.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/devices.h"
#include "tests/support/processes.h"

#define FNV_START UINT64_C(14695981039346656037)

static uint64_t fnv(uint64_t hash, const void *bytes, uint64_t len)
{
    const uint8_t *b = bytes;
    for (uint64_t i = 0; i < len; i++)
        hash = (hash ^ b[i]) * UINT64_C(1099511628211);
    return hash;
}

static void die(const char *words)
{
    fprintf(stderr, "%s\n", words);
    exit(1);
}

static void *grow(void *array, uint64_t n, size_t element)
{
    void *grown = realloc(array, (n ? n : 1) * element);
    if (!grown)
        die("out of memory");
    return grown;
}

static uint64_t row_bytes(const mr_array *array)
{
    return (uint64_t)array->strides[0];
}

/* Rows that differ in length are the values between their offsets. */
static uint64_t add_array(uint64_t hash, const mr_array *array)
{
    int64_t first = 0, end = array->shape[0], unit = array->strides[0];
    if (array->row_offsets) {
        mr_array of_rows = {.device = array->device, .data = (void *)array->row_offsets};
        const int64_t *offsets = mr_test_bytes(&of_rows);
        first = offsets[0];
        end = offsets[array->shape[0]];
        unit = array->strides[1];
    }
    return fnv(hash, (const uint8_t *)mr_test_bytes(array) + first * unit,
               (uint64_t)((end - first) * unit));
}

/*
 * Add each array over all parts, one after the other, so that the digest does not depend on how a
 * batch was split.
 */
static void add_arrays(struct mr_test_epoch *e, mr_batch *batch)
{
    uint32_t n_arrays = mr_batch_n_arrays(mr_batch_part(batch, 0));
    for (uint32_t i = 0; i < n_arrays; i++)
        for (uint32_t p = 0; p < mr_batch_n_parts(batch); p++) {
            const mr_array *array = mr_batch_array_at(mr_batch_part(batch, p), i);
            e->digest = add_array(e->digest, array);
        }
}

static void add_rows(struct mr_test_epoch *e, const mr_batch *part)
{
    uint32_t n = mr_batch_size(part);
    const mr_array *sample = mr_batch_array_at(part, 0);
    const mr_array *label = mr_batch_array_at(part, 1); /* or labels */
    const int64_t *index = mr_test_data(part, "index");
    e->indices = grow(e->indices, e->n_samples + n, sizeof *e->indices);
    e->row_digests = grow(e->row_digests, e->n_samples + n, sizeof *e->row_digests);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t hash = fnv(FNV_START, (uint8_t *)mr_test_bytes(sample) + i * row_bytes(sample),
                            row_bytes(sample));
        hash = fnv(hash, (uint8_t *)mr_test_bytes(label) + i * row_bytes(label), row_bytes(label));
        e->indices[e->n_samples + i] = index[i];
        e->row_digests[e->n_samples + i] = hash;
    }
    e->n_samples += n;
    e->n_valid += mr_batch_valid(part);
}

static void add_batch(struct mr_test_epoch *e, mr_batch *batch)
{
    add_arrays(e, batch);
    for (uint32_t p = 0; p < mr_batch_n_parts(batch); p++)
        add_rows(e, mr_batch_part(batch, p));
    e->n_batches++;
}

struct mr_test_epoch mr_test_epoch_rest(mr_loader *loader)
{
    struct mr_test_epoch e = {.digest = FNV_START};
    mr_batch *batch;
    for (;;) {
        e.status = mr_loader_next(loader, MR_FOREVER, &batch);
        if (e.status == MR_ERR_DAMAGED) {
            if (e.n_failures++ == 0)
                e.first_error = *mr_loader_error(loader);
            continue;
        }
        if (e.status != MR_OK)
            return e;
        add_batch(&e, batch);
        mr_batch_release(batch);
    }
}

struct mr_test_epoch mr_test_epoch_run(mr_loader *loader, uint64_t epoch)
{
    mr_status status = mr_loader_set_epoch(loader, epoch);
    if (status != MR_OK)
        return (struct mr_test_epoch){.status = status};
    return mr_test_epoch_rest(loader);
}

void mr_test_epoch_free(struct mr_test_epoch *epoch)
{
    free(epoch->indices);
    free(epoch->row_digests);
}

mr_dataset *mr_test_dataset(const char *spec)
{
    mr_dataset *dataset;
    mr_error error;
    if (mr_dataset_open(spec, NULL, &dataset, &error) != MR_OK)
        die(error.text);
    return dataset;
}

mr_loader *mr_test_loader(mr_dataset *dataset, const char *transform,
                          const mr_loader_options *options)
{
    mr_transform *parsed = NULL;
    mr_loader *loader;
    mr_error error;
    mr_loader_options on_device = *options;
    mr_test_set_devices(&on_device);
    if (transform && mr_transform_parse(transform, &parsed, &error) != MR_OK)
        die(error.text);
    if (mr_loader_create(dataset, parsed, &on_device, &loader, &error) != MR_OK)
        die(error.text);
    mr_transform_destroy(parsed);
    return loader;
}

/*
 * The parent's process id, and whether the process is a living worker. False: the process does not
 * exist.
 */
static bool read_stat(int64_t pid, int64_t *parent_out, bool *worker_out)
{
    char path[64];
    char line[512] = "";
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    char *read = fgets(line, sizeof line, file);
    fclose(file);
    const char *after = read ? strrchr(line, ')') : NULL;
    char state;
    long long parent;
    if (!after || sscanf(after, ") %c %lld", &state, &parent) != 2)
        return false;
    *parent_out = parent;
    *worker_out = strstr(line, "(millrace-worker)") != NULL && state != 'Z';
    return true;
}

static bool descends(int64_t pid, int64_t ancestor)
{
    bool unused;
    for (int depth = 0; depth < 64 && pid > 1; depth++)
        if (!read_stat(pid, &pid, &unused))
            return false;
        else if (pid == ancestor)
            return true;
    return false;
}

uint32_t mr_test_await_workers(int64_t pid, uint32_t n)
{
    uint32_t found = mr_test_count_workers(pid);
    for (int i = 0; i < 4000 && found != n; i++) {
        mr_test_sleep_ms(5);
        found = mr_test_count_workers(pid);
    }
    return found;
}

uint32_t mr_test_count_workers(int64_t pid)
{
    return mr_test_signal_workers(pid, 0);
}

uint32_t mr_test_signal_workers(int64_t pid, int signal)
{
    uint32_t n = 0;
    int64_t parent;
    bool worker;
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc && (entry = readdir(proc));) {
        int64_t candidate = strtoll(entry->d_name, NULL, 10);
        if (candidate > 0 && read_stat(candidate, &parent, &worker) && worker &&
            descends(candidate, pid) && kill((pid_t)candidate, signal) == 0)
            n++;
    }
    if (proc)
        closedir(proc);
    return n;
}
