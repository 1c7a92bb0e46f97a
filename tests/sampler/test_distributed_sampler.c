/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases that torch's own DistributedSampler wrote: length, first and last indices, and a CRC over
 * all of them.
 */
#include <millrace/sampler.h>

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <zlib.h>

static uint32_t crc_of_shard(const mr_sampler *sampler)
{
    uLong crc = crc32(0, NULL, 0);
    for (int64_t p = 0; p < mr_sampler_length(sampler); p++) {
        uint64_t index = (uint64_t)mr_sampler_at(sampler, p);
        unsigned char bytes[8];
        for (int i = 0; i < 8; i++)
            bytes[i] = (unsigned char)(index >> 8 * i);
        crc = crc32(crc, bytes, sizeof bytes);
    }
    return (uint32_t)crc;
}

static void check_case(size_t number, const json_t *row)
{
    mr_sampler_options options = MR_SAMPLER_OPTIONS_INIT;
    options.n_samples = json_integer_value(json_object_get(row, "n"));
    options.world_size = (uint32_t)json_integer_value(json_object_get(row, "num_replicas"));
    options.rank = (uint32_t)json_integer_value(json_object_get(row, "rank"));
    options.seed = (uint64_t)json_integer_value(json_object_get(row, "seed"));
    options.epoch = (uint64_t)json_integer_value(json_object_get(row, "epoch"));
    options.no_shuffle = !json_is_true(json_object_get(row, "shuffle"));
    options.tail = json_is_true(json_object_get(row, "drop_last")) ? MR_TAIL_DROP : MR_TAIL_PAD;

    mr_sampler *sampler;
    mr_error error;
    if (mr_sampler_create(&options, &sampler, &error) != MR_OK)
        fail_msg("case %zu: %s", number, error.text);
    int64_t length = mr_sampler_length(sampler);
    if (length != json_integer_value(json_object_get(row, "count")))
        fail_msg("case %zu: length %lld", number, (long long)length);
    const json_t *first = json_object_get(row, "first"), *last = json_object_get(row, "last");
    for (size_t i = 0; i < json_array_size(first); i++)
        assert_int_equal(mr_sampler_at(sampler, (int64_t)i),
                         json_integer_value(json_array_get(first, i)));
    for (size_t i = 0, n = json_array_size(last); i < n; i++)
        assert_int_equal(mr_sampler_at(sampler, length - (int64_t)(n - i)),
                         json_integer_value(json_array_get(last, i)));
    uint32_t want =
        (uint32_t)strtoul(json_string_value(json_object_get(row, "crc32_int64le")), NULL, 16);
    if (crc_of_shard(sampler) != want)
        fail_msg("case %zu: crc %08x, torch's is %08x", number, crc_of_shard(sampler), want);
    mr_sampler_destroy(sampler);
}

static void every_case_of_torch_holds(void **state)
{
    (void)state;
    json_error_t where;
    json_t *file = json_load_file(MR_TEST_DATA "/distributed_sampler.json", 0, &where);
    if (!file)
        fail_msg("%s: %s", where.source, where.text);
    const json_t *cases = json_object_get(file, "cases");
    assert_int_equal(json_array_size(cases), 400);
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_case(i, json_array_get(cases, i));
    json_decref(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_case_of_torch_holds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
