/* SPDX-License-Identifier: Apache-2.0 */
/*
 * name_workers FOLDER: one epoch by two workers. Prints the program that each of them runs, then a
 * checksum of every image. Uses the installed library only.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <millrace/millrace.h>
#include <stdio.h>
#include <unistd.h>

static uint64_t add_image(uint64_t digest, const mr_array *image)
{
    const uint8_t *pixels = (const uint8_t *)image->data;
    for (int64_t i = 0; i < image->shape[0] * image->strides[0]; i++)
        digest = (digest ^ pixels[i]) * UINT64_C(1099511628211);
    return digest;
}

static void print_workers(mr_loader *loader)
{
    int64_t pids[8];
    uint32_t n = mr_loader_worker_pids(loader, pids, 8);
    for (uint32_t i = 0; i < n && i < 8; i++) {
        char path[64], program[1000];
        snprintf(path, sizeof path, "/proc/%" PRId64 "/exe", pids[i]);
        ssize_t len = readlink(path, program, sizeof program);
        printf("worker %.*s\n", (int)(len > 0 ? len : 0), program);
    }
}

int main(int argc, char **argv)
{
    mr_dataset *dataset = NULL;
    mr_loader *loader = NULL;
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    mr_batch *batch = NULL;
    mr_error error;
    uint64_t digest = UINT64_C(14695981039346656037);

    options.batch_size = 8;
    options.num_workers = 2;
    mr_status status = mr_dataset_open(argc > 1 ? argv[1] : ".", NULL, &dataset, &error);
    if (status == MR_OK)
        status = mr_loader_create(dataset, NULL, &options, &loader, &error);
    if (status < 0) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    for (int i = 0; (status = mr_loader_next(loader, MR_FOREVER, &batch)) == MR_OK; i++) {
        if (i == 0)
            print_workers(loader);
        digest = add_image(digest, mr_batch_array(batch, "image"));
        mr_batch_release(batch);
    }
    if (status < 0)
        fprintf(stderr, "%s\n", mr_loader_error(loader)->text);
    printf("digest %016" PRIx64 "\n", digest);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    return status < 0;
}
