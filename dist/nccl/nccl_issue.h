/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of struct mr_engine_device: issue a collective into the engine's stream, test it, wait
 * for it.
 */
#ifndef DIST_NCCL_NCCL_ISSUE_H
#define DIST_NCCL_NCCL_ISSUE_H

#include "dist/nccl/nccl_state.h"

int32_t mr_nccl_issue(void *user, const struct mr_collective *collective, uint64_t deadline_ns,
                      const volatile uint32_t *stop, void **ticket_out, mr_error *error);
int32_t mr_nccl_issue_test(void *user, void *ticket, mr_error *error);
int32_t mr_nccl_issue_wait(void *user, void *ticket, void *stream, mr_error *error);

#endif
