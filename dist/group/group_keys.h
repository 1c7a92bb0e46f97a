/* SPDX-License-Identifier: Apache-2.0 */
/* The setup of an engine, and the keys that engines have set in the store. */
#ifndef DIST_GROUP_GROUP_KEYS_H
#define DIST_GROUP_GROUP_KEYS_H

#include "dist/group/group.h"

/* setup_out points into the group. */
void mr_group_keys_setup(struct mr_group *group, uint64_t deadline_ns,
                         struct mr_engine_setup *setup_out);
/*
 * Forget the keys that this rank has set for engines. removes: remove them from the store too, once
 * all ranks have read them.
 */
void mr_group_keys_forget(struct mr_group *group, bool removes);

#endif
