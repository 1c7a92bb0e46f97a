/* SPDX-License-Identifier: Apache-2.0 */
/* The store as its callers see it: keys, waits, which ranks may connect, and leftovers. */
#include "dist/rendezvous/store_client.h"
#include "dist/rendezvous/store_server.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/dist/rendezvous/store_rig.h"

#define N_MANY 32

static mr_error error;

static void a_value_can_be_read_and_replaced(void **state)
{
    (void)state;
    struct mr_store_identity identity = rig_identity(2);
    struct mr_store *store = rig_start(&identity);
    struct mr_store_client *a = rig_client(mr_store_port(store), 0, &identity);
    struct mr_store_client *b = rig_client(mr_store_port(store), 1, &identity);
    char value[8];
    uint32_t len = 9;
    assert_int_equal(mr_store_set(a, "key", "first", 5, &error), MR_OK);
    assert_int_equal(mr_store_set(a, "key", "then", 4, &error), MR_OK);
    assert_int_equal(mr_store_set(a, "empty", NULL, 0, &error), MR_OK);
    assert_int_equal(mr_store_get(b, "key", value, sizeof value, &len, rig_in_ms(5000), &error),
                     MR_OK);
    assert_int_equal(len, 4);
    assert_memory_equal(value, "then", 4);
    assert_int_equal(mr_store_get(b, "empty", NULL, 0, &len, rig_in_ms(5000), &error), MR_OK);
    assert_int_equal(len, 0);
    assert_int_equal(mr_store_remove(a, "key", &error), MR_OK);
    assert_int_equal(mr_store_remove(a, "key", &error), MR_OK);
    assert_int_equal(mr_store_get(b, "key", value, sizeof value, &len, rig_in_ms(50), &error),
                     MR_ERR_TIMEOUT);
    assert_non_null(strstr(error.text, "'key'"));
    assert_string_equal(mr_store_local_address(a), "127.0.0.1");
    mr_store_close(a);
    mr_store_close(b);
    mr_store_stop(store);
}

static void limits_are_refused_with_their_numbers(void **state)
{
    (void)state;
    struct mr_store_identity identity = rig_identity(1);
    struct mr_store *store = rig_start(&identity);
    struct mr_store_client *client = rig_client(mr_store_port(store), 0, &identity);
    char key[MR_STORE_KEY + 2];
    uint8_t *value = calloc(1, MR_STORE_VALUE + 1), *back = malloc(MR_STORE_VALUE);
    uint32_t len;
    assert_non_null(value);
    assert_non_null(back);
    memset(key, 'k', sizeof key);
    key[MR_STORE_KEY] = '\0';
    for (uint32_t i = 0; i < MR_STORE_VALUE; i++)
        value[i] = (uint8_t)(i * 7 + i / 251);
    assert_int_equal(mr_store_set(client, key, value, MR_STORE_VALUE, &error), MR_OK);
    assert_int_equal(mr_store_get(client, key, back, MR_STORE_VALUE, &len, rig_in_ms(5000), &error),
                     MR_OK);
    assert_int_equal(len, MR_STORE_VALUE);
    assert_memory_equal(value, back, MR_STORE_VALUE);
    assert_int_equal(mr_store_get(client, key, back, 10, &len, rig_in_ms(5000), &error),
                     MR_ERR_INVALID);
    assert_non_null(strstr(error.text, "1048576"));
    assert_int_equal(mr_store_set(client, key, value, MR_STORE_VALUE + 1, &error), MR_ERR_INVALID);
    assert_non_null(strstr(error.text, "1048577"));
    key[MR_STORE_KEY] = 'k';
    key[MR_STORE_KEY + 1] = '\0';
    assert_int_equal(mr_store_set(client, key, value, 1, &error), MR_ERR_INVALID);
    assert_non_null(strstr(error.text, "129"));
    assert_int_equal(mr_store_set(client, "", value, 1, &error), MR_ERR_INVALID);
    free(value);
    free(back);
    mr_store_close(client);
    mr_store_stop(store);
}

static void the_sum_of_all_values_has_a_limit(void **state)
{
    (void)state;
    struct mr_store_identity identity = rig_identity(1);
    struct mr_store *store = rig_start(&identity);
    struct mr_store_client *client = rig_client(mr_store_port(store), 0, &identity);
    uint8_t *value = calloc(1, MR_STORE_VALUE);
    char key[16];
    mr_status status = MR_OK;
    uint32_t n = 0;
    assert_non_null(value);
    while (status == MR_OK && n < 100) {
        snprintf(key, sizeof key, "key %u", n++);
        status = mr_store_set(client, key, value, MR_STORE_VALUE, &error);
    }
    assert_int_equal(status, MR_ERR_NO_MEMORY);
    assert_int_equal(n, MR_STORE_TOTAL / MR_STORE_VALUE);
    /* A present key can still be replaced and removed, and then there is room. */
    assert_int_equal(mr_store_set(client, "key 0", value, MR_STORE_VALUE, &error), MR_OK);
    assert_int_equal(mr_store_remove(client, "key 1", &error), MR_OK);
    assert_int_equal(mr_store_set(client, key, value, MR_STORE_VALUE, &error), MR_OK);
    free(value);
    mr_store_close(client);
    mr_store_stop(store);
}

static void add_sums_up_and_refuses_values_that_are_not_numbers(void **state)
{
    (void)state;
    struct mr_store_identity identity = rig_identity(1);
    struct mr_store *store = rig_start(&identity);
    struct mr_store_client *client = rig_client(mr_store_port(store), 0, &identity);
    int64_t value = 0;
    assert_int_equal(mr_store_add(client, "n", -5, &value, &error), MR_OK);
    assert_int_equal(value, -5);
    assert_int_equal(mr_store_add(client, "n", 12, &value, &error), MR_OK);
    assert_int_equal(value, 7);
    assert_int_equal(mr_store_add(client, "n", INT64_MAX, &value, &error), MR_ERR_INVALID);
    assert_int_equal(mr_store_add(client, "n", 0, &value, &error), MR_OK);
    assert_int_equal(value, 7);
    assert_int_equal(mr_store_set(client, "word", "four", 4, &error), MR_OK);
    assert_int_equal(mr_store_add(client, "word", 1, &value, &error), MR_ERR_INVALID);
    mr_store_close(client);
    mr_store_stop(store);
}

struct waiter {
    struct mr_store_client *client;
    mr_status status;
    char value[8];
    uint32_t len;
    mr_error error;
};

static void *wait_for_key(void *arg)
{
    struct waiter *waiter = arg;
    waiter->status = mr_store_get(waiter->client, "late", waiter->value, sizeof waiter->value,
                                  &waiter->len, rig_in_ms(20000), &waiter->error);
    return NULL;
}

static void a_waiting_get_does_not_delay_other_requests(void **state)
{
    (void)state;
    struct mr_store_identity identity = rig_identity(1);
    struct mr_store *store = rig_start(&identity);
    struct mr_store_client *client = rig_client(mr_store_port(store), 0, &identity);
    struct waiter waiters[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        waiters[i] = (struct waiter){.client = client};
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for_key, &waiters[i]), 0);
    }
    mr_clock_sleep_ms(50);
    int64_t value;
    assert_int_equal(mr_store_add(client, "other", 1, &value, &error), MR_OK);
    assert_int_equal(mr_store_set(client, "late", "came", 4, &error), MR_OK);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(waiters[i].status, MR_OK);
        assert_int_equal(waiters[i].len, 4);
        assert_memory_equal(waiters[i].value, "came", 4);
    }
    mr_store_close(client);
    mr_store_stop(store);
}

static void timed_out_gets_make_room_for_others(void **state)
{
    (void)state;
    struct mr_store_identity identity = rig_identity(1);
    struct mr_store *store = rig_start(&identity);
    struct mr_store_client *client = rig_client(mr_store_port(store), 0, &identity);
    struct waiter waiter = {.client = client};
    pthread_t thread;
    for (int i = 0; i < 400; i++) /* more than may wait at once */
        assert_int_equal(mr_store_get(client, "late", NULL, 0, NULL, rig_in_ms(0), &error),
                         MR_ERR_TIMEOUT);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_key, &waiter), 0);
    mr_clock_sleep_ms(50);
    assert_int_equal(mr_store_set(client, "late", "came", 4, &error), MR_OK);
    pthread_join(thread, NULL);
    assert_int_equal(waiter.status, MR_OK);
    mr_store_close(client);
    mr_store_stop(store);
}

struct rank {
    uint16_t port;
    uint32_t rank;
    struct mr_store_identity identity;
    bool well;
    char local[40];
};

/* Connects, writes a key, reads the key of each other rank, adds to one counter. */
static void *run_one_of_many(void *arg)
{
    struct rank *rank = arg;
    struct mr_store_client *client = rig_client(rank->port, rank->rank, &rank->identity);
    char key[32], value[32], want[32];
    uint32_t len;
    int64_t n = 0;
    snprintf(key, sizeof key, "address/%u", rank->rank);
    snprintf(value, sizeof value, "I am %u", rank->rank);
    bool well = mr_store_set(client, key, value, (uint32_t)strlen(value), NULL) == MR_OK;
    for (uint32_t other = 0; well && other < rank->identity.world_size; other++) {
        snprintf(key, sizeof key, "address/%u", other);
        int want_len = snprintf(want, sizeof want, "I am %u", other);
        well =
            mr_store_get(client, key, value, sizeof value, &len, rig_in_ms(20000), NULL) == MR_OK &&
            len == (uint32_t)want_len && memcmp(value, want, len) == 0;
    }
    for (int i = 0; well && i < 20; i++)
        well = mr_store_add(client, "count", 1, &n, NULL) == MR_OK;
    if (well && n == 20 * (int64_t)rank->identity.world_size)
        well = mr_store_set(client, "all", "x", 1, NULL) == MR_OK;
    rank->well =
        well &&
        mr_store_get(client, "all", value, sizeof value, &len, rig_in_ms(20000), NULL) == MR_OK &&
        !mr_store_broken(client, NULL, NULL);
    mr_store_close(client);
    return NULL;
}

static void many_clients_read_the_keys_of_all_others(void **state)
{
    (void)state;
    struct mr_store_identity identity = rig_identity(N_MANY);
    identity.token = "a token of some length, so that more than one word is hashed";
    struct mr_store *store = rig_start(&identity);
    struct rank ranks[N_MANY];
    pthread_t threads[N_MANY];
    for (uint32_t r = 0; r < N_MANY; r++) {
        ranks[r] = (struct rank){.port = mr_store_port(store), .rank = r, .identity = identity};
        assert_int_equal(pthread_create(&threads[r], NULL, run_one_of_many, &ranks[r]), 0);
    }
    for (uint32_t r = 0; r < N_MANY; r++) {
        pthread_join(threads[r], NULL);
        assert_true(ranks[r].well);
    }
    uint8_t present[N_MANY / 8], all[N_MANY / 8];
    memset(all, 0xff, sizeof all);
    assert_int_equal(mr_store_present(store, present), N_MANY);
    assert_memory_equal(present, all, sizeof all);
    assert_false(mr_store_refused(store, &error));
    mr_store_stop(store);
}

static void missing_ranks_are_known(void **state)
{
    (void)state;
    struct mr_store_identity identity = rig_identity(10);
    struct mr_store *store = rig_start(&identity);
    struct mr_store_client *a = rig_client(mr_store_port(store), 1, &identity);
    struct mr_store_client *b = rig_client(mr_store_port(store), 9, &identity);
    uint8_t present[2] = {0xff, 0xff};
    mr_store_close(b);
    assert_int_equal(mr_store_present(store, present), 2);
    assert_int_equal(present[0], 2);
    assert_int_equal(present[1], 2);
    mr_store_close(a);
    mr_store_stop(store);
}

static mr_status try_as(uint16_t port, uint32_t rank, struct mr_store_identity identity)
{
    struct mr_store_connect connect = rig_connect(port, rank, &identity);
    struct mr_store_client *client;
    memset(&error, 0, sizeof error);
    mr_status status = mr_store_connect(&connect, &client, &error);
    mr_store_close(client);
    return status;
}

static void a_rank_that_differs_is_refused_with_a_reason_on_both_sides(void **state)
{
    (void)state;
    struct mr_store_identity ours = rig_identity(4), theirs;
    ours.token = "secret";
    struct mr_store *store = rig_start(&ours);
    uint16_t port = mr_store_port(store);
    mr_error seen;

    theirs = ours;
    theirs.token = "secreT";
    assert_int_equal(try_as(port, 1, theirs), MR_ERR_PEER);
    assert_non_null(strstr(error.text, "rank 1 was refused: its token differs"));
    assert_true(mr_store_refused(store, &seen));
    assert_non_null(strstr(seen.text, "rank 1 was refused: its token differs"));
    theirs.token = NULL;
    assert_int_equal(try_as(port, 1, theirs), MR_ERR_PEER);
    assert_non_null(strstr(error.text, "token"));

    theirs = ours;
    theirs.world_size = 3;
    assert_int_equal(try_as(port, 2, theirs), MR_ERR_PEER);
    assert_non_null(strstr(error.text, "rank 2 was refused: its world size is 3, not 4"));
    assert_true(mr_store_refused(store, &seen));
    assert_non_null(strstr(seen.text, "rank 2 was refused: its world size is 3, not 4"));

    theirs = ours;
    theirs.run++;
    assert_int_equal(try_as(port, 1, theirs), MR_ERR_PEER);
    assert_non_null(strstr(error.text, "run 1234abcd5678, not 1234abcd5679"));
    theirs = ours;
    theirs.restart = 2;
    assert_int_equal(try_as(port, 1, theirs), MR_ERR_PEER);
    assert_non_null(strstr(error.text, "restart 3, not 2"));
    assert_int_equal(try_as(port, 4, ours), MR_ERR_PEER);
    assert_non_null(strstr(error.text, "the world size is 4"));

    struct mr_store_client *client = rig_client(port, 1, &ours);
    assert_int_equal(try_as(port, 1, ours), MR_ERR_PEER);
    assert_non_null(strstr(error.text, "already joined"));
    /* The connected rank is not affected. */
    assert_int_equal(mr_store_set(client, "a", "b", 1, &error), MR_OK);
    assert_false(mr_store_broken(client, NULL, NULL));
    mr_store_close(client);
    assert_int_equal(try_as(port, 1, ours), MR_ERR_PEER);
    assert_non_null(strstr(error.text, "it had already joined and left"));
    assert_int_equal(try_as(port, 2, ours), MR_OK);
    mr_store_stop(store);
}

static void a_taken_port_is_named(void **state)
{
    (void)state;
    struct mr_store_identity identity = rig_identity(1);
    struct mr_store *store = rig_start(&identity), *second;
    char want[64];
    snprintf(want, sizeof want, "127.0.0.1 port %u", mr_store_port(store));
    assert_int_equal(mr_store_start("127.0.0.1", mr_store_port(store), &identity, &second, &error),
                     MR_ERR_IO);
    assert_null(second);
    assert_non_null(strstr(error.text, want));
    mr_store_stop(store);
    assert_int_equal(mr_store_start("", 0, &identity, &second, &error), MR_ERR_INVALID);
    assert_int_equal(mr_store_start(NULL, 0, &identity, &second, &error), MR_ERR_INVALID);
    identity.world_size = 0;
    assert_int_equal(mr_store_start("127.0.0.1", 0, &identity, &second, &error), MR_ERR_INVALID);
}

static void a_port_is_free_again_at_once(void **state)
{
    (void)state;
    struct mr_store_identity identity = rig_identity(1);
    struct mr_store *store = rig_start(&identity), *second;
    uint16_t port = mr_store_port(store);
    struct mr_store_client *client = rig_client(port, 0, &identity);
    mr_store_stop(store); /* it closes first, so its end stays in TIME_WAIT */
    mr_store_close(client);
    assert_int_equal(mr_store_start("127.0.0.1", port, &identity, &second, &error), MR_OK);
    mr_store_stop(second);
}

static void hundreds_of_stores_leave_nothing_behind(void **state)
{
    (void)state;
    struct mr_store_identity identity = rig_identity(2);
    uint32_t n_fds = 0, n_threads = 0;
    for (int i = 0; i < 201; i++) {
        if (i == 1) {
            n_fds = rig_n_open("/proc/self/fd");
            n_threads = rig_n_open("/proc/self/task");
        }
        struct mr_store *store = rig_start(&identity);
        struct mr_store_client *a = rig_client(mr_store_port(store), 0, &identity);
        struct mr_store_client *b = i % 2 ? rig_client(mr_store_port(store), 1, &identity) : NULL;
        assert_int_equal(mr_store_set(a, "a", "b", 1, &error), MR_OK);
        if (i % 3 == 0) {
            mr_store_stop(store);
            mr_store_close(a);
            mr_store_close(b);
        } else {
            mr_store_close(a);
            mr_store_close(b);
            mr_store_stop(store);
        }
    }
    assert_int_equal(rig_n_open("/proc/self/fd"), n_fds);
    assert_int_equal(rig_n_open("/proc/self/task"), n_threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_can_be_read_and_replaced),
        cmocka_unit_test(limits_are_refused_with_their_numbers),
        cmocka_unit_test(the_sum_of_all_values_has_a_limit),
        cmocka_unit_test(add_sums_up_and_refuses_values_that_are_not_numbers),
        cmocka_unit_test(a_waiting_get_does_not_delay_other_requests),
        cmocka_unit_test(timed_out_gets_make_room_for_others),
        cmocka_unit_test(many_clients_read_the_keys_of_all_others),
        cmocka_unit_test(missing_ranks_are_known),
        cmocka_unit_test(a_rank_that_differs_is_refused_with_a_reason_on_both_sides),
        cmocka_unit_test(a_taken_port_is_named),
        cmocka_unit_test(a_port_is_free_again_at_once),
        cmocka_unit_test(hundreds_of_stores_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
