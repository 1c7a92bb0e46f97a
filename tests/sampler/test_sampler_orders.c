/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders that torchvision's RASampler, timm's RepeatAugSampler and torch's WeightedRandomSampler
 * wrote.
 */
#include <millrace/sampler.h>

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <zlib.h>

static uint32_t add_number(uint32_t crc, uint64_t number)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(number >> 8 * i);
    return (uint32_t)crc32(crc, bytes, sizeof bytes);
}

static int64_t integer_of(const json_t *row, const char *name)
{
    return json_integer_value(json_object_get(row, name));
}

static uint32_t crc_of(const json_t *row, const char *name)
{
    return (uint32_t)strtoul(json_string_value(json_object_get(row, name)), NULL, 16);
}

/* As the script that made the cases. */
static double *make_weights(const json_t *row, int64_t n)
{
    int64_t zero_each = integer_of(row, "zero_each"), power = integer_of(row, "power");
    double *weights = malloc((size_t)n * sizeof *weights);
    assert_non_null(weights);
    for (int64_t i = 0; i < n; i++) {
        bool is_zero = zero_each != 0 && i % zero_each == 0;
        weights[i] = is_zero ? 0 : pow((double)(i * 7919 % 1009 + 1), (double)power);
    }
    return weights;
}

static void check_case(size_t number, const json_t *row)
{
    bool weighted = strcmp(json_string_value(json_object_get(row, "kind")), "weights") == 0;
    mr_sampler_options options = MR_SAMPLER_OPTIONS_INIT;
    options.n_samples = integer_of(row, "n");
    options.world_size = (uint32_t)integer_of(row, "world_size");
    options.rank = (uint32_t)integer_of(row, "rank");
    options.seed = (uint64_t)integer_of(row, "seed");
    options.epoch = (uint64_t)integer_of(row, "epoch");
    double *weights = weighted ? make_weights(row, options.n_samples) : NULL;
    if (weighted) {
        options.weight_values = weights;
        options.n_weight_values = (uint64_t)options.n_samples;
        options.n_draws = (uint64_t)integer_of(row, "n_draws");
        options.no_replacement = json_is_true(json_object_get(row, "no_replacement"));
    } else {
        bool of_timm = strcmp(json_string_value(json_object_get(row, "form")), "timm") == 0;
        options.repeat = (uint32_t)integer_of(row, "repeat");
        options.repeat_form = of_timm ? MR_REPEAT_TIMM : MR_REPEAT_TORCHVISION;
        options.no_shuffle = !json_is_true(json_object_get(row, "shuffle"));
    }
    mr_sampler *sampler;
    mr_error error;
    if (mr_sampler_create(&options, &sampler, &error) != MR_OK)
        fail_msg("case %zu: %s", number, error.text);
    free(weights); /* they were copied */
    if (mr_sampler_length(sampler) != integer_of(row, "count"))
        fail_msg("case %zu: length %lld", number, (long long)mr_sampler_length(sampler));
    const json_t *first = json_object_get(row, "first");
    for (size_t i = 0; i < json_array_size(first); i++)
        if (mr_sampler_at(sampler, (int64_t)i) != json_integer_value(json_array_get(first, i)))
            fail_msg("case %zu: index %lld at position %zu", number,
                     (long long)mr_sampler_at(sampler, (int64_t)i), i);
    uint32_t crc = 0, occurrences = 0;
    for (int64_t p = 0; p < mr_sampler_length(sampler); p++) {
        crc = add_number(crc, (uint64_t)mr_sampler_at(sampler, p));
        occurrences = add_number(occurrences, mr_sampler_occurrence(sampler, p));
    }
    if (crc != crc_of(row, "crc"))
        fail_msg("case %zu: crc %08x, not %08x", number, crc, crc_of(row, "crc"));
    if (occurrences != crc_of(row, "occurrences"))
        fail_msg("case %zu: crc %08x of occurrences, not %08x", number, occurrences,
                 crc_of(row, "occurrences"));
    mr_sampler_destroy(sampler);
}

static void every_order_holds(void **state)
{
    (void)state;
    json_error_t where;
    json_t *file = json_load_file(MR_TEST_DATA "/sampler_orders.json", 0, &where);
    if (!file)
        fail_msg("%s: %s", where.source, where.text);
    const json_t *cases = json_object_get(file, "cases");
    assert_int_equal(json_array_size(cases), 100);
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_case(i, json_array_get(cases, i));
    json_decref(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_order_holds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
