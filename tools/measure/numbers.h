/* SPDX-License-Identifier: Apache-2.0 */
/* Order statistics of measured values. */
#ifndef TOOLS_NUMBERS_H
#define TOOLS_NUMBERS_H

#include <stddef.h>

/* Rising. */
void mr_numbers_sort(double *values, size_t n);
/* Smallest of n sorted values that at least a share p of them does not exceed; 0 of none. */
double mr_numbers_percentile(const double *sorted, size_t n, double p);
/* The middle of n sorted values, or the mean of both; 0 of none. */
double mr_numbers_median(const double *sorted, size_t n);

#endif
