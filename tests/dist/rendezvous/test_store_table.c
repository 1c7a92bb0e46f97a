/* SPDX-License-Identifier: Apache-2.0 */
/* The server's keys and waiting gets, without a server: peers are only queues of answers. */
#include "dist/rendezvous/store_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* The table's answer to a request that is answered at once. */
static uint8_t ask(struct mr_store_table *table, struct mr_store_peer *peer, uint8_t kind,
                   const char *key, const void *value, uint32_t len)
{
    struct mr_store_frame answer, request = {.kind = kind,
                                             .key_len = (uint16_t)strlen(key),
                                             .value_len = len,
                                             .id = 1,
                                             .key = (const uint8_t *)key,
                                             .value = value};
    mr_store_table_request(table, peer, &request);
    assert_false(peer->doomed);
    assert_int_equal(mr_store_wire_next(&peer->out, &answer), 1);
    assert_int_equal(answer.kind, MR_STORE_ANSWER);
    mr_store_wire_consume(&peer->out, mr_store_wire_size(&answer));
    assert_int_equal(peer->out.len, 0);
    return answer.code;
}

static const char *format_name(uint32_t i)
{
    static char name[16];
    snprintf(name, sizeof name, "key %u", i);
    return name;
}

static void the_number_of_keys_has_a_limit(void **state)
{
    (void)state;
    struct mr_store_table table = {0};
    struct mr_store_peer peer = {.fd = -1};
    for (uint32_t i = 0; i < MR_STORE_KEYS; i++)
        assert_int_equal(ask(&table, &peer, MR_STORE_SET, format_name(i), "v", 1), MR_STORE_FINE);
    assert_int_equal(ask(&table, &peer, MR_STORE_SET, "more", "v", 1), MR_STORE_FULL);
    assert_int_equal(ask(&table, &peer, MR_STORE_ADD, "more", "\1\0\0\0\0\0\0\0", 8),
                     MR_STORE_FULL);
    /* Present keys can be replaced. Removing one makes room for one. */
    for (uint32_t i = 0; i < MR_STORE_KEYS; i += 7)
        assert_int_equal(ask(&table, &peer, MR_STORE_SET, format_name(i), "value", 5),
                         MR_STORE_FINE);
    assert_int_equal(ask(&table, &peer, MR_STORE_REMOVE, format_name(5), NULL, 0), MR_STORE_FINE);
    assert_int_equal(ask(&table, &peer, MR_STORE_REMOVE, format_name(5), NULL, 0), MR_STORE_FINE);
    assert_int_equal(ask(&table, &peer, MR_STORE_SET, "more", "v", 1), MR_STORE_FINE);
    assert_int_equal(ask(&table, &peer, MR_STORE_SET, "even more", "v", 1), MR_STORE_FULL);
    for (uint32_t i = 0; i < MR_STORE_KEYS; i++)
        assert_int_equal(ask(&table, &peer, MR_STORE_REMOVE, format_name(i), NULL, 0),
                         MR_STORE_FINE);
    assert_int_equal(table.n_keys, 1);
    assert_int_equal(ask(&table, &peer, MR_STORE_REMOVE, "more", NULL, 0), MR_STORE_FINE);
    assert_int_equal(table.n_keys, 0);
    assert_int_equal(table.total, 0);
    assert_null(table.root);
    mr_store_wire_free(&peer.out);
    mr_store_table_fini(&table);
}

static void keys_with_a_common_prefix_differ(void **state)
{
    (void)state;
    struct mr_store_table table = {0};
    struct mr_store_peer peer = {.fd = -1};
    static const char *const keys[] = {"a", "ab", "abc", "b", "ba", "aa"};
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(
            ask(&table, &peer, MR_STORE_SET, keys[i], keys[i], (uint32_t)strlen(keys[i])),
            MR_STORE_FINE);
    assert_int_equal(table.n_keys, 6);
    for (size_t i = 0; i < 6; i++) {
        struct mr_store_frame answer, get = {.kind = MR_STORE_GET,
                                             .key_len = (uint16_t)strlen(keys[i]),
                                             .key = (const uint8_t *)keys[i]};
        mr_store_table_request(&table, &peer, &get);
        assert_int_equal(mr_store_wire_next(&peer.out, &answer), 1);
        assert_int_equal(answer.value_len, get.key_len);
        assert_memory_equal(answer.value, keys[i], answer.value_len);
        mr_store_wire_free(&peer.out);
    }
    mr_store_table_fini(&table);
}

static uint32_t count_answers(struct mr_store_peer *peer, uint8_t code)
{
    struct mr_store_frame answer;
    uint32_t n = 0;
    while (mr_store_wire_next(&peer->out, &answer) > 0) {
        assert_int_equal(answer.code, code);
        mr_store_wire_consume(&peer->out, mr_store_wire_size(&answer));
        n++;
    }
    return n;
}

static void waiting_gets_have_a_limit_and_end_with_their_peer(void **state)
{
    (void)state;
    struct mr_store_table table = {0};
    struct mr_store_peer one = {.fd = -1}, other = {.fd = -1};
    struct mr_store_frame get = {.kind = MR_STORE_GET, .key_len = 1, .key = (const uint8_t *)"q"};
    for (get.id = 0; get.id < MR_STORE_WAITS; get.id++) {
        mr_store_table_request(&table, &one, &get);
        mr_store_table_request(&table, &other, &get);
    }
    assert_int_equal(one.out.len + other.out.len, 0);
    mr_store_table_request(&table, &one, &get);
    assert_int_equal(count_answers(&one, MR_STORE_TOO_MANY), 1);
    struct mr_store_frame cancel = {.kind = MR_STORE_CANCEL, .id = 7};
    mr_store_table_request(&table, &one, &cancel);
    mr_store_table_request(&table, &one, &cancel);
    assert_int_equal(one.n_waits, MR_STORE_WAITS - 1);
    assert_int_equal(other.n_waits, MR_STORE_WAITS);
    mr_store_table_forget(&table, &other);
    assert_int_equal(other.n_waits, 0);
    assert_int_equal(ask(&table, &other, MR_STORE_SET, "q", "v", 1), MR_STORE_FINE);
    assert_int_equal(count_answers(&one, MR_STORE_FINE), MR_STORE_WAITS - 1);
    assert_null(table.waits);
    get.key = (const uint8_t *)"r";
    mr_store_table_request(&table, &one, &get);
    mr_store_table_break(&table);
    mr_store_table_request(&table, &one, &get);
    assert_int_equal(count_answers(&one, MR_STORE_PEER_BROKEN), 2);
    mr_store_wire_free(&one.out);
    mr_store_wire_free(&other.out);
    mr_store_table_fini(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_number_of_keys_has_a_limit),
        cmocka_unit_test(keys_with_a_common_prefix_differ),
        cmocka_unit_test(waiting_gets_have_a_limit_and_end_with_their_peer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
