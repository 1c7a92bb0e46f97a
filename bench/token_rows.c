/* SPDX-License-Identifier: Apache-2.0 */
/*
 * token_rows PATTERN B T SHUFFLE STEPS: how fast llm.c's DataLoader is, or the one that
 * examples/llmc.diff puts in its place; bench/token_peers.py compiles it with either header
 * (LOADER). A step takes a batch and copies inputs and targets, as gpt2_forward() does. Prints
 * million tokens a second after the first batch, and CPU seconds per 10^9 tokens: with workers, and
 * of the thread that takes the batches.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include LOADER

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double cpu_seconds(int who)
{
    struct rusage usage;

    getrusage(who, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv)
{
    DataLoader loader;

    if (argc != 6)
        return 2;
    size_t b = strtoul(argv[2], NULL, 10), t = strtoul(argv[3], NULL, 10), n = b * t;
    int steps = atoi(argv[5]);
    int *copies = malloc(2 * n * sizeof *copies);
    dataloader_init(&loader, argv[1], b, t, 0, 1, atoi(argv[4]));
    dataloader_next_batch(&loader);
    double begun = seconds(), own = cpu_seconds(RUSAGE_THREAD), n_tokens = (double)n * steps;
    for (int step = 0; step < steps; step++) {
        dataloader_next_batch(&loader);
        memcpy(copies, loader.inputs, n * sizeof *copies);
        memcpy(copies + n, loader.targets, n * sizeof *copies);
        if (copies[0] < 0 || copies[2 * n - 1] < 0)
            return 1;
    }
    double took = seconds() - begun;
    own = cpu_seconds(RUSAGE_THREAD) - own;
    dataloader_free(&loader);
    printf("{\"rate\": %.1f, \"cpu\": %.3f, \"own\": %.3f}\n", n_tokens / took / 1e6,
           (cpu_seconds(RUSAGE_SELF) + cpu_seconds(RUSAGE_CHILDREN)) / n_tokens * 1e9,
           own / n_tokens * 1e9);
    free(copies);
    return 0;
}
