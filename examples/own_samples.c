/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dataset that the program makes itself: a function draws each sample when its index is
 * requested. The function runs in worker processes, which are forked from this program when the
 * loader is created. The data that it reads must be ready by then, and what it writes stays in the
 * worker.
 */
#include <inttypes.h>
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 64 };

/*
 * Draw a bright disc at a place that depends only on the index. Its label is the quarter of the
 * picture that has the disc's centre.
 */
static int draw_disc(void *user, int64_t index, mr_sample *sample)
{
    int radius = *(const int *)user;
    int centre_x = (int)(index * 37 % SIDE);
    int centre_y = (int)(index * 53 % SIDE);
    uint8_t *pixels = (uint8_t *)malloc((size_t)SIDE * SIDE * 3);

    if (!pixels) {
        snprintf(sample->error, sizeof(sample->error), "no memory for a picture of %d x %d", SIDE,
                 SIDE);
        return -1;
    }
    for (int i = 0; i < SIDE * SIDE; i++) {
        int x = i % SIDE - centre_x;
        int y = i / SIDE - centre_y;
        uint8_t value = x * x + y * y <= radius * radius ? 255 : 16;
        pixels[3 * i] = pixels[3 * i + 1] = pixels[3 * i + 2] = value;
    }
    sample->bytes = pixels;
    sample->len_bytes = (size_t)SIDE * SIDE * 3;
    sample->label = (centre_y >= SIDE / 2) * 2 + (centre_x >= SIDE / 2);
    sample->cookie = pixels;
    return 0;
}

static void free_disc(void *user, mr_sample *sample)
{
    (void)user;
    free(sample->cookie);
}

/* Bright pixels and labels of one epoch. */
static mr_status run_epoch(mr_loader *loader)
{
    int64_t n_label[4] = {0, 0, 0, 0};
    int64_t n_bright = 0;
    mr_batch *batch = NULL;
    mr_status status;

    while ((status = mr_loader_next(loader, MR_FOREVER, &batch)) == MR_OK) {
        const mr_array *image = mr_batch_array(batch, "image"); /* u8 [N, 64, 64, 3] */
        const uint8_t *pixels = (const uint8_t *)image->data;
        const int64_t *labels = (const int64_t *)mr_batch_data(batch, "label");
        for (int64_t i = 0; i < image->shape[0] * image->strides[0]; i += 3)
            n_bright += pixels[i] == 255;
        for (uint32_t i = 0; i < mr_batch_size(batch); i++)
            n_label[labels[i]]++;
        mr_batch_release(batch);
    }
    if (status == MR_END)
        printf("%" PRId64 " bright pixels; labels %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
               "\n",
               n_bright, n_label[0], n_label[1], n_label[2], n_label[3]);
    else
        fprintf(stderr, "%s\n", mr_loader_error(loader)->text);
    return status;
}

int main(void)
{
    int radius = 9;
    mr_dataset *dataset = NULL;
    mr_loader *loader = NULL;
    mr_callbacks callbacks = MR_CALLBACKS_INIT;
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    mr_status status;
    mr_error error;

    callbacks.n_samples = 1000;
    callbacks.get = draw_disc;
    callbacks.release = free_disc;
    callbacks.user = &radius;
    callbacks.dtype = MR_U8;
    callbacks.ndim = 3;
    callbacks.shape[0] = SIDE;
    callbacks.shape[1] = SIDE;
    callbacks.shape[2] = 3;
    callbacks.layout = MR_NHWC;

    options.layout = MR_NHWC;
    options.num_workers = 2;
    options.n_epochs = 1;

    status = mr_dataset_from_callbacks(&callbacks, &dataset, &error);
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
