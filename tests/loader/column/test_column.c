/* SPDX-License-Identifier: Apache-2.0 */
/*
 * brightness.patch adds a column to a loader: the mean of the bytes of a sample. Nothing else is
 * changed, and the column is in batches, parts, copies and tensors, on every device. The oracle is
 * the image beside it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <millrace/millrace.h>

#include "loader/dlpack_abi.h"
#include "tests/support/devices.h"
#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/folder_fill.h"
#include "tests/support/processes.h"

enum { N_CLASSES = 3, N_IMAGES = 9, N = N_CLASSES * N_IMAGES, SIDE = 24, BYTES = SIDE * SIDE * 3 };

static char *folder;

/* One file is damaged: its row is a hole. */
static int set_up(void **state)
{
    (void)state;
    folder = mr_test_folder_filled(N_CLASSES, N_IMAGES);
    mr_test_folder_write(folder, "class_1/000.jpg", "no image", 8);
    return 0;
}

static mr_loader *make_loader(uint32_t num_workers, mr_dataset **dataset_out)
{
    char spec[4200];
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = 7;
    o.seed = 3;
    o.on_error = MR_ON_ERROR_ZERO;
    o.layout = MR_NHWC;
    o.dtype = MR_U8;
    o.num_workers = num_workers;
    o.start = MR_START_FORK; /* the helper is not patched */
    mr_test_set_devices(&o);
    snprintf(spec, sizeof spec, "imagefolder:%s", folder);
    *dataset_out = mr_test_dataset(spec);
    return mr_test_loader(*dataset_out, "train:24", &o);
}

static void drop_loader(mr_loader *loader, mr_dataset *dataset)
{
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
}

static uint32_t check_part(const mr_batch *part)
{
    const mr_array *array = mr_batch_array(part, "brightness");
    assert_non_null(array);
    assert_int_equal(array->dtype, MR_F32);
    assert_int_equal(array->ndim, 1);
    assert_int_equal(array->shape[0], mr_batch_size(part));
    assert_int_equal(array->strides[0], sizeof(float));
    const float *brightness = mr_test_bytes(array);
    const uint8_t *mask = mr_test_data(part, "mask"), *image = mr_test_data(part, "image");
    uint32_t n_valid = 0;
    for (uint32_t i = 0; i < mr_batch_size(part); i++) {
        uint64_t sum = 0;
        for (uint32_t k = 0; k < BYTES; k++)
            sum += image[i * BYTES + k];
        assert_true(brightness[i] == (float)sum / (float)BYTES);
        assert_int_equal(mask[i], brightness[i] != 0);
        n_valid += mask[i];
    }
    return n_valid;
}

static uint32_t check_rest(mr_loader *loader)
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

static void the_column_is_in_every_part(void **state)
{
    (void)state;
    static const uint32_t workers[] = {MR_NO_WORKERS, 3};
    for (size_t w = 0; w < 2; w++) {
        mr_dataset *dataset;
        mr_loader *loader = make_loader(workers[w], &dataset);
        for (uint64_t e = 0; e < 2; e++) {
            assert_int_equal(mr_loader_set_epoch(loader, e), MR_OK);
            assert_int_equal(check_rest(loader), N - 1);
        }
        drop_loader(loader, dataset);
    }
}

static void copies_and_tensors_have_it(void **state)
{
    (void)state;
    mr_dataset *dataset;
    mr_batch *batch, *copy;
    struct DLManagedTensor *tensor;
    mr_loader *loader = make_loader(MR_NO_WORKERS, &dataset);
    assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_OK);
    mr_batch *part = mr_batch_part(batch, 0);
    assert_int_equal(mr_batch_to_dlpack(part, "brightness", NULL, &tensor), MR_OK);
    assert_int_equal(tensor->dl_tensor.ndim, 1);
    assert_int_equal(tensor->dl_tensor.shape[0], mr_batch_size(part));
    assert_int_equal(tensor->dl_tensor.dtype.bits, 32);
    assert_ptr_equal(tensor->dl_tensor.data, mr_batch_data(part, "brightness"));
    tensor->deleter(tensor);
    bool on_host = mr_test_device().kind == MR_DEVICE_HOST && mr_batch_n_parts(batch) == 1;
    mr_status status = mr_batch_copy(batch, &copy);
    assert_int_equal(status, on_host ? MR_OK : MR_ERR_UNSUPPORTED);
    mr_batch_release(batch);
    drop_loader(loader, dataset);
    if (on_host)
        check_part(copy);
    mr_batch_release(copy);
}

#ifndef MR_TEST_TSAN
static void a_job_that_is_killed_and_continued_has_it(void **state)
{
    (void)state;
    unsigned char position[MR_LOADER_STATE_MAX];
    size_t len;
    uint32_t n_valid = 0;
    mr_batch *batch;
    mr_dataset *dataset;
    mr_loader *loader = make_loader(2, &dataset);
    assert_int_equal(mr_loader_set_epoch(loader, 1), MR_OK);
    assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_OK);
    for (uint32_t p = 0; p < mr_batch_n_parts(batch); p++)
        n_valid += check_part(mr_batch_part(batch, p));
    mr_batch_release(batch);
    assert_int_equal(mr_loader_save(loader, position, sizeof position, &len), MR_OK);
    mr_test_signal_workers(getpid(), SIGKILL);
    drop_loader(loader, dataset);
    loader = make_loader(2, &dataset);
    assert_int_equal(mr_loader_restore(loader, position, len), MR_OK);
    mr_test_signal_workers(getpid(), SIGKILL);
    assert_int_equal(n_valid + check_rest(loader), N - 1);
    drop_loader(loader, dataset);
}
#endif

/* A column costs few lines, in few files. */
static void the_patch_is_small(void **state)
{
    (void)state;
    char line[256];
    unsigned n_lines = 0, n_files = 0;
    FILE *patch = fopen(BRIGHTNESS_PATCH, "re");
    assert_non_null(patch);
    while (fgets(line, sizeof line, patch)) {
        n_lines++;
        n_files += strncmp(line, "+++ ", 4) == 0;
    }
    fclose(patch);
    assert_in_range(n_lines, 1, 79);
    assert_in_range(n_files, 1, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_column_is_in_every_part),
        cmocka_unit_test(copies_and_tensors_have_it),
#ifndef MR_TEST_TSAN
        cmocka_unit_test(a_job_that_is_killed_and_continued_has_it),
#endif
        cmocka_unit_test(the_patch_is_small),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
