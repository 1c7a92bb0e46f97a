/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives for the library itself: a few numbers in host memory, with any engine. The public
 * ones are in <millrace/group.h>.
 */
#ifndef DIST_GROUP_COLLECTIVES_H
#define DIST_GROUP_COLLECTIVES_H

#include "dist/group/group.h"

mr_status mr_collectives_all_reduce(struct mr_group *group, void *buffer, uint64_t count,
                                    mr_dtype dtype, mr_reduction op);
/* sums: on this group's device, added to buffer first; or NULL. */
mr_status mr_collectives_all_reduce_async(struct mr_group *group, void *buffer, uint64_t count,
                                          mr_dtype dtype, mr_reduction op, void *sums,
                                          struct mr_group_work **work_out);
mr_status mr_collectives_all_gather(struct mr_group *group, const void *in, void *out,
                                    uint64_t count, mr_dtype dtype);
/* Can a collective of this group use this buffer? name is for the error. */
mr_status mr_collectives_check_memory(const struct mr_group *group, const char *name,
                                      const void *buffer, mr_error *error);

#endif
