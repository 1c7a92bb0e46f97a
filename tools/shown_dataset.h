/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a dataset with a live line. */
#ifndef TOOLS_SHOWN_DATASET_H
#define TOOLS_SHOWN_DATASET_H

#include <millrace/dataset.h>

#include "tools/progress.h"

/*
 * Like mr_dataset_open(). Initialises the live line, draws it, and clears it at the end. options
 * may be NULL for the defaults.
 */
mr_status mr_shown_dataset_open(struct mr_progress *progress, const char *spec,
                                const mr_dataset_options *options, mr_dataset **dataset_out,
                                mr_error *error);
/* The same for mr_dataset_from_store(). */
mr_status mr_shown_dataset_list(struct mr_progress *progress, const char *url,
                                const mr_dataset_options *options, mr_dataset **dataset_out,
                                mr_error *error);
bool mr_shown_dataset_is_url(const char *text);

#endif
