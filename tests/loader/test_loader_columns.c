/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns of an own dataset: boxes of one shape, and tokens whose rows differ in length. The oracle
 * is the index.
 */
#include "tests/loader/rig.h"
#include "tests/support/devices.h"
#include "tests/support/assert_words.h"

#include <string.h>

enum { N = 37, MAX_TOKENS = 9, BAD = 11 };

static const mr_column_form forms[] = {
    {.name = "box", .dtype = MR_F32, .ndim = 2, .shape = {2, 2}},
    {.name = "tokens", .dtype = MR_I32, .ndim = 1, .shape = {MAX_TOKENS}, .ragged = 1},
    {.name = "weight", .dtype = MR_F64},
};

struct row {
    uint8_t pixel[3];
    float box[4];
    int32_t tokens[MAX_TOKENS];
    double weight;
};

static size_t count_tokens(int64_t index)
{
    return (size_t)(index * 7 % (MAX_TOKENS + 1));
}

static struct row make_row(int64_t index)
{
    struct row row = {.pixel = {(uint8_t)index}, .weight = (double)index / 3};
    for (unsigned i = 0; i < 4; i++)
        row.box[i] = (float)index + (float)i / 8;
    for (unsigned i = 0; i < MAX_TOKENS; i++)
        row.tokens[i] = (int32_t)(index * 1000 + i);
    return row;
}

static void (*spoil)(mr_sample *sample);

static int get(void *user, int64_t index, mr_sample *sample)
{
    static _Thread_local struct row row;
    (void)user;
    row = make_row(index);
    sample->bytes = row.pixel;
    sample->len_bytes = sizeof row.pixel;
    sample->label = index;
    sample->column[0] = row.box;
    sample->column[1] = row.tokens;
    sample->column_bytes[1] = count_tokens(index) * sizeof *row.tokens;
    sample->column[2] = &row.weight;
    if (index == BAD && spoil)
        spoil(sample);
    return 0;
}

static mr_callbacks make_callbacks(void)
{
    mr_callbacks callbacks = MR_CALLBACKS_INIT;
    callbacks.n_samples = N;
    callbacks.get = get;
    callbacks.dtype = MR_U8;
    callbacks.ndim = 3;
    callbacks.shape[0] = 3;
    callbacks.shape[1] = callbacks.shape[2] = 1;
    callbacks.columns = forms;
    callbacks.n_columns = sizeof forms / sizeof *forms;
    return callbacks;
}

static mr_loader *make_loader(const mr_callbacks *callbacks, mr_loader_options *options)
{
    mr_dataset *dataset;
    mr_loader *loader = NULL;
    mr_error error;
    mr_test_set_devices(options);
    if (mr_dataset_from_callbacks(callbacks, &dataset, &error) != MR_OK ||
        mr_loader_create(dataset, NULL, options, &loader, &error) != MR_OK)
        fail_msg("%s", error.text);
    mr_dataset_destroy(dataset);
    return loader;
}

static uint32_t check_part(const mr_batch *part)
{
    const mr_array *box = mr_batch_array(part, "box"), *tokens = mr_batch_array(part, "tokens");
    const float *boxes = mr_test_bytes(box);
    const double *weights = mr_test_data(part, "weight");
    const int32_t *values = mr_test_bytes(tokens);
    const int64_t *offsets = mr_test_data(part, "tokens.offsets");
    const int64_t *index = mr_test_data(part, "index");
    const uint8_t *mask = mr_test_data(part, "mask");
    uint32_t n = mr_batch_size(part), n_valid = 0;
    assert_int_equal(box->dtype, MR_F32);
    assert_int_equal(box->ndim, 3);
    assert_int_equal(box->shape[1], 2);
    assert_int_equal(box->strides[0], 16);
    assert_int_equal(tokens->dtype, MR_I32);
    assert_int_equal(tokens->shape[1], MAX_TOKENS);
    assert_int_equal(tokens->n_values, offsets[n]);
    for (uint32_t i = 0; i < n; i++) {
        struct row want = make_row(index[i]);
        size_t n_tokens = mask[i] ? count_tokens(index[i]) : 0;
        if (!mask[i])
            want = (struct row){0};
        assert_memory_equal(boxes + i * 4, want.box, sizeof want.box);
        assert_true(weights[i] == want.weight);
        assert_int_equal(offsets[i + 1] - offsets[i], n_tokens);
        assert_memory_equal(values + offsets[i], want.tokens, n_tokens * sizeof *values);
        n_valid += mask[i];
    }
    return n_valid;
}

static uint32_t check_epoch(mr_loader *loader)
{
    uint32_t n_valid = 0;
    mr_batch *batch;
    while (mr_loader_next(loader, MR_FOREVER, &batch) == MR_OK) {
        for (uint32_t p = 0; p < mr_batch_n_parts(batch); p++)
            n_valid += check_part(mr_batch_part(batch, p));
        mr_batch_release(batch);
    }
    return n_valid;
}

static void rows_come_with_their_samples(void **state)
{
    (void)state;
    mr_callbacks callbacks = make_callbacks();
    spoil = NULL;
    for (unsigned m = 0; m < rig_n_modes; m++) {
        mr_loader_options options = rig_options_of(&rig_modes[m]);
        options.no_shuffle = false;
        mr_loader *loader = make_loader(&callbacks, &options);
        assert_int_equal(check_epoch(loader), N);
        mr_loader_destroy(loader);
    }
}

static void forget_box(mr_sample *sample)
{
    sample->column[0] = NULL;
}

static void forget_tokens(mr_sample *sample)
{
    sample->column[1] = NULL;
}

static void cut_a_token(mr_sample *sample)
{
    sample->column_bytes[1] = 7;
}

static void give_too_many(mr_sample *sample)
{
    sample->column_bytes[1] = (MAX_TOKENS + 1) * sizeof(int32_t);
}

/* A wrong row is damage: its sample is a hole. */
static void wrong_rows_are_damage_and_are_named(void **state)
{
    (void)state;
    static const struct {
        void (*spoil)(mr_sample *sample);
        const char *words;
    } cases[] = {{forget_box, "get gave no row of 'box'"},
                 {forget_tokens, "get gave no row of 'tokens'"},
                 {cut_a_token, "get gave 7 bytes of 'tokens'"},
                 {give_too_many, "get gave 40 bytes of 'tokens': more than 36"}};
    mr_callbacks callbacks = make_callbacks();
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        mr_loader_options options = rig_options();
        options.on_error = MR_ON_ERROR_ZERO;
        spoil = cases[c].spoil;
        mr_loader *loader = make_loader(&callbacks, &options);
        assert_int_equal(check_epoch(loader), N - 1);
        mr_loader_destroy(loader);
        options.on_error = MR_ON_ERROR_FAIL;
        loader = make_loader(&callbacks, &options);
        mr_batch *batch;
        mr_status status;
        while ((status = mr_loader_next(loader, MR_FOREVER, &batch)) == MR_OK)
            mr_batch_release(batch);
        assert_error(status, MR_ERR_DAMAGED, mr_loader_error(loader), cases[c].words);
        mr_loader_destroy(loader);
    }
    spoil = NULL;
}

static void expect_refused(const mr_column_form *form, uint32_t n, const char *words)
{
    mr_callbacks callbacks = make_callbacks();
    mr_dataset *dataset;
    mr_error error;
    callbacks.columns = form;
    callbacks.n_columns = n;
    assert_error(mr_dataset_from_callbacks(&callbacks, &dataset, &error), MR_ERR_INVALID, &error,
                 words);
}

static void wrong_forms_are_refused(void **state)
{
    (void)state;
    const mr_column_form good = forms[0];
    mr_column_form form = good;
    expect_refused(NULL, 1, "columns is NULL");
    expect_refused(&good, 9, "n_columns 9 is above the limit of 8");
    form.name = "";
    expect_refused(&form, 1, "column 0 has no name");
    form.name = "a name that is longer than thirty-one bytes";
    expect_refused(&form, 1, "column 0 has no name");
    form = good;
    form.dtype = 99;
    expect_refused(&form, 1, "column 'box': dtype 99");
    form = good;
    form.ndim = 8;
    expect_refused(&form, 1, "column 'box': ndim 8");
    form = good;
    form.ragged = 1;
    expect_refused(&form, 1, "column 'box'");
    form = good;
    form.reserved = 1;
    expect_refused(&form, 1, "column 'box'");
    form = good;
    form.shape[1] = 0;
    expect_refused(&form, 1, "a dimension is below 1");
    form.shape[1] = INT64_MAX;
    expect_refused(&form, 1, "a dimension is below 1");
}

static void names_of_other_arrays_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"index", "box.offsets", "box"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const mr_column_form two[] = {
            {.name = "box", .dtype = MR_U8, .ndim = 1, .shape = {4}, .ragged = 1},
            {.name = names[i], .dtype = MR_U8}};
        mr_callbacks callbacks = make_callbacks();
        mr_loader_options options = rig_options();
        mr_dataset *dataset;
        mr_loader *loader;
        mr_error error;
        callbacks.columns = two;
        callbacks.n_columns = 2;
        assert_int_equal(mr_dataset_from_callbacks(&callbacks, &dataset, &error), MR_OK);
        assert_error(mr_loader_create(dataset, NULL, &options, &loader, &error), MR_ERR_INVALID,
                     &error, "has the name of another array of a batch");
        mr_dataset_destroy(dataset);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_with_their_samples),
        cmocka_unit_test(wrong_rows_are_damage_and_are_named),
        cmocka_unit_test(wrong_forms_are_refused),
        cmocka_unit_test(names_of_other_arrays_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
