/* SPDX-License-Identifier: Apache-2.0 */
/* Counting what a dataset holds, for `millrace list`. Functions return an exit status. */
#ifndef TOOLS_CENSUS_H
#define TOOLS_CENSUS_H

#include <stdbool.h>
#include <stdio.h>

#include <millrace/dataset.h>

#include "tools/progress.h"

/*
 * Samples per label; of more than 20 classes only the first and the last ones, unless all is set.
 */
int mr_census_classes(mr_dataset *dataset, bool all, FILE *stream);
/*
 * Formats and sizes by the header of every sample, and the names of samples whose header is not an
 * image's that can be decoded. Damage after the header is not seen.
 */
int mr_census_samples(mr_dataset *dataset, struct mr_progress *progress, FILE *stream);

#endif
