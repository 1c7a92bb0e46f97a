/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the options of a sampler against their limits, and against each other. */
#ifndef SAMPLER_SAMPLER_OPTIONS_H
#define SAMPLER_SAMPLER_OPTIONS_H

#include <millrace/sampler.h>

/* options have their world_size. MR_ERR_INVALID. */
mr_status mr_sampler_options_check(const mr_sampler_options *options, mr_error *error);

#endif
