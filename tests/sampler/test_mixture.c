/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of mixtures, against the bound of Tijdeman's theorem, orders that Megatron-Core wrote,
 * and the sources' own samplers. MR_TEST_LONG: 100 mixtures of 10^7 positions.
 */
#include "sampler/mixture.h"
#include "sampler/sampler.h"
#include "tests/support/assert_words.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <zlib.h>

static uint64_t random_state = 33;

static uint64_t draw_u64(void)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return random_state >> 24;
}

static double draw_unit(void)
{
    return (double)(draw_u64() % 1000003 + 1) / 1000003;
}

static struct mr_mixture *make(const struct mr_mixture_options *options)
{
    struct mr_mixture *mixture;
    mr_error error;
    assert_ok(mr_mixture_create(options, &mixture, &error), &error);
    return mixture;
}

/* The source of an index, and the index in it. */
static uint32_t find_source(const struct mr_mixture_options *options, int64_t index,
                            uint64_t *inner_out)
{
    uint32_t k = 0;
    uint64_t i = (uint64_t)index;
    while (i >= options->sources[k].n)
        i -= options->sources[k++].n;
    *inner_out = i;
    return k;
}

/* Equal weights, random ones, and such that differ by powers of ten. */
static uint32_t draw_sources(struct mr_mixture_source sources[29], uint64_t n)
{
    uint32_t n_sources = 2 + (uint32_t)(draw_u64() % 28), form = (uint32_t)(draw_u64() % 4);
    for (uint32_t k = 0; k < n_sources; k++)
        sources[k] = (struct mr_mixture_source){.n = n,
                                                .weight = form == 0   ? 1
                                                          : form == 1 ? pow(10, -5 * draw_unit())
                                                                      : draw_unit()};
    return n_sources;
}

static void check_bound(uint64_t n_positions)
{
    struct mr_mixture_source sources[29];
    double share[29], sum = 0, counts[29] = {0};
    uint32_t n = draw_sources(sources, UINT64_C(1) << 32);
    const struct mr_mixture_options options = {
        .sources = sources, .n_sources = n, .no_shuffle = true};
    for (uint32_t k = 0; k < n; k++)
        sum += sources[k].weight;
    for (uint32_t k = 0; k < n; k++)
        share[k] = sources[k].weight / sum;
    struct mr_mixture *mixture = make(&options);
    for (uint64_t p = 0; p < n_positions; p++) {
        uint64_t pass, draw = (uint64_t)mr_mixture_at(mixture, 0, p, &pass);
        uint32_t drawn = (uint32_t)(draw >> 32);
        assert_true((draw & UINT32_MAX) == (uint64_t)counts[drawn]++);
        for (uint32_t k = 0; k < n; k++)
            if (fabs(share[k] * (double)(p + 1) - counts[k]) > 1 - 1 / (2.0 * n - 2) + 1e-6)
                fail_msg("source %u of %u, weight %g: %.0f draws at position %llu", k, n, share[k],
                         counts[k], (unsigned long long)p);
    }
    mr_mixture_unref(mixture);
}

static void each_source_is_within_one_sample_at_every_position(void **state)
{
    (void)state;
    bool is_long = getenv("MR_TEST_LONG") != NULL;
    for (int i = 0; i < 100; i++)
        check_bound(is_long ? 10000000 : 30000);
}

static uint32_t crc_of_case(const json_t *row)
{
    const json_t *weights = json_object_get(row, "weights");
    struct mr_mixture_source sources[MR_MIXTURE_MAX];
    struct mr_mixture_options options = {.sources = sources,
                                         .n_sources = (uint32_t)json_array_size(weights),
                                         .mix_order = MR_MIX_ORDER_MEGATRON,
                                         .no_shuffle = true};
    for (uint32_t k = 0; k < options.n_sources; k++)
        sources[k] = (struct mr_mixture_source){
            UINT64_C(1) << 32, (double)json_integer_value(json_array_get(weights, k))};
    struct mr_mixture *mixture = make(&options);
    uint32_t crc = 0;
    for (int64_t p = 0; p < json_integer_value(json_object_get(row, "size")); p++) {
        uint64_t pass, index = (uint64_t)mr_mixture_at(mixture, 0, (uint64_t)p, &pass);
        uint8_t record[10] = {(uint8_t)(index >> 32)};
        index &= UINT32_MAX;
        memcpy(record + 2, &index, sizeof index);
        crc = (uint32_t)crc32(crc, record, sizeof record);
    }
    mr_mixture_unref(mixture);
    return crc;
}

static void megatron_is_index_for_index_as_megatron_core(void **state)
{
    (void)state;
    json_error_t where;
    json_t *file = json_load_file(MR_TEST_DATA "/mixtures.json", 0, &where);
    if (!file)
        fail_msg("%s: %s", where.source, where.text);
    const json_t *cases = json_object_get(file, "cases");
    assert_int_equal(json_array_size(cases), 200);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *row = json_array_get(cases, i);
        uint32_t want = (uint32_t)strtoul(json_string_value(json_object_get(row, "crc")), NULL, 16);
        if (crc_of_case(row) != want)
            fail_msg("case %zu: crc %08x, not %08x", i, crc_of_case(row), want);
    }
    json_decref(file);
}

static const struct mr_mixture_source small[3] = {{50, 0.5}, {7, 3}, {23, 1.25}};

static void a_source_has_its_own_samplers_order_for_each_pass(void **state)
{
    (void)state;
    for (int form = 0; form < 6; form++) {
        struct mr_mixture_options options = {.sources = small,
                                             .n_sources = 3,
                                             .seed = 5,
                                             .no_shuffle = form % 3 == 0,
                                             .order = form % 3 == 2 ? MR_ORDER_KEYED : 0,
                                             .mix_order = form / 3};
        struct mr_mixture *mixture = make(&options);
        mr_sampler *own[3];
        uint64_t draws[3] = {0};
        for (uint32_t k = 0; k < 3; k++) {
            mr_sampler_options of_source = {.struct_size = sizeof of_source,
                                            .n_samples = (int64_t)small[k].n,
                                            .seed = 5,
                                            .no_shuffle = options.no_shuffle,
                                            .order = options.order};
            assert_int_equal(mr_sampler_create(&of_source, &own[k], NULL), MR_OK);
        }
        for (uint64_t p = 0; p < 1000; p++) {
            uint64_t pass, inner;
            int64_t index = mr_mixture_at(mixture, 0, p, &pass);
            uint32_t k = find_source(&options, index, &inner);
            assert_int_equal(pass, draws[k] / small[k].n);
            assert_int_equal(mr_sampler_set_epoch(own[k], pass, NULL), MR_OK);
            assert_int_equal(inner, mr_sampler_at(own[k], (int64_t)(draws[k]++ % small[k].n)));
        }
        for (uint32_t k = 0; k < 3; k++)
            mr_sampler_destroy(own[k]);
        mr_mixture_unref(mixture);
    }
}

static void any_position_can_be_read_at_any_time(void **state)
{
    (void)state;
    enum { N = 300000 }; /* places are kept every 65,536 positions */
    const struct mr_mixture_options options = {.sources = small, .n_sources = 3, .n_samples = 1000};
    int64_t *sequence = malloc(N * sizeof *sequence);
    struct mr_mixture *mixture = make(&options), *other = make(&options);
    uint64_t pass;
    assert_non_null(sequence);
    for (uint64_t p = 0; p < N; p++)
        sequence[p] = mr_mixture_at(mixture, p / 1000, p % 1000, &pass);
    for (int i = 0; i < 300; i++) {
        uint64_t p = i < 150 ? N - 1 - draw_u64() % 140000 : draw_u64() % N;
        assert_int_equal(mr_mixture_at(mixture, p / 1000, p % 1000, &pass), sequence[p]);
        assert_int_equal(mr_mixture_at(other, 0, p, &pass), sequence[p]);
    }
    free(sequence);
    mr_mixture_unref(mixture);
    mr_mixture_unref(other);
}

static uint64_t length_of(const struct mr_mixture_source *sources, uint32_t n, uint32_t stop)
{
    const struct mr_mixture_options options = {.sources = sources, .n_sources = n, .stop = stop};
    struct mr_mixture *mixture = make(&options);
    uint64_t length = mr_mixture_length(mixture);
    mr_mixture_unref(mixture);
    return length;
}

/* The most draws that a source has of its size, and the fewest. */
static void count_passes(const struct mr_mixture_options *options, double *most, double *fewest)
{
    struct mr_mixture *mixture = make(options);
    struct mr_mixture_count counts[MR_MIXTURE_MAX];
    mr_mixture_save(mixture, 0, mr_mixture_length(mixture), counts);
    *most = 0;
    *fewest = INFINITY;
    for (uint32_t k = 0; k < options->n_sources; k++) {
        *most = fmax(*most, (double)counts[k].count / (double)counts[k].n);
        *fewest = fmin(*fewest, (double)counts[k].count / (double)counts[k].n);
    }
    mr_mixture_unref(mixture);
}

static void an_epoch_ends_with_the_first_or_the_last_source(void **state)
{
    (void)state;
    static const struct mr_mixture_source fair[] = {{700, 0.7}, {300, 0.3}};
    static const struct mr_mixture_source other[] = {{100, 1}, {30, 1}};
    assert_int_equal(length_of(fair, 2, MR_MIX_STOP_FIRST), 1000);
    assert_int_equal(length_of(fair, 2, MR_MIX_STOP_ALL), 1000);
    assert_int_equal(length_of(other, 2, MR_MIX_STOP_FIRST), 60);
    assert_int_equal(length_of(other, 2, MR_MIX_STOP_ALL), 200);
    assert_int_equal(length_of(other, 1, MR_MIX_STOP_ALL), 100);
    assert_int_equal(length_of(other, 2, MR_MIX_STOP_NONE), MR_MIXTURE_MAX_SAMPLES);
    for (int i = 0; i < 200; i++) {
        struct mr_mixture_source sources[29];
        double most, fewest;
        struct mr_mixture_options options = {.sources = sources, .no_shuffle = true};
        options.n_sources = draw_sources(sources, 1);
        for (uint32_t k = 0; k < options.n_sources; k++) {
            sources[k].n = 1 + draw_u64() % 100;
            sources[k].weight = draw_unit();
        }
        options.stop = MR_MIX_STOP_FIRST;
        count_passes(&options, &most, &fewest);
        assert_true(most <= 1);
        options.stop = MR_MIX_STOP_ALL;
        if (length_of(sources, options.n_sources, MR_MIX_STOP_ALL) > 100000)
            continue;
        count_passes(&options, &most, &fewest);
        assert_true(fewest >= 1);
    }
}

static void expect_refused(const struct mr_mixture_options *options, const char *words)
{
    struct mr_mixture *mixture;
    mr_error error;
    assert_error(mr_mixture_create(options, &mixture, &error), MR_ERR_INVALID, &error, words);
    assert_null(mixture);
}

static void wrong_mixtures_are_refused(void **state)
{
    (void)state;
    struct mr_mixture_source sources[2] = {{5, 1}, {5, 1}};
    struct mr_mixture_options options = {.sources = sources};
    expect_refused(&options, "a mixture of 0 sources");
    options.n_sources = 101;
    expect_refused(&options, "101 sources: 1 to 100");
    options.n_sources = 2;
    for (int i = 0; i < 4; i++) {
        sources[1].weight = ((const double[]){0, -1, NAN, INFINITY})[i];
        expect_refused(&options, "of source 1 is not above 0");
    }
    sources[1].weight = 1e308;
    sources[0].weight = 1e308;
    expect_refused(&options, "weights");
    sources[0].weight = 1e-30;
    options.stop = MR_MIX_STOP_ALL;
    expect_refused(&options, "above the limit of 2^40");
    options.stop = MR_MIX_STOP_NONE;
    sources[1].n = 0;
    expect_refused(&options, "source 1 of the mixture has 0 samples");
    mr_error error;
    options.sources = small;
    struct mr_mixture *endless = make(&options);
    assert_error(mr_mixture_check_epoch(endless, 1, &error), MR_ERR_INVALID, &error, "no epoch 1");
    mr_mixture_unref(endless);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_source_is_within_one_sample_at_every_position),
        cmocka_unit_test(megatron_is_index_for_index_as_megatron_core),
        cmocka_unit_test(a_source_has_its_own_samplers_order_for_each_pass),
        cmocka_unit_test(any_position_can_be_read_at_any_time),
        cmocka_unit_test(an_epoch_ends_with_the_first_or_the_last_source),
        cmocka_unit_test(wrong_mixtures_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
