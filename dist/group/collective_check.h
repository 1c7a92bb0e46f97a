/* SPDX-License-Identifier: Apache-2.0 */
/* MR_COMM_CHECK=1: do all ranks call the same collective? */
#ifndef DIST_GROUP_COLLECTIVE_CHECK_H
#define DIST_GROUP_COLLECTIVE_CHECK_H

#include "dist/group/group.h"

/*
 * MR_ERR_PEER and MR_ERR_TIMEOUT have their final text. MR_ERR_IO comes from the store,
 * MR_ERR_CANCELED from stop.
 */
mr_status mr_collective_check_run(struct mr_group *group, const struct mr_collective *collective,
                                  uint64_t deadline_ns, mr_error *error);

#endif
