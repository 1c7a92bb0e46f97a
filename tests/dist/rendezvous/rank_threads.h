/* SPDX-License-Identifier: Apache-2.0 */
/* Threads as ranks of a rendezvous, each with its own options and environment. */
#ifndef TESTS_DIST_RENDEZVOUS_RANK_THREADS_H
#define TESTS_DIST_RENDEZVOUS_RANK_THREADS_H

#include "dist/rendezvous/rendezvous.h"

#include <pthread.h>

#define MR_TEST_RANKS 8
#define MR_TEST_LINES 16

struct mr_test_rank {
    mr_group_options options;
    char lines[MR_TEST_LINES][160];
    const char *environment[MR_TEST_LINES + 1];
    struct mr_rendezvous_means means;
    uint32_t delay_ms; /* before it joins */
    bool is_absent;
    mr_status status; /* result of its join */
    mr_error error;
    struct mr_rendezvous rendezvous;
    pthread_t thread;
};

/* Initialise n ranks with default options, timeout_ms, RANK and WORLD_SIZE. */
void mr_test_ranks_init(struct mr_test_rank *ranks, uint32_t n, uint32_t timeout_ms);
/* Add "NAME=value" to the environment of one rank, or of n. */
void mr_test_rank_set(struct mr_test_rank *rank, const char *name, const char *value);
void mr_test_ranks_set(struct mr_test_rank *ranks, uint32_t n, const char *name, const char *value);
/* Set the address that all use: 127.0.0.1 and a port that was free. Returns the port. */
uint16_t mr_test_ranks_address(struct mr_test_rank *ranks, uint32_t n);

/* Start the joins, and wait until they have all returned. */
void mr_test_ranks_start(struct mr_test_rank *ranks, uint32_t n);
void mr_test_ranks_wait(struct mr_test_rank *ranks, uint32_t n);
void mr_test_ranks_join(struct mr_test_rank *ranks, uint32_t n);
void mr_test_ranks_leave(struct mr_test_rank *ranks, uint32_t n);
/*
 * Expect that all have joined, at the places of one machine. Fails the test with the error of one
 * that has not.
 */
void mr_test_ranks_expect_all(const struct mr_test_rank *ranks, uint32_t n, const char *backend);
/* Expect that all ranks that are not absent failed with this status and this text in the error. */
void mr_test_ranks_expect_error(const struct mr_test_rank *ranks, uint32_t n, mr_status status,
                                const char *words);

/*
 * A port of 127.0.0.1 that is free, as are the n - 1 ports above it. Below the range that the
 * kernel uses for connections.
 */
uint16_t mr_test_free_ports(uint32_t n);
/* A socket that listens on the port and never answers; -1 if the port is taken. */
int mr_test_listen(uint16_t port);
/*
 * The same on the first address of a host. localhost is 127.0.0.1 on some machines and ::1 on
 * others.
 */
int mr_test_listen_on(const char *host, uint16_t port);

#endif
