/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packed rows, against what TRL packed (tests/data/make_packing.py), a plain first fit, and the
 * documents themselves: each token once.
 */
#include "base/error.h"
#include "sampler/packing.h"
#include "sampler/packing_plan.h"
#include "sampler/position.h"
#include "sampler/sampler.h"
#include "tests/support/assert_words.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <zlib.h>

enum { MOST = 3000, MOST_ROW = 128 };

struct documents {
    uint32_t n;
    uint32_t lengths[MOST];
};

static uint64_t draw(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static void draw_lengths(struct documents *documents, uint64_t seed, uint32_t n, uint32_t longest)
{
    documents->n = n;
    for (uint32_t i = 0; i < n; i++)
        documents->lengths[i] = (uint32_t)(draw(&seed) % (longest + 1));
}

static bool lengths_are_gone;

static mr_status check_lengths(const void *user, mr_error *error)
{
    (void)user;
    return lengths_are_gone ? mr_error_set(error, MR_ERR_DAMAGED, "they are gone") : MR_OK;
}

static uint32_t length_of(const void *user, uint64_t document)
{
    const struct documents *documents = user;
    assert_false(lengths_are_gone);
    assert_in_range(document, 0, documents->n - 1);
    return documents->lengths[document];
}

static struct mr_packing_options options_of(const struct documents *documents, enum mr_pack pack,
                                            uint32_t row, uint32_t window)
{
    return (struct mr_packing_options){.length = length_of,
                                       .user = documents,
                                       .n_documents = documents->n,
                                       .pack = pack,
                                       .row = row,
                                       .window = window};
}

static struct mr_packed_epoch *pack(const struct mr_packing_options *options,
                                    const mr_sampler_options *sampler)
{
    struct mr_packing *packing;
    struct mr_packed_epoch *packed;
    mr_error error;
    assert_ok(mr_packing_create(options, &packing, &error), &error);
    assert_ok(mr_packed_epoch_create(packing, sampler, &packed, &error), &error);
    assert_ok(mr_packed_epoch_set(packed, sampler->epoch, false, &error), &error);
    assert_true(mr_packed_epoch_n_rows(packed) <= mr_packing_most_rows(packing));
    mr_packing_unref(packing);
    return packed;
}

static const mr_sampler_options in_order = {.struct_size = sizeof in_order, .no_shuffle = true};

static uint32_t checksum(struct mr_packed_epoch *packed)
{
    struct mr_token_piece pieces[MOST_ROW];
    uLong crc = crc32(0, NULL, 0);
    for (uint64_t r = 0; r < mr_packed_epoch_n_rows(packed); r++) {
        uint32_t n = mr_packed_epoch_row(packed, r, pieces);
        assert_in_range(n, 1, MOST_ROW);
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t words[] = {(uint32_t)r, (uint32_t)pieces[i].document, pieces[i].from,
                                      pieces[i].len};
            crc = crc32(crc, (const unsigned char *)words, sizeof words);
        }
    }
    assert_int_equal(mr_packed_epoch_row(packed, mr_packed_epoch_n_rows(packed), pieces), 0);
    return (uint32_t)crc;
}

static uint64_t number(const json_t *object, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(object, key));
}

static void rows_are_those_of_trl(void **state)
{
    static const struct {
        const char *name;
        enum mr_pack pack;
    } strategies[] = {
        {"wrapped", MR_PACK_WRAPPED}, {"bfd", MR_PACK_BFD}, {"bfd_split", MR_PACK_BFD_SPLIT}};
    static struct documents documents;
    json_error_t why;
    (void)state;
    json_t *goldens = json_load_file(MR_TEST_DATA "/packing.json", 0, &why);
    json_t *cases = json_object_get(goldens, "cases"), *one;
    size_t i;
    assert_int_equal(json_array_size(cases), 200);
    json_array_foreach(cases, i, one)
    {
        draw_lengths(&documents, number(one, "seed"), (uint32_t)number(one, "n"),
                     (uint32_t)number(one, "longest"));
        for (size_t k = 0; k < sizeof strategies / sizeof *strategies; k++) {
            const json_t *expected = json_object_get(one, strategies[k].name);
            const struct mr_packing_options options =
                options_of(&documents, strategies[k].pack, (uint32_t)number(one, "row"),
                           (uint32_t)number(one, "window"));
            struct mr_packed_epoch *packed = pack(&options, &in_order);
            assert_int_equal(mr_packed_epoch_n_rows(packed), number(expected, "rows"));
            assert_int_equal(
                checksum(packed),
                strtoul(json_string_value(json_object_get(expected, "crc")), NULL, 16));
            mr_packed_epoch_destroy(packed);
        }
    }
    json_decref(goldens);
}

/* Place each document in the first row with room, looking at all rows. */
static void check_first_fit(const struct documents *documents, uint32_t begin, uint32_t end,
                            uint32_t row, struct mr_packed_epoch *packed, uint64_t *n_rows)
{
    static uint32_t rooms[MOST], used[MOST];
    struct mr_token_piece pieces[MOST_ROW];
    uint64_t first = *n_rows;
    memset(used, 0, sizeof used);
    for (uint32_t i = begin; i < end; i++) {
        uint32_t r = 0, len = documents->lengths[i] < row ? documents->lengths[i] : row;
        if (len == 0)
            continue;
        while (first + r < *n_rows && rooms[r] < len)
            r++;
        if (first + r == *n_rows) {
            rooms[r] = row;
            ++*n_rows;
        }
        rooms[r] -= len;
        uint32_t n = mr_packed_epoch_row(packed, first + r, pieces);
        assert_true(used[r] < n);
        assert_int_equal(pieces[used[r]].document, i);
        assert_int_equal(pieces[used[r]].from, 0);
        assert_int_equal(pieces[used[r]++].len, len);
    }
    for (uint64_t r = first; r < *n_rows; r++)
        assert_int_equal(mr_packed_epoch_row(packed, r, pieces), used[r - first]);
}

static void first_fit_takes_the_first_row_with_room(void **state)
{
    static struct documents documents;
    uint64_t seed = 7;
    (void)state;
    for (int k = 0; k < 200; k++) {
        draw_lengths(&documents, draw(&seed), 1 + (uint32_t)draw(&seed) % 300,
                     1 + (uint32_t)draw(&seed) % 100);
        uint32_t row = 1 + (uint32_t)draw(&seed) % MOST_ROW,
                 window = 1 + (uint32_t)draw(&seed) % 200;
        documents.lengths[0]++;
        const struct mr_packing_options options =
            options_of(&documents, MR_PACK_FIRST_FIT, row, window);
        struct mr_packed_epoch *packed = pack(&options, &in_order);
        uint64_t n_rows = 0;
        for (uint32_t begin = 0; begin < documents.n; begin += window)
            check_first_fit(&documents, begin,
                            begin + window < documents.n ? begin + window : documents.n, row,
                            packed, &n_rows);
        assert_int_equal(mr_packed_epoch_n_rows(packed), n_rows);
        mr_packed_epoch_destroy(packed);
    }
}

/* One window of all documents is what a window of their number is, and each token comes once. */
static void the_whole_stream_is_wrapped(void **state)
{
    static struct documents documents;
    struct mr_token_piece pieces[MOST_ROW], others[MOST_ROW];
    uint64_t seed = 8;
    (void)state;
    for (int k = 0; k < 100; k++) {
        draw_lengths(&documents, draw(&seed), 1 + (uint32_t)draw(&seed) % 400,
                     1 + (uint32_t)draw(&seed) % 100);
        documents.lengths[documents.n - 1]++;
        uint32_t row = 1 + (uint32_t)draw(&seed) % MOST_ROW;
        const mr_sampler_options sampler = {.struct_size = sizeof sampler,
                                            .seed = draw(&seed),
                                            .epoch = 3,
                                            .order = k % 2 ? MR_ORDER_KEYED : MR_ORDER_TORCH};
        struct mr_packing_options options = options_of(&documents, MR_PACK_WRAPPED, row, 0);
        struct mr_packed_epoch *stream = pack(&options, &sampler);
        options.window = documents.n;
        struct mr_packed_epoch *window = pack(&options, &sampler);
        uint64_t n_rows = mr_packed_epoch_n_rows(stream), n_tokens = 0, expected = 0;
        assert_int_equal(mr_packed_epoch_n_rows(window), n_rows);
        for (uint64_t r = n_rows; r-- > 0;) {
            uint32_t n = mr_packed_epoch_row(stream, r, pieces);
            assert_int_equal(mr_packed_epoch_row(window, r, others), n);
            assert_memory_equal(pieces, others, n * sizeof *pieces);
            for (uint32_t i = 0; i < n; i++)
                n_tokens += pieces[i].len;
        }
        for (uint32_t i = 0; i < documents.n; i++)
            expected += documents.lengths[i];
        assert_int_equal(n_tokens, expected);
        mr_packed_epoch_destroy(stream);
        mr_packed_epoch_destroy(window);
    }
}

/* Documents are shuffled before they are packed, each epoch anew, and rows may be read in any
 * order. */
static void windows_follow_the_order_of_the_epoch(void **state)
{
    static struct documents documents;
    struct mr_token_piece pieces[MOST_ROW];
    mr_error error;
    (void)state;
    draw_lengths(&documents, 9, 2000, 50);
    for (enum mr_pack p = MR_PACK_WRAPPED; p <= MR_PACK_BFD_SPLIT; p++) {
        const struct mr_packing_options options = options_of(&documents, p, 64, 100);
        mr_sampler_options sampler = {
            .struct_size = sizeof sampler, .n_samples = documents.n, .seed = 5};
        struct mr_packed_epoch *packed = pack(&options, &sampler);
        mr_sampler *order;
        assert_ok(mr_sampler_create(&sampler, &order, &error), &error);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            static uint32_t left[MOST], window_of[MOST];
            assert_ok(mr_packed_epoch_set(packed, epoch, false, &error), &error);
            assert_ok(mr_sampler_set_epoch(order, epoch, &error), &error);
            for (uint32_t i = 0; i < documents.n; i++)
                window_of[mr_sampler_at(order, i)] = i / 100;
            for (uint32_t i = 0; i < documents.n; i++)
                left[i] = documents.lengths[i];
            uint64_t n_rows = mr_packed_epoch_n_rows(packed);
            for (uint64_t k = 0; k < n_rows; k++) {
                uint32_t n = mr_packed_epoch_row(packed, k * 7919 % n_rows, pieces), sum = 0;
                for (uint32_t i = 0; i < n; i++) {
                    assert_int_equal(window_of[pieces[i].document], window_of[pieces[0].document]);
                    left[pieces[i].document] -= pieces[i].len;
                    sum += pieces[i].len;
                }
                assert_in_range(sum, 1, 64);
            }
            for (uint32_t i = 0; i < documents.n; i++)
                assert_int_equal(left[i], 0); /* no document is longer than a row */
        }
        mr_sampler_destroy(order);
        mr_packed_epoch_destroy(packed);
    }
}

static void a_document_may_be_far_longer_than_a_row(void **state)
{
    static struct documents documents = {.n = 3, .lengths = {INT32_MAX, 0, INT32_MAX}};
    struct mr_token_piece piece;
    (void)state;
    for (enum mr_pack p = MR_PACK_WRAPPED; p <= MR_PACK_BFD_SPLIT; p++) {
        const struct mr_packing_options options = options_of(&documents, p, 1, 10);
        struct mr_packed_epoch *packed = pack(&options, &in_order);
        const bool splits = p == MR_PACK_WRAPPED || p == MR_PACK_BFD_SPLIT;
        uint64_t n_rows = splits ? 2 * (uint64_t)INT32_MAX : 2;
        assert_int_equal(mr_packed_epoch_n_rows(packed), n_rows);
        assert_int_equal(mr_packed_epoch_row(packed, n_rows - 1, &piece), 1);
        assert_int_equal(piece.document, 2);
        assert_int_equal(piece.from, splits ? INT32_MAX - 1 : 0);
        mr_packed_epoch_destroy(packed);
    }
}

static uint32_t length_of_many(const void *user, uint64_t document)
{
    (void)user;
    return (uint32_t)(document * 7 % 6);
}

/* The first rows are those of the whole order, and the steps are whole batches of them. */
static void a_begun_order_has_the_first_rows(void **state)
{
    static const uint32_t windows[] = {0, 1000, 50000};
    struct mr_token_piece begun_pieces[64], pieces[64];
    mr_error error;
    (void)state;
    for (int w = 0; w < 3; w++) {
        const struct mr_packing_options options = {.length = length_of_many,
                                                   .n_documents = 200000,
                                                   .pack = MR_PACK_WRAPPED,
                                                   .row = 64,
                                                   .window = windows[w]};
        const mr_sampler_options sampler = {.struct_size = sizeof sampler,
                                            .n_samples = 200000,
                                            .world_size = 2,
                                            .rank = 1,
                                            .tail = MR_TAIL_PAD};
        struct mr_sampler_parts parts = {.begins = true};
        mr_sampler *begun, *whole;
        assert_ok(mr_packing_create(&options, &parts.packing, &error), &error);
        assert_ok(mr_sampler_create_with(&sampler, &parts, &begun, &error), &error);
        assert_true(mr_sampler_is_begun(begun));
        assert_ok(mr_sampler_create_like(begun, 0, &whole, &error), &error);
        assert_false(mr_sampler_is_begun(whole));
        uint64_t n = mr_sampler_steps(begun, 10, false);
        assert_true(n > 0 && n < mr_sampler_steps(whole, 10, false) / 2);
        for (int64_t p = 0; p < (int64_t)n * 10; p++) {
            int64_t row = mr_sampler_at(whole, p);
            assert_int_equal(mr_sampler_at(begun, p), row);
            uint32_t n_pieces = mr_sampler_pieces(whole, row, pieces);
            assert_int_equal(mr_sampler_pieces(begun, row, begun_pieces), n_pieces);
            assert_memory_equal(begun_pieces, pieces, n_pieces * sizeof *pieces);
        }
        struct mr_position saved;
        uint64_t epoch, batches;
        mr_position_save(begun, 10, false, n, &saved); /* it is no end */
        assert_ok(
            mr_position_restore(&saved, sizeof saved, whole, 10, false, &epoch, &batches, &error),
            &error);
        assert_int_equal(batches, n);
        assert_ok(mr_sampler_set_epoch(begun, 0, &error), &error);
        assert_int_equal(mr_sampler_length(begun), mr_sampler_length(whole));
        mr_packing_stop(parts.packing);
        assert_int_equal(mr_sampler_set_epoch(begun, 1, &error), MR_ERR_CANCELED);
        mr_sampler_destroy(begun);
        mr_sampler_destroy(whole);
        mr_packing_unref(parts.packing);
    }
}

static void documents_without_a_token_are_refused(void **state)
{
    static const struct documents documents = {.n = 5};
    const struct mr_packing_options options = options_of(&documents, MR_PACK_BFD, 8, 10);
    struct mr_packing *packing;
    mr_error error;
    (void)state;
    assert_int_equal(mr_packing_create(&options, &packing, &error), MR_ERR_INVALID);
    assert_words(error.text, "5 documents without a token");
    assert_null(packing);
}

static void lengths_that_are_gone_are_not_asked_for(void **state)
{
    static const struct {
        enum mr_pack pack;
        uint32_t window;
    } cases[] = {{MR_PACK_BFD, 10}, {MR_PACK_WRAPPED, 0}};
    struct documents documents;
    struct mr_packing *packing;
    struct mr_token_piece pieces[MOST_ROW];
    mr_error error;
    (void)state;
    draw_lengths(&documents, 5, 100, 20);
    for (int i = 0; i < 2; i++) {
        struct mr_packing_options options =
            options_of(&documents, cases[i].pack, 8, cases[i].window);
        options.check = check_lengths;
        struct mr_packed_epoch *packed = pack(&options, &in_order);
        uint64_t n_rows = mr_packed_epoch_n_rows(packed);
        lengths_are_gone = true;
        assert_int_equal(mr_packed_epoch_row(packed, 0, pieces), 0);
        assert_error(mr_packed_epoch_set(packed, 1, false, &error), MR_ERR_DAMAGED, &error,
                     "are gone");
        assert_error(mr_packing_create(&options, &packing, &error), MR_ERR_DAMAGED, &error,
                     "are gone");
        assert_null(packing);
        lengths_are_gone = false;
        assert_true(mr_packed_epoch_row(packed, 0, pieces) > 0);
        assert_int_equal(mr_packed_epoch_n_rows(packed), n_rows);
        mr_packed_epoch_destroy(packed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_of_trl),
        cmocka_unit_test(first_fit_takes_the_first_row_with_room),
        cmocka_unit_test(the_whole_stream_is_wrapped),
        cmocka_unit_test(windows_follow_the_order_of_the_epoch),
        cmocka_unit_test(a_document_may_be_far_longer_than_a_row),
        cmocka_unit_test(a_begun_order_has_the_first_rows),
        cmocka_unit_test(documents_without_a_token_are_refused),
        cmocka_unit_test(lengths_that_are_gone_are_not_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
