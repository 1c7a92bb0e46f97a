/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the GPU examples: checks, and copies instead of the kernels of a training step. A step
 * copies a few bytes of each image and its label to page-locked memory, without waiting. They are
 * summed up at the end of the epoch. Include this file after CUDA's header.
 */
#ifndef EXAMPLES_GPU_SUPPORT_H
#define EXAMPLES_GPU_SUPPORT_H

#include <inttypes.h>
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEEN = 256 }; /* bytes that a step reads of each image */

/* What the steps of an epoch have read, of n images so far. */
struct results {
    uint8_t (*pixels)[SEEN];
    int64_t *labels;
    int64_t n;
};

/* Parse the number of a GPU. */
static inline int gpu_number(const char *text)
{
    char *end;
    long number = strtol(text, &end, 10);

    if (*text < '0' || *text > '9' || *end != '\0' || number > 4095) {
        fprintf(stderr, "'%s' is not the number of a GPU\n", text);
        exit(2);
    }
    return (int)number;
}

static inline void check_status(mr_status status, const mr_error *error)
{
    if (status < 0) {
        fprintf(stderr, "%s\n", error->text);
        exit(1);
    }
}

static inline void check_cuda(cudaError_t error)
{
    if (error != cudaSuccess) {
        fprintf(stderr, "%s\n", cudaGetErrorString(error));
        exit(1);
    }
}

/*
 * These stand for kernels. They are queued in the stream, which has waited for the batch. to: on
 * any device, or page-locked.
 */
static inline void queue_images(const mr_batch *batch, uint8_t (*to)[SEEN], cudaStream_t stream)
{
    const mr_array *image = mr_batch_array(batch, "image");

    for (int64_t i = 0; i < image->shape[0]; i++)
        check_cuda(cudaMemcpyAsync(to[i], (char *)image->data + i * image->strides[0], SEEN,
                                   cudaMemcpyDefault, stream));
}

static inline void queue_labels(const mr_batch *batch, int64_t *to, cudaStream_t stream)
{
    const mr_array *label = mr_batch_array(batch, "label");

    check_cuda(cudaMemcpyAsync(to, label->data, (size_t)label->shape[0] * sizeof(int64_t),
                               cudaMemcpyDefault, stream));
}

static inline void results_init(struct results *results, const mr_loader *loader)
{
    size_t n = (size_t)mr_loader_n_samples(loader);

    results->n = 0;
    check_cuda(cudaMallocHost((void **)&results->pixels, n * SEEN));
    check_cuda(cudaMallocHost((void **)&results->labels, n * sizeof(int64_t)));
}

static inline void results_fini(struct results *results)
{
    check_cuda(cudaFreeHost(results->pixels));
    check_cuda(cudaFreeHost(results->labels));
}

/* The images are added up, so the sum does not depend on the order of the images. */
static inline uint64_t results_checksum(const struct results *results)
{
    uint64_t sum = 0;

    for (int64_t i = 0; i < results->n; i++) {
        uint64_t image = (uint64_t)results->labels[i];
        for (int j = 0; j < SEEN; j++)
            image = image * 31 + results->pixels[i][j];
        sum += image;
    }
    return sum;
}

static inline void print_epoch(uint64_t epoch, const char *where, int64_t n, uint64_t checksum)
{
    printf("epoch %" PRIu64 "%s: %" PRId64 " images, checksum %016" PRIx64 "\n", epoch, where, n,
           checksum);
}

#endif
