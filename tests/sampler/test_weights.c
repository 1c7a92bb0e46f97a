/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights in files and arrays: which are accepted, which are refused, and the errors of a sampler
 * for options that do not match.
 */
#include "sampler/sampler.h"
#include "tests/support/assert_words.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

enum { N = 12 };

static char path[64];

static int make_path(void **state)
{
    (void)state;
    strcpy(path, "/tmp/millrace-weights-XXXXXX");
    int fd = mkstemp(path);
    return fd < 0 || close(fd) != 0;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

/* A .npy file of version 1 with this text and these bytes. */
static void write_file(const char *header, const void *bytes, size_t len)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    size_t n = strlen(header);
    const unsigned char head[10] = {
        0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)n, (unsigned char)(n >> 8)};
    fwrite(head, 1, sizeof head, file);
    fwrite(header, 1, n, file);
    fwrite(bytes, 1, len, file);
    assert_int_equal(fclose(file), 0);
}

static mr_sampler_options of_file(void)
{
    mr_sampler_options options = MR_SAMPLER_OPTIONS_INIT;
    options.n_samples = N;
    options.weights = path;
    options.seed = 9;
    return options;
}

static mr_sampler_options of_values(const double *values)
{
    mr_sampler_options options = of_file();
    options.weights = NULL;
    options.weight_values = values;
    options.n_weight_values = N;
    return options;
}

static mr_sampler *make(const mr_sampler_options *options)
{
    mr_sampler *sampler;
    mr_error error;
    assert_ok(mr_sampler_create(options, &sampler, &error), &error);
    return sampler;
}

static void refuse(const mr_sampler_options *options, mr_status status, const char *words)
{
    mr_sampler *sampler;
    mr_error error;
    assert_error(mr_sampler_create(options, &sampler, &error), status, &error, words);
    assert_null(sampler);
}

static void a_file_is_as_good_as_an_array(void **state)
{
    (void)state;
    double values[N];
    float narrow[N];
    for (int i = 0; i < N; i++)
        narrow[i] = (float)(values[i] = i * 0.5);
    mr_sampler_options wanted = of_values(values), options = of_file();
    for (int kind = 0; kind < 2; kind++) {
        if (kind == 0)
            write_file("{'descr': '<f8', 'fortran_order': False, 'shape': (12,), }   \n", values,
                       sizeof values);
        else
            write_file("{'descr': '<f4', 'fortran_order': False, 'shape': (12,), }   \n", narrow,
                       sizeof narrow);
        mr_sampler *of_array = make(&wanted), *from_file = make(&options);
        assert_int_equal(mr_sampler_length(from_file), N);
        for (int64_t p = 0; p < N; p++) {
            assert_int_equal(mr_sampler_at(from_file, p), mr_sampler_at(of_array, p));
            assert_int_not_equal(mr_sampler_at(from_file, p), 0); /* its weight is 0 */
        }
        mr_sampler_destroy(of_array);
        mr_sampler_destroy(from_file);
    }
}

static void a_wrong_file_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *header, *words;
    } wrong[] = {
        {"{'descr': '<u8', 'fortran_order': False, 'shape': (12,), }",
         "weights must be of dtype <f8, <f4, <i8 or <i4"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }", "must have one dimension"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (), }", "must have one dimension"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (11,), }", "11 weights for 12 samples"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (-12,), }",
         "the number of weights in the header is negative"},
        {"{'descr': '<f8', 'fortran_order': False, }", "no 'shape'"},
    };
    const double values[N] = {1};
    mr_sampler_options options = of_file();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_file(wrong[i].header, values, sizeof values);
        refuse(&options, MR_ERR_INVALID, wrong[i].words);
        refuse(&options, MR_ERR_INVALID, path);
    }
    write_file("{'descr': '<f8', 'fortran_order': False, 'shape': (12,), }", values,
               sizeof values - 1);
    refuse(&options, MR_ERR_IO, "ends before its 12 weights");
    assert_int_equal(truncate(path, 20), 0);
    refuse(&options, MR_ERR_INVALID, "not a .npy file");
    options.weights = "/nowhere/weights.npy";
    refuse(&options, MR_ERR_IO, "/nowhere/weights.npy");
}

/* Opening it would wait for a writer, and the alarm would end the test. */
static void a_fifo_is_refused_at_once(void **state)
{
    (void)state;
    mr_sampler_options options = of_file();
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(30);
    refuse(&options, MR_ERR_IO, "not a regular file");
    alarm(0);
    options.weights = "/tmp";
    refuse(&options, MR_ERR_IO, "Is a directory");
}

static void a_wrong_weight_is_named(void **state)
{
    (void)state;
    double values[N] = {0};
    const double wrong[] = {-1, NAN, INFINITY};
    mr_sampler_options options = of_values(values);
    refuse(&options, MR_ERR_INVALID, "all of the 12 weights are 0");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        values[7] = wrong[i];
        refuse(&options, MR_ERR_INVALID, "of sample 7 is not a finite number of 0 or more");
    }
    values[7] = values[8] = 1.7e308;
    refuse(&options, MR_ERR_INVALID, "the sum of the weights is above the largest f64");
    options.no_replacement = true;
    refuse(&options, MR_ERR_INVALID, "n_draws 12 is above the 2 samples");
}

static void choices_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    const double values[N] = {1};
    mr_sampler_options options = of_values(values);
    options.order = MR_ORDER_KEYED;
    refuse(&options, MR_ERR_INVALID, "weights exclude the keyed order");
    options.no_shuffle = true;
    refuse(&options, MR_ERR_INVALID, "weights exclude no_shuffle");
    options.weights = path;
    refuse(&options, MR_ERR_INVALID, "weights and weight_values exclude each other");
    options = of_values(NULL);
    options.n_draws = 3;
    refuse(&options, MR_ERR_INVALID, "n_draws needs weights");
    options.n_draws = 0;
    options.no_replacement = true;
    refuse(&options, MR_ERR_INVALID, "no_replacement needs weights");
    options.no_replacement = false;
    options.repeat_form = MR_REPEAT_TIMM;
    refuse(&options, MR_ERR_INVALID, "repeat_form needs repeat");
    options.repeat = 2;
    options.repeat_form = (mr_repeat_form)2;
    refuse(&options, MR_ERR_INVALID, "repeat_form 2 is not");
    options.repeat_form = MR_REPEAT_TIMM;
    options.tail = MR_TAIL_EXACT;
    refuse(&options, MR_ERR_INVALID, "repeat has its own tail");
}

/*
 * Half of the weight is on one sample, the rest on few others, so the table of first places has
 * gaps and crowded cells.
 */
static void uneven_weights_are_drawn_by_their_share(void **state)
{
    (void)state;
    enum { MANY = 5000, DRAWS = 100000 };
    static double values[MANY];
    static unsigned counts[MANY];
    for (int i = 0; i < MANY; i++)
        values[i] = i == 77 ? 1000 : i % 5 == 0 ? 1 : 0;
    mr_sampler_options options = of_values(values);
    options.n_samples = MANY;
    options.n_weight_values = MANY;
    options.n_draws = DRAWS;
    mr_sampler *sampler = make(&options);
    for (int64_t p = 0; p < DRAWS; p++) {
        int64_t index = mr_sampler_at(sampler, p);
        assert_int_equal(mr_sampler_occurrence(sampler, p), counts[index]);
        counts[index]++;
    }
    for (int i = 0; i < MANY; i++)
        if (values[i] == 0)
            assert_int_equal(counts[i], 0);
    assert_in_range(counts[77], 49000, 51000);
    assert_int_equal(mr_sampler_occurrence(sampler, DRAWS), 0);
    mr_sampler_destroy(sampler);
}

static void assert_same_order(const mr_sampler *sampler, const mr_sampler *wanted)
{
    assert_int_equal(mr_sampler_length(sampler), mr_sampler_length(wanted));
    for (int64_t p = 0; p < mr_sampler_length(wanted); p++) {
        assert_int_equal(mr_sampler_at(sampler, p), mr_sampler_at(wanted, p));
        assert_int_equal(mr_sampler_occurrence(sampler, p), mr_sampler_occurrence(wanted, p));
    }
}

/*
 * The sampler's tables are used again after an index was drawn more than 255 times, and after an
 * order of the caller's.
 */
static void an_epoch_leaves_nothing_to_the_next(void **state)
{
    (void)state;
    const double values[N] = {9, 1};
    const int64_t mine[] = {3, 2, 1};
    mr_sampler_options options = of_values(values);
    options.n_draws = 1001;
    options.world_size = 2;
    options.rank = 1; /* its last place is padding */
    for (int turn = 0; turn < 2; turn++, options.no_replacement = true, options.n_draws = 1) {
        options.epoch = 0;
        mr_sampler *sampler = make(&options);
        for (options.epoch = 1; options.epoch < 4; options.epoch++) {
            mr_sampler *wanted = make(&options);
            if (options.epoch == 3)
                assert_int_equal(mr_sampler_set_order(sampler, 2, mine, 3, NULL), MR_OK);
            assert_int_equal(mr_sampler_set_epoch(sampler, options.epoch, NULL), MR_OK);
            assert_same_order(sampler, wanted);
            mr_sampler_destroy(wanted);
        }
        mr_sampler_destroy(sampler);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_is_as_good_as_an_array, make_path, remove_path),
        cmocka_unit_test_setup_teardown(a_wrong_file_is_refused_by_name, make_path, remove_path),
        cmocka_unit_test_setup_teardown(a_fifo_is_refused_at_once, make_path, remove_path),
        cmocka_unit_test(a_wrong_weight_is_named),
        cmocka_unit_test(choices_that_do_not_fit_are_refused),
        cmocka_unit_test(uneven_weights_are_drawn_by_their_share),
        cmocka_unit_test(an_epoch_leaves_nothing_to_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
