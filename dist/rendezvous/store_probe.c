/* SPDX-License-Identifier: Apache-2.0 */
/* Hears a store's hello, within a deadline: another program may be listening there, which may never answer. */
#include "dist/rendezvous/store_probe.h"

#include "base/clock.h"
#include "dist/rendezvous/store_address.h"
#include "dist/rendezvous/store_endpoint.h"

#include <errno.h>

static int hear_hello(struct mr_store_endpoint *endpoint, uint64_t deadline_ns, struct mr_store_greeting *hello_out)
{
    int rc = mr_store_endpoint_open(endpoint);
    if (rc != 0)
        return rc;
    do {
        struct pollfd at = {.fd = endpoint->fd, .events = mr_store_endpoint_events(endpoint)};
        mr_store_endpoint_poll(&at, 1, deadline_ns);
        rc = at.revents ? mr_store_endpoint_hear(endpoint, hello_out) : EAGAIN;
    } while (rc == EAGAIN && mr_clock_now_ns() < deadline_ns);
    mr_store_endpoint_close(endpoint);
    return rc == EAGAIN ? ETIMEDOUT : rc;
}

mr_status mr_store_probe_hello(const char *host, uint16_t port, uint64_t deadline_ns, struct mr_store_probe *probe_out,
                               mr_error *error)
{
    struct mr_store_addresses addresses;
    struct mr_store_greeting hello = {0};
    if (mr_store_address_resolve(host, NULL, deadline_ns, &addresses, error) != MR_OK)
        return MR_PENDING;
    struct mr_store_endpoint endpoint = {.fd = -1, .address = addresses.at[0]};
    mr_store_address_set_port(&endpoint.address, port);
    int rc = hear_hello(&endpoint, deadline_ns, &hello);
    if (rc != 0)
        return mr_error_os(error, MR_PENDING, rc, "no store at %s port %u", host, port);
    *probe_out = (struct mr_store_probe){hello.run, hello.restart, hello.world_size, hello.rank};
    return MR_OK;
}
