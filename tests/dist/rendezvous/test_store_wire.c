/* SPDX-License-Identifier: Apache-2.0 */
/* Frames are compared byte by byte with the expected bytes. */
#include "dist/rendezvous/store_wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void frames_are_read_however_they_are_cut(void **state)
{
    (void)state;
    struct mr_store_bytes out = {0}, in = {0};
    struct mr_store_frame frame;
    static const struct mr_store_frame frames[] = {
        {.kind = MR_STORE_SET,
         .key_len = 3,
         .value_len = 5,
         .id = 7,
         .key = (void *)"key",
         .value = (void *)"value"},
        {.kind = MR_STORE_BEAT},
        {.kind = MR_STORE_ANSWER,
         .code = MR_STORE_FULL,
         .value_len = 2,
         .id = UINT64_MAX,
         .value = (void *)"ab"},
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

static int read_next(uint32_t len, uint8_t kind, uint16_t key_len)
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

static void lengths_above_the_limits_are_refused_at_once(void **state)
{
    (void)state;
    assert_int_equal(read_next(0, MR_STORE_BEAT, 0), 1);
    assert_int_equal(read_next(MR_STORE_VALUE, MR_STORE_SET, 0), 0);
    assert_int_equal(read_next(MR_STORE_VALUE + 1, MR_STORE_SET, 0), -1);
    assert_int_equal(read_next(MR_STORE_VALUE + MR_STORE_KEY, MR_STORE_SET, MR_STORE_KEY), 0);
    assert_int_equal(read_next(MR_STORE_VALUE + MR_STORE_KEY + 1, MR_STORE_SET, MR_STORE_KEY), -1);
    assert_int_equal(read_next(1000, MR_STORE_SET, MR_STORE_KEY + 1), -1);
    assert_int_equal(read_next(2, MR_STORE_SET, 3), -1);
    assert_int_equal(read_next(UINT32_MAX, MR_STORE_SET, 1), -1);
    assert_int_equal(read_next(1000, MR_STORE_SET, UINT16_MAX), -1);
    assert_int_equal(read_next(0, 0, 0), -1);
    assert_int_equal(read_next(0, MR_STORE_BROKEN + 1, 0), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_read_however_they_are_cut),
        cmocka_unit_test(lengths_above_the_limits_are_refused_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
