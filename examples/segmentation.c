/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Learns from photographs and their masks (docs/detection.md): segmentation SPEC, such as
 * 'voc:VOCdevkit/VOC2012?set=train&task=segmentation'. The network is one linear layer, which
 * guesses a pixel's class by its colour.
 */
#include <err.h>
#include <math.h>
#include <millrace/millrace.h>
#include <stdio.h>

enum { CLASSES = 21, PIXELS = 128 * 128 };

static float weights[CLASSES][4]; /* of red, green, blue, and a bias */

/* A step of gradient descent on one image. Returns the mean cross-entropy of its pixels. */
static double train_image(const float *image, const uint8_t *mask)
{
    float step[CLASSES][4] = {{0}};
    double loss = 0;
    int n = 0;

    for (int i = 0; i < PIXELS; i++) {
        const float x[4] = {image[i], image[PIXELS + i], image[2 * PIXELS + i], 1};
        float p[CLASSES], sum = 0;
        if (mask[i] >= CLASSES)
            continue; /* 255: the border of an object, or beyond the photograph */
        for (int c = 0; c < CLASSES; c++) {
            const float *w = weights[c];
            sum += p[c] = expf(w[0] * x[0] + w[1] * x[1] + w[2] * x[2] + w[3]);
        }
        for (int c = 0; c < CLASSES; c++)
            for (int k = 0; k < 4; k++)
                step[c][k] += ((float)(c == mask[i]) - p[c] / sum) * x[k];
        loss -= log(p[mask[i]] / sum);
        n++;
    }
    for (int c = 0; c < CLASSES; c++)
        for (int k = 0; k < 4; k++)
            weights[c][k] += 0.5f * step[c][k] / PIXELS;
    return n > 0 ? loss / n : 0;
}

int main(int argc, char **argv)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    mr_dataset *dataset;
    mr_transform *transform;
    mr_loader *loader;
    mr_batch *batch;
    mr_error error;
    mr_status status;

    options.dtype = MR_F32; /* of the images; masks stay u8 */
    if (mr_dataset_open(argc > 1 ? argv[1] : "", NULL, &dataset, &error) < 0 ||
        mr_transform_parse("random_resized_crop(128)+hflip+mask(fill=255)+normalize(0.5,0.25)",
                           &transform, &error) < 0 ||
        mr_loader_create(dataset, transform, &options, &loader, &error) < 0)
        errx(1, "%s", error.text);
    while ((status = mr_loader_next(loader, MR_FOREVER, &batch)) == MR_OK) {
        const float *image = (const float *)mr_batch_data(batch, "image"); /* [N,3,128,128] */
        const uint8_t *mask = (const uint8_t *)mr_batch_data(batch, "mask_image"); /* [N,128,128] */
        double loss = 0;
        for (uint32_t i = 0; i < mr_batch_size(batch); i++)
            loss += train_image(image + (size_t)i * 3 * PIXELS, mask + (size_t)i * PIXELS);
        printf("%u images, loss %.3f\n", mr_batch_size(batch), loss / mr_batch_size(batch));
        mr_batch_release(batch);
    }
    if (status < 0)
        errx(1, "%s", mr_loader_error(loader)->text);
    mr_loader_destroy(loader);
    mr_transform_destroy(transform);
    mr_dataset_destroy(dataset);
}
