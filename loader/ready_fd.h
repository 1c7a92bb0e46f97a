/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptor of mr_loader_fd(). Its state is host->ready_fd; a loader that was never asked for
 * one pays nothing.
 */
#ifndef LOADER_READY_FD_H
#define LOADER_READY_FD_H

#include "loader/host.h"

/*
 * Make the descriptor and its thread, once; the same descriptor at every later call. Takes the
 * lock.
 */
mr_status mr_ready_fd_open(struct mr_host *host, int *fd_out, mr_error *error);
/*
 * End the thread and close the descriptor, if there is one. The host is closed already. Takes the
 * lock.
 */
void mr_ready_fd_close(struct mr_host *host);

#endif
