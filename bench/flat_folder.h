/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of photographs without classes, as a dataset. */
#ifndef BENCH_FLAT_FOLDER_H
#define BENCH_FLAT_FOLDER_H

#include "base/error.h"

#include <millrace/dataset.h>

/* True for a directory that has JPEG files directly in it, and so is not an imagefolder. */
bool mr_flat_folder_is(const char *path);

/* Open such a directory as a list of its JPEG files, sorted by name, all with label 0. */
mr_status mr_flat_folder_open(const char *path, mr_dataset **dataset_out, mr_error *error);

#endif
