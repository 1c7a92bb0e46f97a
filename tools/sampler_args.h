/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that say in which order a rank sees the samples. Input: a mr_loader_options that INIT
 * has set.
 */
#ifndef TOOLS_SAMPLER_ARGS_H
#define TOOLS_SAMPLER_ARGS_H

#include <argp.h>

#include <millrace/loader.h>

/* For struct argp_child. */
const struct argp *mr_sampler_args_argp(void);
/* The sampler's part of the options. */
mr_sampler_options mr_sampler_args_options(const mr_loader_options *loader, int64_t n_samples);

#endif
