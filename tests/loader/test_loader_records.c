/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callbacks that return records and labels of other kinds, and callbacks that return nonsense.
 */
#include "tests/loader/rig.h"
#include "tests/support/devices.h"
#include "tests/support/assert_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 37, ROWS = 3, COLUMNS = 5, CELLS = ROWS * COLUMNS };

/*
 * What a callback returns. One buffer per thread is enough, because each worker calls it once at a
 * time.
 */
struct given {
    float cells[CELLS];
    float box[4];
};

static float cell(int64_t index, unsigned i)
{
    return (float)index * 1000 + (float)i + 0.25f;
}

static int get_floats(void *user, int64_t index, mr_sample *sample)
{
    static _Thread_local struct given given;
    (void)user;
    for (unsigned i = 0; i < CELLS; i++)
        given.cells[i] = cell(index, i);
    for (unsigned i = 0; i < 4; i++)
        given.box[i] = (float)index + (float)i / 8;
    sample->bytes = given.cells;
    sample->len_bytes = sizeof given.cells;
    sample->label = index + 1;
    sample->label_record = given.box;
    return 0;
}

static mr_callbacks float_callbacks(void)
{
    mr_callbacks callbacks = MR_CALLBACKS_INIT;
    callbacks.n_samples = N;
    callbacks.get = get_floats;
    callbacks.dtype = MR_F32;
    callbacks.ndim = 2;
    callbacks.shape[0] = ROWS;
    callbacks.shape[1] = COLUMNS;
    callbacks.label_dtype = MR_F32;
    callbacks.label_ndim = 1;
    callbacks.label_shape[0] = 4;
    return callbacks;
}

static mr_loader *make(const mr_callbacks *callbacks, const mr_loader_options *options)
{
    mr_dataset *dataset;
    mr_loader *loader = NULL;
    mr_error error;
    if (mr_dataset_from_callbacks(callbacks, &dataset, &error) != MR_OK ||
        mr_loader_create(dataset, NULL, options, &loader, &error) != MR_OK)
        fail_msg("%s", error.text);
    mr_dataset_destroy(dataset);
    return loader;
}

static void float_records_and_label_vectors_arrive_as_they_are(void **state)
{
    (void)state;
    mr_callbacks callbacks = float_callbacks();
    for (unsigned m = 0; m < rig_n_modes; m++) {
        mr_loader_options options = rig_options_of(&rig_modes[m]);
        mr_loader *loader = make(&callbacks, &options);
        mr_batch *batch;
        int64_t n = 0;
        assert_int_equal(mr_loader_resolved(loader)->dtype, MR_F32);
        while (mr_loader_next(loader, MR_FOREVER, &batch) == MR_OK) {
            const mr_array *data = mr_batch_array(batch, "data"),
                           *label = mr_batch_array(batch, "label");
            assert_ptr_equal(mr_batch_array_at(batch, 0), data);
            assert_null(mr_batch_array(batch, "image"));
            assert_int_equal(data->dtype, MR_F32);
            assert_int_equal(data->ndim, 3);
            assert_int_equal(data->shape[1], ROWS);
            assert_int_equal(data->strides[0], CELLS * 4);
            assert_int_equal(label->dtype, MR_F32);
            assert_int_equal(label->ndim, 2);
            assert_int_equal(label->shape[1], 4);
            assert_int_equal(label->strides[0], 16);
            for (uint32_t i = 0; i < mr_batch_size(batch); i++, n++) {
                const float *cells = (const float *)mr_test_bytes(data) + i * CELLS,
                            *box = (const float *)mr_test_bytes(label) + i * 4;
                for (unsigned k = 0; k < CELLS; k++)
                    assert_true(cells[k] == cell(n, k));
                for (unsigned k = 0; k < 4; k++)
                    assert_true(box[k] == (float)n + (float)k / 8);
                assert_int_equal(((const int64_t *)mr_test_data(batch, "index"))[i], n);
            }
            mr_batch_release(batch);
        }
        assert_int_equal(n, N);
        mr_loader_destroy(loader);
    }
}

static void a_scalar_label_of_another_dtype_is_a_record_too(void **state)
{
    (void)state;
    mr_callbacks callbacks = float_callbacks();
    mr_loader_options options = rig_options();
    callbacks.label_ndim = 0; /* one float: label_record points to it */
    mr_loader *loader = make(&callbacks, &options);
    mr_batch *batch = rig_next(loader);
    assert_int_equal(mr_batch_array(batch, "label")->dtype, MR_F32);
    assert_int_equal(mr_batch_array(batch, "label")->ndim, 1);
    for (unsigned i = 0; i < 8; i++)
        assert_true(((const float *)mr_test_data(batch, "label"))[i] == (float)i);
    mr_batch_release(batch);
    mr_loader_destroy(loader);
}

/* What get does wrong for index 3. */
enum nonsense {
    NO_BYTES,
    TOO_SHORT,
    TOO_LONG,
    ENCODED,
    NO_LABEL,
    NO_SCALAR_LABEL,
    NO_WORDS,
    ENDLESS_WORDS,
    N_NONSENSE
};

static int get_nonsense(void *user, int64_t index, mr_sample *sample)
{
    enum nonsense kind = *(const enum nonsense *)user;
    get_floats(NULL, index, sample);
    if (index != 3)
        return 0;
    switch (kind) {
    case NO_BYTES: sample->bytes = NULL; break;
    case TOO_SHORT: sample->len_bytes--; break;
    case TOO_LONG: sample->len_bytes++; break;
    case ENCODED: sample->encoded = true; break;
    case NO_LABEL:
    case NO_SCALAR_LABEL: sample->label_record = NULL; break;
    case ENDLESS_WORDS: memset(sample->error, 'x', sizeof sample->error); return -1;
    default: return -1;
    }
    return 0;
}

static void nonsense_is_a_damaged_sample(void **state)
{
    static const char *const words[] = {"no bytes",
                                        "59 bytes, the shape needs 60",
                                        "61 bytes, the shape needs 60",
                                        "encoded",
                                        "no label record",
                                        "no label record",
                                        "returned -1",
                                        "returned -1: xxxx"};
    (void)state;
    for (unsigned m = 0; m < rig_n_modes; m++)
        for (enum nonsense kind = 0; kind < N_NONSENSE; kind++) {
            mr_callbacks callbacks = float_callbacks();
            mr_loader_options options = rig_options_of(&rig_modes[m]);
            callbacks.get = get_nonsense;
            callbacks.user = &kind;
            if (kind == NO_SCALAR_LABEL)
                callbacks.label_ndim = 0;
            mr_loader *loader = make(&callbacks, &options);
            rig_expect(loader, MR_ERR_DAMAGED);
            const mr_error *error = mr_loader_error(loader);
            assert_int_equal(error->index, 3);
            if (!strstr(error->text, words[kind]) || !strstr(error->text, "(index 3)"))
                fail_msg("'%s' lacks '%s'", error->text, words[kind]);
            mr_loader_destroy(loader);
        }
}

static void records_cannot_be_transformed(void **state)
{
    (void)state;
    mr_callbacks callbacks = float_callbacks();
    mr_loader_options options = rig_options();
    mr_transform *transform;
    mr_dataset *dataset;
    mr_loader *loader;
    mr_error error;
    assert_int_equal(mr_dataset_from_callbacks(&callbacks, &dataset, &error), MR_OK);
    assert_int_equal(mr_transform_parse("center_crop(2)", &transform, &error), MR_OK);
    assert_int_equal(mr_loader_create(dataset, transform, &options, &loader, &error),
                     MR_ERR_INVALID);
    assert_null(loader);
    mr_transform_destroy(transform);
    mr_dataset_destroy(dataset);
}

static void encoded_callbacks_need_a_transform_that_fixes_the_size(void **state)
{
    (void)state;
    mr_callbacks callbacks = float_callbacks();
    mr_loader_options options = rig_options();
    mr_transform *transform;
    mr_dataset *dataset;
    mr_loader *loader;
    mr_error error;
    callbacks.ndim = 0;
    callbacks.dtype = MR_DTYPE_DEFAULT;
    assert_int_equal(mr_dataset_from_callbacks(&callbacks, &dataset, &error), MR_OK);
    assert_int_equal(mr_transform_parse("none", &transform, &error), MR_OK);
    assert_error(mr_loader_create(dataset, transform, &options, &loader, &error), MR_ERR_INVALID,
                 &error, "add a resize or crop");
    mr_transform_destroy(transform);
    mr_dataset_destroy(dataset);
}

static void images_above_the_limits_are_refused(void **state)
{
    static const struct {
        const char *transform;
        uint64_t max_pixels;
        const char *words;
    } cases[] = {
        {"resize(20000:20000)+equalize+resize(8:8)", 0,
         "images of 400000000 pixels; max_pixels is 178956970"},
        {"center_crop(8)+random_apply(invert)", 63, "images of 64 pixels; max_pixels is 63"},
        {"center_crop(8)+random_apply(invert)", 64, NULL},
        {"center_crop(9)+resize(8:8)+invert", 64, NULL},
    };
    (void)state;
    mr_callbacks callbacks = float_callbacks();
    callbacks.ndim = 0;
    callbacks.dtype = MR_DTYPE_DEFAULT;
    mr_dataset *dataset;
    assert_int_equal(mr_dataset_from_callbacks(&callbacks, &dataset, NULL), MR_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mr_loader_options options = rig_options();
        mr_transform *transform;
        mr_loader *loader;
        mr_error error = {0};
        options.max_pixels = cases[i].max_pixels;
        assert_int_equal(mr_transform_parse(cases[i].transform, &transform, &error), MR_OK);
        mr_status status = mr_loader_create(dataset, transform, &options, &loader, &error);
        assert_int_equal(status, cases[i].words ? MR_ERR_INVALID : MR_OK);
        if (cases[i].words && !strstr(error.text, cases[i].words))
            fail_msg("'%s' lacks '%s'", error.text, cases[i].words);
        mr_loader_destroy(loader);
        mr_transform_destroy(transform);
    }
    mr_dataset_destroy(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(float_records_and_label_vectors_arrive_as_they_are),
        cmocka_unit_test(a_scalar_label_of_another_dtype_is_a_record_too),
        cmocka_unit_test(nonsense_is_a_damaged_sample),
        cmocka_unit_test(records_cannot_be_transformed),
        cmocka_unit_test(encoded_callbacks_need_a_transform_that_fixes_the_size),
        cmocka_unit_test(images_above_the_limits_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
