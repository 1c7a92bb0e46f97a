/* SPDX-License-Identifier: Apache-2.0 */
/* Counting what a dataset holds, for `millrace list`. Functions return an exit status. */
#ifndef TOOLS_CENSUS_H
#define TOOLS_CENSUS_H

#include <stdio.h>

#include <millrace/dataset.h>

#include "tools/progress.h"

/* Samples per label. */
int mr_census_classes(mr_dataset *dataset, FILE *stream);
/* Formats and sizes, by opening every sample, and the names of those that cannot be decoded. */
int mr_census_samples(mr_dataset *dataset, struct mr_progress *progress, FILE *stream);

#endif
