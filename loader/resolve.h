/* SPDX-License-Identifier: Apache-2.0 */
/* The loader's options with every default filled in. */
#ifndef LOADER_RESOLVE_H
#define LOADER_RESOLVE_H

#include "base/error.h"

#include <millrace/loader.h>

/*
 * Copy the caller's options with every default filled in, after checking each and how they go together. Pointers in the
 * copy are the caller's and valid during the call only.
 */
mr_status mr_resolve_options(const mr_loader_options *options, bool has_callbacks, mr_loader_options *resolved_out,
                             mr_error *error);

#endif
