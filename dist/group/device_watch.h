/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that watches a group whose engine works on a device. */
#ifndef DIST_GROUP_DEVICE_WATCH_H
#define DIST_GROUP_DEVICE_WATCH_H

#include "dist/group/group.h"

mr_status mr_device_watch_start(struct mr_group *group, mr_error *error);
/* End the collectives under way, and the engine. Bounded, even if the engine does not return. */
void mr_device_watch_stop(struct mr_group *group);

#endif
