/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that copies filled slots to devices, ahead of the consumer. */
#ifndef LOADER_COPYING_H
#define LOADER_COPYING_H

#include "base/thread.h"
#include "loader/host.h"

/* Start the thread. The caller joins it after closing the host. */
mr_status mr_copying_start(struct mr_host *host, struct mr_thread *thread, mr_error *error);

#endif
