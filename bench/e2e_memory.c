/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the memory of 8 workers over 10^6 samples: the PSS of all processes against tables, slab
 * and 8 MB per worker. The memory of this program itself (the photographs, the engine) is no cost
 * of the loader, so its own PSS is read before and after.
 */
#include "bench/end_to_end.h"

#include "base/clock.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORKERS = 8, BATCHES = 24, MB = 1 << 20 };

/* PSS of a process in bytes; 0 if it cannot be read. */
static uint64_t read_pss(int64_t pid)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%lld/smaps_rollup", (long long)pid);
    FILE *file = fopen(path, "re");
    unsigned long long kb = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Pss: %llu kB", &kb) == 1)
            break;
    if (file)
        fclose(file);
    return kb * 1024;
}

/* Bytes of this process's mappings of memfds and of the list: the tables and the slab. */
static uint64_t mapped_bytes(const char *list)
{
    char line[4352];
    FILE *file = fopen("/proc/self/maps", "re");
    uint64_t total = 0;
    while (file && fgets(line, sizeof line, file)) {
        unsigned long long from, to;
        if ((strstr(line, "/memfd:") || strstr(line, list)) &&
            sscanf(line, "%llx-%llx", &from, &to) == 2)
            total += to - from;
    }
    if (file)
        fclose(file);
    return total;
}

/* Take some batches, so that every worker has reached its usual size. */
static mr_status take_batches(mr_loader *loader, struct mr_run *run, mr_error *error)
{
    mr_batch *batch;
    for (int i = 0; i < BATCHES; i++) {
        mr_status status = mr_loader_next(loader, MR_FOREVER, &batch);
        if (status != MR_OK) {
            mr_error_copy(error, mr_loader_error(loader));
            return status;
        }
        run->n_items += mr_batch_size(batch);
        run->n_wrong += mr_batch_size(batch) - mr_batch_valid(batch);
        mr_batch_release(batch);
    }
    return MR_OK;
}

static void measure_memory(struct mr_end_to_end *bench, mr_loader *loader, uint64_t self_before,
                           struct mr_run *run)
{
    int64_t pids[WORKERS];
    uint32_t n = mr_loader_worker_pids(loader, pids, WORKERS);
    uint64_t self = read_pss(getpid()), workers = 0, mapped = mapped_bytes(bench->repeated);
    for (uint32_t i = 0; i < n && i < WORKERS; i++)
        workers += read_pss(pids[i]);
    uint64_t grown = self > self_before ? self - self_before : 0;
    uint64_t allowed = mapped + (uint64_t)WORKERS * 8 * MB;
    run->n_wrong += n != WORKERS || workers == 0;
    run->value = (double)(grown + workers) / (double)allowed;
    mr_engine_fact_int(bench->engine, "pss, host kB", (int64_t)(grown / 1024));
    mr_engine_fact_int(bench->engine, "pss, work. kB", (int64_t)(workers / 1024));
    mr_engine_fact_int(bench->engine, "tables+slab", (int64_t)(mapped / 1024));
}

static mr_status run_memory(void *user, struct mr_run *run, mr_error *error)
{
    struct mr_end_to_end *bench = user;
    mr_loader_options options = mr_end_to_end_options(WORKERS);
    char spec[128];
    snprintf(spec, sizeof spec, "list:%s", bench->repeated);
    malloc_trim(0); /* memory freed by earlier cases must not hide what this case takes */
    uint64_t before = read_pss(getpid()), start = mr_clock_now_ns();
    mr_dataset *dataset;
    mr_loader *loader;
    mr_status status = mr_dataset_open(spec, NULL, &dataset, error);
    if (status != MR_OK)
        return status;
    status = mr_loader_create(dataset, NULL, &options, &loader, error);
    if (status == MR_OK) {
        status = take_batches(loader, run, error);
        if (status == MR_OK)
            measure_memory(bench, loader, before, run);
        mr_loader_destroy(loader);
    }
    run->seconds = (double)(mr_clock_now_ns() - start) / 1e9;
    mr_dataset_destroy(dataset);
    return status;
}

void mr_e2e_memory_add(struct mr_end_to_end *bench)
{
    mr_engine_add(bench->engine, "8 workers, 10^6 samples", run_memory, bench);
}

void mr_e2e_memory_figures(struct mr_engine *engine)
{
    mr_engine_bound_value(engine, "PSS / (tables + slab + 8 MB a worker)",
                          "8 workers, 10^6 samples", "", MR_AIM_BELOW, 1.3);
}
