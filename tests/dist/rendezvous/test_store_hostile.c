/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strangers and ranks that misbehave: the server survives, is not slowed down, and frees what they
 * used.
 */
#include "dist/rendezvous/store_client.h"
#include "dist/rendezvous/store_server.h"

#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/rng.h"
#include "tests/dist/rendezvous/store_rig.h"

#define N_FLOOD 300

static mr_error error;

/* The store answers a well-behaved rank quickly. */
static void assert_serves(struct mr_store_client *client)
{
    int64_t value;
    uint64_t begun = mr_clock_now_ns();
    assert_int_equal(mr_store_add(client, "alive", 1, &value, &error), MR_OK);
    assert_true(mr_clock_now_ns() - begun < UINT64_C(2000000000));
    assert_false(mr_store_broken(client, NULL, NULL));
}

static void a_connection_without_a_greeting_is_dropped_in_time(void **state)
{
    (void)state;
    struct mr_store_identity identity = rig_identity(2);
    identity.greet_ms = 400;
    struct mr_store *store = rig_start(&identity);
    struct mr_store_client *client = rig_client(mr_store_port(store), 0, &identity);
    uint64_t begun = mr_clock_now_ns();
    int silent = rig_socket(mr_store_port(store)), slow = rig_socket(mr_store_port(store));
    assert_int_equal(rig_drain(silent, 5000), MR_STORE_HELLO);
    uint64_t ms = (mr_clock_now_ns() - begun) / 1000000;
    assert_true(ms >= 390 && ms < 3000);
    /* A byte now and then does not help. */
    int slower = rig_socket(mr_store_port(store));
    begun = mr_clock_now_ns();
    for (const char *at = "MRSTORE\n"; *at && rig_write(slower, at, 1); at++)
        mr_clock_sleep_ms(100);
    assert_int_equal(rig_drain(slower, 5000), MR_STORE_HELLO);
    assert_true(mr_clock_now_ns() - begun < UINT64_C(3000000000));
    assert_serves(client);
    close(silent);
    close(slow);
    close(slower);
    mr_store_close(client);
    mr_store_stop(store);
}

static void strangers_get_no_answers(void **state)
{
    (void)state;
    struct mr_store_identity identity = rig_identity(2);
    identity.token = "secret";
    struct mr_store *store = rig_start(&identity);
    struct mr_store_client *client = rig_client(mr_store_port(store), 0, &identity);
    int fd = rig_socket(mr_store_port(store));
    assert_true(rig_write(fd, "GET / HTTP/1.0\r\n\r\n", 18));
    assert_int_equal(rig_drain(fd, 5000), MR_STORE_HELLO);
    close(fd);
    struct mr_store_identity wrong = identity;
    wrong.token = "guess";
    fd = rig_socket(mr_store_port(store));
    assert_int_equal(rig_greet(fd, 1, &wrong), MR_STORE_OTHER_TOKEN);
    assert_int_equal(rig_drain(fd, 5000), 0);
    close(fd);
    assert_serves(client);
    mr_store_close(client);
    mr_store_stop(store);
}

/*
 * The greeting of another version may be shorter or longer. Its first bytes are enough to refuse it
 * with a reason.
 */
static void another_version_is_refused_by_its_first_bytes(void **state)
{
    (void)state;
    struct mr_store_identity identity = rig_identity(2);
    struct mr_store *store = rig_start(&identity);
    struct mr_store_greeting greeting = {
        .version = 77, .world_size = 2, .run = RIG_RUN, .restart = 3, .rank = 1};
    uint8_t bytes[MR_STORE_HELLO], verdict[MR_STORE_HEAD];
    int fd = rig_socket(mr_store_port(store));
    assert_true(rig_read(fd, bytes, sizeof bytes));
    mr_store_greeting_write(&greeting, bytes);
    assert_true(rig_write(fd, bytes, sizeof bytes));
    assert_true(rig_read(fd, verdict, sizeof verdict));
    assert_int_equal(verdict[4], MR_STORE_VERDICT);
    assert_int_equal(verdict[5], MR_STORE_OTHER_VERSION);
    assert_true(mr_store_refused(store, &error));
    assert_string_equal(error.text, "rank 1 was refused: its store has version 77, not 3");
    close(fd);
    mr_store_stop(store);
}

static void a_flood_of_connections_keeps_no_rank_out(void **state)
{
    (void)state;
    struct mr_store_identity identity = rig_identity(2);
    struct mr_store *store = rig_start(&identity);
    struct mr_store_client *client = rig_client(mr_store_port(store), 0, &identity);
    uint32_t n_before = rig_n_open("/proc/self/fd");
    int fds[N_FLOOD];
    for (int i = 0; i < N_FLOOD; i++)
        fds[i] = rig_socket(mr_store_port(store));
    assert_serves(client);
    struct mr_store_client *other = rig_client(mr_store_port(store), 1, &identity);
    assert_serves(other);
    /* The server keeps only a few of them. */
    assert_true(rig_n_open("/proc/self/fd") < n_before + N_FLOOD + 50);
    for (int i = 0; i < N_FLOOD; i++)
        close(fds[i]);
    mr_store_close(other);
    mr_store_close(client);
    mr_store_stop(store);
}

static void a_server_without_descriptors_accepts_again_when_there_are_some(void **state)
{
    (void)state;
    struct mr_store_identity identity = rig_identity(2);
    identity.greet_ms = 500;
    struct mr_store *store = rig_start(&identity);
    struct mr_store_client *client = rig_client(mr_store_port(store), 0, &identity);
    struct rlimit before, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int fd = rig_socket(mr_store_port(store));
    uint8_t hello[MR_STORE_HELLO];
    assert_true(rig_read(fd, hello, sizeof hello));
    close(fd);
    mr_clock_sleep_ms(50);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    few = before;
    few.rlim_cur = 64;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    int dups[64], n_dups = 0;
    while (n_dups < 64 && (dups[n_dups] = dup(0)) >= 0)
        n_dups++;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(mr_store_port(store)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int rc = connect(fd, (struct sockaddr *)&address, sizeof address);
    mr_clock_sleep_ms(200);
    struct rusage busy[2];
    getrusage(RUSAGE_SELF, &busy[0]);
    mr_clock_sleep_ms(300);
    getrusage(RUSAGE_SELF, &busy[1]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    while (n_dups > 0)
        close(dups[--n_dups]);
    assert_int_equal(rc, 0);
    double spent = (double)(busy[1].ru_stime.tv_sec - busy[0].ru_stime.tv_sec) +
                   (double)(busy[1].ru_stime.tv_usec - busy[0].ru_stime.tv_usec) / 1e6;
    assert_true(spent < 0.15); /* it does not spin on accept */
    assert_true(mr_store_refused(store, &error));
    assert_string_equal(error.text, "cannot accept a connection: Too many open files");
    assert_serves(client);
    struct timeval limit = {.tv_sec = 5};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    assert_true(rig_read(fd, hello, sizeof hello));
    close(fd);
    mr_store_close(client);
    mr_store_stop(store);
}

/* A rank sends these bytes after a good greeting and is disconnected. */
static void assert_breaks(const void *bytes, size_t len, const char *words)
{
    struct mr_store_identity identity = rig_identity(2);
    struct mr_store *store = rig_start(&identity);
    struct mr_store_client *client = rig_client(mr_store_port(store), 0, &identity);
    int fd = rig_socket(mr_store_port(store));
    uint32_t rank = 99;
    assert_int_equal(rig_greet(fd, 1, &identity), MR_STORE_FINE);
    assert_true(rig_write(fd, bytes, len));
    assert_true(rig_drain(fd, 5000) >= 0);
    uint64_t until = rig_in_ms(5000);
    while (!mr_store_broken(client, &rank, &error) && mr_clock_now_ns() < until)
        mr_clock_sleep_ms(2);
    assert_int_equal(rank, 1);
    assert_non_null(strstr(error.text, words));
    assert_int_equal(mr_store_set(client, "a", "b", 1, &error), MR_OK);
    close(fd);
    mr_store_close(client);
    mr_store_stop(store);
}

static void a_rank_that_sends_nonsense_is_named(void **state)
{
    (void)state;
    static const uint8_t giant[16] = {0xff, 0xff, 0xff, 0xff, MR_STORE_SET, 0, 1, 0};
    static const uint8_t verdict[16] = {0, 0, 0, 0, MR_STORE_VERDICT};
    static const uint8_t no_key[16] = {0, 0, 0, 0, MR_STORE_GET};
    static const uint8_t short_add[18] = {2, 0, 0, 0, MR_STORE_ADD, 0, 1, 0, 0, 0, 0, 0,
                                          0, 0, 0, 0, 'n',          1};
    assert_breaks(giant, sizeof giant,
                  "rank 1 disconnected: it sent bytes that are not the store's protocol");
    assert_breaks(verdict, sizeof verdict, "not the store's protocol");
    assert_breaks(no_key, sizeof no_key, "not the store's protocol");
    assert_breaks(short_add, sizeof short_add, "not the store's protocol");
}

static void half_a_frame_delays_no_other_rank(void **state)
{
    (void)state;
    struct mr_store_identity identity = rig_identity(2);
    identity.silence_ms = 600;
    struct mr_store *store = rig_start(&identity);
    struct mr_store_client *client = rig_client(mr_store_port(store), 0, &identity);
    int fd = rig_socket(mr_store_port(store));
    uint8_t half[2000] = {0, 0, 16, 0, MR_STORE_SET, 0, 1, 0};
    uint32_t rank = 99;
    assert_int_equal(rig_greet(fd, 1, &identity), MR_STORE_FINE);
    assert_true(rig_write(fd, half, sizeof half));
    assert_serves(client);
    uint64_t until = rig_in_ms(5000);
    while (!mr_store_broken(client, &rank, &error) && mr_clock_now_ns() < until)
        mr_clock_sleep_ms(2);
    assert_int_equal(rank, 1);
    assert_non_null(strstr(error.text, "rank 1 fell silent"));
    close(fd);
    mr_store_close(client);
    mr_store_stop(store);
}

/*
 * Requests a megabyte a thousand times and never reads, but sends beats. Memory stays bounded, and
 * the rank is disconnected.
 */
static void a_rank_that_never_reads_is_dropped(void **state)
{
    (void)state;
    struct mr_store_identity identity = rig_identity(2);
    identity.silence_ms = 1500;
    struct mr_store *store = rig_start(&identity);
    struct mr_store_client *client = rig_client(mr_store_port(store), 0, &identity);
    void *value = calloc(1, MR_STORE_VALUE);
    uint8_t get[19] = {3, 0, 0, 0, MR_STORE_GET, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'b', 'i', 'g'};
    static const uint8_t beat[16] = {0, 0, 0, 0, MR_STORE_BEAT};
    uint32_t rank = 99;
    struct rusage before, after;
    assert_non_null(value);
    assert_int_equal(mr_store_set(client, "big", value, MR_STORE_VALUE, &error), MR_OK);
    int fd = rig_socket(mr_store_port(store)), small = 4096;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    assert_int_equal(rig_greet(fd, 1, &identity), MR_STORE_FINE);
    getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < 1000; i++)
        assert_true(rig_write(fd, get, sizeof get));
    assert_serves(client);
    uint64_t until = rig_in_ms(10000);
    while (!mr_store_broken(client, &rank, &error) && mr_clock_now_ns() < until) {
        send(fd, beat, sizeof beat, MSG_NOSIGNAL | MSG_DONTWAIT);
        mr_clock_sleep_ms(20);
    }
    getrusage(RUSAGE_SELF, &after);
    assert_non_null(strstr(error.text, "rank 1 disconnected: it did not read for 1.5 s"));
    assert_int_equal(rank, 1);
    /* KiB; a thousand answers are a GiB */
    assert_true(after.ru_maxrss - before.ru_maxrss < 64 * 1024);
    assert_int_equal(mr_store_set(client, "a", "b", 1, &error), MR_OK);
    free(value);
    close(fd);
    mr_store_close(client);
    mr_store_stop(store);
}

/* A slow reader with many gets receives all answers in the end. */
static void held_back_answers_are_sent_when_there_is_room(void **state)
{
    (void)state;
    struct mr_store_identity identity = rig_identity(2);
    struct mr_store *store = rig_start(&identity);
    struct mr_store_client *client = rig_client(mr_store_port(store), 0, &identity);
    void *value = calloc(1, MR_STORE_VALUE), *back = malloc(MR_STORE_HEAD + MR_STORE_VALUE);
    uint8_t get[19] = {3, 0, 0, 0, MR_STORE_GET, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'b', 'i', 'g'};
    int fd = rig_socket(mr_store_port(store));
    assert_non_null(value);
    assert_non_null(back);
    assert_int_equal(rig_greet(fd, 1, &identity), MR_STORE_FINE);
    for (uint8_t i = 0; i < 40; i++) {
        get[8] = i;
        assert_true(rig_write(fd, get, sizeof get));
        if (i != 19)
            continue;
        mr_clock_sleep_ms(100); /* half of the gets wait for the key, half arrive after it is set */
        assert_int_equal(mr_store_set(client, "big", value, MR_STORE_VALUE, &error), MR_OK);
    }
    mr_clock_sleep_ms(200);
    uint64_t seen = 0;
    for (int i = 0; i < 40; i++) {
        assert_true(rig_read(fd, back, MR_STORE_HEAD + MR_STORE_VALUE));
        assert_int_equal(((uint8_t *)back)[4], MR_STORE_ANSWER);
        seen |= UINT64_C(1) << ((uint8_t *)back)[8];
    }
    assert_true(seen == (UINT64_C(1) << 40) - 1);
    free(value);
    free(back);
    close(fd);
    mr_store_close(client);
    mr_store_stop(store);
}

static void random_bytes_of_many_strangers_are_harmless(void **state)
{
    (void)state;
    struct mr_store_identity identity = rig_identity(2);
    struct mr_store *store = rig_start(&identity);
    struct mr_store_client *client = rig_client(mr_store_port(store), 0, &identity);
    struct mr_rng rng;
    mr_rng_init(&rng, 20260, 0, 0);
    for (int i = 0; i < 400; i++) {
        uint8_t bytes[256];
        size_t len = mr_rng_below(&rng, sizeof bytes);
        for (size_t b = 0; b < len; b++)
            bytes[b] = (uint8_t)mr_rng_u32(&rng);
        if (len >= 12 && i % 2)
            memcpy(bytes, "MRSTORE\n\3\0\0", 12);
        int fd = rig_socket(mr_store_port(store));
        rig_write(fd, bytes, len);
        close(fd);
        if (i % 50 == 0)
            assert_serves(client);
    }
    assert_serves(client);
    mr_store_close(client);
    mr_store_stop(store);
}

#define N_LOUD 80 /* more than the server handles in one turn */
#define N_WAITS 100

struct loud {
    int fds[N_LOUD];
    size_t sent[N_LOUD]; /* bytes of the current round */
    _Atomic bool stop;
};

/* Keeps all sockets full of requests that take long and have no answer. */
static void *send_long_requests(void *arg)
{
    struct loud *loud = arg;
    static uint8_t cancels[64 << 10];
    for (size_t at = 0; at < sizeof cancels; at += MR_STORE_HEAD)
        memcpy(cancels + at, (const uint8_t[MR_STORE_HEAD]){0, 0, 0, 0, MR_STORE_CANCEL},
               MR_STORE_HEAD);
    for (int i = 0; !atomic_load(&loud->stop); i = (i + 1) % N_LOUD) {
        size_t *sent = &loud->sent[i];
        ssize_t n = send(loud->fds[i], cancels + *sent, sizeof cancels - *sent,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        *sent = n > 0 ? (*sent + (size_t)n) % sizeof cancels : *sent;
    }
    return NULL;
}

static void busy_ranks_do_not_hide_a_silent_one(void **state)
{
    (void)state;
    struct mr_store_identity identity = rig_identity(N_LOUD + 2);
    identity.silence_ms = 2000;
    struct mr_store *store = rig_start(&identity);
    struct mr_store_client *client = rig_client(mr_store_port(store), 0, &identity);
    struct loud loud = {.stop = false};
    uint8_t get[17] = {1, 0, 0, 0, MR_STORE_GET, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'q'};
    pthread_t thread;
    uint32_t rank = 99;
    for (uint32_t i = 0; i < N_LOUD; i++) {
        loud.fds[i] = rig_socket(mr_store_port(store));
        assert_int_equal(rig_greet(loud.fds[i], i + 2, &identity), MR_STORE_FINE);
    }
    for (uint8_t i = 1; i < N_WAITS; i++) {
        get[8] = i;
        assert_true(rig_write(loud.fds[0], get, sizeof get));
    }
    int silent = rig_socket(mr_store_port(store));
    assert_int_equal(rig_greet(silent, 1, &identity), MR_STORE_FINE);
    assert_int_equal(pthread_create(&thread, NULL, send_long_requests, &loud), 0);
    uint64_t until = rig_in_ms(10000);
    while (!mr_store_broken(client, &rank, &error) && mr_clock_now_ns() < until)
        mr_clock_sleep_ms(20);
    atomic_store(&loud.stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(rank, 1);
    assert_non_null(strstr(error.text, "rank 1 fell silent"));
    close(silent);
    for (int i = 0; i < N_LOUD; i++)
        close(loud.fds[i]);
    mr_store_close(client);
    mr_store_stop(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_without_a_greeting_is_dropped_in_time),
        cmocka_unit_test(strangers_get_no_answers),
        cmocka_unit_test(another_version_is_refused_by_its_first_bytes),
        cmocka_unit_test(a_flood_of_connections_keeps_no_rank_out),
        cmocka_unit_test(a_server_without_descriptors_accepts_again_when_there_are_some),
        cmocka_unit_test(a_rank_that_sends_nonsense_is_named),
        cmocka_unit_test(half_a_frame_delays_no_other_rank),
        cmocka_unit_test(busy_ranks_do_not_hide_a_silent_one),
        cmocka_unit_test(a_rank_that_never_reads_is_dropped),
        cmocka_unit_test(held_back_answers_are_sent_when_there_is_room),
        cmocka_unit_test(random_bytes_of_many_strangers_are_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
