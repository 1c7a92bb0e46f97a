/* SPDX-License-Identifier: Apache-2.0 */
/* Marsaglia and Tsang 2000, with their step from alpha + 1 down to alpha. */
#include "base/gamma.h"

#include "base/normal.h"

#include <math.h>

/* A number above 0 and below 1. */
static double draw_open(struct mr_rng *rng)
{
    uint64_t high = mr_rng_u32(rng) >> 6, low = mr_rng_u32(rng) >> 6;
    return ((double)(high << 26 | low) + 0.5) * 0x1p-52;
}

double mr_gamma_draw_log(struct mr_rng *rng, double alpha)
{
    double d = alpha + 1 - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = (double)mr_normal_of(mr_normal_nodes, mr_rng_u32(rng));
        double v = 1 + c * x;
        double u = draw_open(rng);
        if (v <= 0)
            continue;
        v = v * v * v;
        if (log(u) < 0.5 * x * x + d - d * v + d * log(v))
            return log(d * v) + log(draw_open(rng)) / alpha;
    }
}
