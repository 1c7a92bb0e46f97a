/* SPDX-License-Identifier: Apache-2.0 */
/* Is there a store, and of which run? Asked before mr_store_connect(), which can only be left by breaking off. */
#ifndef COMM_STORE_PROBE_H
#define COMM_STORE_PROBE_H

#include "comm/rank_store.h"

/*
 * Hear a store's hello and go without greeting, so that it counts nobody as broken. host is numeric.
 *
 * Returns MR_OK with the run and the restart; MR_PENDING when nobody is there, or someone who does not say in time that
 * he is a store: error says which.
 */
mr_status mr_store_probe_hello(const char *host, uint16_t port, uint64_t deadline_ns, uint64_t *run_out,
                               uint32_t *restart_out, mr_error *error);

#endif
