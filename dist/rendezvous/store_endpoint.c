/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects to a place where a store may be. Another program may have the port, accept the connection and stay silent.
 * And a socket that connects to a port of this machine where nobody listens may be given that very port, and connect to
 * itself: such a connection is dropped.
 */
#include "dist/rendezvous/store_endpoint.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define MS UINT64_C(1000000)

void mr_store_endpoint_close(struct mr_store_endpoint *endpoint)
{
    if (endpoint->fd >= 0)
        close(endpoint->fd);
    endpoint->fd = -1;
    mr_store_wire_free(&endpoint->in);
}

int mr_store_endpoint_open(struct mr_store_endpoint *endpoint)
{
    int one = 1;
    socklen_t len = endpoint->address.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    endpoint->connected = false;
    endpoint->since_ns = mr_clock_now_ns();
    endpoint->fd = socket(endpoint->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (endpoint->fd >= 0 &&
        (connect(endpoint->fd, (const struct sockaddr *)&endpoint->address, len) == 0 || errno == EINPROGRESS)) {
        setsockopt(endpoint->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        return 0;
    }
    int failed = errno;
    mr_store_endpoint_close(endpoint);
    return failed;
}

static bool met_itself(const struct mr_store_endpoint *endpoint)
{
    struct sockaddr_storage mine = {0}, other = {0};
    socklen_t mine_len = sizeof mine, other_len = sizeof other;
    return getsockname(endpoint->fd, (struct sockaddr *)&mine, &mine_len) == 0 &&
           getpeername(endpoint->fd, (struct sockaddr *)&other, &other_len) == 0 && mine_len == other_len &&
           memcmp(&mine, &other, mine_len) == 0;
}

short mr_store_endpoint_events(const struct mr_store_endpoint *endpoint)
{
    return endpoint->connected ? POLLIN : POLLOUT;
}

int mr_store_endpoint_hear(struct mr_store_endpoint *endpoint, struct mr_store_greeting *hello_out)
{
    int failed = 0;
    socklen_t len = sizeof failed;
    if (!endpoint->connected && getsockopt(endpoint->fd, SOL_SOCKET, SO_ERROR, &failed, &len) != 0)
        return errno;
    if (failed != 0)
        return failed;
    if (!endpoint->connected && met_itself(endpoint))
        return ECONNREFUSED;
    endpoint->connected = true;
    long n = mr_store_wire_recv(endpoint->fd, &endpoint->in, MR_STORE_HELLO - endpoint->in.len);
    if (n == -EAGAIN || n == -EWOULDBLOCK)
        return EAGAIN;
    if (n <= 0)
        return n == 0 ? ECONNRESET : (int)-n;
    if (!mr_store_greeting_read(endpoint->in.at, endpoint->in.len, hello_out))
        return EPROTO;
    return endpoint->in.len < MR_STORE_HELLO ? EAGAIN : 0;
}

int mr_store_endpoint_ms_until(uint64_t then_ns)
{
    uint64_t now = mr_clock_now_ns();
    if (then_ns <= now)
        return 0;
    uint64_t ms = (then_ns - now + MS - 1) / MS;
    return ms > 1000000 ? 1000000 : (int)ms;
}

void mr_store_endpoint_poll(struct pollfd *fds, uint32_t n, uint64_t until_ns)
{
    if (poll(fds, n, mr_store_endpoint_ms_until(until_ns)) < 0 && errno != EINTR)
        mr_clock_sleep_ms(1);
}
