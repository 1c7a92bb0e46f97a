/* SPDX-License-Identifier: Apache-2.0 */
/* The order of a loader's first epoch. */
#ifndef LOADER_FIRST_ORDER_H
#define LOADER_FIRST_ORDER_H

#include "loader/host.h"

/*
 * Make host->sampler from the host's options. plan is that of the first view. MR_ERR_INVALID also
 * if an epoch has no batch and that is not allowed.
 */
mr_status mr_first_order_make(struct mr_host *host, mr_dataset *dataset, const struct mr_plan *plan,
                              mr_error *error);

#endif
