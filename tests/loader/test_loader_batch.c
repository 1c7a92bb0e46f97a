/* SPDX-License-Identifier: Apache-2.0 */
/* The arrays of a batch: names, shapes, strides and dtypes, for raw pictures in both layouts. */
#include "tests/loader/rig.h"
#include "tests/support/devices.h"

#include <string.h>

static void assert_array(const mr_array *a, const char *name, mr_dtype dtype, uint32_t ndim,
                         const int64_t *shape)
{
    assert_non_null(a);
    assert_string_equal(a->name, name);
    assert_int_equal(a->dtype, dtype);
    assert_int_equal(a->ndim, ndim);
    assert_int_equal(a->device.kind, mr_test_device().kind);
    assert_int_equal(a->device.id, mr_test_device().id);
    assert_non_null(a->data);
    assert_int_equal((uintptr_t)a->data % 64, 0);
    assert_null(a->row_offsets);
    int64_t stride = (int64_t)mr_dtype_size(dtype);
    for (uint32_t i = ndim; i-- > 0;) {
        assert_int_equal(a->shape[i], shape[i]);
        assert_int_equal(a->strides[i], stride);
        stride *= shape[i];
    }
}

static void check_arrays(const mr_batch *batch, const int64_t *image_shape, mr_dtype dtype)
{
    int64_t n = mr_batch_size(batch);
    assert_int_equal(mr_batch_n_arrays(batch), 5);
    assert_array(mr_batch_array_at(batch, 0), "image", dtype, 4, image_shape);
    assert_array(mr_batch_array_at(batch, 1), "label", MR_I64, 1, (int64_t[]){n});
    assert_array(mr_batch_array_at(batch, 2), "index", MR_I64, 1, (int64_t[]){n});
    assert_array(mr_batch_array_at(batch, 3), "mask", MR_U8, 1, (int64_t[]){n});
    assert_array(mr_batch_array_at(batch, 4), "geometry", MR_I32, 2, (int64_t[]){n, 8});
    assert_null(mr_batch_array_at(batch, 5));
    assert_null(mr_batch_array_at(batch, UINT32_MAX));
    for (uint32_t i = 0; i < 5; i++) {
        const mr_array *a = mr_batch_array_at(batch, i);
        assert_ptr_equal(mr_batch_array(batch, a->name), a);
        assert_ptr_equal(mr_batch_data(batch, a->name), a->data);
    }
}

static void the_arrays_are_named_and_shaped_in_every_mode(void **state)
{
    for (unsigned m = 0; m < rig_n_modes; m++) {
        mr_loader_options options = rig_options_of(&rig_modes[m]);
        mr_loader *loader = rig_loader(*state, &options);
        for (uint64_t number = 0; number < 13; number++) {
            mr_batch *batch = rig_next(loader);
            int64_t n = number < 12 ? 8 : 4;
            assert_int_equal(mr_batch_size(batch), n);
            assert_int_equal(mr_batch_valid(batch), n);
            assert_int_equal(mr_batch_number(batch), number);
            assert_int_equal(mr_batch_epoch(batch), 0);
            check_arrays(batch, (int64_t[]){n, RIG_CHANNELS, RIG_HEIGHT, RIG_WIDTH}, MR_U8);
            rig_check(batch);
            mr_batch_release(batch);
        }
        rig_expect(loader, MR_END);
        mr_loader_destroy(loader);
    }
}

static void an_unknown_name_has_no_array(void **state)
{
    mr_loader_options options = rig_options();
    mr_loader *loader = rig_loader(*state, &options);
    mr_batch *batch = rig_next(loader);
    const char *const names[] = {"", "images", "Image", "data", "imag", "label "};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        assert_null(mr_batch_array(batch, names[i]));
        assert_null(mr_batch_data(batch, names[i]));
    }
    mr_batch_release(batch);
    mr_loader_destroy(loader);
}

static void nhwc_moves_the_channels_to_the_end(void **state)
{
    mr_loader_options options = rig_options();
    options.layout = MR_NHWC;
    mr_loader *loader = rig_loader(*state, &options);
    mr_batch *batch = rig_next(loader);
    check_arrays(batch, (int64_t[]){8, RIG_HEIGHT, RIG_WIDTH, RIG_CHANNELS}, MR_U8);
    const uint8_t *image = mr_test_data(batch, "image");
    for (int64_t row = 0; row < 8; row++)
        for (unsigned c = 0; c < RIG_CHANNELS; c++)
            for (unsigned p = 0; p < RIG_HEIGHT * RIG_WIDTH; p++)
                assert_int_equal(image[row * RIG_BYTES + p * RIG_CHANNELS + c],
                                 rig_byte(row, c * RIG_HEIGHT * RIG_WIDTH + p));
    mr_batch_release(batch);
    mr_loader_destroy(loader);
}

static void floats_are_the_pixels_over_255(void **state)
{
    mr_loader_options options = rig_options();
    options.dtype = MR_F32;
    mr_loader *loader = rig_loader(*state, &options);
    assert_int_equal(mr_loader_resolved(loader)->dtype, MR_F32);
    mr_batch *batch = rig_next(loader);
    check_arrays(batch, (int64_t[]){8, RIG_CHANNELS, RIG_HEIGHT, RIG_WIDTH}, MR_F32);
    const float *image = mr_test_data(batch, "image");
    for (int64_t row = 0; row < 8; row++)
        for (unsigned i = 0; i < RIG_BYTES; i++) {
            float expected = (float)rig_byte(row, i) / 255, got = image[row * RIG_BYTES + i];
            assert_true(got - expected < 1e-6f && expected - got < 1e-6f);
        }
    mr_batch_release(batch);
    mr_loader_destroy(loader);
}

static void geometry_is_the_whole_picture_without_a_crop(void **state)
{
    mr_loader_options options = rig_options();
    mr_loader *loader = rig_loader(*state, &options);
    mr_batch *batch = rig_next(loader);
    const int32_t whole[8] = {RIG_WIDTH, RIG_HEIGHT, 0, 0, RIG_WIDTH, RIG_HEIGHT, 0, 0};
    const int32_t *geometry = mr_test_data(batch, "geometry");
    for (unsigned row = 0; row < 8; row++)
        assert_memory_equal(geometry + 8 * row, whole, sizeof whole);
    mr_batch_release(batch);
    mr_loader_destroy(loader);
}

static void geometry_of_a_crop_is_inside_the_picture(void **state)
{
    struct rig *rig = *state;
    mr_transform *transform;
    mr_loader *loader;
    mr_error error;
    unsigned n_flipped = 0, n = 0, n_moved = 0;
    assert_int_equal(mr_transform_parse("random_crop(2)+hflip(0.5)", &transform, &error), MR_OK);
    mr_loader_options options = rig_options();
    assert_int_equal(mr_loader_create(rig->dataset, transform, &options, &loader, &error), MR_OK);
    mr_transform_destroy(transform);
    for (unsigned k = 0; k < 13; k++) {
        mr_batch *batch = rig_next(loader);
        const int32_t *g = mr_test_data(batch, "geometry");
        assert_int_equal(mr_batch_array(batch, "image")->shape[2], 2);
        for (uint32_t row = 0; row < mr_batch_size(batch); row++, g += 8, n++) {
            assert_true(g[0] == RIG_WIDTH && g[1] == RIG_HEIGHT && g[4] == 2 && g[5] == 2);
            assert_true(g[2] >= 0 && g[2] + g[4] <= g[0] && g[3] >= 0 && g[3] + g[5] <= g[1]);
            assert_true((g[6] == 0 || g[6] == 1) && g[7] == 0);
            n_flipped += (unsigned)g[6];
            n_moved += g[2] > 0;
        }
        mr_batch_release(batch);
    }
    assert_int_equal(n, 100);
    assert_true(n_flipped > 20 && n_flipped < 80 && n_moved > 20);
    mr_loader_destroy(loader);
}

static void the_order_is_the_samplers(void **state)
{
    for (unsigned keyed = 0; keyed < 2; keyed++) {
        mr_sampler_options wanted = MR_SAMPLER_OPTIONS_INIT;
        mr_loader_options options = rig_options();
        mr_sampler *sampler;
        mr_error error;
        int64_t got[60];
        wanted.n_samples = 100;
        wanted.seed = options.seed = 11;
        wanted.epoch = options.epoch = 4;
        wanted.world_size = options.world_size = 2;
        wanted.rank = options.rank = 1;
        wanted.order = options.order = keyed ? MR_ORDER_KEYED : MR_ORDER_TORCH;
        options.no_shuffle = false;
        assert_int_equal(mr_sampler_create(&wanted, &sampler, &error), MR_OK);
        mr_loader *loader = rig_loader(*state, &options);
        assert_int_equal(rig_drain(loader, false, got, 60), 50);
        for (int64_t i = 0; i < 50; i++)
            assert_int_equal(got[i], mr_sampler_at(sampler, i));
        mr_loader_destroy(loader);
        mr_sampler_destroy(sampler);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(the_arrays_are_named_and_shaped_in_every_mode),
        RIG_TEST(an_unknown_name_has_no_array),
        RIG_TEST(nhwc_moves_the_channels_to_the_end),
        RIG_TEST(floats_are_the_pixels_over_255),
        RIG_TEST(geometry_is_the_whole_picture_without_a_crop),
        RIG_TEST(geometry_of_a_crop_is_inside_the_picture),
        RIG_TEST(the_order_is_the_samplers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
