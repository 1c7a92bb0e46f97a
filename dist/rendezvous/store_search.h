/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the store's server and greeting it; the only user is store_client.c. */
#ifndef DIST_RENDEZVOUS_STORE_SEARCH_H
#define DIST_RENDEZVOUS_STORE_SEARCH_H

#include "dist/rendezvous/store_wire.h"
#include "dist/rendezvous/rank_store.h"

/* On MR_OK the connection is the caller's; in_out holds what came after the verdict. error is not NULL. */
mr_status mr_store_search_run(const struct mr_store_connect *connect, int *fd_out, struct mr_store_bytes *in_out,
                              mr_error *error);

#endif
