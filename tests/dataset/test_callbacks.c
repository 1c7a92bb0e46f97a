/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of callbacks: valid descriptions, and each wrong field. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "dataset/dataset.h"
#include "tests/support/assert_words.h"

static int get(void *user, int64_t index, mr_sample *sample)
{
    (void)user, (void)index, (void)sample;
    return 1;
}

static mr_callbacks good(void)
{
    mr_callbacks callbacks = MR_CALLBACKS_INIT;
    callbacks.n_samples = 5;
    callbacks.get = get;
    return callbacks;
}

static mr_dataset *make(const mr_callbacks *callbacks)
{
    mr_dataset *dataset = NULL;
    mr_error error;
    assert_ok(mr_dataset_from_callbacks(callbacks, &dataset, &error), &error);
    return dataset;
}

static void encoded_images_are_the_default(void **state)
{
    (void)state;
    mr_callbacks callbacks = good();
    mr_dataset *dataset = make(&callbacks);
    memset(&callbacks, 0xff, sizeof callbacks); /* the dataset has a copy */
    assert_int_equal(mr_dataset_n_samples(dataset), 5);
    assert_int_equal(mr_dataset_kind(dataset)->encoded, 1);
    assert_int_equal(mr_dataset_kind(dataset)->picture, 1);
    assert_int_equal(mr_dataset_kind(dataset)->label_dtype, MR_I64);
    assert_int_equal(mr_dataset_kind(dataset)->label_bytes, 8);
    assert_null(mr_dataset_catalog(dataset));
    assert_ptr_equal(mr_dataset_callbacks(dataset)->get, get);
    for (int i = 0; i < MR_CATALOG_N_FDS; i++)
        assert_int_equal(mr_dataset_fds(dataset)[i], -1);
    int64_t label;
    mr_sample_info info = MR_SAMPLE_INFO_INIT;
    char name[32];
    assert_int_equal(mr_dataset_label(dataset, 0, &label, NULL), MR_ERR_UNSUPPORTED);
    assert_int_equal(mr_dataset_inspect(dataset, 0, &info, NULL), MR_ERR_UNSUPPORTED);
    assert_int_equal(mr_dataset_save_list(dataset, "/nonexistent/l", NULL), MR_ERR_UNSUPPORTED);
    assert_true(mr_dataset_name(dataset, 4, name, sizeof name) > 0);
    assert_string_equal(name, "sample 4");
    assert_int_equal(mr_dataset_n_classes(dataset), 0);
    mr_dataset_destroy(dataset);
}

static void raw_samples_and_label_records_are_described(void **state)
{
    (void)state;
    mr_callbacks callbacks = good();
    callbacks.ndim = 3;
    callbacks.shape[0] = 8;
    callbacks.shape[1] = 9;
    callbacks.shape[2] = 3;
    callbacks.layout = MR_NHWC;
    callbacks.label_dtype = MR_F32;
    callbacks.label_ndim = 2;
    callbacks.label_shape[0] = 4;
    callbacks.label_shape[1] = 5;
    mr_dataset *dataset = make(&callbacks);
    const struct mr_sample_kind *kind = mr_dataset_kind(dataset);
    assert_int_equal(kind->encoded, 0);
    assert_int_equal(kind->picture, 1);
    assert_int_equal(kind->dtype, MR_U8);
    assert_int_equal(kind->data_bytes, 216);
    assert_int_equal(kind->label_bytes, 80);
    mr_dataset_destroy(dataset);
    callbacks.dtype = MR_F64;
    callbacks.label_dtype = MR_DTYPE_DEFAULT;
    dataset = make(&callbacks);
    assert_int_equal(mr_dataset_kind(dataset)->picture, 0);
    assert_int_equal(mr_dataset_kind(dataset)->label_dtype, MR_I64);
    assert_int_equal(mr_dataset_kind(dataset)->label_bytes, 160);
    mr_dataset_destroy(dataset);
}

static void expect_refused(const mr_callbacks *callbacks, const char *words)
{
    mr_dataset *dataset = (mr_dataset *)(uintptr_t)1;
    mr_error error = {0};
    assert_int_equal(mr_dataset_from_callbacks(callbacks, &dataset, &error), MR_ERR_INVALID);
    assert_null(dataset);
    assert_words(error.text, words);
}

static void each_wrong_field_is_named(void **state)
{
    (void)state;
    mr_callbacks callbacks = good();
#define REFUSED(words, ...)                                                                        \
    callbacks = good();                                                                            \
    __VA_ARGS__;                                                                                   \
    expect_refused(&callbacks, words)
    REFUSED("struct_size", callbacks.struct_size = 0);
    REFUSED("have no get", callbacks.get = NULL);
    REFUSED("n_samples -1", callbacks.n_samples = -1);
    REFUSED("dtype f32 needs a shape", callbacks.dtype = MR_F32);
    REFUSED("ndim 8 is above the limit of 7", callbacks.ndim = 8);
    REFUSED("dimension", callbacks.ndim = 1);
    REFUSED("dtype 99 is not an mr_dtype", callbacks.ndim = 1; callbacks.shape[0] = 1;
            callbacks.dtype = (mr_dtype)99);
    REFUSED("layout 7 is not an mr_layout", callbacks.ndim = 1; callbacks.shape[0] = 1;
            callbacks.layout = (mr_layout)7);
    REFUSED("too large", callbacks.ndim = 2;
            callbacks.shape[0] = callbacks.shape[1] = INT64_C(1) << 33);
    REFUSED("label_ndim 8", callbacks.label_ndim = 8);
    REFUSED("label_dtype 50", callbacks.label_dtype = (mr_dtype)50);
    REFUSED("label's shape", callbacks.label_ndim = 1);
    REFUSED("label's shape", callbacks.label_ndim = 1; callbacks.label_shape[0] = -4);
    assert_int_equal(mr_dataset_from_callbacks(NULL, NULL, NULL), MR_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encoded_images_are_the_default),
        cmocka_unit_test(raw_samples_and_label_records_are_described),
        cmocka_unit_test(each_wrong_field_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
