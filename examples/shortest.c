/* SPDX-License-Identifier: Apache-2.0 */
/* One epoch over a folder of photographs, FOLDER/<class>/<image>.jpg: shortest FOLDER */
#include <err.h>
#include <millrace/millrace.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    mr_dataset *dataset;
    mr_loader *loader;
    mr_batch *batch;
    mr_error error;
    mr_status status;

    /* The defaults: random crops of 224 x 224, batches of 64. */
    if (mr_dataset_open(argc > 1 ? argv[1] : ".", NULL, &dataset, &error) < 0 ||
        mr_loader_create(dataset, NULL, NULL, &loader, &error) < 0)
        errx(1, "%s", error.text);
    while ((status = mr_loader_next(loader, MR_FOREVER, &batch)) == MR_OK) {
        const uint8_t *image = (const uint8_t *)mr_batch_data(batch, "image"); /* [N,3,224,224] */
        const int64_t *label = (const int64_t *)mr_batch_data(batch, "label"); /* [N] */
        printf("%u images; class %d, red %d, ...\n", mr_batch_size(batch), (int)label[0], image[0]);
        mr_batch_release(batch);
    }
    if (status < 0)
        errx(1, "%s", mr_loader_error(loader)->text);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
}
