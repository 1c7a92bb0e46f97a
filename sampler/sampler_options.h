/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the options of a sampler against their limits, and against each other. */
#ifndef SAMPLER_SAMPLER_OPTIONS_H
#define SAMPLER_SAMPLER_OPTIONS_H

#include "sampler/weights.h"

#include <millrace/sampler.h>

/* options have their world_size. MR_ERR_INVALID. */
mr_status mr_sampler_options_check(const mr_sampler_options *options, mr_error *error);

/*
 * Load the weights of the options, after the check. torch makes a single draw as it does without
 * replacement. MR_ERR_INVALID also if n_draws is above the samples that can be drawn.
 */
mr_status mr_sampler_options_weights(const mr_sampler_options *options,
                                     struct mr_weights **weights_out, mr_error *error);

#endif
