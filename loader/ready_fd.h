/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptor of mr_loader_fd(). Its state is host->ready_fd. A loader without one has no cost.
 */
#ifndef LOADER_READY_FD_H
#define LOADER_READY_FD_H

#include "loader/host.h"

/*
 * Make the descriptor and its thread, once. Later calls return the same descriptor. Takes the lock.
 */
mr_status mr_ready_fd_open(struct mr_host *host, int *fd_out, mr_error *error);
/*
 * End the thread and close the descriptor, if there is one. The host is closed already. Takes the
 * lock.
 */
void mr_ready_fd_close(struct mr_host *host);

#endif
