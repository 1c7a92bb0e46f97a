/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process group: includes all headers of libmillrace-dist.
 *
 *   mr_group *group;
 *   mr_error error;
 *   if (mr_group_create(NULL, &group, &error) < 0) die(error.text);
 *   options.rank = mr_group_rank(group);
 *   options.world_size = mr_group_world_size(group);
 *   ...
 *   if (mr_group_all_reduce(group, gradient, count, MR_F32, MR_MEAN) < 0)
 *       die(mr_group_error(group)->text);
 *   ...
 *   mr_group_destroy(group);
 *
 * Link millrace-dist, which links millrace: pkg-config --libs millrace-dist, or millrace::dist in
 * CMake.
 */
#ifndef MILLRACE_DIST_H
#define MILLRACE_DIST_H

#include <millrace/group.h>
#include <millrace/launch.h>
#include <millrace/metrics.h>
#include <millrace/run.h>

#endif
