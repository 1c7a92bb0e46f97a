/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nccl module with the real NCCL on a machine without a visible GPU: it opens, and its message
 * names what is missing.
 */
#include <millrace/group.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "dist/group/module.h"
#include "tests/support/assert_words.h"

static int hide_devices(void **state)
{
    (void)state;
    setenv("MR_MODULE_PATH", MR_TEST_NCCL, 1);
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    unsetenv("RANK"); /* no launcher: a world of one */
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("PMI_RANK");
    unsetenv("SLURM_PROCID");
    return 0;
}

static mr_status create(const char *device, mr_error *error)
{
    mr_group_options options = MR_GROUP_OPTIONS_INIT;
    mr_group *group = (mr_group *)&options;
    options.backend = "nccl";
    options.timeout_ms = 5000;
    options.device = device;
    mr_status status = mr_group_create(&options, &group, error);
    assert_null(group);
    return status;
}

static void the_table_is_for_a_device(void **state)
{
    (void)state;
    const struct mr_engine_table *table = NULL;
    mr_error error;
    if (mr_module_open("nccl", &table, &error))
        fail_msg("%s", error.text);
    assert_int_equal(table->abi, MR_ENGINE_ABI);
    assert_string_equal(table->name, "nccl");
    assert_memory_equal(table->version, "NCCL 2.", 7);
    assert_true(table->on_device);
    assert_null(table->run);
    assert_non_null(table->device);
}

static void without_a_gpu_a_group_is_refused_in_one_line(void **state)
{
    (void)state;
    static const char *const devices[] = {"cuda:local", "cuda:0", "cuda:7"};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        mr_error error = {0};
        assert_int_equal(create(devices[i], &error), MR_ERR_NO_DEVICE);
        assert_int_equal(error.status, MR_ERR_NO_DEVICE);
        if (!strstr(error.text, "no NVIDIA driver") && !strstr(error.text, "no CUDA device"))
            fail_msg("%s", error.text);
        assert_null(strchr(error.text, '\n'));
    }
}

static void a_device_must_be_named_and_is_never_guessed(void **state)
{
    (void)state;
    mr_error error = {0};
    assert_int_equal(create(NULL, &error), MR_ERR_INVALID);
    if (!strstr(error.text, "cuda:local") || !strstr(error.text, "cuda:N"))
        fail_msg("%s", error.text);
}

static void a_device_that_is_not_cuda_is_named(void **state)
{
    (void)state;
    static const char *const devices[] = {"host:0",  "cuda",    "cuda:",          "cuda:x",
                                          "cuda:1x", "cuda:-1", "cuda:4294967296"};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        mr_error error = {0};
        assert_error(create(devices[i], &error), MR_ERR_INVALID, &error, devices[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_for_a_device),
        cmocka_unit_test(without_a_gpu_a_group_is_refused_in_one_line),
        cmocka_unit_test(a_device_must_be_named_and_is_never_guessed),
        cmocka_unit_test(a_device_that_is_not_cuda_is_named),
    };
    return cmocka_run_group_tests(tests, hide_devices, NULL);
}
