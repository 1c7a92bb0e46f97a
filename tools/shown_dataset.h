/* SPDX-License-Identifier: Apache-2.0 */
/* A dataset that is opened with the live line. */
#ifndef TOOLS_SHOWN_DATASET_H
#define TOOLS_SHOWN_DATASET_H

#include <millrace/dataset.h>

#include "tools/progress.h"

/* mr_dataset_open(); the live line is begun and cleared. options NULL: the defaults. */
mr_status mr_shown_dataset_open(struct mr_progress *progress, const char *spec,
                                const mr_dataset_options *options, mr_dataset **dataset_out,
                                mr_error *error);

#endif
