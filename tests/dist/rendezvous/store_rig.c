/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers for tests of the store. Children are forked before there are threads, because a fork
 * copies only its own thread.
 */
#include "tests/dist/rendezvous/store_rig.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "store_rig: %s: %s\n", what, why);
    exit(1);
}

struct mr_store_identity rig_identity(uint32_t world_size)
{
    return (struct mr_store_identity){.run = RIG_RUN, .restart = 3, .world_size = world_size};
}

struct mr_store *rig_start(const struct mr_store_identity *identity)
{
    struct mr_store *store;
    mr_error error;
    if (mr_store_start("127.0.0.1", 0, identity, &store, &error) != MR_OK)
        fail("start", error.text);
    return store;
}

uint64_t rig_in_ms(uint64_t ms)
{
    return mr_clock_now_ns() + ms * 1000000;
}

struct mr_store_connect rig_connect(uint16_t port, uint32_t rank,
                                    const struct mr_store_identity *identity)
{
    return (struct mr_store_connect){.host = "127.0.0.1",
                                     .port = port,
                                     .rank = rank,
                                     .identity = *identity,
                                     .deadline_ns = rig_in_ms(10000)};
}

struct mr_store_client *rig_client(uint16_t port, uint32_t rank,
                                   const struct mr_store_identity *identity)
{
    struct mr_store_connect connect = rig_connect(port, rank, identity);
    struct mr_store_client *client;
    mr_error error;
    if (mr_store_connect(&connect, &client, &error) != MR_OK)
        fail("connect", error.text);
    return client;
}

int rig_socket(uint16_t port)
{
    return rig_socket_from(INADDR_LOOPBACK, port);
}

int rig_socket_from(uint32_t source, uint16_t port)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(source)},
                       address = own;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct timeval limit = {.tv_sec = 5};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0 ||
        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one) != 0 ||
        bind(fd, (struct sockaddr *)&own, sizeof own) != 0 ||
        connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        fail("socket", strerror(errno));
    return fd;
}

bool rig_read(int fd, void *bytes_out, size_t len)
{
    uint8_t *to = bytes_out;
    while (len > 0) {
        ssize_t n = recv(fd, to, len, 0);
        if (n <= 0)
            return false;
        to += n;
        len -= (size_t)n;
    }
    return true;
}

long rig_drain(int fd, uint64_t ms)
{
    uint64_t until = rig_in_ms(ms);
    long total = 0;
    for (uint64_t now; (now = mr_clock_now_ns()) < until;) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        char bytes[4096];
        if (poll(&poll_fd, 1, (int)((until - now) / 1000000 + 1)) == 0)
            break;
        ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return total;
        total += n > 0 ? (long)n : 0;
    }
    return -1;
}

bool rig_write(int fd, const void *bytes, size_t len)
{
    const uint8_t *from = bytes;
    while (len > 0) {
        ssize_t n = send(fd, from, len, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        from += n;
        len -= (size_t)n;
    }
    return true;
}

int rig_greet(int fd, uint32_t rank, const struct mr_store_identity *identity)
{
    uint8_t hello[MR_STORE_HELLO], greeting[MR_STORE_GREETING], verdict[MR_STORE_HEAD];
    struct mr_store_greeting mine = {.version = MR_STORE_VERSION,
                                     .world_size = identity->world_size,
                                     .run = identity->run,
                                     .restart = identity->restart,
                                     .rank = rank};
    if (!rig_read(fd, hello, sizeof hello))
        return -1;
    mr_store_greeting_write(&mine, greeting);
    if (mr_store_greeting_token(identity->token, greeting + MR_STORE_HELLO, NULL) != MR_OK)
        return -1;
    if (!rig_write(fd, greeting, sizeof greeting) || !rig_read(fd, verdict, sizeof verdict))
        return -1;
    return verdict[4] == MR_STORE_VERDICT ? verdict[5] : -1;
}

static void run_rank(uint16_t port, uint32_t rank, const struct mr_store_identity *identity)
{
    char key[32];
    mr_error error;
    struct mr_store_client *client = rig_client(port, rank, identity);
    snprintf(key, sizeof key, "here%u", rank);
    if (mr_store_set(client, key, "x", 1, &error) != MR_OK)
        fail("set", error.text);
    for (;;)
        pause();
}

struct orders {
    uint16_t port;
    uint32_t rank;
    struct mr_store_identity identity; /* its token is NULL */
};

struct rig_process rig_fork(void)
{
    int ends[2];
    if (pipe2(ends, 0) != 0)
        fail("pipe", strerror(errno));
    pid_t child = fork();
    if (child < 0)
        fail("fork", strerror(errno));
    if (child == 0) {
        struct orders orders;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(50);
        close(ends[1]);
        if (read(ends[0], &orders, sizeof orders) == sizeof orders)
            run_rank(orders.port, orders.rank, &orders.identity);
        _exit(1);
    }
    close(ends[0]);
    return (struct rig_process){.pid = child, .go = ends[1]};
}

void rig_go(struct rig_process *process, uint16_t port, uint32_t rank,
            const struct mr_store_identity *identity)
{
    struct orders orders = {.port = port, .rank = rank, .identity = *identity};
    orders.identity.token = NULL;
    if (write(process->go, &orders, sizeof orders) != sizeof orders)
        fail("go", strerror(errno));
    close(process->go);
}

void rig_stop_process(pid_t child)
{
    int status;
    kill(child, SIGSTOP);
    if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status))
        fail("stop", "the child has ended");
}

void rig_end_process(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

uint32_t rig_n_open(const char *folder)
{
    DIR *dir = opendir(folder);
    uint32_t n = 0;
    if (!dir)
        fail(folder, strerror(errno));
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}
