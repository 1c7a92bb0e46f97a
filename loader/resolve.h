/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the loader's options and fills in every default. */
#ifndef LOADER_RESOLVE_H
#define LOADER_RESOLVE_H

#include "base/error.h"

#include <millrace/loader.h>

/*
 * Copy the caller's options, check each one and their combinations, and fill in every default
 * except those of mr_resolve_workers() and, for files at URLs, read_ahead. Pointers in the copy are
 * the caller's and valid during the call only.
 */
mr_status mr_resolve_options(const mr_loader_options *options, const mr_dataset *dataset,
                             mr_loader_options *resolved_out, mr_error *error);

/*
 * Fill in num_workers and n_slots if they are 0. n_devices: devices that images go to; 0 if images
 * stay in the host's slots, and then base/cpu_share.h gives the number of workers.
 */
void mr_resolve_workers(mr_loader_options *options, uint32_t n_devices);

#endif
