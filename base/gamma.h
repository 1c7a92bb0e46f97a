/* SPDX-License-Identifier: Apache-2.0 */
/* Draws from Gamma distributions, of which Beta and Dirichlet distributions are made. */
#ifndef BASE_GAMMA_H
#define BASE_GAMMA_H

#include "base/rng.h"

/*
 * The logarithm of a draw from Gamma(alpha), alpha above 0. It is a logarithm because with a small
 * alpha the draws are often below the smallest double.
 */
double mr_gamma_draw_log(struct mr_rng *rng, double alpha);

#endif
