/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options for the order in which a rank sees the samples. The parser's input is a
 * mr_loader_options, initialised with MR_LOADER_OPTIONS_INIT.
 */
#ifndef TOOLS_SAMPLER_ARGS_H
#define TOOLS_SAMPLER_ARGS_H

#include <argp.h>

#include <millrace/loader.h>

/* For struct argp_child. */
const struct argp *mr_sampler_args_argp(void);
/* The sampler options among the loader's options. */
mr_sampler_options mr_sampler_args_options(const mr_loader_options *loader, int64_t n_samples);

#endif
