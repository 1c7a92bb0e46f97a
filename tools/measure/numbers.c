/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorts measured values and computes order statistics. A percentile is one of the values; the
 * median of an even number of values may not be.
 */
#include "tools/measure/numbers.h"

#include <math.h>
#include <stdlib.h>

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

void mr_numbers_sort(double *values, size_t n)
{
    qsort(values, n, sizeof *values, compare_doubles);
}

double mr_numbers_percentile(const double *sorted, size_t n, double p)
{
    size_t rank = (size_t)ceil(p * (double)n);

    return n > 0 ? sorted[rank > 0 ? rank - 1 : 0] : 0;
}

double mr_numbers_median(const double *sorted, size_t n)
{
    return n > 0 ? (sorted[(n - 1) / 2] + sorted[n / 2]) / 2 : 0;
}
