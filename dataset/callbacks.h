/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets of callbacks: what the program says about its samples. */
#ifndef DATASET_CALLBACKS_H
#define DATASET_CALLBACKS_H

#include <millrace/dataset.h>

#include "base/error.h"
#include "base/sample_kind.h"

/* The kind of the samples; MR_ERR_INVALID with the field that is wrong. */
mr_status mr_callbacks_check(const mr_callbacks *callbacks, struct mr_sample_kind *kind_out,
                             mr_error *error);

#endif
