/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real library, built with CUDA, on a machine without a driver: it loads, reports why there is
 * no GPU, and gives batches on the host. Linked with the shared library, with public headers only.
 */
#include <dlfcn.h>
#include <millrace/millrace.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/support/assert_words.h"

enum { SIDE = 2, N_SAMPLES = 4 };

static int make_sample(void *user, int64_t index, mr_sample *sample)
{
    (void)user;
    static const uint8_t pixels[SIDE * SIDE * 3];
    sample->bytes = pixels;
    sample->len_bytes = sizeof pixels;
    sample->label = index;
    return 0;
}

static mr_dataset *make_dataset(void)
{
    mr_callbacks callbacks = MR_CALLBACKS_INIT;
    callbacks.n_samples = N_SAMPLES;
    callbacks.get = make_sample;
    callbacks.dtype = MR_U8;
    callbacks.ndim = 3;
    callbacks.shape[0] = callbacks.shape[1] = SIDE;
    callbacks.shape[2] = 3;
    callbacks.layout = MR_NHWC;
    mr_dataset *dataset;
    mr_error error;
    assert_ok(mr_dataset_from_callbacks(&callbacks, &dataset, &error), &error);
    return dataset;
}

static mr_status create(const char *device, mr_error *error)
{
    mr_dataset *dataset = make_dataset();
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.batch_size = N_SAMPLES;
    options.num_workers = MR_NO_WORKERS;
    options.device = device;
    mr_loader *loader = NULL;
    memset(error, 0, sizeof *error);
    mr_status status = mr_loader_create(dataset, NULL, &options, &loader, error);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    return status;
}

static void expect_no_driver(mr_status status, const mr_error *error)
{
    if (status != MR_ERR_NO_DEVICE || !strstr(error->text, "no NVIDIA driver"))
        fail_msg("%s: '%s'", mr_status_name(status), error->text);
}

static void the_library_reports_that_it_has_cuda(void **state)
{
    (void)state;
    assert_words(mr_features(), " cuda");
}

static void no_devices_are_counted_and_the_missing_driver_is_reported(void **state)
{
    (void)state;
    mr_error error;
    memset(&error, 0, sizeof error);
    assert_int_equal(mr_device_count(MR_DEVICE_CUDA, &error), 0);
    expect_no_driver((mr_status)error.status, &error);
}

static void a_loader_for_a_gpu_is_refused_with_the_reason(void **state)
{
    (void)state;
    static const char *const names[] = {"cuda", "cuda:0", "cuda:local"};
    mr_error error;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        expect_no_driver(create(names[i], &error), &error);
}

static void auto_and_host_give_loaders(void **state)
{
    (void)state;
    static const char *const names[] = {"auto", "host", NULL};
    mr_error error;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (create(names[i], &error) != MR_OK)
            fail_msg("%s: '%s'", names[i] ? names[i] : "default", error.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_library_reports_that_it_has_cuda),
        cmocka_unit_test(no_devices_are_counted_and_the_missing_driver_is_reported),
        cmocka_unit_test(a_loader_for_a_gpu_is_refused_with_the_reason),
        cmocka_unit_test(auto_and_host_give_loaders),
    };
    if (dlopen("libcuda.so.1", RTLD_NOW)) {
        printf("skipped: this machine has an NVIDIA driver\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
