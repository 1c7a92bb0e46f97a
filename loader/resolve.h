/* SPDX-License-Identifier: Apache-2.0 */
/* The loader's options, checked and with every default filled in. */
#ifndef LOADER_RESOLVE_H
#define LOADER_RESOLVE_H

#include "base/error.h"

#include <millrace/loader.h>

/*
 * Copy the caller's options with every default filled in but those of mr_resolve_workers(), after
 * checking each and how they go together. Pointers in the copy are the caller's and valid during
 * the call only.
 */
mr_status mr_resolve_options(const mr_loader_options *options, bool has_callbacks,
                             mr_loader_options *resolved_out, mr_error *error);

/*
 * Fill in num_workers and n_slots where they are 0. n_devices: devices that images go to; 0 where
 * they stay in the host's slots, and then the number of workers is that of base/cpu_share.h.
 */
void mr_resolve_workers(mr_loader_options *options, uint32_t n_devices);

#endif
