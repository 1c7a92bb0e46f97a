/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hearing a store's hello. Easy to get wrong: a port of another program may take the connection and stay silent, and a
 * socket that connects to a port nobody listens on can meet itself.
 */
#include "comm/store_probe.h"

#include "base/clock.h"
#include "comm/store_wire.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

/* 0 when the socket is ready for events, or an errno. */
static int wait_for(int fd, short events, uint64_t deadline_ns)
{
    for (;;) {
        uint64_t now = mr_clock_now_ns();
        struct pollfd at = {.fd = fd, .events = events};
        if (now >= deadline_ns)
            return ETIMEDOUT;
        uint64_t ms = (deadline_ns - now) / 1000000 + 1;
        int n = poll(&at, 1, ms < 60000 ? (int)ms : 60000);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return errno;
    }
}

static int connect_to(int fd, const struct sockaddr_storage *address, socklen_t len, uint64_t deadline_ns)
{
    int failed = 0;
    struct sockaddr_storage own = {.ss_family = AF_UNSPEC};
    socklen_t failed_len = sizeof failed, own_len = sizeof own;
    if (connect(fd, (const struct sockaddr *)address, len) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return errno;
    int rc = wait_for(fd, POLLOUT, deadline_ns);
    if (rc == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &failed_len) != 0)
        rc = errno;
    if (rc != 0 || failed != 0)
        return rc != 0 ? rc : failed;
    if (getsockname(fd, (struct sockaddr *)&own, &own_len) == 0 && own_len == len && memcmp(&own, address, len) == 0)
        return ECONNREFUSED;
    return 0;
}

static int hear(int fd, uint64_t deadline_ns, struct mr_store_greeting *hello_out)
{
    struct mr_store_bytes bytes = {0};
    int rc = 0;
    while (rc == 0 && bytes.len < MR_STORE_HELLO) {
        rc = wait_for(fd, POLLIN, deadline_ns);
        long n = rc == 0 ? mr_store_wire_recv(fd, &bytes, MR_STORE_HELLO - bytes.len) : 0;
        if (rc == 0 && n == 0)
            rc = ECONNRESET;
        else if (rc == 0 && n < 0 && n != -EAGAIN)
            rc = (int)-n;
        else if (n > 0 && !mr_store_wire_read_greeting(bytes.at + bytes.start, bytes.len, hello_out))
            rc = EPROTO;
    }
    mr_store_wire_free(&bytes);
    return rc;
}

mr_status mr_store_probe_hello(const char *host, uint16_t port, uint64_t deadline_ns, uint64_t *run_out,
                               uint32_t *restart_out, mr_error *error)
{
    struct mr_store_addresses addresses;
    struct mr_store_greeting hello = {0};
    if (mr_store_wire_resolve(host, deadline_ns, &addresses, error) != MR_OK)
        return MR_PENDING;
    mr_store_wire_set_port(&addresses.at[0], port);
    int fd = socket(addresses.at[0].ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int rc = fd < 0 ? errno : connect_to(fd, &addresses.at[0], addresses.len[0], deadline_ns);
    if (rc == 0)
        rc = hear(fd, deadline_ns, &hello);
    if (fd >= 0)
        close(fd);
    if (rc != 0)
        return mr_error_os(error, MR_PENDING, rc, "no store at %s port %u", host, port);
    *run_out = hello.run;
    *restart_out = hello.restart;
    return MR_OK;
}
