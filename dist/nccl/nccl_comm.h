/* SPDX-License-Identifier: Apache-2.0 */
/* The communicator: opening it, issuing collectives, checking its health, and ending it. */
#ifndef DIST_NCCL_NCCL_COMM_H
#define DIST_NCCL_NCCL_COMM_H

#include "dist/nccl/nccl_state.h"

/* Use setup->adopt. If setup names no device, the engine gets the communicator's. */
int32_t mr_nccl_comm_adopt(struct mr_nccl_engine *engine, const struct mr_engine_setup *setup,
                           mr_error *error);
/* Connect on the current device by setup->deadline_ns. */
int32_t mr_nccl_comm_open(struct mr_nccl_engine *engine, const struct mr_engine_setup *setup,
                          const ncclUniqueId *id, mr_error *error);
/* Put one collective of device memory into the engine's stream. Returns when it is queued there. */
int32_t mr_nccl_comm_put(struct mr_nccl_engine *engine, const struct mr_collective *collective,
                         uint64_t deadline_ns, const volatile uint32_t *stop, mr_error *error);
int32_t mr_nccl_comm_health(void *user, mr_error *error);
void mr_nccl_comm_abort(void *user);
/* Finalize and destroy it, or abort it. Blocks; never returns if NCCL hangs. */
void mr_nccl_comm_close(struct mr_nccl_engine *engine, bool healthy);

#endif
