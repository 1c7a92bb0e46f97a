/* SPDX-License-Identifier: Apache-2.0 */
/* Greetings byte by byte, tokens, and the text of a refusal. */
#include "dist/rendezvous/store_greeting.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static mr_error error;

static void a_difference_in_any_byte_is_found(void **state)
{
    (void)state;
    uint8_t a[MR_STORE_TOKEN] = {0}, b[MR_STORE_TOKEN] = {0};
    assert_true(mr_store_greeting_same(a, b));
    for (int bit = 0; bit < MR_STORE_TOKEN * 8; bit++) {
        b[bit / 8] = (uint8_t)(1u << bit % 8);
        assert_false(mr_store_greeting_same(a, b));
        b[bit / 8] = 0;
    }
}

static void a_token_fills_its_field_and_no_more(void **state)
{
    (void)state;
    char text[MR_STORE_TOKEN + 2];
    uint8_t bytes[MR_STORE_TOKEN], none[MR_STORE_TOKEN] = {0};
    memset(text, 'x', sizeof text);
    memset(bytes, 1, sizeof bytes);
    assert_int_equal(mr_store_greeting_token(NULL, bytes, &error), MR_OK);
    assert_memory_equal(bytes, none, sizeof bytes);
    assert_int_equal(mr_store_greeting_token("ab", bytes, &error), MR_OK);
    assert_memory_equal(bytes, "ab\0\0", 4);
    text[MR_STORE_TOKEN] = '\0';
    assert_int_equal(mr_store_greeting_token(text, bytes, &error), MR_OK);
    assert_memory_equal(bytes, text, sizeof bytes);
    text[MR_STORE_TOKEN] = 'x';
    text[MR_STORE_TOKEN + 1] = '\0';
    assert_int_equal(mr_store_greeting_token(text, bytes, &error), MR_ERR_INVALID);
    assert_string_equal(error.text, "the token has 129 bytes, the limit is 128");
}

static void a_greeting_is_read_as_it_was_written(void **state)
{
    (void)state;
    const struct mr_store_greeting greeting = {.version = 0x01020304,
                                               .world_size = 0x11121314,
                                               .run = UINT64_C(0x2122232425262728),
                                               .restart = 0x31323334,
                                               .rank = 0x41424344};
    struct mr_store_greeting back;
    uint8_t bytes[MR_STORE_HELLO];
    memset(&back, 0, sizeof back);
    mr_store_greeting_write(&greeting, bytes);
    assert_memory_equal(bytes, "MRSTORE\n\4\3\2\1\x14\x13\x12\x11\x28\x27\x26\x25\x24\x23\x22\x21",
                        24);
    assert_memory_equal(bytes + 24, "\x34\x33\x32\x31\x44\x43\x42\x41", 8);
    assert_true(mr_store_greeting_read(bytes, sizeof bytes, &back));
    assert_memory_equal(&greeting, &back, sizeof back);
    for (size_t len = 0; len < sizeof bytes; len++)
        assert_true(mr_store_greeting_read(bytes, len, &back));
    bytes[7] = '\r';
    assert_true(mr_store_greeting_read(bytes, 7, &back));
    assert_false(mr_store_greeting_read(bytes, 8, &back));
}

static void expect_words(uint8_t code, const char *words)
{
    const struct mr_store_greeting theirs = {
        .version = 1, .rank = 5, .world_size = 3, .run = 10, .restart = 1};
    const struct mr_store_identity ours = {.world_size = 4, .run = 11, .restart = 2};
    mr_store_greeting_refuse(&theirs, &ours, code, &error);
    assert_int_equal(error.status, MR_ERR_PEER);
    assert_string_equal(error.text, words);
}

static void a_refusal_has_a_reason(void **state)
{
    (void)state;
    expect_words(MR_STORE_OTHER_VERSION, "rank 5 was refused: its store has version 1, not 3");
    expect_words(MR_STORE_OTHER_RUN, "rank 5 was refused: it belongs to run a, not b");
    expect_words(MR_STORE_OTHER_RESTART, "rank 5 was refused: it belongs to restart 1, not 2");
    expect_words(MR_STORE_OTHER_TOKEN, "rank 5 was refused: its token differs");
    expect_words(MR_STORE_OTHER_WORLD, "rank 5 was refused: its world size is 3, not 4");
    expect_words(MR_STORE_NO_SUCH_RANK, "rank 5 was refused: the world size is 4");
    expect_words(MR_STORE_RANK_BROKE, "rank 5 was refused: it had already joined and disconnected");
    expect_words(MR_STORE_RANK_LEFT, "rank 5 was refused: it had already joined and left");
    expect_words(MR_STORE_RANK_TAKEN,
                 "rank 5 was refused: it has already joined (mr_group_split() makes a second "
                 "group of the same ranks)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_difference_in_any_byte_is_found),
        cmocka_unit_test(a_token_fills_its_field_and_no_more),
        cmocka_unit_test(a_greeting_is_read_as_it_was_written),
        cmocka_unit_test(a_refusal_has_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
