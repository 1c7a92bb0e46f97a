/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which columns the batches of a loader have. A new column is one line in columns.c, and the code
 * of a worker that writes it (docs/extending.md).
 */
#ifndef LOADER_COLUMNS_H
#define LOADER_COLUMNS_H

#include "loader/host.h"

/*
 * Declare the columns of the batches. plan and mixed are those of mr_plan_split_compile(). The form
 * of the samples is host->image. MR_ERR_INVALID if two columns have the same name; the error has
 * the name.
 */
mr_status mr_columns_declare(const struct mr_host *host, const struct mr_plan *plan,
                             const struct mr_plan *mixed, struct mr_columns *columns_out,
                             mr_error *error);

#endif
