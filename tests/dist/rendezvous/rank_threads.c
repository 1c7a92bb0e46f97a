/* SPDX-License-Identifier: Apache-2.0 */
/* Threads as ranks of a rendezvous. */
#include "tests/dist/rendezvous/rank_threads.h"

#include "base/clock.h"
#include "tests/dist/rendezvous/made_up_environment.h"

#include <netdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

void mr_test_rank_set(struct mr_test_rank *rank, const char *name, const char *value)
{
    uint32_t i = 0;
    while (rank->environment[i])
        i++;
    assert_true(i < MR_TEST_LINES);
    assert_in_range(snprintf(rank->lines[i], sizeof rank->lines[i], "%s=%s", name, value), 1,
                    sizeof rank->lines[i] - 1);
    rank->environment[i] = rank->lines[i];
}

void mr_test_ranks_set(struct mr_test_rank *ranks, uint32_t n, const char *name, const char *value)
{
    for (uint32_t r = 0; r < n; r++)
        mr_test_rank_set(&ranks[r], name, value);
}

void mr_test_ranks_init(struct mr_test_rank *ranks, uint32_t n, uint32_t timeout_ms)
{
    char number[16];
    memset(ranks, 0, n * sizeof *ranks);
    for (uint32_t r = 0; r < n; r++) {
        ranks[r].options = (mr_group_options)MR_GROUP_OPTIONS_INIT;
        ranks[r].options.timeout_ms = timeout_ms;
        ranks[r].means =
            (struct mr_rendezvous_means){.get = mr_made_up_get, .user = ranks[r].environment};
        snprintf(number, sizeof number, "%u", r);
        mr_test_rank_set(&ranks[r], "RANK", number);
        snprintf(number, sizeof number, "%u", n);
        mr_test_rank_set(&ranks[r], "WORLD_SIZE", number);
    }
}

int mr_test_listen_on(const char *host, uint16_t port)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list;
    char number[16];
    snprintf(number, sizeof number, "%u", port);
    assert_int_equal(getaddrinfo(host, number, &hints, &list), 0);
    int fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    int on = 1;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    bool listens = bind(fd, list->ai_addr, list->ai_addrlen) == 0 && listen(fd, 16) == 0;
    freeaddrinfo(list);
    if (listens)
        return fd;
    close(fd);
    return -1;
}

int mr_test_listen(uint16_t port)
{
    return mr_test_listen_on("127.0.0.1", port);
}

uint16_t mr_test_free_ports(uint32_t n)
{
    /*
     * From 10000 to 19999. Starts at a different place in each process, because tests run at once.
     */
    static uint32_t offset;
    if (offset == 0)
        offset = (uint32_t)getpid() * 257;
    for (;;) {
        uint16_t port = (uint16_t)(10000 + offset++ * 17 % 9900);
        uint32_t n_free = 0;
        for (; n_free < n; n_free++) {
            int fd = mr_test_listen((uint16_t)(port + n_free));
            if (fd < 0)
                break;
            close(fd);
        }
        if (n_free == n)
            return port;
    }
}

uint16_t mr_test_ranks_address(struct mr_test_rank *ranks, uint32_t n)
{
    char number[16];
    uint16_t port = mr_test_free_ports(1);
    snprintf(number, sizeof number, "%u", port);
    mr_test_ranks_set(ranks, n, "MASTER_ADDR", "127.0.0.1");
    mr_test_ranks_set(ranks, n, "MASTER_PORT", number);
    return port;
}

static void *join_rank(void *arg)
{
    struct mr_test_rank *rank = arg;
    if (rank->delay_ms)
        mr_clock_sleep_ms(rank->delay_ms);
    rank->status =
        mr_rendezvous_join_by(&rank->means, &rank->options, &rank->rendezvous, &rank->error);
    return NULL;
}

void mr_test_ranks_start(struct mr_test_rank *ranks, uint32_t n)
{
    for (uint32_t r = 0; r < n; r++)
        if (!ranks[r].is_absent)
            assert_int_equal(pthread_create(&ranks[r].thread, NULL, join_rank, &ranks[r]), 0);
}

void mr_test_ranks_wait(struct mr_test_rank *ranks, uint32_t n)
{
    for (uint32_t r = 0; r < n; r++)
        if (!ranks[r].is_absent)
            assert_int_equal(pthread_join(ranks[r].thread, NULL), 0);
}

void mr_test_ranks_join(struct mr_test_rank *ranks, uint32_t n)
{
    mr_test_ranks_start(ranks, n);
    mr_test_ranks_wait(ranks, n);
}

void mr_test_ranks_leave(struct mr_test_rank *ranks, uint32_t n)
{
    for (uint32_t r = n; r > 0; r--)
        if (!ranks[r - 1].is_absent)
            mr_rendezvous_leave(&ranks[r - 1].rendezvous);
}

void mr_test_ranks_expect_all(const struct mr_test_rank *ranks, uint32_t n, const char *backend)
{
    for (uint32_t r = 0; r < n; r++)
        if (ranks[r].status != MR_OK)
            fail_msg("rank %u: %s", r, ranks[r].error.text);
    for (uint32_t r = 0; r < n; r++) {
        const struct mr_rendezvous *at = &ranks[r].rendezvous;
        assert_int_equal(at->who.rank, r);
        assert_int_equal(at->who.world_size, n);
        assert_int_equal(at->who.local_rank, r);
        assert_int_equal(at->who.local_world_size, n);
        assert_int_equal(at->who.node, 0);
        assert_string_equal(at->backend, backend);
        assert_true((at->client != NULL) == (n > 1));
        assert_true((at->store != NULL) == (n > 1 && r == 0));
    }
}

void mr_test_ranks_expect_error(const struct mr_test_rank *ranks, uint32_t n, mr_status status,
                                const char *words)
{
    for (uint32_t r = 0; r < n; r++) {
        if (ranks[r].is_absent)
            continue;
        if (ranks[r].status != status || !strstr(ranks[r].error.text, words))
            fail_msg("rank %u: %s \"%s\", not %s \"...%s...\"", r, mr_status_name(ranks[r].status),
                     ranks[r].error.text, mr_status_name(status), words);
        assert_null(ranks[r].rendezvous.client);
        assert_null(ranks[r].rendezvous.store);
    }
}
