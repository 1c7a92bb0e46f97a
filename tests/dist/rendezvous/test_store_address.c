/* SPDX-License-Identifier: Apache-2.0 */
/* Host names: resolvers that answer, refuse, or never return; sockets that listen. */
#include "dist/rendezvous/store_address.h"

#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "dist/rendezvous/local_address.h"

#define MS UINT64_C(1000000)

static mr_error error;

static void a_host_is_resolved_or_named(void **state)
{
    (void)state;
    struct mr_store_addresses addresses;
    char name[64];
    const uint64_t forever = UINT64_C(1) << 62;
    assert_int_equal(mr_store_address_resolve("127.0.0.1", NULL, 0, &addresses, &error), MR_OK);
    assert_int_equal(addresses.n, 1);
    mr_store_address_name(&addresses.at[0], name, sizeof name);
    assert_string_equal(name, "127.0.0.1");
    assert_int_equal(mr_store_address_resolve("::1", NULL, 0, &addresses, &error), MR_OK);
    mr_store_address_set_port(&addresses.at[0], 2568);
    assert_int_equal(mr_store_address_port(&addresses.at[0]), 2568);
    mr_store_address_name(&addresses.at[0], name, sizeof name);
    assert_string_equal(name, "::1");
    assert_int_equal(mr_store_address_resolve("::ffff:10.1.2.3", NULL, 0, &addresses, &error),
                     MR_OK);
    mr_store_address_name(&addresses.at[0], name, sizeof name);
    assert_string_equal(name, "10.1.2.3");
    assert_int_equal(mr_store_address_resolve("localhost", NULL, forever, &addresses, &error),
                     MR_OK);
    assert_true(addresses.n > 0);
    assert_int_equal(mr_store_address_resolve("", NULL, forever, &addresses, &error),
                     MR_ERR_INVALID);
}

/* A resolver whose servers are down: it returns long after the deadline. */
static int block_resolver(const char *host, struct addrinfo **list_out)
{
    (void)host;
    *list_out = NULL;
    mr_clock_sleep_ms(700);
    return getaddrinfo("127.0.0.1", NULL, &(struct addrinfo){.ai_socktype = SOCK_STREAM}, list_out);
}

static int resolve_nothing(const char *host, struct addrinfo **list_out)
{
    (void)host;
    (void)list_out;
    return EAI_NONAME;
}

/* An address of another machine first, then two of this one. */
static int resolve_three(const char *host, struct addrinfo **list_out)
{
    static const char *const names[] = {"192.0.2.77", "127.0.0.1", "127.0.0.2"};
    struct addrinfo **at = list_out;
    (void)host;
    for (size_t i = 0; i < 3; i++, at = &(*at)->ai_next)
        if (getaddrinfo(names[i], NULL, &(struct addrinfo){.ai_socktype = SOCK_STREAM}, at) != 0)
            return EAI_FAIL;
    return 0;
}

static uint64_t get_time_in_ms(uint64_t ms)
{
    return mr_clock_now_ns() + ms * MS;
}

static void a_blocked_resolver_is_abandoned_at_the_deadline(void **state)
{
    (void)state;
    struct mr_store_addresses addresses;
    char own[MR_LOCAL_ADDRESS];
    uint64_t begun = mr_clock_now_ns();
    assert_int_equal(
        mr_store_address_resolve("host", block_resolver, get_time_in_ms(100), &addresses, &error),
        MR_ERR_TIMEOUT);
    assert_string_equal(error.text, "host 'host' is still being looked up");
    assert_int_equal(
        mr_local_address_of_host("host", block_resolver, get_time_in_ms(100), own, &error),
        MR_ERR_TIMEOUT);
    assert_string_equal(error.text, "rank 0's host 'host' is still being looked up");
    uint64_t ms = (mr_clock_now_ns() - begun) / MS;
    assert_in_range(ms, 200, 650);
    /* A resolver that is only slow is used. */
    assert_int_equal(
        mr_store_address_resolve("host", block_resolver, get_time_in_ms(20000), &addresses, &error),
        MR_OK);
    assert_int_equal(addresses.n, 1);
    mr_clock_sleep_ms(100); /* the two resolver threads that were still running have ended */
}

static void an_unknown_host_is_named(void **state)
{
    (void)state;
    struct mr_store_addresses addresses;
    char own[MR_LOCAL_ADDRESS];
    assert_int_equal(
        mr_store_address_resolve("host", resolve_nothing, get_time_in_ms(5000), &addresses, &error),
        MR_ERR_IO);
    assert_non_null(strstr(error.text, "host 'host': "));
    assert_int_equal(
        mr_local_address_of_host("host", resolve_nothing, get_time_in_ms(5000), own, &error),
        MR_ERR_INVALID);
    assert_non_null(strstr(error.text, "rank 0's host 'host': "));
}

static void one_of_several_addresses_of_this_machine_is_bound(void **state)
{
    (void)state;
    struct mr_store_addresses addresses;
    char own[MR_LOCAL_ADDRESS];
    assert_int_equal(
        mr_store_address_resolve("host", resolve_three, get_time_in_ms(5000), &addresses, &error),
        MR_OK);
    assert_int_equal(addresses.n, 3);
    assert_int_equal(
        mr_local_address_of_host("host", resolve_three, get_time_in_ms(5000), own, &error), MR_OK);
    assert_string_equal(own, "127.0.0.1");
    assert_int_equal(
        mr_local_address_of_host("192.0.2.77", NULL, get_time_in_ms(5000), own, &error),
        MR_ERR_INVALID);
    assert_string_equal(error.text,
                        "this is rank 0, and 192.0.2.77 is not an address of this machine");
    assert_int_equal(mr_local_address_of_host("0.0.0.0", NULL, get_time_in_ms(5000), own, &error),
                     MR_ERR_INVALID);
}

/* "fe80::1%lo": the interface's number must be kept. */
static void an_address_can_name_its_interface(void **state)
{
    (void)state;
    struct mr_store_addresses addresses;
    char name[64];
    assert_int_equal(mr_store_address_resolve("fe80::1%lo", NULL, 0, &addresses, &error), MR_OK);
    mr_store_address_name(&addresses.at[0], name, sizeof name);
    assert_string_equal(name, "fe80::1%lo");
}

static void a_port_is_free_again_at_once_but_not_twice(void **state)
{
    (void)state;
    int listening, second;
    uint16_t port = 0;
    assert_int_equal(mr_store_address_listen("localhost", &port, &listening, &error),
                     MR_ERR_INVALID);
    assert_string_equal(error.text, "\"localhost\" is not a numeric address");
    assert_int_equal(mr_store_address_listen("127.0.0.1", &port, &listening, &error), MR_OK);
    assert_int_equal(mr_store_address_listen("127.0.0.1", &port, &second, &error), MR_ERR_IO);
    assert_int_equal(second, -1);
    assert_int_equal(error.os_error, EADDRINUSE);
    /* A connection that the server ended keeps the port in TIME_WAIT. */
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    int peer = accept(listening, NULL, NULL);
    assert_true(peer >= 0);
    close(peer);
    close(fd);
    close(listening);
    assert_int_equal(mr_store_address_listen("127.0.0.1", &port, &listening, &error), MR_OK);
    close(listening);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_is_resolved_or_named),
        cmocka_unit_test(a_blocked_resolver_is_abandoned_at_the_deadline),
        cmocka_unit_test(an_unknown_host_is_named),
        cmocka_unit_test(one_of_several_addresses_of_this_machine_is_bound),
        cmocka_unit_test(an_address_can_name_its_interface),
        cmocka_unit_test(a_port_is_free_again_at_once_but_not_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
