/* SPDX-License-Identifier: Apache-2.0 */
/*
 * millrace-bench-orders: measures how long a sampler takes to make an order of N samples, for one
 * rank. It prints a line for each kind: the seconds to create the sampler with its first epoch, and
 * the median, least and most of the later epochs.
 *
 *     millrace-bench-orders [N]          N: 10000000 if not given
 */
#include "base/clock.h"

#include <millrace/sampler.h>

#include <stdio.h>
#include <stdlib.h>

enum { N_EPOCHS = 9 };

static int compare_seconds(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double seconds_since(uint64_t start_ns)
{
    return (double)(mr_clock_now_ns() - start_ns) * 1e-9;
}

static bool measure(const char *kind, const mr_sampler_options *options)
{
    mr_sampler *sampler;
    mr_error error;
    double seconds[N_EPOCHS];
    uint64_t start = mr_clock_now_ns();
    mr_status status = mr_sampler_create(options, &sampler, &error);
    double created = seconds_since(start);
    for (unsigned i = 0; status == MR_OK && i < N_EPOCHS; i++) {
        start = mr_clock_now_ns();
        status = mr_sampler_set_epoch(sampler, i + 1, &error);
        seconds[i] = seconds_since(start);
    }
    mr_sampler_destroy(sampler);
    if (status != MR_OK) {
        fprintf(stderr, "millrace-bench-orders: %s: %s\n", kind, error.text);
        return false;
    }
    qsort(seconds, N_EPOCHS, sizeof *seconds, compare_seconds);
    printf("%-20s create %6.2f s   epoch %6.2f s (%.2f to %.2f)\n", kind, created,
           seconds[N_EPOCHS / 2], seconds[0], seconds[N_EPOCHS - 1]);
    return true;
}

int main(int argc, char **argv)
{
    char *end = "";
    long long n = argc > 1 ? strtoll(argv[1], &end, 10) : 10000000;
    if (argc > 2 || *end || n < 1 || n > UINT32_MAX) {
        fprintf(stderr, "usage: millrace-bench-orders [N]   with N of 1 to %u\n", UINT32_MAX);
        return 2;
    }
    double *weights = malloc((size_t)n * sizeof *weights);
    if (!weights) {
        perror("millrace-bench-orders");
        return 1;
    }
    uint32_t random = 1;
    for (long long i = 0; i < n; i++) {
        random = random * 1664525u + 1013904223u;
        weights[i] = 1 + (double)(random >> 8) * 0x1p-24;
    }
    mr_sampler_options options = MR_SAMPLER_OPTIONS_INIT;
    options.n_samples = n;
    bool right = measure("shuffle", &options);
    options.weight_values = weights;
    options.n_weight_values = (uint64_t)n;
    right = measure("weights", &options) && right;
    options.no_replacement = true;
    right = measure("weights, each once", &options) && right;
    free(weights);
    return right ? 0 : 1;
}
