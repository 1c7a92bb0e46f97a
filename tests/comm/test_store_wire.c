/* SPDX-License-Identifier: Apache-2.0 */
/* Frames and greetings against what they should be, byte by byte. */
#include "comm/store_wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void the_hash_is_the_reference_s(void **state)
{
    (void)state;
    /* vectors_sip128 of the public reference, for 0, 1 and 63 bytes 00 01 02 ... with the key 00 01 ... 0f. */
    static const uint8_t empty[16] = {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6,
                                      0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93};
    static const uint8_t one[16] = {0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44,
                                    0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45};
    static const uint8_t most[16] = {0x51, 0x50, 0xd1, 0x77, 0x2f, 0x50, 0x83, 0x4a,
                                     0x50, 0x3e, 0x06, 0x9a, 0x97, 0x3f, 0xbd, 0x7c};
    uint8_t key[16], text[63], hash[16];
    for (uint8_t i = 0; i < sizeof text; i++)
        text[i] = i;
    memcpy(key, text, sizeof key);
    mr_store_wire_hash(key, text, 0, hash);
    assert_memory_equal(hash, empty, sizeof hash);
    mr_store_wire_hash(key, text, 1, hash);
    assert_memory_equal(hash, one, sizeof hash);
    mr_store_wire_hash(key, text, sizeof text, hash);
    assert_memory_equal(hash, most, sizeof hash);
}

static void a_proof_depends_on_the_token_the_side_and_both_greetings(void **state)
{
    (void)state;
    uint8_t hello[MR_STORE_HELLO] = {1}, greeting[MR_STORE_HELLO] = {2}, proofs[6][MR_STORE_PROOF];
    mr_store_wire_prove("token", 'C', hello, greeting, proofs[0]);
    mr_store_wire_prove("tokeN", 'C', hello, greeting, proofs[1]);
    mr_store_wire_prove("token", 'S', hello, greeting, proofs[2]);
    mr_store_wire_prove(NULL, 'C', hello, greeting, proofs[3]);
    hello[MR_STORE_HELLO - 1] ^= 1;
    mr_store_wire_prove("token", 'C', hello, greeting, proofs[4]);
    hello[MR_STORE_HELLO - 1] ^= 1;
    greeting[MR_STORE_HELLO - 1] ^= 1;
    mr_store_wire_prove("token", 'C', hello, greeting, proofs[5]);
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            assert_int_equal(mr_store_wire_same(proofs[i], proofs[j], MR_STORE_PROOF), i == j);
}

static void a_difference_anywhere_is_seen(void **state)
{
    (void)state;
    uint8_t a[16] = {0}, b[16] = {0};
    assert_true(mr_store_wire_same(a, b, 16));
    for (int bit = 0; bit < 128; bit++) {
        b[bit / 8] = (uint8_t)(1u << bit % 8);
        assert_false(mr_store_wire_same(a, b, 16));
        b[bit / 8] = 0;
    }
}

static void greetings_come_back_as_they_were_written(void **state)
{
    (void)state;
    struct mr_store_greeting greeting = {.version = 0x01020304,
                                         .world_size = 0x11121314,
                                         .run = UINT64_C(0x2122232425262728),
                                         .restart = 0x31323334,
                                         .rank = 0x41424344,
                                         .nonce = "0123456789abcdef"},
                             back;
    uint8_t bytes[MR_STORE_HELLO];
    memset(&back, 0, sizeof back);
    mr_store_wire_write_greeting(&greeting, bytes);
    assert_memory_equal(bytes, "MRSTORE\n\4\3\2\1\x14\x13\x12\x11\x28\x27\x26\x25\x24\x23\x22\x21", 24);
    assert_true(mr_store_wire_read_greeting(bytes, sizeof bytes, &back));
    assert_memory_equal(&greeting, &back, sizeof back);
    for (size_t len = 0; len < sizeof bytes; len++)
        assert_true(mr_store_wire_read_greeting(bytes, len, &back));
    bytes[7] = '\r';
    assert_true(mr_store_wire_read_greeting(bytes, 7, &back));
    assert_false(mr_store_wire_read_greeting(bytes, 8, &back));
}

static void frames_come_back_however_they_are_cut(void **state)
{
    (void)state;
    struct mr_store_bytes out = {0}, in = {0};
    struct mr_store_frame frame;
    static const struct mr_store_frame frames[] = {
        {.kind = MR_STORE_SET, .key_len = 3, .value_len = 5, .id = 7, .key = (void *)"key", .value = (void *)"value"},
        {.kind = MR_STORE_BEAT},
        {.kind = MR_STORE_ANSWER, .code = MR_STORE_FULL, .value_len = 2, .id = UINT64_MAX, .value = (void *)"ab"},
    };
    for (size_t i = 0; i < 3; i++)
        assert_true(mr_store_wire_put(&out, &frames[i]));
    size_t n_got = 0;
    for (size_t at = 0; at < out.len; at++) {
        assert_true(mr_store_wire_append(&in, out.at + at, 1));
        int got = mr_store_wire_next(&in, &frame);
        if (got == 0)
            continue;
        assert_int_equal(got, 1);
        assert_int_equal(frame.kind, frames[n_got].kind);
        assert_int_equal(frame.code, frames[n_got].code);
        assert_int_equal(frame.id, frames[n_got].id);
        assert_int_equal(frame.key_len, frames[n_got].key_len);
        assert_int_equal(frame.value_len, frames[n_got].value_len);
        if (frame.key_len > 0)
            assert_memory_equal(frame.key, frames[n_got].key, frame.key_len);
        if (frame.value_len > 0)
            assert_memory_equal(frame.value, frames[n_got].value, frame.value_len);
        mr_store_wire_consume(&in, mr_store_wire_size(&frame));
        n_got++;
    }
    assert_int_equal(n_got, 3);
    assert_int_equal(in.len, 0);
    mr_store_wire_free(&in);
    mr_store_wire_free(&out);
}

static int next_of(uint32_t len, uint8_t kind, uint16_t key_len)
{
    uint8_t head[MR_STORE_HEAD] = {0};
    struct mr_store_bytes bytes = {.at = head, .len = sizeof head, .size = sizeof head};
    struct mr_store_frame frame;
    mr_store_wire_put_u32(head, len);
    head[4] = kind;
    head[6] = (uint8_t)key_len;
    head[7] = (uint8_t)(key_len >> 8);
    return mr_store_wire_next(&bytes, &frame);
}

static void lengths_past_the_limits_are_nonsense_at_once(void **state)
{
    (void)state;
    assert_int_equal(next_of(0, MR_STORE_BEAT, 0), 1);
    assert_int_equal(next_of(MR_STORE_VALUE, MR_STORE_SET, 0), 0);
    assert_int_equal(next_of(MR_STORE_VALUE + 1, MR_STORE_SET, 0), -1);
    assert_int_equal(next_of(MR_STORE_VALUE + MR_STORE_KEY, MR_STORE_SET, MR_STORE_KEY), 0);
    assert_int_equal(next_of(MR_STORE_VALUE + MR_STORE_KEY + 1, MR_STORE_SET, MR_STORE_KEY), -1);
    assert_int_equal(next_of(1000, MR_STORE_SET, MR_STORE_KEY + 1), -1);
    assert_int_equal(next_of(2, MR_STORE_SET, 3), -1);
    assert_int_equal(next_of(UINT32_MAX, MR_STORE_SET, 1), -1);
    assert_int_equal(next_of(1000, MR_STORE_SET, UINT16_MAX), -1);
    assert_int_equal(next_of(0, 0, 0), -1);
    assert_int_equal(next_of(0, MR_STORE_BROKEN + 1, 0), -1);
}

static void a_host_is_found_or_named(void **state)
{
    (void)state;
    struct mr_store_addresses addresses;
    mr_error error;
    char name[64];
    const uint64_t forever = UINT64_C(1) << 62;
    assert_int_equal(mr_store_wire_resolve("127.0.0.1", 0, &addresses, &error), MR_OK);
    assert_int_equal(addresses.n, 1);
    mr_store_wire_name_of(&addresses.at[0], name, sizeof name);
    assert_string_equal(name, "127.0.0.1");
    assert_int_equal(mr_store_wire_resolve("::1", 0, &addresses, &error), MR_OK);
    mr_store_wire_set_port(&addresses.at[0], 2568);
    assert_int_equal(mr_store_wire_port_of(&addresses.at[0]), 2568);
    mr_store_wire_name_of(&addresses.at[0], name, sizeof name);
    assert_string_equal(name, "::1");
    assert_int_equal(mr_store_wire_resolve("::ffff:10.1.2.3", 0, &addresses, &error), MR_OK);
    mr_store_wire_name_of(&addresses.at[0], name, sizeof name);
    assert_string_equal(name, "10.1.2.3");
    assert_int_equal(mr_store_wire_resolve("localhost", forever, &addresses, &error), MR_OK);
    assert_true(addresses.n > 0);
    assert_int_equal(mr_store_wire_resolve("", forever, &addresses, &error), MR_ERR_INVALID);
    /* The deadline holds, whatever the resolver does. */
    assert_int_equal(mr_store_wire_resolve("a.name.invalid", 0, &addresses, &error), MR_ERR_TIMEOUT);
    assert_non_null(strstr(error.text, "a.name.invalid"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_hash_is_the_reference_s),
        cmocka_unit_test(a_proof_depends_on_the_token_the_side_and_both_greetings),
        cmocka_unit_test(a_difference_anywhere_is_seen),
        cmocka_unit_test(greetings_come_back_as_they_were_written),
        cmocka_unit_test(frames_come_back_however_they_are_cut),
        cmocka_unit_test(lengths_past_the_limits_are_nonsense_at_once),
        cmocka_unit_test(a_host_is_found_or_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
