/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two epochs over a folder of photographs, FOLDER/<class>/<image>.jpg, as random crops of 224 x 224
 * pixels.
 */
#include <inttypes.h>
#include <millrace/millrace.h>
#include <stdio.h>

/*
 * Stands for a training step: the mean brightness of the batch, and the label of its first image.
 */
static void train_batch(const mr_batch *batch)
{
    const mr_array *image = mr_batch_array(batch, "image"); /* u8 [N, 3, 224, 224] */
    const uint8_t *pixels = (const uint8_t *)image->data;
    const int64_t *labels = (const int64_t *)mr_batch_data(batch, "label"); /* i64 [N] */
    int64_t n_bytes = image->shape[0] * image->strides[0];
    double sum = 0;

    for (int64_t i = 0; i < n_bytes; i++)
        sum += pixels[i];
    printf("epoch %" PRIu64 ", batch %" PRIu64 ": %u images, mean %.2f, first label %" PRId64 "\n",
           mr_batch_epoch(batch), mr_batch_number(batch), mr_batch_size(batch),
           sum / (double)n_bytes, labels[0]);
}

static mr_status run_epoch(mr_loader *loader, uint64_t epoch)
{
    mr_batch *batch = NULL;
    mr_status status = mr_loader_set_epoch(loader, epoch);

    while (status == MR_OK && (status = mr_loader_next(loader, MR_FOREVER, &batch)) == MR_OK) {
        train_batch(batch);
        mr_batch_release(batch);
    }
    return status; /* MR_END after the last batch */
}

int main(int argc, char **argv)
{
    mr_dataset *dataset = NULL;
    mr_loader *loader = NULL;
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    mr_status status;
    mr_error error;

    options.batch_size = 32;
    options.num_workers = 2;
    options.n_epochs = 2;
    status = mr_dataset_open(argc > 1 ? argv[1] : ".", NULL, &dataset, &error);
    if (status == MR_OK)
        status = mr_loader_create(dataset, NULL, &options, &loader, &error);
    if (status < 0) {
        fprintf(stderr, "%s\n", error.text);
    } else {
        for (uint64_t epoch = 0; epoch < 2 && status >= 0; epoch++)
            status = run_epoch(loader, epoch);
        if (status < 0)
            fprintf(stderr, "%s\n", mr_loader_error(loader)->text);
    }
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    return status < 0;
}
