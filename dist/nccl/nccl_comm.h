/* SPDX-License-Identifier: Apache-2.0 */
/* The communicator: it begins, takes collectives, is asked for its health, and ends. */
#ifndef DIST_NCCL_NCCL_COMM_H
#define DIST_NCCL_NCCL_COMM_H

#include "dist/nccl/nccl_state.h"

/* Take setup->adopt over; gives the engine its device where setup names none. */
int32_t mr_nccl_comm_adopt(struct mr_nccl_engine *engine, const struct mr_engine_setup *setup,
                           mr_error *error);
/* Connect on the current device, by setup->deadline_ns. */
int32_t mr_nccl_comm_open(struct mr_nccl_engine *engine, const struct mr_engine_setup *setup,
                          const ncclUniqueId *id, mr_error *error);
/* One collective of device memory into the engine's stream. Returns when it stands there. */
int32_t mr_nccl_comm_put(struct mr_nccl_engine *engine, const struct mr_collective *collective,
                         uint64_t deadline_ns, const volatile uint32_t *stop, mr_error *error);
int32_t mr_nccl_comm_health(void *user, mr_error *error);
void mr_nccl_comm_abort(void *user);
/* Finalize and destroy it, or abort it. Blocks; may never return when NCCL does not. */
void mr_nccl_comm_close(struct mr_nccl_engine *engine, bool healthy);

#endif
