/* SPDX-License-Identifier: Apache-2.0 */
/*
 * millrace-bench-end-to-end: measures the loader in one run, case after case in every round.
 * METHOD.md defines the columns.
 */
#include "bench/end_to_end.h"

#include "bench/arguments.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

mr_loader_options mr_end_to_end_options(uint32_t num_workers)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.batch_size = MR_E2E_BATCH;
    options.num_workers = num_workers;
    return options;
}

static void count_batch(const mr_batch *batch, uint8_t *counts, uint64_t n, uint64_t *n_wrong)
{
    const int64_t *index = mr_batch_data(batch, "index");
    *n_wrong += mr_batch_size(batch) - mr_batch_valid(batch);
    for (uint32_t row = 0; row < mr_batch_size(batch); row++) {
        if (index[row] < 0 || (uint64_t)index[row] >= n || counts[index[row]]++)
            ++*n_wrong;
    }
}

mr_status mr_end_to_end_epoch(struct mr_end_to_end *bench, mr_loader *loader,
                              uint64_t *n_samples_out, uint64_t *n_wrong_out, mr_error *error)
{
    uint64_t n = bench->photos.n;
    uint8_t *counts = calloc(n, 1);
    if (!counts)
        return mr_error_memory(error, n);
    mr_batch *batch;
    mr_status status;
    *n_samples_out = *n_wrong_out = 0;
    while ((status = mr_loader_next(loader, MR_FOREVER, &batch)) == MR_OK) {
        *n_samples_out += mr_batch_size(batch);
        count_batch(batch, counts, n, n_wrong_out);
        mr_batch_release(batch);
    }
    for (uint64_t i = 0; i < n; i++)
        *n_wrong_out += counts[i] == 0;
    free(counts);
    if (status != MR_END)
        mr_error_copy(error, mr_loader_error(loader));
    return status == MR_END ? MR_OK : status;
}

/*
 * Loader and speed of light must have the same samples. If some cannot be decoded by both, use a
 * list of those that can.
 */
static mr_status load_photos(struct mr_end_to_end *bench, const struct mr_arguments *arguments,
                             mr_error *error)
{
    mr_status status =
        mr_photos_load(arguments->data, arguments->max_photos, &bench->photos, error);
    if (status != MR_OK || bench->photos.n == (uint64_t)mr_dataset_n_samples(bench->photos.dataset))
        return status;
    char list[96], spec[128];
    snprintf(list, sizeof list, "%s/photos.tsv", bench->folder);
    snprintf(spec, sizeof spec, "list:%s", list);
    status = mr_e2e_lists_photos(&bench->photos, list, error);
    mr_photos_free(&bench->photos);
    if (status == MR_OK)
        status = mr_photos_load(spec, arguments->max_photos, &bench->photos, error);
    unlink(list);
    return status;
}

static mr_status make_folder(struct mr_end_to_end *bench, mr_error *error)
{
    const char *base = getenv("TMPDIR");
    snprintf(bench->folder, sizeof bench->folder, "%.40s/millrace-XXXXXX",
             base && *base ? base : "/tmp");
    if (mkdtemp(bench->folder))
        return MR_OK;
    int os_error = errno;
    bench->folder[0] = '\0';
    return mr_error_os(error, MR_ERR_IO, os_error, "create a temporary folder");
}

static void remove_folder(const struct mr_end_to_end *bench)
{
    if (bench->listed[0])
        unlink(bench->listed);
    if (bench->repeated[0])
        unlink(bench->repeated);
    if (bench->folder[0])
        rmdir(bench->folder);
}

static mr_status run_all(struct mr_end_to_end *bench, const struct mr_arguments *arguments,
                         mr_error *error)
{
    struct mr_engine *engine = bench->engine;
    mr_engine_fact(engine, "features", mr_features());
    mr_engine_fact(engine, "data", arguments->data);
    mr_engine_fact_int(engine, "photographs", (int64_t)bench->photos.n);
    mr_engine_fact_int(engine, "bytes", (int64_t)bench->photos.total_bytes);
    mr_engine_fact_int(engine, "epochs a run", bench->n_epochs);
    mr_e2e_throughput_add(bench);
    mr_e2e_startup_add(bench);
    mr_e2e_gaps_add(bench);
    mr_e2e_memory_add(bench);
    mr_status status = mr_engine_rounds(engine, arguments->n_repeats, error);
    if (status != MR_OK)
        return status;
    mr_e2e_throughput_figures(engine);
    mr_e2e_startup_figures(engine);
    mr_e2e_gaps_figures(engine);
    mr_e2e_memory_figures(engine);
    return mr_engine_report(engine, arguments->json, error);
}

/* Show errors only: a warning about more workers than CPUs is expected here. */
static void log_line(void *user, mr_log_level level, const char *line)
{
    (void)user;
    if (level == MR_LOG_ERROR)
        fprintf(stderr, "%s\n", line);
}

int main(int argc, char **argv)
{
    struct mr_arguments arguments;
    mr_arguments_parse(argc, argv,
                       "The loader against plain decoding processes and against itself.\v"
                       "Example: millrace-bench-end-to-end --data ~/imagenet/val --images 500 "
                       "--json end_to_end.json",
                       &arguments);
    mr_error error;
    struct mr_end_to_end bench = {.n_epochs = arguments.n_epochs};
    int code = 1;
    mr_log_set(log_line, NULL);
    mr_status status =
        mr_engine_create("millrace-bench-end-to-end", "image", &bench.engine, &error);
    if (status == MR_OK)
        status = make_folder(&bench, &error);
    if (status == MR_OK)
        status = load_photos(&bench, &arguments, &error);
    if (status == MR_OK)
        status = mr_e2e_lists_write(&bench, &error);
    if (status == MR_OK)
        status = run_all(&bench, &arguments, &error);
    if (status == MR_OK)
        code = mr_engine_exit_code(bench.engine, arguments.strict);
    else
        fprintf(stderr, "millrace-bench-end-to-end: %s\n", error.text);
    mr_photos_free(&bench.photos);
    remove_folder(&bench);
    mr_engine_destroy(bench.engine);
    return code;
}
