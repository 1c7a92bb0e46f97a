/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that look for their server: late servers, foreign ones, silent ones, none. */
#include "dist/rendezvous/store_client.h"
#include "dist/rendezvous/store_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/dist/rendezvous/store_rig.h"

static mr_error error;

/* A socket that listens on port (0: any) and never accepts. Returns -1 if the port is taken. */
static int listen_at(uint16_t port, uint16_t *port_out)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 16) != 0) {
        close(fd);
        return -1;
    }
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    *port_out = ntohs(address.sin_port);
    return fd;
}

static uint16_t free_port(void)
{
    uint16_t port;
    int fd = listen_at(0, &port);
    assert_true(fd >= 0);
    close(fd);
    return port;
}

static void a_failed_search_names_the_address(void **state)
{
    (void)state;
    struct mr_store_identity identity = rig_identity(2);
    struct mr_store_connect connect = rig_connect(free_port(), 1, &identity);
    struct mr_store_client *client;
    char want[64];
    snprintf(want, sizeof want, "no store at 127.0.0.1 port %u, tried ", connect.port);
    uint64_t begun = mr_clock_now_ns();
    connect.deadline_ns = rig_in_ms(400);
    assert_int_equal(mr_store_connect(&connect, &client, &error), MR_ERR_TIMEOUT);
    uint64_t ms = (mr_clock_now_ns() - begun) / 1000000;
    assert_null(client);
    assert_non_null(strstr(error.text, want));
    assert_non_null(strstr(error.text, " times in 0."));
    assert_non_null(strstr(error.text, "Connection refused"));
    assert_true(ms >= 399 && ms < 3000);
    connect.host = "there.is.no.such.host.invalid";
    connect.deadline_ns = rig_in_ms(300);
    begun = mr_clock_now_ns();
    assert_int_equal(mr_store_connect(&connect, &client, &error), MR_ERR_TIMEOUT);
    assert_true(mr_clock_now_ns() - begun < UINT64_C(2000000000));
    assert_non_null(strstr(error.text, "host 'there.is.no.such.host.invalid'"));
    connect.host = "";
    assert_int_equal(mr_store_connect(&connect, &client, &error), MR_ERR_INVALID);
}

struct late {
    uint16_t port;
    struct mr_store_identity identity;
    struct mr_store *store;
};

static void *start_late(void *arg)
{
    struct late *late = arg;
    mr_clock_sleep_ms(400);
    mr_store_start("127.0.0.1", late->port, &late->identity, &late->store, NULL);
    return NULL;
}

static void a_late_server_is_found(void **state)
{
    (void)state;
    struct late late = {.port = free_port(), .identity = rig_identity(2)};
    struct mr_store_connect connect = rig_connect(late.port, 1, &late.identity);
    struct mr_store_client *client;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, start_late, &late), 0);
    mr_status status = mr_store_connect(&connect, &client, &error);
    pthread_join(thread, NULL);
    if (!late.store) /* another program took the port meanwhile */
        skip();
    assert_int_equal(status, MR_OK);
    mr_store_close(client);
    mr_store_stop(late.store);
}

/*
 * Three adjacent ports: a silent program, a store of another run, ours. The client knows only the
 * first.
 */
static void our_store_is_found_after_foreign_ones(void **state)
{
    (void)state;
    struct mr_store_identity ours = rig_identity(2), other = ours;
    struct mr_store *store = NULL, *foreign = NULL;
    uint16_t port = 0;
    int silent = -1;
    other.run++;
    for (int i = 0; i < 100 && !store; i++) {
        silent = listen_at(0, &port);
        assert_true(silent >= 0);
        if (port < UINT16_MAX - 1 &&
            mr_store_start("127.0.0.1", port + 1, &other, &foreign, NULL) == MR_OK &&
            mr_store_start("127.0.0.1", port + 2, &ours, &store, NULL) == MR_OK)
            break;
        mr_store_stop(foreign);
        close(silent);
    }
    assert_non_null(store);
    struct mr_store_connect connect = rig_connect(port, 1, &ours);
    struct mr_store_client *client;
    connect.n_ports = 8;
    uint64_t begun = mr_clock_now_ns();
    assert_int_equal(mr_store_connect(&connect, &client, &error), MR_OK);
    assert_true(mr_clock_now_ns() - begun < UINT64_C(3000000000));
    mr_store_close(client);
    uint8_t present[1];
    assert_int_equal(mr_store_present(store, present), 1);
    assert_int_equal(mr_store_present(foreign, present), 0);
    mr_store_stop(store);
    /*
     * Our store may still appear, so the search continues past a foreign one, and names it at the
     * end.
     */
    connect.n_ports = 1;
    connect.deadline_ns = rig_in_ms(400);
    assert_int_equal(mr_store_connect(&connect, &client, &error), MR_ERR_TIMEOUT);
    assert_non_null(strstr(error.text, "ports "));
    mr_store_stop(foreign);
    close(silent);
}

static void the_store_of_the_previous_restart_is_waited_out(void **state)
{
    (void)state;
    struct mr_store_identity before = rig_identity(2), now = before;
    struct mr_store *store = rig_start(&before);
    now.restart++;
    struct mr_store_connect connect = rig_connect(mr_store_port(store), 1, &now);
    struct mr_store_client *client;
    connect.deadline_ns = rig_in_ms(300);
    assert_int_equal(mr_store_connect(&connect, &client, &error), MR_ERR_TIMEOUT);
    assert_non_null(strstr(error.text, "restart 3, not 4"));
    uint8_t present[1];
    assert_int_equal(mr_store_present(store, present), 0);
    mr_store_stop(store);
}

struct foreign {
    int fd;
    const void *says;
    size_t len;
};

static void *run_foreign_server(void *arg)
{
    const struct foreign *foreign = arg;
    for (;;) {
        int fd = accept(foreign->fd, NULL, NULL);
        if (fd < 0)
            return NULL;
        rig_write(fd, foreign->says, foreign->len);
        mr_clock_sleep_ms(1);
        close(fd);
    }
}

static mr_status expect_not_a_store(const void *says, size_t len, uint64_t within_ms)
{
    struct mr_store_identity identity = rig_identity(2);
    struct foreign foreign = {.says = says, .len = len};
    uint16_t port;
    pthread_t thread;
    foreign.fd = listen_at(0, &port);
    assert_true(foreign.fd >= 0);
    assert_int_equal(pthread_create(&thread, NULL, run_foreign_server, &foreign), 0);
    struct mr_store_connect connect = rig_connect(port, 1, &identity);
    struct mr_store_client *client;
    connect.deadline_ns = rig_in_ms(within_ms);
    mr_status status = mr_store_connect(&connect, &client, &error);
    shutdown(foreign.fd, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(foreign.fd);
    return status;
}

static void servers_that_are_not_a_store_are_refused(void **state)
{
    (void)state;
    uint8_t bytes[MR_STORE_HELLO + MR_STORE_HEAD] = {0};
    struct mr_store_greeting hello = {
        .version = MR_STORE_VERSION, .world_size = 2, .run = RIG_RUN, .restart = 3};
    assert_int_equal(expect_not_a_store("SSH-2.0-OpenSSH_9.6\r\n", 21, 300), MR_ERR_TIMEOUT);
    assert_non_null(strstr(error.text, "Protocol error"));
    assert_int_equal(expect_not_a_store("", 0, 300), MR_ERR_TIMEOUT);
    /* A server that copies a hello, and then sends something other than a verdict. */
    mr_store_greeting_write(&hello, bytes);
    bytes[MR_STORE_HELLO + 4] = 77;
    assert_int_equal(expect_not_a_store(bytes, sizeof bytes, 10000), MR_ERR_PEER);
    assert_non_null(strstr(error.text, "not a store"));
    hello.version++;
    mr_store_greeting_write(&hello, bytes);
    assert_int_equal(expect_not_a_store(bytes, MR_STORE_HELLO, 10000), MR_ERR_PEER);
    assert_non_null(strstr(error.text, "has version 4, this program's has 3"));
}

/* Accepts one connection, sends a hello, later a verdict and the test's bytes. */
static void *run_hostile_server(void *arg)
{
    const struct foreign *hostile = arg;
    uint8_t greeting[MR_STORE_GREETING];
    int fd = accept(hostile->fd, NULL, NULL);
    if (fd >= 0 && rig_write(fd, hostile->says, MR_STORE_HELLO) &&
        rig_read(fd, greeting, sizeof greeting) &&
        rig_write(fd, (const uint8_t *)hostile->says + MR_STORE_HELLO,
                  hostile->len - MR_STORE_HELLO))
        rig_drain(fd, 5000);
    close(fd);
    return NULL;
}

/* A server reports to rank 1 of two that n ranks, from first on in steps of step, are lost. */
static void report_lost(uint32_t first, uint32_t step, uint32_t n, uint32_t *rank_out)
{
    struct mr_store_identity identity = rig_identity(2);
    struct mr_store_bytes bytes = {0};
    struct mr_store_greeting hello = {
        .version = MR_STORE_VERSION, .world_size = 2, .run = RIG_RUN, .restart = 3};
    uint8_t value[4], *to = mr_store_wire_reserve(&bytes, MR_STORE_HELLO);
    uint16_t port;
    pthread_t thread;
    assert_non_null(to);
    mr_store_greeting_write(&hello, to);
    bytes.len = MR_STORE_HELLO;
    assert_true(mr_store_wire_put(&bytes, &(struct mr_store_frame){.kind = MR_STORE_VERDICT}));
    for (uint32_t i = 0; i < n; i++) {
        mr_store_wire_put_u32(value, first + i * step);
        assert_true(mr_store_wire_put(&bytes, &(struct mr_store_frame){.kind = MR_STORE_BROKEN,
                                                                       .code = MR_STORE_LOST,
                                                                       .value_len = 4,
                                                                       .value = value}));
    }
    struct foreign hostile = {.says = bytes.at, .len = bytes.len};
    hostile.fd = listen_at(0, &port);
    assert_int_equal(pthread_create(&thread, NULL, run_hostile_server, &hostile), 0);
    struct mr_store_client *client = rig_client(port, 1, &identity);
    uint64_t until = rig_in_ms(5000);
    while (!mr_store_broken(client, rank_out, &error) && mr_clock_now_ns() < until)
        mr_clock_sleep_ms(2);
    mr_clock_sleep_ms(20);
    assert_true(mr_store_broken(client, rank_out, &error));
    mr_store_close(client);
    pthread_join(thread, NULL);
    close(hostile.fd);
    mr_store_wire_free(&bytes);
}

static void a_server_that_reports_too_many_ranks_is_not_a_store(void **state)
{
    (void)state;
    uint32_t rank = 99;
    report_lost(1, 0, 10000, &rank);
    assert_int_equal(rank, 1);
    assert_string_equal(error.text, "rank 1 disconnected without a goodbye");
    report_lost(2, 1000000007, 10, &rank);
    assert_int_equal(rank, 0);
    assert_string_equal(error.text,
                        "rank 0 disconnected: it sent bytes that are not the store's protocol");
}

static void a_name_with_two_address_families_is_reached_by_both(void **state)
{
    (void)state;
    struct mr_store_identity identity = rig_identity(3);
    struct mr_store *store;
    assert_int_equal(mr_store_start("127.0.0.1", 0, &identity, &store, &error), MR_OK);
    struct mr_store_connect connect = rig_connect(mr_store_port(store), 1, &identity);
    struct mr_store_client *client;
    static const char *const hosts[] = {"localhost", "127.0.0.1"};
    for (size_t i = 0; i < 2; i++) {
        connect.host = hosts[i];
        connect.rank = (uint32_t)i + 1;
        assert_int_equal(mr_store_connect(&connect, &client, &error), MR_OK);
        mr_store_close(client);
    }
    mr_store_stop(store);
    if (mr_store_start("::1", 0, &identity, &store, &error) != MR_OK)
        skip(); /* this machine has no IPv6 */
    connect = rig_connect(mr_store_port(store), 1, &identity);
    connect.host = "::1";
    assert_int_equal(mr_store_connect(&connect, &client, &error), MR_OK);
    assert_string_equal(mr_store_local_address(client), "::1");
    mr_store_close(client);
    /* The store is bound to that address only. */
    connect.host = "127.0.0.1";
    connect.deadline_ns = rig_in_ms(150);
    assert_int_equal(mr_store_connect(&connect, &client, &error), MR_ERR_TIMEOUT);
    mr_store_stop(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_search_names_the_address),
        cmocka_unit_test(a_late_server_is_found),
        cmocka_unit_test(our_store_is_found_after_foreign_ones),
        cmocka_unit_test(the_store_of_the_previous_restart_is_waited_out),
        cmocka_unit_test(servers_that_are_not_a_store_are_refused),
        cmocka_unit_test(a_server_that_reports_too_many_ranks_is_not_a_store),
        cmocka_unit_test(a_name_with_two_address_families_is_reached_by_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
