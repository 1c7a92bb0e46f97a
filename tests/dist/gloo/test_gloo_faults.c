/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gloo module with faults: ranks that do not arrive, stop, hang or die. Every survivor must
 * return in time with the right status, and its engine must be destroyed at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/dist/gloo/gloo_rig.h"
#include "tests/support/assert_words.h"

/* The most that "at once" and "soon" may take on a loaded machine. */
#define SOON_MS 3000
#define NEVER_MS 60000

static void sleep_ms(uint32_t ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

static uint64_t ms_since(uint64_t start_ns)
{
    return (rig_now_ns() - start_ns) / RIG_MS;
}

/* A connected rank with a buffer for one collective. */
struct member {
    const struct mr_engine_table *table;
    void *engine;
    double *values;
    struct mr_collective c;
    mr_error error;
};

#define LARGE (8u << 20) /* elements: 64 MiB, more than sockets hold */

static int join(struct rig_rank *rank, struct member *m, uint32_t kind, uint64_t count)
{
    *m = (struct member){.table = rank->table};
    m->values = calloc(count + 1, sizeof *m->values);
    m->c = (struct mr_collective){.kind = kind,
                                  .root = 1 - rank->setup.rank % 2,
                                  .in = m->values,
                                  .out = m->values,
                                  .count = count,
                                  .dtype = MR_F64};
    m->c.number = 12;
    if (!m->values || rank->table->create(&rank->setup, &m->engine, &m->error) != MR_OK) {
        printf("rank %u: %s\n", rank->setup.rank, m->error.text);
        return 1;
    }
    return 0;
}

static int leave(struct member *m)
{
    uint64_t start_ns = rig_now_ns();
    m->table->destroy(m->engine, false);
    free(m->values);
    if (ms_since(start_ns) <= SOON_MS)
        return 0;
    printf("destroy took %llu ms\n", (unsigned long long)ms_since(start_ns));
    return 1;
}

/* Run once. It must return status, between the two times. */
static int run_ends(struct member *m, uint32_t timeout_ms, const volatile uint32_t *stop,
                    int32_t status, uint64_t from_ms, uint64_t to_ms)
{
    uint64_t start_ns = rig_now_ns();
    int32_t got = rig_run(m->table, m->engine, &m->c, timeout_ms, stop, &m->error);
    uint64_t ms = ms_since(start_ns);
    if (got == status && m->error.status == status && ms >= from_ms && ms <= to_ms)
        return 0;
    printf("status %d, not %d, after %llu ms: %s\n", got, status, (unsigned long long)ms,
           m->error.text);
    return 1;
}

/* Rank 0 waits for a rank that does nothing. user: the kind. */
static int wait_in_vain(struct rig_rank *rank)
{
    struct member m;
    const uint32_t *kind = rank->user;
    if (join(rank, &m, *kind, LARGE) != 0)
        return 1;
    int wrong = 0;
    if (rank->setup.rank == 0) {
        volatile uint32_t stop = 0;
        wrong = run_ends(&m, 100, &stop, MR_ERR_TIMEOUT, 95, 100 + SOON_MS);
        wrong |= strstr(m.error.text, " 12 did not end") == NULL;
        /* The connections are closed, and a further call reports that at once. */
        wrong |= run_ends(&m, NEVER_MS, &stop, MR_ERR_PEER, 0, SOON_MS);
        rig_store_say(rank->setup.store.user, "over");
    } else {
        rig_store_await(rank->setup.store.user, "over", 1); /* and keep the connections */
    }
    return wrong | leave(&m);
}

static void every_collective_ends_by_its_deadline(void **state)
{
    (void)state;
    for (uint32_t kind = MR_COLLECTIVE_BARRIER; kind <= MR_COLLECTIVE_RECV; kind++) {
        /* in and out are one buffer, which is too small for one part of each rank. */
        if (kind == MR_COLLECTIVE_ALL_GATHER || kind == MR_COLLECTIVE_REDUCE_SCATTER)
            continue;
        assert_int_equal(rig_threads(2, wait_in_vain, &kind), 0);
    }
}

struct stopper {
    volatile uint32_t stop;
    uint32_t after_ms;
};

static void *stop_later(void *arg)
{
    struct stopper *stopper = arg;
    sleep_ms(stopper->after_ms);
    __atomic_store_n(&stopper->stop, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Rank 0 is stopped while it waits for rank 1. */
static int stop_rank_0(struct rig_rank *rank, struct member *m)
{
    struct stopper stopper = {.after_ms = 80};
    pthread_t thread;
    if (rank->setup.rank != 0) {
        rig_store_await(rank->setup.store.user, "over", 1); /* and keep the connections */
        return 0;
    }
    if (pthread_create(&thread, NULL, stop_later, &stopper) != 0)
        abort();
    int wrong =
        run_ends(m, NEVER_MS, &stopper.stop, MR_ERR_CANCELED, 0, stopper.after_ms + SOON_MS);
    wrong |= stopper.stop == 0;
    rig_store_say(rank->setup.store.user, "over");
    pthread_join(thread, NULL);
    return wrong;
}

static int run_until_stopped(struct rig_rank *rank)
{
    struct member m;
    const uint32_t *kind = rank->user;
    if (join(rank, &m, *kind, LARGE) != 0)
        return 1;
    return stop_rank_0(rank, &m) | leave(&m);
}

static void stop_ends_a_blocked_collective_soon(void **state)
{
    (void)state;
    for (uint32_t kind = MR_COLLECTIVE_BARRIER; kind <= MR_COLLECTIVE_RECV; kind++) {
        if (kind == MR_COLLECTIVE_ALL_GATHER || kind == MR_COLLECTIVE_REDUCE_SCATTER)
            continue;
        assert_int_equal(rig_threads(2, run_until_stopped, &kind), 0);
    }
}

/*
 * Half of a large message has arrived: a signal stops the other end while it reads. If the
 * connection is closed then, gloo forgets which thread waits for the message.
 */
static int read_forever(struct rig_rank *rank)
{
    struct member m;
    volatile uint32_t stop = 0;
    if (join(rank, &m, *(const uint32_t *)rank->user, LARGE) != 0)
        return 1;
    while (rig_run(m.table, m.engine, &m.c, NEVER_MS, &stop, &m.error) == MR_OK)
        ;
    return leave(&m);
}

struct victim {
    pid_t child;
    uint32_t kill_after_ms; /* 0: do not kill */
};

static void *stop_and_kill(void *arg)
{
    const struct victim *victim = arg;
    sleep_ms(20);
    kill(victim->child, SIGSTOP);
    if (victim->kill_after_ms > 0) {
        sleep_ms(victim->kill_after_ms);
        kill(victim->child, SIGKILL);
    }
    return NULL;
}

enum end { BY_DEADLINE, BY_STOP, BY_DEATH };

static void end_half_way(enum end end, bool sends)
{
    uint32_t kind = sends ? MR_COLLECTIVE_SEND : MR_COLLECTIVE_RECV;
    uint32_t other_kind = sends ? MR_COLLECTIVE_RECV : MR_COLLECTIVE_SEND;
    struct rig_store *store = rig_store_create();
    struct rig_rank rank = rig_rank_of(store, 0, 2, 20000), other = rig_rank_of(store, 1, 2, 20000);
    struct member m;
    struct stopper stopper = {.after_ms = 150};
    pthread_t thread;
    other.user = &other_kind;
    pid_t child = rig_child(&other, read_forever);
    assert_int_equal(join(&rank, &m, kind, LARGE), 0);
    volatile uint32_t stop = 0;
    assert_int_equal(rig_run(m.table, m.engine, &m.c, NEVER_MS, &stop, &m.error), MR_OK);
    struct victim victim = {child, end == BY_DEATH ? 150 : 0};
    if (pthread_create(&thread, NULL, stop_and_kill, &victim) != 0)
        abort();
    pthread_t stopping;
    if (end == BY_STOP && pthread_create(&stopping, NULL, stop_later, &stopper) != 0)
        abort();
    int32_t status = MR_OK;
    uint64_t start_ns = rig_now_ns();
    while (status == MR_OK && ms_since(start_ns) < SOON_MS)
        status = rig_run(m.table, m.engine, &m.c, end == BY_DEADLINE ? 300 : NEVER_MS,
                         &stopper.stop, &m.error);
    assert_int_equal(status, end == BY_DEADLINE ? MR_ERR_TIMEOUT
                             : end == BY_STOP   ? MR_ERR_CANCELED
                                                : MR_ERR_PEER);
    assert_in_range(ms_since(start_ns), 0, SOON_MS);
    assert_int_equal(leave(&m), 0);
    pthread_join(thread, NULL);
    if (end == BY_STOP)
        pthread_join(stopping, NULL);
    kill(child, SIGKILL);
    assert_int_equal(rig_wait(child), 128 + SIGKILL);
    rig_store_destroy(store);
}

static void a_message_that_has_half_arrived_ends_like_any_other(void **state)
{
    (void)state;
    for (uint32_t sends = 0; sends < 2; sends++) {
        end_half_way(BY_DEADLINE, sends);
        end_half_way(BY_STOP, sends);
        end_half_way(BY_DEATH, sends);
        end_half_way(BY_DEATH, sends);
    }
}

/* After a second without work the watch's thread sleeps, and the next collective must wake it. */
static int run_until_stopped_after_a_rest(struct rig_rank *rank)
{
    struct member m;
    volatile uint32_t stop = 0;
    if (join(rank, &m, MR_COLLECTIVE_BARRIER, 0) != 0)
        return 1;
    int wrong = run_ends(&m, NEVER_MS, &stop, MR_OK, 0, NEVER_MS);
    sleep_ms(1200);
    return wrong | stop_rank_0(rank, &m) | leave(&m);
}

static void stop_works_after_a_long_rest(void **state)
{
    (void)state;
    assert_int_equal(rig_threads(2, run_until_stopped_after_a_rest, NULL), 0);
}

static int run_after_a_stop(struct rig_rank *rank)
{
    struct member m;
    volatile uint32_t stop = 1;
    if (join(rank, &m, MR_COLLECTIVE_BARRIER, 0) != 0)
        return 1;
    return run_ends(&m, NEVER_MS, &stop, MR_ERR_CANCELED, 0, SOON_MS) | leave(&m);
}

static void a_stop_before_the_call_is_seen(void **state)
{
    (void)state;
    assert_int_equal(rig_threads(2, run_after_a_stop, NULL), 0);
}

/* Run collectives until one fails. It must fail soon, because a rank has died. */
static int reduce_until_a_rank_dies(struct rig_rank *rank)
{
    struct member m;
    volatile uint32_t stop = 0;
    if (join(rank, &m, MR_COLLECTIVE_ALL_REDUCE, 200000) != 0)
        return 1;
    rig_store_say(rank->setup.store.user, "joined");
    int32_t status = MR_OK;
    for (uint32_t i = 0; i < 100000 && status == MR_OK; i++)
        status = rig_run(m.table, m.engine, &m.c, NEVER_MS, &stop, &m.error);
    int wrong = status != MR_ERR_PEER || strncmp(m.error.text, "gloo: all_reduce 12: ", 21) != 0 ||
                strchr(m.error.text, '\n') || strchr(m.error.text, '/');
    if (wrong)
        printf("status %d: %s\n", status, m.error.text);
    return wrong | leave(&m);
}

static void a_killed_rank_ends_the_others_with_peer_errors(void **state)
{
    (void)state;
    for (uint32_t turn = 0; turn < 4; turn++) {
        struct rig_store *store = rig_store_create();
        pid_t children[3];
        for (uint32_t i = 0; i < 3; i++) {
            struct rig_rank rank = rig_rank_of(store, i, 3, 20000);
            children[i] = rig_child(&rank, reduce_until_a_rank_dies);
        }
        rig_store_await(store, "joined", 3);
        sleep_ms(100 + 17 * turn);
        uint64_t start_ns = rig_now_ns();
        kill(children[turn % 3], SIGKILL);
        for (uint32_t i = 0; i < 3; i++)
            assert_int_equal(rig_wait(children[i]), i == turn % 3 ? 128 + SIGKILL : 0);
        assert_in_range(ms_since(start_ns), 0, SOON_MS);
        rig_store_destroy(store);
    }
}

/* A rank that only hangs keeps its connections, so the other ranks end at their deadline. */
static int reduce_until_the_deadline(struct rig_rank *rank)
{
    struct member m;
    volatile uint32_t stop = 0;
    if (join(rank, &m, MR_COLLECTIVE_ALL_REDUCE, 200000) != 0)
        return 1;
    rig_store_say(rank->setup.store.user, "joined");
    int32_t status = MR_OK;
    uint64_t start_ns = 0;
    for (uint32_t i = 0; i < 100000 && status == MR_OK; i++) {
        start_ns = rig_now_ns();
        status = rig_run(m.table, m.engine, &m.c, 800, &stop, &m.error);
    }
    /*
     * The first rank whose deadline passes closes its connections. The other rank may see that
     * before its own deadline.
     */
    int wrong =
        (status != MR_ERR_TIMEOUT && status != MR_ERR_PEER) || ms_since(start_ns) > 800 + SOON_MS;
    if (wrong)
        printf("status %d after %llu ms: %s\n", status, (unsigned long long)ms_since(start_ns),
               m.error.text);
    return wrong | leave(&m);
}

static void a_hanging_rank_ends_the_others_by_their_deadline(void **state)
{
    (void)state;
    struct rig_store *store = rig_store_create();
    pid_t children[3];
    for (uint32_t i = 0; i < 3; i++) {
        struct rig_rank rank = rig_rank_of(store, i, 3, 20000);
        children[i] = rig_child(&rank, reduce_until_the_deadline);
    }
    rig_store_await(store, "joined", 3);
    sleep_ms(100);
    kill(children[1], SIGSTOP);
    assert_int_equal(rig_wait(children[0]), 0);
    assert_int_equal(rig_wait(children[2]), 0);
    kill(children[1], SIGKILL);
    assert_int_equal(rig_wait(children[1]), 128 + SIGKILL);
    rig_store_destroy(store);
}

/* Creating this rank's engine must fail with this status and word, after this time. */
static void refused(struct rig_rank *rank, int32_t status, const char *word, uint64_t from_ms,
                    uint64_t to_ms)
{
    void *engine = rank;
    mr_error error = {0};
    uint64_t start_ns = rig_now_ns();
    int32_t got = rank->table->create(&rank->setup, &engine, &error);
    uint64_t ms = ms_since(start_ns);
    if (got != status || !strstr(error.text, word))
        printf("status %d: %s\n", got, error.text);
    assert_int_equal(got, status);
    assert_int_equal(error.status, status);
    assert_words(error.text, word);
    assert_null(engine);
    assert_in_range(ms, from_ms, to_ms);
}

static void a_rank_that_does_not_arrive_is_waited_for_until_the_deadline(void **state)
{
    (void)state;
    struct rig_store *store = rig_store_create();
    struct rig_rank first = rig_rank_of(store, 0, 2, 300);
    refused(&first, MR_ERR_TIMEOUT, "gloo/", 290, 300 + SOON_MS);
    struct rig_rank second = rig_rank_of(store, 2, 3, 300);
    refused(&second, MR_ERR_TIMEOUT, "gloo/", 290, 300 + SOON_MS);
    rig_store_destroy(store);
}

static void the_stores_report_of_a_lost_rank_is_passed_on(void **state)
{
    (void)state;
    struct rig_store *store = rig_store_create();
    struct rig_rank rank = rig_rank_of(store, 0, 2, NEVER_MS);
    rig_store_break(store);
    refused(&rank, MR_ERR_PEER, "rank 1 disconnected", 0, SOON_MS);
    rig_store_destroy(store);
}

/* Its address is in the store, but the rank never connects, or has died. */
struct half_connected {
    struct mr_engine_store real;
    uint32_t n_sets;
};

static int32_t set_and_hang(void *user, const char *key, const void *value, uint32_t len,
                            mr_error *error)
{
    struct half_connected *half = user;
    int32_t status = half->real.set(half->real.user, key, value, len, error);
    if (++half->n_sets == 1)
        rig_store_say(half->real.user, "set");
    else
        pause();
    return status;
}

static int32_t get_from_real(void *user, const char *key, void *value_out, uint32_t size,
                             uint32_t *len_out, uint64_t deadline_ns, mr_error *error)
{
    struct half_connected *half = user;
    return half->real.get(half->real.user, key, value_out, size, len_out, deadline_ns, error);
}

static void *break_later(void *arg)
{
    sleep_ms(300);
    rig_store_break(arg);
    return NULL;
}

static int create_half(struct rig_rank *rank)
{
    struct half_connected half = {.real = rank->setup.store};
    void *engine;
    mr_error error;
    rank->setup.store =
        (struct mr_engine_store){.user = &half, .set = set_and_hang, .get = get_from_real};
    return rank->table->create(&rank->setup, &engine, &error) == MR_OK;
}

/*
 * Of two ranks the one with the larger address connects. These two have only set their addresses.
 * Rank 1 waits for them. broken: until the store reports that they have disconnected.
 */
static void wait_for_two_that_hang(bool broken)
{
    struct rig_store *store = rig_store_create();
    struct rig_rank others[2] = {rig_rank_of(store, 0, 3, 20000), rig_rank_of(store, 2, 3, 20000)};
    pid_t children[2];
    for (uint32_t i = 0; i < 2; i++) {
        others[i].setup.local_address = "127.0.0.2";
        children[i] = rig_child(&others[i], create_half);
    }
    rig_store_await(store, "set", 2);
    struct rig_rank rank = rig_rank_of(store, 1, 3, broken ? NEVER_MS : 400);
    pthread_t thread;
    if (broken && pthread_create(&thread, NULL, break_later, store) != 0)
        abort();
    if (broken)
        refused(&rank, MR_ERR_PEER, "rank 1 disconnected", 0, 300 + SOON_MS);
    else
        refused(&rank, MR_ERR_TIMEOUT, "deadline", 390, 400 + SOON_MS);
    if (broken)
        pthread_join(thread, NULL);
    for (uint32_t i = 0; i < 2; i++) {
        kill(children[i], SIGKILL);
        assert_int_equal(rig_wait(children[i]), 128 + SIGKILL);
    }
    rig_store_destroy(store);
}

static void a_rank_that_hangs_while_connecting_is_waited_for_until_the_deadline(void **state)
{
    (void)state;
    wait_for_two_that_hang(false);
}

static void a_rank_that_breaks_while_connecting_is_not_waited_for(void **state)
{
    (void)state;
    wait_for_two_that_hang(true);
}

static void an_unknown_interface_and_address_are_named(void **state)
{
    (void)state;
    struct rig_store *store = rig_store_create();
    struct rig_rank rank = rig_rank_of(store, 0, 2, NEVER_MS);
    setenv("GLOO_SOCKET_IFNAME", "nosuch7,lo", 1);
    refused(&rank, MR_ERR_INVALID, "GLOO_SOCKET_IFNAME=nosuch7,lo", 0, SOON_MS);
    setenv("MR_SOCKET_IFNAME", "nosuch8", 1);
    refused(&rank, MR_ERR_INVALID, "MR_SOCKET_IFNAME=nosuch8", 0, SOON_MS);
    unsetenv("GLOO_SOCKET_IFNAME");
    unsetenv("MR_SOCKET_IFNAME");
    rank.setup.local_address = "localhost";
    refused(&rank, MR_ERR_INVALID, "localhost", 0, SOON_MS);
    rank.setup.local_address = NULL;
    refused(&rank, MR_ERR_INVALID, "local address", 0, SOON_MS);
    rank.setup.local_address = "192.0.2.1"; /* reserved for documentation: no interface has it */
    refused(&rank, MR_ERR_IO, "192.0.2.1", 0, SOON_MS);
    rank.setup.abi = MR_ENGINE_ABI + 1;
    refused(&rank, MR_ERR_UNSUPPORTED, "interface", 0, SOON_MS);
    rig_store_destroy(store);
}

static int call_wrongly(struct rig_rank *rank)
{
    struct member m;
    volatile uint32_t stop = 0;
    if (join(rank, &m, MR_COLLECTIVE_ALL_REDUCE, 8) != 0)
        return 1;
    struct mr_collective good = m.c;
    m.c.dtype = MR_U8;
    int wrong = run_ends(&m, NEVER_MS, &stop, MR_ERR_INVALID, 0, SOON_MS);
    m.c = good;
    m.c.op = MR_MEAN;
    m.c.dtype = MR_I32;
    wrong |= run_ends(&m, NEVER_MS, &stop, MR_ERR_INVALID, 0, SOON_MS);
    m.c = good;
    m.c.count = UINT64_MAX / 8;
    wrong |= run_ends(&m, NEVER_MS, &stop, MR_ERR_INVALID, 0, SOON_MS);
    m.c = good;
    m.c.kind = MR_COLLECTIVE_RECV + 1;
    wrong |= run_ends(&m, NEVER_MS, &stop, MR_ERR_INVALID, 0, SOON_MS);
    /* The engine still works. */
    m.c = good;
    m.error.status = MR_OK;
    wrong |= run_ends(&m, NEVER_MS, &stop, MR_OK, 0, NEVER_MS);
    return wrong | leave(&m);
}

static void wrong_arguments_are_refused_and_the_engine_still_works(void **state)
{
    (void)state;
    assert_int_equal(rig_threads(2, call_wrongly, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_collective_ends_by_its_deadline),
        cmocka_unit_test(stop_ends_a_blocked_collective_soon),
        cmocka_unit_test(a_message_that_has_half_arrived_ends_like_any_other),
        cmocka_unit_test(stop_works_after_a_long_rest),
        cmocka_unit_test(a_stop_before_the_call_is_seen),
        cmocka_unit_test(a_killed_rank_ends_the_others_with_peer_errors),
        cmocka_unit_test(a_hanging_rank_ends_the_others_by_their_deadline),
        cmocka_unit_test(a_rank_that_does_not_arrive_is_waited_for_until_the_deadline),
        cmocka_unit_test(the_stores_report_of_a_lost_rank_is_passed_on),
        cmocka_unit_test(a_rank_that_hangs_while_connecting_is_waited_for_until_the_deadline),
        cmocka_unit_test(a_rank_that_breaks_while_connecting_is_not_waited_for),
        cmocka_unit_test(an_unknown_interface_and_address_are_named),
        cmocka_unit_test(wrong_arguments_are_refused_and_the_engine_still_works),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
