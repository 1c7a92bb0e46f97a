/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images that keep their sizes. The oracle is the codec: each row has the pixels of its whole file,
 * at the place that "image.offsets" and "image.shape" give, or padded with zeros to the largest
 * height and width of the batch, on every device and in every part.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <millrace/millrace.h>

#include "base/half.h"
#include "loader/dlpack_abi.h"
#include "tests/support/assert_words.h"
#include "tests/support/devices.h"
#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/images.h"
#include "transforms/codec.h"

enum { N = 40, BATCH = 7, BAD = 5, LARGE = 9, SIDE = 90, MOST = SIDE * 70 * 3, MAX_ROWS = 8 };

/* How the rows are stored. */
static const struct form {
    mr_dtype dtype;
    mr_layout layout;
} forms[] = {{MR_U8, MR_NHWC},  {MR_U8, MR_NCHW},  {MR_F32, MR_NCHW},
             {MR_F32, MR_NHWC}, {MR_F16, MR_NCHW}, {MR_BF16, MR_NHWC}};
enum { N_FORMS = sizeof forms / sizeof *forms };

static char *folder;
static uint8_t *pixels[N]; /* NULL: the sample is damaged */
static int32_t shapes[N][2];

static void decode(const struct mr_test_image *image, unsigned i)
{
    struct mr_codec *codec;
    struct mr_image_head head;
    const uint8_t *rows[MAX_ROWS];
    mr_error error;
    assert_ok(mr_codec_create(&(struct mr_codec_limits){0}, &codec, &error), &error);
    assert_ok(mr_codec_open(codec, image->bytes, image->len, &head, &error), &error);
    shapes[i][0] = (int32_t)head.height;
    shapes[i][1] = (int32_t)head.width;
    size_t row_bytes = (size_t)head.width * 3;
    pixels[i] = malloc(head.height * row_bytes);
    assert_ok(mr_codec_begin(codec, 0, 0, head.width, head.height, &error), &error);
    for (uint32_t y = 0, n; y < head.height; y += n) {
        assert_ok(mr_codec_rows(codec, rows, MAX_ROWS, &n, &error), &error);
        for (uint32_t k = 0; k < n; k++)
            memcpy(pixels[i] + (y + k) * row_bytes, rows[k], row_bytes);
    }
    mr_codec_close(codec);
    mr_codec_destroy(codec);
}

/* Images of different sizes; one is no image, one is larger than a row. */
static int set_up(void **state)
{
    char path[256];
    (void)state;
    folder = mr_test_folder_create();
    snprintf(path, sizeof path, "%s/class", folder);
    assert_int_equal(mkdir(path, 0777), 0);
    for (unsigned i = 0; i < N; i++) {
        struct mr_test_image image =
            mr_test_jpeg(&(struct mr_test_jpeg){.width = i == LARGE ? 91 : 90 - i,
                                                .height = i == LARGE ? 70 : 20 + i % 7 * 8,
                                                .seed = i + 1});
        snprintf(path, sizeof path, "class/%03u.jpg", i);
        if (i != BAD)
            mr_test_folder_write(folder, path, image.bytes, image.len);
        else
            mr_test_folder_write(folder, path, "no image", 8);
        if (i != BAD && i != LARGE)
            decode(&image, i);
        mr_test_image_free(&image);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (unsigned i = 0; i < N; i++)
        free(pixels[i]);
    return 0;
}

static mr_loader_options make_options(uint32_t num_workers, const struct form *form)
{
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = BATCH;
    o.seed = 3;
    o.on_error = MR_ON_ERROR_ZERO;
    o.dtype = form->dtype;
    o.layout = form->layout;
    o.ragged = true;
    o.max_row_bytes = MOST * mr_dtype_size(form->dtype);
    o.num_workers = num_workers;
    mr_test_set_devices(&o);
    return o;
}

static mr_loader_options padding_options(uint32_t num_workers, const struct form *form)
{
    mr_loader_options o = make_options(num_workers, form);
    o.ragged = false;
    o.max_row_bytes = 0;
    o.pad_batch = SIDE;
    return o;
}

static mr_loader *make_loader(const mr_loader_options *o, mr_dataset **dataset_out)
{
    char spec[256];
    snprintf(spec, sizeof spec, "imagefolder:%s", folder);
    *dataset_out = mr_test_dataset(spec);
    return mr_test_loader(*dataset_out, "none", o);
}

static void drop_loader(mr_loader *loader, mr_dataset *dataset)
{
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
}

/* The bytes of the element of a form that stands for a pixel's value. */
static size_t convert(const struct form *form, uint8_t value, uint8_t out[4])
{
    float share = (float)value * (float)(1.0 / 255.0);
    uint16_t half = form->dtype == MR_F16 ? mr_half_f16(share) : mr_half_bf16(share);
    size_t size = mr_dtype_size(form->dtype);
    memcpy(out, form->dtype == MR_U8 ? (void *)&value : size == 4 ? (void *)&share : &half, size);
    return size;
}

static void check_row(const struct form *form, const uint8_t *row, const uint8_t *expected,
                      const int32_t *shape)
{
    size_t n = (size_t)(shape[0] * shape[1]);
    uint8_t element[4];
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < 3; c++) {
            size_t size = convert(form, expected[3 * i + c], element);
            size_t at = form->layout == MR_NCHW ? c * n + i : 3 * i + c;
            assert_memory_equal(row + at * size, element, size);
        }
}

/* Returns the number of valid rows. */
static uint32_t check_part(const mr_batch *part, const struct form *form)
{
    const mr_array *array = mr_batch_array(part, "image");
    uint32_t n = mr_batch_size(part), n_valid = 0;
    size_t size = mr_dtype_size(form->dtype);
    assert_int_equal(array->ndim, 1);
    assert_int_equal(array->dtype, form->dtype);
    assert_int_equal(array->shape[0], (int64_t)n * MOST);
    assert_int_equal(array->strides[0], size);
    assert_null(array->row_offsets);
    const uint8_t *image = mr_test_bytes(array), *mask = mr_test_data(part, "mask");
    const int64_t *offsets = mr_test_data(part, "image.offsets");
    const int64_t *index = mr_test_data(part, "index");
    const int32_t(*shape)[2] = mr_test_data(part, "image.shape");
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *expected = pixels[index[i]];
        assert_int_equal(mask[i], expected != NULL);
        assert_int_equal(offsets[i], (int64_t)i * MOST);
        assert_int_equal(shape[i][0], expected ? shapes[index[i]][0] : 0);
        assert_int_equal(shape[i][1], expected ? shapes[index[i]][1] : 0);
        if (expected)
            check_row(form, image + (size_t)offsets[i] * size, expected, shape[i]);
        n_valid += mask[i];
    }
    return n_valid;
}

static uint32_t check_rest(mr_loader *loader, const struct form *form)
{
    uint32_t n_valid = 0;
    mr_batch *batch;
    while (mr_loader_next(loader, MR_FOREVER, &batch) == MR_OK) {
        for (uint32_t p = 0; p < mr_batch_n_parts(batch); p++)
            n_valid += check_part(mr_batch_part(batch, p), form);
        mr_batch_release(batch);
    }
    return n_valid;
}

/* Only the used bytes of three epochs' rows go to a device, which are 45 % of their room. */
static void check_copied(mr_loader *loader, const struct form *form)
{
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    mr_loader_get_stats(loader, &stats);
    assert_in_range(stats.h2d_bytes, 0, (uint64_t)2 * N * MOST * mr_dtype_size(form->dtype));
}

static void each_row_has_the_pixels_and_the_size_of_its_file(void **state)
{
    (void)state;
    static const uint32_t workers[] = {MR_NO_WORKERS, 1, 5};
    for (size_t k = 0; k < N_FORMS * (sizeof workers / sizeof *workers); k++) {
        mr_dataset *dataset;
        const struct form *form = &forms[k % N_FORMS];
        mr_loader_options o = make_options(workers[k / N_FORMS], form);
        mr_loader *loader = make_loader(&o, &dataset);
        for (uint64_t e = 0; e < 3; e++) {
            assert_int_equal(mr_loader_set_epoch(loader, e), MR_OK);
            assert_int_equal(check_rest(loader, form), N - 2);
        }
        check_copied(loader, form);
        drop_loader(loader, dataset);
    }
}

/* An epoch in order has two failures; the second one is of the large image. */
static void expect_too_large(mr_loader_options o, const char *words)
{
    mr_dataset *dataset;
    mr_batch *batch;
    mr_status status;
    o.on_error = MR_ON_ERROR_FAIL;
    o.no_shuffle = true;
    mr_loader *loader = make_loader(&o, &dataset);
    unsigned n_failed = 0;
    while ((status = mr_loader_next(loader, MR_FOREVER, &batch)) != MR_END) {
        if (status == MR_OK) {
            mr_batch_release(batch);
            continue;
        }
        assert_int_equal(status, MR_ERR_DAMAGED);
        if (n_failed++ == 1)
            assert_words(mr_loader_error(loader)->text, words);
    }
    assert_int_equal(n_failed, 2);
    drop_loader(loader, dataset);
}

static void an_image_larger_than_a_row_is_named(void **state)
{
    (void)state;
    expect_too_large(make_options(2, &forms[0]), "009.jpg (index 9): the output is 91x70, 19110 "
                                                 "bytes; max_row_bytes is 18900");
    expect_too_large(padding_options(2, &forms[1]),
                     "009.jpg (index 9): the output is 91x70; pad_batch allows sides of 90");
}

static void a_tensor_has_one_dimension_and_a_copy_the_same_bytes(void **state)
{
    (void)state;
    mr_dataset *dataset;
    mr_batch *batch, *copy;
    struct DLManagedTensor *tensor;
    mr_loader_options o = make_options(MR_NO_WORKERS, &forms[0]);
    mr_loader *loader = make_loader(&o, &dataset);
    assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_OK);
    mr_batch *part = mr_batch_part(batch, 0);
    assert_int_equal(mr_batch_to_dlpack(part, "image", NULL, &tensor), MR_OK);
    assert_int_equal(tensor->dl_tensor.ndim, 1);
    assert_int_equal(tensor->dl_tensor.shape[0], (int64_t)mr_batch_size(part) * MOST);
    assert_ptr_equal(tensor->dl_tensor.data, mr_batch_data(part, "image"));
    tensor->deleter(tensor);
    bool on_host = mr_test_device().kind == MR_DEVICE_HOST && mr_batch_n_parts(batch) == 1;
    assert_int_equal(mr_batch_copy(batch, &copy), on_host ? MR_OK : MR_ERR_UNSUPPORTED);
    mr_batch_release(batch);
    drop_loader(loader, dataset);
    if (on_host)
        check_part(copy, &forms[0]);
    mr_batch_release(copy);
}

static void a_job_that_is_killed_and_continued_has_all_rows(void **state)
{
    (void)state;
    unsigned char position[MR_LOADER_STATE_MAX];
    size_t len;
    uint32_t n_valid = 0;
    mr_batch *batch;
    mr_dataset *dataset;
    const struct form *form = &forms[2];
    mr_loader_options o = make_options(2, form);
    mr_loader *loader = make_loader(&o, &dataset);
    assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_OK);
    for (uint32_t p = 0; p < mr_batch_n_parts(batch); p++)
        n_valid += check_part(mr_batch_part(batch, p), form);
    mr_batch_release(batch);
    assert_int_equal(mr_loader_save(loader, position, sizeof position, &len), MR_OK);
    mr_test_signal_workers(getpid(), SIGKILL);
    drop_loader(loader, dataset);
    loader = make_loader(&o, &dataset);
    assert_int_equal(mr_loader_restore(loader, position, len), MR_OK);
    mr_test_signal_workers(getpid(), SIGKILL);
    assert_int_equal(n_valid + check_rest(loader, form), N - 2);
    drop_loader(loader, dataset);
}

/* The padded row of sample i; zeros if it is damaged. */
static void check_padded_row(const struct form *form, const uint8_t *row, int64_t i, int64_t height,
                             int64_t width)
{
    uint8_t element[4];
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++)
            for (int64_t c = 0; c < 3; c++) {
                bool inside = pixels[i] && y < shapes[i][0] && x < shapes[i][1];
                uint8_t value = inside ? pixels[i][(y * shapes[i][1] + x) * 3 + c] : 0;
                size_t size = convert(form, value, element);
                int64_t at = form->layout == MR_NCHW ? (c * height + y) * width + x
                                                     : (y * width + x) * 3 + c;
                assert_memory_equal(row + (size_t)at * size, element, size);
            }
}

/* height and width: of the largest rows of the whole batch. */
static void check_padded_part(const mr_batch *part, const struct form *form, int64_t height,
                              int64_t width)
{
    const bool planes = form->layout == MR_NCHW;
    const mr_array *array = mr_batch_array(part, "image");
    const int64_t *index = mr_test_data(part, "index");
    const int32_t(*shape)[2] = mr_test_data(part, "image.shape");
    assert_null(mr_batch_array(part, "image.offsets"));
    assert_int_equal(array->ndim, 4);
    assert_int_equal(array->dtype, form->dtype);
    assert_int_equal(array->shape[0], mr_batch_size(part));
    assert_int_equal(array->shape[planes ? 1 : 3], 3);
    assert_int_equal(array->shape[planes ? 2 : 1], height);
    assert_int_equal(array->shape[planes ? 3 : 2], width);
    assert_int_equal(array->strides[0], 3 * height * width * (int)mr_dtype_size(form->dtype));
    const uint8_t *image = mr_test_bytes(array);
    for (uint32_t i = 0; i < mr_batch_size(part); i++) {
        assert_int_equal(shape[i][0], pixels[index[i]] ? shapes[index[i]][0] : 0);
        assert_int_equal(shape[i][1], pixels[index[i]] ? shapes[index[i]][1] : 0);
        check_padded_row(form, image + i * array->strides[0], index[i], height, width);
    }
}

static void check_padded_batch(mr_batch *batch, const struct form *form)
{
    int64_t height = 0, width = 0;
    for (uint32_t p = 0; p < mr_batch_n_parts(batch); p++) {
        mr_batch *part = mr_batch_part(batch, p);
        const int64_t *index = mr_test_data(part, "index");
        for (uint32_t i = 0; i < mr_batch_size(part); i++) {
            const int32_t *shape = shapes[index[i]];
            height = pixels[index[i]] && shape[0] > height ? shape[0] : height;
            width = pixels[index[i]] && shape[1] > width ? shape[1] : width;
        }
    }
    for (uint32_t p = 0; p < mr_batch_n_parts(batch); p++)
        check_padded_part(mr_batch_part(batch, p), form, height, width);
}

static void a_padded_batch_has_its_largest_height_and_width(void **state)
{
    (void)state;
    static const uint32_t workers[] = {MR_NO_WORKERS, 1, 8};
    for (size_t k = 0; k < N_FORMS * (sizeof workers / sizeof *workers); k++) {
        mr_dataset *dataset;
        mr_batch *batch;
        const struct form *form = &forms[k % N_FORMS];
        mr_loader_options o = padding_options(workers[k / N_FORMS], form);
        o.batch_size = k % 2 ? BATCH : 1;
        mr_loader *loader = make_loader(&o, &dataset);
        uint32_t n = 0;
        while (mr_loader_next(loader, MR_FOREVER, &batch) == MR_OK) {
            check_padded_batch(batch, form);
            n += mr_batch_valid(batch);
            mr_batch_release(batch);
        }
        assert_int_equal(n, N - 2);
        drop_loader(loader, dataset);
    }
}

static void a_tensor_and_a_copy_have_the_padded_shape(void **state)
{
    (void)state;
    mr_dataset *dataset;
    mr_batch *batch, *copy;
    struct DLManagedTensor *tensor;
    mr_loader_options o = padding_options(2, &forms[2]);
    mr_loader *loader = make_loader(&o, &dataset);
    assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_OK);
    mr_batch *part = mr_batch_part(batch, 0);
    const mr_array *array = mr_batch_array(part, "image");
    assert_int_equal(mr_batch_to_dlpack(part, "image", NULL, &tensor), MR_OK);
    assert_int_equal(tensor->dl_tensor.ndim, 4);
    assert_memory_equal(tensor->dl_tensor.shape, array->shape, 4 * sizeof *array->shape);
    tensor->deleter(tensor);
    bool on_host = mr_test_device().kind == MR_DEVICE_HOST && mr_batch_n_parts(batch) == 1;
    assert_int_equal(mr_batch_copy(batch, &copy), on_host ? MR_OK : MR_ERR_UNSUPPORTED);
    mr_batch_release(batch);
    drop_loader(loader, dataset);
    if (on_host)
        check_padded_batch(copy, &forms[2]);
    mr_batch_release(copy);
}

static void expect_refusal(const char *transform, const mr_loader_options *o, const char *words)
{
    char spec[256];
    mr_transform *parsed;
    mr_loader *loader;
    mr_error error;
    snprintf(spec, sizeof spec, "imagefolder:%s", folder);
    mr_dataset *dataset = mr_test_dataset(spec);
    assert_ok(mr_transform_parse(transform, &parsed, &error), &error);
    assert_error(mr_loader_create(dataset, parsed, o, &loader, &error), MR_ERR_INVALID, &error,
                 words);
    mr_transform_destroy(parsed);
    mr_dataset_destroy(dataset);
}

static void what_needs_equal_rows_is_refused_by_name(void **state)
{
    (void)state;
    mr_loader_options o = make_options(MR_NO_WORKERS, &forms[2]);
    o.max_row_bytes = 4 * MOST + 2;
    expect_refusal("none", &o, "max_row_bytes 75602 is not a multiple of f32's 4 bytes");
    expect_refusal("normalize(0.5,0.5)+random_erasing()", &o,
                   "random_erasing cannot be applied with ragged: the images differ in size");
    o = make_options(MR_NO_WORKERS, &forms[0]);
    expect_refusal("timm_mixup()", &o,
                   "timm_mixup cannot be applied with ragged: the images differ in size");
    o.max_row_bytes = 0;
    expect_refusal("none", &o, "ragged needs max_row_bytes");
    o.ragged = false;
    o.max_row_bytes = 100;
    expect_refusal("none", &o, "max_row_bytes 100 needs ragged");
    o = padding_options(MR_NO_WORKERS, &forms[2]);
    expect_refusal("timm_mixup()", &o,
                   "timm_mixup cannot be applied with pad_batch: the images differ in size");
    o.max_row_bytes = 100;
    expect_refusal("none", &o, "max_row_bytes 100 needs ragged");
    o.ragged = true;
    expect_refusal("none", &o, "ragged and pad_batch exclude each other");
    o = padding_options(MR_NO_WORKERS, &forms[2]);
    o.pad_batch = 20000;
    expect_refusal("none", &o, "pad_batch 20000: an image may have 4800000000 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_has_the_pixels_and_the_size_of_its_file),
        cmocka_unit_test(an_image_larger_than_a_row_is_named),
        cmocka_unit_test(a_tensor_has_one_dimension_and_a_copy_the_same_bytes),
        cmocka_unit_test(a_job_that_is_killed_and_continued_has_all_rows),
        cmocka_unit_test(a_padded_batch_has_its_largest_height_and_width),
        cmocka_unit_test(a_tensor_and_a_copy_have_the_padded_shape),
        cmocka_unit_test(what_needs_equal_rows_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
