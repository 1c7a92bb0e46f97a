/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repeated and weighted orders in the loader: their indices, also when made in advance and after a
 * restore, and their draws.
 */
#include "tests/loader/rig.h"

#include <stdlib.h>
#include <string.h>

enum { N = 300, MAX_INDICES = 640, FIELDS = 8 };

static double weights[N];

static int make_rig(void **state)
{
    for (int64_t i = 0; i < N; i++)
        weights[i] = (double)(i % 10);
    *state = rig_create(N);
    return 0;
}

/* Kind 0 is repeated, kind 1 drawn with replacement, kind 2 without. */
static mr_loader_options options_of(const struct rig_mode *mode, unsigned kind)
{
    mr_loader_options options = rig_options_of(mode);
    options.no_shuffle = false;
    options.seed = 5;
    options.world_size = 2;
    options.rank = 1;
    if (kind == 0) {
        options.repeat = 3;
        return options;
    }
    options.weight_values = weights;
    options.n_weight_values = N;
    options.no_replacement = kind == 2;
    options.n_draws = kind == 2 ? 200 : 260;
    return options;
}

static unsigned expect_order(const mr_loader_options *options, uint64_t epoch,
                             int64_t indices_out[MAX_INDICES])
{
    mr_sampler_options wanted = MR_SAMPLER_OPTIONS_INIT;
    mr_sampler *sampler;
    wanted.n_samples = N;
    wanted.world_size = options->world_size;
    wanted.rank = options->rank;
    wanted.seed = options->seed;
    wanted.epoch = epoch;
    wanted.repeat = options->repeat;
    wanted.weight_values = options->weight_values;
    wanted.n_weight_values = options->n_weight_values;
    wanted.n_draws = options->n_draws;
    wanted.no_replacement = options->no_replacement;
    assert_int_equal(mr_sampler_create(&wanted, &sampler, NULL), MR_OK);
    unsigned n = (unsigned)mr_sampler_length(sampler);
    for (unsigned i = 0; i < n; i++)
        indices_out[i] = mr_sampler_at(sampler, i);
    mr_sampler_destroy(sampler);
    return n;
}

static void each_epoch_has_the_samplers_order(void **state)
{
    for (unsigned m = 0; m < rig_n_modes; m++) {
        for (unsigned kind = 0; kind < 3; kind++) {
            mr_loader_options options = options_of(&rig_modes[m], kind);
            int64_t expected[MAX_INDICES], got[MAX_INDICES];
            mr_loader *loader = rig_loader(*state, &options);
            for (uint64_t epoch = 0; epoch < 3; epoch++) {
                assert_int_equal(mr_loader_set_epoch(loader, epoch), MR_OK);
                unsigned n = expect_order(&options, epoch, expected);
                assert_int_equal(mr_loader_n_samples(loader), n);
                assert_int_equal(rig_drain(loader, false, got, MAX_INDICES), n);
                assert_memory_equal(got, expected, n * sizeof *got);
            }
            mr_loader_destroy(loader);
        }
    }
}

static void an_epoch_continues_after_a_restore(void **state)
{
    for (unsigned kind = 0; kind < 3; kind++) {
        for (unsigned used = 0; used <= 17; used++) {
            mr_loader_options options = options_of(&rig_modes[0], kind);
            int64_t expected[MAX_INDICES], got[MAX_INDICES];
            uint8_t position[MR_LOADER_STATE_MAX];
            size_t len;
            options.epoch = 1;
            mr_loader *loader = rig_loader(*state, &options);
            for (unsigned i = 0; i < used && i < mr_loader_n_batches(loader); i++)
                mr_batch_release(rig_next(loader));
            assert_int_equal(mr_loader_save(loader, position, sizeof position, &len), MR_OK);
            unsigned n = rig_drain(loader, false, expected, MAX_INDICES);
            mr_loader_destroy(loader);
            options.epoch = 0;
            loader = rig_loader(*state, &options);
            assert_int_equal(mr_loader_restore(loader, position, len), MR_OK);
            assert_int_equal(mr_loader_epoch(loader), 1);
            assert_int_equal(rig_drain(loader, false, got, MAX_INDICES), n);
            assert_memory_equal(got, expected, n * sizeof *got);
            mr_loader_destroy(loader);
        }
    }
}

/*
 * With one rank, the repetitions of a sample follow each other. A crop of one pixel has 20 possible
 * positions.
 */
static void each_repetition_has_its_own_draws(void **state)
{
    struct rig *rig = *state;
    mr_loader_options options = options_of(&rig_modes[0], 0);
    mr_transform *transform;
    mr_loader *loader = NULL;
    mr_error error;
    options.world_size = 1;
    options.rank = 0;
    options.batch_size = 240;
    if (mr_transform_parse("random_crop(1)", &transform, &error) != MR_OK ||
        mr_loader_create(rig->dataset, transform, &options, &loader, &error) != MR_OK)
        fail_msg("%s", error.text);
    mr_transform_destroy(transform);
    mr_batch *batch = rig_next(loader);
    const int64_t *indices = mr_batch_data(batch, "index");
    const int32_t(*rows)[FIELDS] = mr_batch_data(batch, "geometry");
    unsigned n_equal = 0;
    for (unsigned i = 0; i < 240; i += 3) {
        assert_int_equal(indices[i], indices[i + 2]);
        n_equal += memcmp(rows[i], rows[i + 1], sizeof *rows) == 0;
        n_equal += memcmp(rows[i], rows[i + 2], sizeof *rows) == 0;
    }
    assert_in_range(n_equal, 1, 24); /* 8 are expected of 160 */
    mr_batch_release(batch);
    mr_loader_destroy(loader);
}

static void wrong_choices_are_refused(void **state)
{
    mr_loader_options options = options_of(&rig_modes[0], 1);
    options.repeat = 2;
    rig_refuses(*state, &options, MR_ERR_INVALID, "repeat and weights exclude each other");
    options.repeat = 0;
    options.n_weight_values = N - 1;
    rig_refuses(*state, &options, MR_ERR_INVALID, "299 weight_values for 300 samples");
    options = options_of(&rig_modes[0], 2);
    options.n_draws = 271;
    rig_refuses(*state, &options, MR_ERR_INVALID, "n_draws 271 is above the 270 samples");
    options = options_of(&rig_modes[0], 0);
    options.repeat = 65536;
    rig_refuses(*state, &options, MR_ERR_INVALID, "repeat 65536 is above the limit of 65535");
}

static void fingerprints_of_repeats_and_of_weights_differ(void **state)
{
    uint64_t prints[4];
    for (unsigned kind = 0; kind < 4; kind++) {
        mr_loader_options options = options_of(&rig_modes[0], kind % 3);
        options.repeat = kind == 3 ? 2 : options.repeat;
        mr_loader *loader = rig_loader(*state, &options);
        prints[kind] = mr_loader_fingerprint(loader);
        mr_loader_destroy(loader);
        for (unsigned other = 0; other < kind; other++)
            assert_true(prints[other] != prints[kind]);
    }
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, make_rig, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_epoch_has_the_samplers_order),
        TEST(an_epoch_continues_after_a_restore),
        TEST(each_repetition_has_its_own_draws),
        TEST(wrong_choices_are_refused),
        TEST(fingerprints_of_repeats_and_of_weights_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
