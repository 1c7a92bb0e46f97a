/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets of callbacks: checks the program's description of its samples. */
#ifndef DATASET_CALLBACKS_H
#define DATASET_CALLBACKS_H

#include <millrace/dataset.h>

#include "base/error.h"
#include "base/sample_kind.h"

/* Find the kind of the samples. MR_ERR_INVALID names the field that is wrong. */
mr_status mr_callbacks_check(const mr_callbacks *callbacks, struct mr_sample_kind *kind_out,
                             mr_error *error);

#endif
