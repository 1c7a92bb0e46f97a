/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tokens FILE: batches for a language model from a file of 16-bit tokens. Each sample is a window
 * of 1024 + 1 tokens. Windows begin 1024 tokens apart, so two neighbours share one token: the last
 * target of one is the first input of the next.
 *
 * In the file's name write ?, "," and % as %3F, %2C and %25.
 */
#include <inttypes.h>
#include <millrace/millrace.h>
#include <stdio.h>

enum { CONTEXT = 1024 };

/* Stands for a training step: how many targets repeat their input. */
static void train_batch(const mr_batch *batch)
{
    const mr_array *windows = mr_batch_array(batch, "data"); /* u16 [N, CONTEXT + 1] */
    const uint16_t *inputs = (const uint16_t *)windows->data;
    uint64_t n_repeats = 0;

    for (int64_t row = 0; row < windows->shape[0]; row++, inputs += CONTEXT + 1) {
        const uint16_t *targets = inputs + 1;
        for (int i = 0; i < CONTEXT; i++)
            n_repeats += inputs[i] == targets[i];
    }
    printf("batch %" PRIu64 ": %u windows, %" PRIu64 " of %u targets repeat their input\n",
           mr_batch_number(batch), mr_batch_size(batch), n_repeats, mr_batch_size(batch) * CONTEXT);
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
    char spec[4300];
    mr_dataset *dataset = NULL;
    mr_loader *loader = NULL;
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    mr_status status;
    mr_error error;

    if (argc != 2) {
        fprintf(stderr, "usage: tokens FILE\n");
        return 2;
    }
    snprintf(spec, sizeof(spec), "records:%s?dtype=u16&shape=%d&bytes=%d&stride=%d", argv[1],
             CONTEXT + 1, (CONTEXT + 1) * 2, CONTEXT * 2);
    options.batch_size = 16;
    options.num_workers = 1;
    options.n_epochs = 1;
    status = mr_dataset_open(spec, NULL, &dataset, &error);
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
