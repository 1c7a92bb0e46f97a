/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches that Megatron's MegatronPretrainingSampler made from its consumed_samples on, against
 * ranks with rank_slices that continue a saved position of other ranks.
 */
#include "sampler/position.h"
#include "sampler/sampler.h"
#include "tests/support/assert_words.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static int64_t number(const json_t *row, const char *key)
{
    return json_integer_value(json_object_get(row, key));
}

static int64_t at(const json_t *list, size_t i)
{
    return json_integer_value(json_array_get(list, i));
}

static mr_sampler *make(const json_t *row, uint32_t world, uint32_t rank, uint32_t batch_size)
{
    mr_sampler *sampler;
    mr_error error;
    mr_sampler_options options = MR_SAMPLER_OPTIONS_INIT;
    options.n_samples = number(row, "total");
    options.no_shuffle = true;
    options.world_size = world;
    options.rank = rank;
    options.rank_slices = batch_size;
    options.tail = json_is_true(json_object_get(row, "drop_last")) ? MR_TAIL_DROP : MR_TAIL_EXACT;
    assert_ok(mr_sampler_create(&options, &sampler, &error), &error);
    return sampler;
}

/* The position of a run with other ranks and batches that stopped where the case begins. */
static struct mr_position stop(const json_t *row, bool drop_last)
{
    const json_t *stopped = json_object_get(row, "stopped");
    uint32_t world = (uint32_t)at(stopped, 0), size = (uint32_t)at(stopped, 1);
    mr_sampler *sampler = make(row, world, world - 1, size);
    struct mr_position position;
    mr_position_save(sampler, size, drop_last, (uint64_t)number(row, "consumed") / world / size,
                     &position);
    mr_sampler_destroy(sampler);
    return position;
}

/* Compare the full batches of a rank. Returns how many samples it has after them. */
static uint64_t check_rank(const json_t *row, uint32_t rank, const struct mr_position *position)
{
    const json_t *batches = json_array_get(json_object_get(row, "ranks"), rank);
    bool drop_last = json_is_true(json_object_get(row, "drop_last"));
    uint32_t world = (uint32_t)number(row, "world"), size = (uint32_t)number(row, "micro");
    uint64_t full = (uint64_t)(number(row, "total") - number(row, "consumed")) / world / size;
    uint64_t epoch, begin;
    mr_error error;
    mr_sampler *sampler = make(row, world, rank, size);
    assert_ok(mr_position_restore(position, position->len, sampler, size, drop_last, &epoch, &begin,
                                  &error),
              &error);
    assert_int_equal(epoch, 0);
    assert_int_equal(mr_sampler_own_steps(sampler, size, drop_last),
                     begin + json_array_size(batches));
    for (uint64_t b = 0; b < full; b++) {
        const json_t *batch = json_array_get(batches, b);
        assert_int_equal(at(batch, 1), size);
        for (uint32_t i = 0; i < size; i++)
            assert_int_equal(mr_sampler_at(sampler, (int64_t)((begin + b) * size + i)),
                             at(batch, 0) + i);
    }
    uint64_t end = (begin + full) * size, length = (uint64_t)mr_sampler_length(sampler);
    mr_sampler_destroy(sampler);
    return drop_last || length < end ? 0 : length - end;
}

static void check_case(const json_t *row)
{
    bool drop_last = json_is_true(json_object_get(row, "drop_last"));
    struct mr_position position = stop(row, drop_last);
    uint32_t world = (uint32_t)number(row, "world");
    uint64_t rest = 0, theirs = 0;
    int64_t left = number(row, "total") - number(row, "consumed");
    for (uint32_t rank = 0; rank < world; rank++)
        rest += check_rank(row, rank, &position);
    for (uint32_t rank = 0; rank < world && !drop_last; rank++) {
        const json_t *batches = json_array_get(json_object_get(row, "ranks"), rank);
        const json_t *last = json_array_get(batches, json_array_size(batches) - 1);
        theirs += left % (number(row, "micro") * world) != 0 ? (uint64_t)at(last, 1) : 0;
    }
    /* Megatron gives a last, smaller batch to the first ranks, we divide it. */
    assert_int_equal(rest, theirs);
}

static void slices_from_any_stop_are_megatrons(void **state)
{
    (void)state;
    json_error_t where;
    json_t *file = json_load_file(MR_TEST_DATA "/megatron_sampler.json", 0, &where);
    if (!file)
        fail_msg("%s: %s", where.source, where.text);
    const json_t *cases = json_object_get(file, "cases");
    assert_int_equal(json_array_size(cases), 150);
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_case(json_array_get(cases, i));
    json_decref(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(slices_from_any_stop_are_megatrons)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
