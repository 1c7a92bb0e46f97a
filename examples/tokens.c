/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tokens SPEC: batches for a language model (docs/tokens.md), for example
 *
 *   tokens 'tokens:train.bin?window=1024&dtype=u16'
 */
#include <inttypes.h>
#include <millrace/millrace.h>
#include <stdio.h>

/* Stands for a training step: how many labels repeat their token. */
static void train_batch(const mr_batch *batch)
{
    const mr_array *rows = mr_batch_array(batch, "tokens");
    const int32_t *tokens = rows->data, *labels = mr_batch_data(batch, "labels"); /* i32 [N, T] */
    int64_t n = rows->shape[0] * rows->shape[1], n_repeats = 0;

    for (int64_t i = 0; i < n; i++)
        n_repeats += tokens[i] == labels[i];
    printf("batch %" PRIu64 ": %u rows, %" PRId64 " of %" PRId64 " labels repeat their token\n",
           mr_batch_number(batch), mr_batch_size(batch), n_repeats, n);
}

static mr_status run_epoch(mr_loader *loader)
{
    mr_batch *batch = NULL;
    mr_status status;

    while ((status = mr_loader_next(loader, MR_FOREVER, &batch)) == MR_OK) {
        train_batch(batch);
        mr_batch_release(batch);
    }
    if (status < 0)
        fprintf(stderr, "%s\n", mr_loader_error(loader)->text);
    return status;
}

int main(int argc, char **argv)
{
    mr_dataset *dataset = NULL;
    mr_loader *loader = NULL;
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    mr_status status;
    mr_error error;

    if (argc != 2) {
        fprintf(stderr, "usage: tokens SPEC\n");
        return 2;
    }
    options.batch_size = 16;
    options.dtype = MR_I32;
    options.num_workers = 1;
    options.n_epochs = 1;
    status = mr_dataset_open(argv[1], NULL, &dataset, &error);
    if (status == MR_OK)
        status = mr_loader_create(dataset, NULL, &options, &loader, &error);
    if (status == MR_OK)
        status = run_epoch(loader);
    else
        fprintf(stderr, "%s\n", error.text);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    return status < 0;
}
