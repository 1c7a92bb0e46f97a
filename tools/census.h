/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the classes, boxes, formats and sizes of a dataset for `millrace list`. Functions return
 * an exit status.
 */
#ifndef TOOLS_CENSUS_H
#define TOOLS_CENSUS_H

#include <stdbool.h>
#include <stdio.h>

#include <millrace/dataset.h>

#include "tools/progress.h"

/*
 * Print the samples per label. Of more than 20 classes, print only the first 10 and the last 3,
 * unless all is set. Nothing is printed if the classes are those of annotations.
 */
int mr_census_classes(mr_dataset *dataset, bool all, FILE *stream);
/*
 * Print the boxes per label, and in how many images they are, if the dataset has boxes. This reads
 * all annotations.
 */
int mr_census_boxes(mr_dataset *dataset, bool all, struct mr_progress *progress, FILE *stream);
/*
 * Print formats and sizes from the header of every sample, and the names of samples without a
 * header of an image that can be decoded. Damage after the header is not found.
 */
int mr_census_samples(mr_dataset *dataset, struct mr_progress *progress, FILE *stream);

#endif
