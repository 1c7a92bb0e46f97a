/* SPDX-License-Identifier: Apache-2.0 */
/* Order statistics of measured values. */
#ifndef TOOLS_NUMBERS_H
#define TOOLS_NUMBERS_H

#include <stddef.h>

/* Sort in rising order. */
void mr_numbers_sort(double *values, size_t n);
/*
 * The smallest of n sorted values such that at least a share p of them does not exceed it; 0 for n
 * = 0.
 */
double mr_numbers_percentile(const double *sorted, size_t n, double p);
/* The middle one of n sorted values, or the mean of the two middle ones; 0 for n = 0. */
double mr_numbers_median(const double *sorted, size_t n);

#endif
