/* SPDX-License-Identifier: Apache-2.0 */
/* Huffman tables: that they are codes, how long they are, and what is refused. Scans are in test_packer_restore.c. */
#include "packs/packer_entropy.h"
#include "packs/packer_head.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Bits that the uses take; each used symbol must have a code, none the start of another, none of ones alone. */
static uint64_t check_codes(const struct mr_huffman_uses *uses)
{
    struct mr_huffman_spec spec;
    struct mr_huffman_codes codes;
    uint64_t bits = 0;
    uint32_t filled = 0; /* parts of 65536 */
    mr_packer_entropy_optimise(uses, &spec);
    assert_true(mr_packer_entropy_derive(&spec, &codes));
    for (uint32_t i = 0; i < 256; i++) {
        assert_int_equal(uses->n[i] > 0, codes.len[i] > 0);
        assert_in_range(codes.len[i], 0, 16);
        bits += uses->n[i] * codes.len[i];
        filled += codes.len[i] ? 65536u >> codes.len[i] : 0;
        assert_true(codes.len[i] == 0 || codes.code[i] != (1u << codes.len[i]) - 1);
        for (uint32_t k = 0; k < i; k++) {
            uint32_t len = codes.len[k] < codes.len[i] ? codes.len[k] : codes.len[i];
            assert_true(len == 0 || codes.code[i] >> (codes.len[i] - len) != codes.code[k] >> (codes.len[k] - len));
        }
    }
    assert_true(filled < 65536);
    return bits;
}

static void optimised_tables_are_codes(void **state)
{
    (void)state;
    uint32_t random = 3;
    for (uint32_t i = 0; i < 200; i++) {
        struct mr_huffman_uses uses = {0};
        for (uint32_t k = 0; k < 1 + i * 2; k++) {
            random = random * 1664525 + 1013904223;
            uses.n[random >> 24] += 1 + (random >> 8 & 0xfff) % (1 + i);
        }
        check_codes(&uses);
    }
}

static void one_symbol_has_one_bit_and_none_have_none(void **state)
{
    (void)state;
    struct mr_huffman_uses uses = {0};
    assert_int_equal(check_codes(&uses), 0);
    uses.n[255] = 1000;
    assert_int_equal(check_codes(&uses), 1000);
    uses.n[0] = 10;
    assert_int_equal(check_codes(&uses), 1020);
}

static void codes_of_steep_uses_are_cut_to_16_bits(void **state)
{
    (void)state;
    struct mr_huffman_uses uses = {0};
    uint64_t a = 1, b = 1;
    for (uint32_t i = 0; i < 60; i++) {
        uses.n[i] = a;
        b += a;
        a = b - a;
    }
    check_codes(&uses);
    for (uint32_t i = 60; i < 256; i++)
        uses.n[i] = 1;
    check_codes(&uses);
}

static void what_is_no_code_is_refused(void **state)
{
    (void)state;
    struct mr_huffman_codes codes;
    struct mr_huffman_spec three = {.counts = {0, 3}, .symbols = {1, 2, 3}};
    struct mr_huffman_spec twice = {.counts = {0, 0, 2}, .symbols = {7, 7}};
    struct mr_huffman_spec fine = {.counts = {0, 1, 1}, .symbols = {1, 2}};
    struct mr_huffman_spec many = {.counts = {[15] = 255, [16] = 255}};
    assert_false(mr_packer_entropy_derive(&three, &codes));
    assert_false(mr_packer_entropy_derive(&twice, &codes));
    assert_false(mr_packer_entropy_derive(&many, &codes));
    assert_true(mr_packer_entropy_derive(&fine, &codes));
    assert_int_equal(codes.len[2], 2);
    assert_int_equal(codes.code[2], 2);
}

static void any_bytes_may_be_a_header(void **state)
{
    (void)state;
    static const uint8_t start[] = {0xff, 0xd8, 0xff, 0xc4, 0, 20,   0x00, 0, 1,    0,    0, 0,  0, 0,  0, 0,
                                    0,    0,    0,    0,    0, 0,    0,    5, 0xff, 0xc0, 0, 11, 8, 0,  9, 0,
                                    9,    1,    1,    0x11, 0, 0xff, 0xda, 0, 8,    1,    1, 0,  0, 63, 0};
    struct mr_packer_head head;
    uint32_t random = 5;
    for (uint32_t i = 0; i < 20000; i++) {
        uint8_t *bytes = malloc(sizeof start); /* for a sanitizer to see its ends */
        assert_non_null(bytes);
        memcpy(bytes, start, sizeof start);
        for (uint32_t k = i % 9; k > 0; k--) {
            random = random * 1664525 + 1013904223;
            bytes[(random >> 8) % sizeof start] = (uint8_t)(random >> 20);
        }
        mr_packer_head_read(bytes, i % (sizeof start + 1), &head);
        assert_true(head.len <= sizeof start);
        assert_true(mr_packer_head_scan_end(bytes, sizeof start, i % sizeof start) <= sizeof start);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimised_tables_are_codes),
        cmocka_unit_test(one_symbol_has_one_bit_and_none_have_none),
        cmocka_unit_test(codes_of_steep_uses_are_cut_to_16_bits),
        cmocka_unit_test(what_is_no_code_is_refused),
        cmocka_unit_test(any_bytes_may_be_a_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
